#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# valkey.sh: valkey over RDMA, which Debian leaves out: this fails when Debian begins to build it.
kind=sockets group=valkey
# shellcheck source=tests/guest/clients/lib.sh
. "${0%/*}/lib.sh"

listen() {
	timeout 10 valkey-server --port 0 --rdma-bind "$ip1" --rdma-port 6379 --save "" --daemonize no && return
	return 1
}
fails_on="tern soft-roce" match="Bad directive" \
	why="Debian builds valkey-server without RDMA, and a module of it has to come from the same build: it knows no option rdma-port, whatever the device" \
	compare valkey "valkey, RDMA" "$(version_of valkey-server)" "RC: SEND, RDMA WRITE with immediate" "that the server refuses the option" listen
finish

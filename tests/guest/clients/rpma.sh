#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# rpma.sh: librpma writes to vm2's memory, flushes, reads and sends.
#
# Test: rpma
# Tier: clients, 300 s
# Boot: messaging
# Results: 2

kind=storage group=rpma
# shellcheck source=tests/guest/clients/lib.sh
. "${0%/*}/lib.sh"
# shellcheck source=tests/guest/clients/messages.sh
. "${0%/*}/messages.sh"

move() {
	local status=0
	on2 "timeout 100 $programs/rpma $ip2 7204" >"$work/server" 2>&1 &
	on2 "timeout 30 wait-listen 7204" || return
	rate=$(timeout 100 "$programs/rpma" "$ip2" 7204 "$mib") || status=1
	wait $! || status=1
	cat "$work/server"
	return $status
}

compare rpma librpma "$(version_of librpma0)" "RC: RDMA WRITE, FLUSH or READ, ATOMIC WRITE, SEND" "every MiB compared at the other end after its flush; a read; a word written atomically" move
finish

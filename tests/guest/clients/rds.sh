#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# rds.sh: RDS over RDMA.
#
# Test: rds
# Tier: clients, 900 s
# Lane: trixie
# Boot: clients
# Results: 5
# Proves: Not in the lane debug: lockdep finds RDS itself in the wrong order of locks
#   (Documentation/upstreaming.rst), and is off from then on.

kind=sockets group=rds
# shellcheck source=tests/guest/clients/lib.sh
. "${0%/*}/lib.sh"
here=${0%/*}
port=5400

send_file() {
	local server
	data "$work/data"
	on2 "timeout 100 $here/stream.py rds serve $ip2 $port $work/there" >"$work/server" &
	server=$!
	until_true 30 grep -q listening "$work/server" || return
	rate=$(timeout 100 "$here/stream.py" rds send "$ip2" $port "$work/data" "$ip1") || return
	wait $server
	same "$(sum_here "$work/data")" "$(sum_there "$work/there")" || return
	# rds_rdma has a connection over the device; RDS over TCP is not loaded.
	rdma resource show cm_id link "$dev/1" >"$work/cm"
	grep 'CONNECT.*rds_rdma' "$work/cm" || { cat "$work/cm" && echo "RDS has no connection over $dev" && return 1; }
}
# RDS unmaps its headers with another direction than it mapped them: rds_dma_hdr_alloc() of Linux
# 7.2.
dma_reports none
modprobe -a rds rds_rdma && on2 "modprobe -a rds rds_rdma"
check no-rds-over-tcp sh -c '! grep -q ^rds_tcp /proc/modules'
verified="a file in datagrams of 8 KiB, SHA-256 at the other end; rds_rdma owns a connection over the device"
compare rds "RDS" "$(kernel_version)" "RC: SEND, fast registration" "$verified" send_file
loss=1 compare loss "RDS" "$(kernel_version)" "RC: SEND, fast registration" "$verified" send_file
modprobe -r rds_rdma rds
on2 "modprobe -r rds_rdma rds"
dma_reports ""
finish

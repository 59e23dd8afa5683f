#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# smc.sh: SMC-R version 2. Its own counters tell it from the TCP to which it would fall back.
#
# Test: smc-brief
# Tier: full, 300 s
# Boot: clients
# Run: VIA=tern smc.sh v4
# Results: 3
# Proves: A row or two of the client, over tern alone.
#
# Test: smc
# Tier: clients, 900 s
# Boot: clients
# Results: 8

kind=sockets group=smc
# shellcheck source=tests/guest/clients/lib.sh
. "${0%/*}/lib.sh"
here=${0%/*}
port=5300

counter() { "$here/smc.py" stats | awk -v n="$1" '$1 == n { print $2 }'; }
# What the server counts where it waited for its first message to be answered. Linux's client drops
# a message that comes between its smc_clc_send_confirm() and smc_llc_flow_initiate(), and that
# connection falls back.
unanswered() { on2 "$here/smc.py stats" | awk '$1 == "fallback-0x2010000" { n = $2 } END { print n + 0 }'; }
# send_file v4|v6: a file to vm2.
send_file() {
	local to=$ip2 before bytes there
	[ "$1" = v4 ] || to=$ip2_6
	data "$work/data"
	for _ in 1 2 3; do
		before=$(counter client-v2) bytes=$(counter tx-bytes) there=$(unanswered)
		send_once "$to" || return
		[ "$(counter client-v2)" -gt "$before" ] && [ $(($(counter tx-bytes) - bytes)) -ge $((mib * 1048576)) ] && return
		[ "$(unanswered)" -gt "$there" ] || break
		echo "# retried $group/$1-$via - the client dropped the server's message"
	done
	"$here/smc.py" stats
	on2 "$here/smc.py stats" | sed -n 's/^fallback/&-vm2/p'
	echo "SMC fell back to TCP"
	return 1
}
send_once() { # ADDRESS
	local server
	on2 "timeout 100 $here/stream.py smc serve $1 $port $work/there" >"$work/server" &
	server=$!
	until_true 30 grep -q listening "$work/server" || return
	rate=$(timeout 100 "$here/stream.py" smc send "$1" $port "$work/data") || return
	wait $server || return
	same "$(sum_here "$work/data")" "$(sum_there "$work/there")"
}

modprobe smc && on2 "modprobe smc"
if check eid "$here/smc.py" ueid TERN-LAB && check eid-vm2 on2 "$here/smc.py ueid TERN-LAB"; then
	verified="a file, SHA-256 at the other end; SMC's statistics count its bytes in an SMC-Rv2 connection"
	compare v4 "SMC-Rv2" "$(kernel_version)" "RC: RDMA WRITE, SEND; IPv4" "$verified" send_file v4
	fails_on="tern soft-roce" match="fell back to TCP" \
		why="Linux $(uname -r | cut -d . -f 1,2) offers SMC-Rv2 on IPv4 connections only, and SMC-Rv1, which needs a GID of RoCE v1, on IPv6: neither device has one, and TCP carries the data" \
		compare v6 "SMC-R, IPv6" "$(kernel_version)" "TCP, to which it falls back" "a file arrives intact; SMC's statistics show that TCP carried it" send_file v6
	loss=1 compare loss "SMC-Rv2" "$(kernel_version)" "RC: RDMA WRITE, SEND; IPv4" "$verified" send_file v4
fi
finish

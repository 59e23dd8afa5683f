#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# objects.sh: what iproute2's rdma and infiniband-diags show of a device in use.
#
# Test: objects
# Tier: clients, 900 s
# Boot: clients
# Results: 6

kind=operations group=objects
# shellcheck source=tests/guest/clients/lib.sh
. "${0%/*}/lib.sh"

gid_here() { gid-index v4 "$dev"; }
# live FUNCTION: calls FUNCTION while a program that compares its data is stopped in the middle,
# with objects of all kinds.
live() {
	# Enough messages that the program still runs when it is stopped.
	local server client cm status=0 n=20000
	[ "$via" = tern ] || n=1000
	on2 "timeout 100 ibv_srq_pingpong -d $dev -g \$(gid-index v4 $dev) -q 4 -n $n -c" >"$work/server" 2>&1 &
	server=$!
	rping -s -a "$ip1" -p 7500 >/dev/null 2>&1 &
	cm=$!
	on2 "wait-listen 18515 30" && wait-listen 7500 30 || return
	timeout 100 ibv_srq_pingpong -d "$dev" -g "$(gid_here)" -q 4 -n $n -c vm2 >"$work/client" 2>&1 &
	client=$!
	until_true 30 sh -c "rdma resource show qp link $dev/1 | grep -q 'state RTS.*ibv_srq'" || { cat "$work/client" && return 1; }
	echo "the program runs"
	pkill -STOP -x ibv_srq_pingpon
	"$1" || status=1
	echo "and goes on"
	pkill -CONT -x ibv_srq_pingpon
	wait $client && wait $server || { cat "$work/client" "$work/server" && status=1; }
	kill $cm
	wait $cm 2>/dev/null
	return $status
}
# shows CMD... matches REGEX in each line, and there are some.
shows() { # REGEX CMD...
	local regex=$1
	shift
	"$@" >"$work/shown" 2>&1 || { echo "$*: $(head -n 2 "$work/shown")" && return 1; }
	grep -qE -- "$regex" "$work/shown" || { echo "$* does not show $regex: $(head -n 3 "$work/shown")" && return 1; }
}
all_objects() {
	local o of
	for o in ctx pd cq mr srq qp; do
		of="dev $dev"
		[ $o != qp ] || of="link $dev/1"
		shows 'comm ibv_srq' rdma -dd resource show $o $of || return
		rdma -dd -j resource show $o $of | python3 -c 'import json, sys; assert json.load(sys.stdin)' || { echo "$o: no JSON" && return 1; }
	done
	shows 'comm rping' rdma -dd resource show cm_id || return
	shows "$dev" rdma -dd resource show "$dev" || return
	shows "netdev $netdev" rdma -dd link show "$dev/1" || return
	shows 'node_guid' rdma -dd dev show "$dev" || return
	shows "$dev" rdma -dd statistic show link "$dev/1" || return
	shows netns rdma system show || return
	rate=works
}
diags() {
	# Those that read sysfs and verbs; the others ask a subnet manager, by SMPs, which RoCE has
	# not.
	shows "CA '$dev'" ibstat "$dev" || return
	shows "$dev" ibstatus "$dev" || return
	shows "$dev" ibv_devices || return
	shows "hca_id:.*$dev" ibv_devinfo -v -d "$dev" || return
	rate=works
}
no_smp() { ibnetdiscover -C "$dev" -P 1 2>&1 && return; }

iproute="iproute2 $(version_of iproute2)"
compare objects "rdma -dd resource, link, dev, statistic, system" "$iproute" "RC with SRQ, rdma_cm" \
	"each object names its program, in text and JSON; the program's data is intact" live all_objects
compare diags "infiniband-diags: ibstat, ibstatus" "$(version_of infiniband-diags)" "queries" "they show the device and its port" diags
fails_on="tern soft-roce" match="open MAD port" why="RoCE has no subnet management: the port answers no SMP" \
	compare smp "infiniband-diags: ibnetdiscover" "$(version_of infiniband-diags)" "SMPs on QP 0" "it ends with an error" no_smp
finish

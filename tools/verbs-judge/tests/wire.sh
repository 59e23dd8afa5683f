#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# wire.sh: ternd as a wire with faults between two ports of Soft-RoCE, which are in network
# namespaces, and verbs-judge on both. Measures what the wire costs.
#
# Test: verbs-judge-wire
# Tier: quick, 900 s
# Lane: testing
# Results: 7
# Boot: beside --vms 1 --package libisal2,libprometheus-cpp-pull1.0,libjson-c5,libseccomp2
# Run: /mnt/tern/tools/verbs-judge/tests/wire.sh
# Proves: Two ports that are not tern's, joined by two uplinks of ternd: the rules of faults reach
#   the packets between them, and verbs-judge tests what the ports make of losses, duplicates,
#   reordering, delays, bit errors and marks.

set -u
group=verbs-judge-wire
export PATH=/mnt/tern/tests/guest:/mnt/tern/build/ternd:$PATH
# shellcheck source=tests/guest/results.sh
. /mnt/tern/tests/guest/results.sh
judge=/mnt/tern/tools/verbs-judge/verbs-judge
export TERND_CONTROL=/run/verbs-judge-wire
trap 'kill $(jobs -p) 2>/dev/null; ip netns exec h1 rdma link del rxe1; ip netns exec h2 rdma link del rxe2; ip netns del h1; ip netns del h2; rdma system set netns shared' EXIT

# host N: a namespace with a port of Soft-RoCE, on a veth whose other end is upN here. Linux makes
# the port in its first namespace.
host() {
	ip netns add "h$1" && ip link add "up$1" type veth peer name eth0 netns "h$1" && ip link set "up$1" up &&
		ip -n "h$1" addr add "10.9.0.$1/24" dev eth0 && ip -n "h$1" link set lo up && ip -n "h$1" link set eth0 up &&
		ip netns exec "h$1" rdma link add "rxe$1" type rxe netdev eth0 &&
		rdma dev set "rxe$1" netns "h$1"
}
at() { ip netns exec "h$1" "${@:2}"; }
has_gid() { at "$1" grep -qs v2 "/sys/class/infiniband/rxe$1/ports/1/gid_attrs/types/1"; }
# cost WHAT: round trip and bandwidth between the ports.
cost() {
	local rtt bw
	rtt=$(at 1 ping -q -c 200 -i 0.005 10.9.0.2 | awk -F/ '/^rtt/ { print $5 }')
	at 2 ib_write_bw -d rxe2 -F -s 65536 -n 200 >/dev/null 2>&1 &
	at 2 wait-listen 18515
	bw=$(at 1 ib_write_bw -d rxe1 -F -s 65536 -n 200 10.9.0.2 2>/dev/null | awk '$1 == 65536 { print $4 }')
	wait $!
	echo "# $1: ping $rtt ms, WRITE of 64 KiB $bw MB/s"
}

modprobe rdma_rxe
check exclusive rdma system set netns exclusive
check ports eval 'host 1 && host 2 && until_true 20 has_gid 1 && until_true 20 has_gid 2'
ip link add bridge0 type bridge && ip link set bridge0 up && ip link set up1 master bridge0 && ip link set up2 master bridge0
cost "a bridge of Linux"
ip link del bridge0
# Nobody uses the adapter, which ternd wants to have.
ternd --adapter /run/verbs-judge-wire.sock --uplink packet=up1 --uplink packet=up2 --control "$TERND_CONTROL" &
check wire until_true 20 ternctl list
cost ternd
at 2 "$judge" --serve -d rxe2 >/dev/null 2>&1 &
at 2 wait-listen 18515
check rules-reach-the-wire ternctl faults up1 'drop tx transport=rc'
ternctl faults up1 ''
# Left out: duplicates and reordering. With those Soft-RoCE of Linux 7.3 warns in rxe_completer(),
# and a READ brings wrong bytes.
rules='faults/*-loss,faults/rc-lost-*,faults/rc-all-lost,faults/rc-delay,faults/rc-marks,faults/*-bit-errors'
at 1 "$judge" -d rxe1 --peer 10.9.0.2 --no-ssh --group "$rules" --faults 'ternctl faults up1 "$1"' >/run/judged
sed 's/^/# /' /run/judged
check judged grep -q '^1\.\.22$' /run/judged
check loss grep -q '^ok faults/rc-loss$' /run/judged
check all-lost grep -q '^ok faults/rc-all-lost$' /run/judged
exit "$failed"

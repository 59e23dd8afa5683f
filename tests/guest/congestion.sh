#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# congestion.sh switch|bridge: two flows of WRITEs from vm3 share a slow port to vm1 whose queue is
# shorter than their windows. Without congestion control the port loses packets again and again;
# with it, none once the flows have settled, and few before. Runs in vm1.
#   switch: the port is that of ternd's switch, with RED (properties: Boot, below).
#   bridge: vm2 is a bridge between the two wires, with "tc red ecn" in front of vm1.
#
# Test: congestion-switch
# Tier: full, 600 s
# Boot: alone --vms 3 --mem 512M --smp 1 --front vfio-user --device-prop speed=1000 --device-prop
#   vm1:rate=50M --device-prop vm1:queue=1M --device-prop vm1:full=drop --device-prop
#   vm1:red-min=10K --device-prop vm1:red-max=60K --device-prop vm1:red-probability=0.1
# Run: congestion.sh switch
# Results: 21
# Proves: Two flows from one machine to another through a slow port whose queue is shorter than
#   their windows: of ternd's switch, with RED, and of a machine that is a bridge, with Linux's tc
#   red ecn. Without congestion control (devlink parameters) the receiver sees gaps, with it none in
#   three seconds once the flows have settled and at most a quarter of them in all, and the rates
#   that limit the QPs are reported. Counters of marks and notifications. Values out of range are
#   refused. Documentation/congestion.rst has the figures of the simulation, which the test engine
#   runs.
#
# Test: congestion-bridge
# Tier: long, 600 s
# Boot: alone --vms 3 --mem 512M --smp 1 --adapters 2 --device-prop speed=1000
# Run: congestion.sh bridge
# Results: 22
# Proves: The same with a machine that is a bridge, with Linux's tc red ecn.

set -u
mode=$1
group=congestion-$mode
# shellcheck source=tests/guest/results.sh
. "${0%/*}/results.sh"
log=$(mktemp)
hw=hw_counters

# at MACHINE CMD
at() {
	# shellcheck disable=SC2029 # expanded here
	if [ "$1" = vm1 ]; then sh -c "$2"; else ssh -n "$1" "$2"; fi
}
# The sender's device: in the bridged net it is on the other wire.
if [ "$mode" = bridge ]; then sender=tern1 slow=3; else sender=tern0 slow=1; fi
counter() { # MACHINE DEVICE NAME
	at "$1" "sleep 0.05; cat /sys/class/infiniband/$2/ports/1/$hw/$3"
}
# Sets a parameter of every adapter of a machine; both ends are slow, so the times of the paper are
# longer here.
set_cc() { # NAME VALUE
	local vm
	for vm in vm1 vm3; do
		at "$vm" "for f in /sys/bus/pci/drivers/tern/*:*; do devlink dev param set pci/\${f##*/} name $1 value $2 cmode runtime || exit; done"
	done
}
get_cc() { # NAME: of vm1's adapter
	local f
	for f in /sys/bus/pci/drivers/tern/*:*; do
		devlink dev param show "pci/${f##*/}" name "$1" | sed -n 's/.*runtime value //p'
		return
	done
}
netdev_of() { # MACHINE DEVICE
	at "$1" "basename /sys/class/infiniband/$2/device/net/*"
}

# Less than an emulated bridge carries, also where two processors have other work: its port would
# mark nothing otherwise.
bridge_rate=8mbit
# vm2 bridges the wires: wire 2 is that of each machine's second adapter.
make_bridge() {
	local one two
	one=$(netdev_of vm2 tern0) two=$(netdev_of vm2 tern1)
	at vm2 "set -e
		ip link add br0 type bridge
		for n in $one $two; do ip addr flush dev \$n; ip link set \$n master br0; ip link set \$n up; done
		ip link set br0 up"
	# vm1 answers on the first wire only, and vm3 is on the second one only.
	at vm1 "ip link set $(netdev_of vm1 tern1) down"
	at vm3 "set -e
		ip link set $(netdev_of vm3 tern0) down
		ip addr flush dev $(netdev_of vm3 tern1)
		ip addr add 10.77.0.3/24 dev $(netdev_of vm3 tern1)"
}
# Limits and marks what the bridge sends to vm1. The mean length of RED's queue does not fall while
# it is idle behind tbf: RED would go on dropping what bears no mark after the flows have ended, ARP
# as well. So each pair of flows begins with a new one.
limit_port() {
	local one
	one=$(netdev_of vm2 tern0)
	at vm2 "set -e
		tc qdisc del dev $one root 2>/dev/null || :
		tc qdisc add dev $one root handle 1: tbf rate $bridge_rate burst 16k limit 700k
		tc qdisc add dev $one parent 1:1 handle 2: red limit 350k min 10k max 60k avpkt 1100 burst 30 probability 0.1 bandwidth $bridge_rate ecn"
}

refused() { # NAME VALUE
	! set_cc "$1" "$2" 2>/dev/null
}
show_qps() {
	at vm3 'rdma resource show qp -dd' | grep -o 'drv_rate_kbps [0-9]*' | grep -v ' 0$'
}

# Runs the flows. Once they have settled it measures windows of three seconds: $least is the least
# number of gaps that vm1 sees in one of them, $lost that of all, $moved the number of packets in
# all, and $limited the most QPs that were limited at one moment. A busy host may delay a machine,
# and cause a loss, in any of them.
windows=3
flows() {
	local i before packets gaps now
	[ "$mode" != bridge ] || limit_port || exit
	for i in 1 2; do
		timeout 120 ib_write_bw -F -d tern0 -x "$(gid-index v4)" -m 1024 -s 65536 -D 18 -p 1880$i >"$log.s$i" 2>&1 &
		wait-listen 1880$i
		at vm3 "timeout 120 ib_write_bw -F -d $sender -x \$(gid-index v4 $sender) -m 1024 -s 65536 -D 18 -u 16 -p 1880$i 10.78.0.1" >"$log.c$i" 2>&1 &
	done
	before=$(counter vm1 tern0 rx_rdma_packets)
	until_true 60 eval '[ "$(counter vm1 tern0 rx_rdma_packets)" -gt $((before + 500)) ]'
	sleep 5
	least='' lost=0 moved=0 limited=0
	for ((i = 0; i < windows; i++)); do
		gaps=$(counter vm1 tern0 out_of_sequence) packets=$(counter vm1 tern0 rx_rdma_packets)
		sleep 1.5
		now=$(show_qps | wc -l)
		[ "$now" -le $limited ] || limited=$now
		sleep 1.5
		gaps=$(($(counter vm1 tern0 out_of_sequence) - gaps))
		moved=$((moved + $(counter vm1 tern0 rx_rdma_packets) - packets))
		lost=$((lost + gaps))
		[ -n "$least" ] && [ "$least" -le $gaps ] || least=$gaps
	done
	wait
	echo "$1: $moved packets, $lost gaps, at least $least in a window, $limited limited QPs"
	tail -n 3 "$log.c1" "$log.c2"
}

[ "$mode" != bridge ] || check makes-the-bridge make_bridge
check the-machines-see-each-other until_true 60 at vm3 "ping -c 1 -W 2 10.77.0.1"

# Times and rates for a port of some ten Mbit/s, and times for one that is $slow times as slow.
while read -r name value; do
	check "sets-$name" set_cc "$name" "$value"
done <<END
rp_time_reset $((5000 * slow))
rp_dce_tcp_rtt $((5000 * slow))
rp_byte_reset 300000
rp_ai_rate 1
rp_hai_rate 2
np_min_time_between_cnps 4000
END
check refuses-a-value-out-of-range refused rp_gd 16
check keeps-the-value-then test "$(get_cc rp_gd)" = 11
check reads-back test "$(get_cc rp_time_reset)" = $((5000 * slow))

set_cc rp_enable 0
set_cc np_enable 0
begin=$(counter vm1 tern0 out_of_sequence)
flows off
off_moved=$moved
# A flow that waits for its timer loses nothing meanwhile.
off_lost=$(($(counter vm1 tern0 out_of_sequence) - begin))
check loses-packets-without test "$off_lost" -gt 0
check limits-no-qp-without test "$limited" = 0
check sends-no-notification-without test "$(counter vm1 tern0 np_cnp_sent)" = 0

set_cc rp_enable 255
set_cc np_enable 255
flows on
check loses-nothing-with test "$least" = 0
check loses-less-with test $((lost * 4)) -le "$off_lost"
# Not all that the port carries: the rates fall below it, and a busy host gives one of the two runs
# less.
check moves-as-much-with test $((moved * 10)) -ge $((off_moved * 3))
check limits-both-qps-with test "$limited" = 2
check counts-marks test "$(counter vm1 tern0 np_ecn_marked_roce_packets)" -gt 0
check sends-notifications test "$(counter vm1 tern0 np_cnp_sent)" -gt 0
check handles-notifications test "$(counter vm3 $sender rp_cnp_handled)" -gt 0
check ignores-none test "$(counter vm3 $sender rp_cnp_ignored)" = 0
rm -f "$log"*
exit $failed

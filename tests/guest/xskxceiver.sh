#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# xskxceiver.sh MODE...: the kernel's own test of AF_XDP (tools/testing/selftests/bpf) from one adapter of vm1 to the other; vm2, whose
# adapters are on the same wires, redirects frames between them. MODE: drv (copies), zc (none), zc-busy. Its boot has --adapters 2.
set -u
group=xskxceiver
# shellcheck source=tests/guest/results.sh
. "${0%/*}/results.sh"
program=${XSKXCEIVER:-/mnt/tern/build/out-$TERN_LANE/selftests/xskxceiver}
devs=$(for n in 0 1; do basename /sys/class/infiniband/tern$n/device/net/*; done)
# Of unaligned chunks.
echo 40 >/proc/sys/vm/nr_hugepages
# Its frames have a group address; others are not expected.
for d in $devs; do
	ip addr flush dev "$d"
	sysctl -qw "net.ipv6.conf.$d.disable_ipv6=1"
	ip link set "$d" mtu 1500 promisc on
done
# No bridge: it drops these frames, whose source is a group address. The tests send as many frames at once as their rings have.
# shellcheck disable=SC2016
check redirected ssh vm2 'devs=($(for n in 0 1; do basename /sys/class/infiniband/tern$n/device/net/*; done))
	for n in 0 1; do
		d=${devs[n]}
		ip addr flush dev $d && sysctl -qw net.ipv6.conf.$d.disable_ipv6=1 && ip link set $d mtu 9000 txqueuelen 10000 promisc on up &&
			ethtool -G $d rx 8192 tx 8192 &&
			tc qdisc add dev $d ingress && tc filter add dev $d ingress matchall action mirred egress redirect dev ${devs[1 - n]} || exit
	done'

# results MODE: result lines of a report in KTAP.
results() {
	sed -nE "
	s:^ok .*(PASS)\: [A-Z]+ (BUSY-POLL )?([A-Z0-9_]+).*$:ok $group/$1/\3:p
	s:^ok .*(SKIP)\: [A-Z]+ (BUSY-POLL )?([A-Z0-9_]+).*$:ok $group/$1/\3 # SKIP see xskxceiver-$1.log:p
	s:^not ok .*(FAIL)\: [A-Z]+ (BUSY-POLL )?([A-Z0-9_]+).*$:not ok $group/$1/\3 - see xskxceiver-$1.log:p"
}
for mode; do
	options=(-m "${mode%-*}")
	[ "$mode" = "${mode%-busy}" ] || options+=(-b)
	log=/mnt/share/xskxceiver-$mode.log
	# shellcheck disable=SC2086
	timeout 900 "$program" -i ${devs/$'\n'/ -i } "${options[@]}" >"$log" 2>&1
	status=$?
	results "$mode" <"$log" >/tmp/results
	pass_on /tmp/results
	grep -q '^# Totals' "$log" || not_ok "$mode" "exit status $status without a summary: $(tail -n 1 "$log")"
done

# shellcheck disable=SC2016
ssh vm2 'for n in 0 1; do
		d=$(basename /sys/class/infiniband/tern$n/device/net/*)
		tc qdisc del dev $d ingress; ethtool -G $d rx 1024 tx 512; ip link set $d promisc off txqueuelen 1000; sysctl -qw net.ipv6.conf.$d.disable_ipv6=0
	done
	tern-up'
for d in $devs; do
	ip link set "$d" promisc off
	sysctl -qw "net.ipv6.conf.$d.disable_ipv6=0"
done
echo 0 >/proc/sys/vm/nr_hugepages
check up tern-up
exit $failed

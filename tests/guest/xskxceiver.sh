#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# xskxceiver.sh MODE...: the kernel's own test of AF_XDP (tools/testing/selftests/bpf) from one adapter of vm1 to the other; vm2, whose
# adapters are on the same wires, is a bridge between them. MODE: drv (copies), zc (none), zc-busy. Its boot has --adapters 2.
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
# shellcheck disable=SC2016
check bridge ssh vm2 'ip link add br0 type bridge mcast_snooping 0 && sysctl -qw net.ipv6.conf.br0.disable_ipv6=1 &&
	for n in 0 1; do
		d=$(basename /sys/class/infiniband/tern$n/device/net/*) &&
			ip addr flush dev $d && sysctl -qw net.ipv6.conf.$d.disable_ipv6=1 && ip link set $d mtu 9000 master br0 up || exit
	done
	ip link set br0 up'

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
ssh vm2 'ip link del br0; for n in 0 1; do sysctl -qw net.ipv6.conf.$(basename /sys/class/infiniband/tern$n/device/net/*).disable_ipv6=0; done; tern-up'
for d in $devs; do
	ip link set "$d" promisc off
	sysctl -qw "net.ipv6.conf.$d.disable_ipv6=0"
done
echo 0 >/proc/sys/vm/nr_hugepages
check up tern-up
exit $failed

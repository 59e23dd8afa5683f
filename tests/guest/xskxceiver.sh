#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# xskxceiver.sh MODE...: the kernel's own test of AF_XDP (tools/testing/selftests/bpf) from one
# adapter to the other, which are connected: its boot has --loop. MODE: drv (copies), zc (none),
# zc-busy.
#
# Test: xskxceiver
# Tier: full, 1800 s
# Lane: testing
# Needs: selftests
# Boot: --vms 1 --adapters 2 --loop
# Run: xskxceiver.sh drv zc zc-busy
# Results: 103
# Skip: testing xskxceiver/zc*/STAT_RX_DROPPED the program runs it with copies only
# Skip: testing xskxceiver/zc*/TX_QUEUE_CONSUMER the program runs it with copies only
# Proves: Linux 7.3's own test of AF_XDP (selftests/bpf/xskxceiver) from one adapter of a machine to
#   the other, in the lane testing: in driver mode with copies, and without copies by interrupts and
#   by busy polling.

set -u
group=xskxceiver
# shellcheck source=tests/guest/results.sh
. "${0%/*}/results.sh"
program=${XSKXCEIVER:-/mnt/tern/build/out-$TERN_LANE/selftests/xskxceiver}
devs=$(for n in 0 1; do basename /sys/class/infiniband/tern$n/device/net/*; done)
# Of unaligned chunks.
echo 40 >/proc/sys/vm/nr_hugepages
# Other frames than its own are not expected. Its frames have other addresses than the interfaces.
for d in $devs; do
	ip addr flush dev "$d"
	sysctl -qw "net.ipv6.conf.$d.disable_ipv6=1"
	ip link set "$d" mtu 1500 promisc on
done

# results MODE: result lines of a report in KTAP. Two tests tell nothing here, and have none:
# HW_SW_MAX_RING_SIZE sends nothing between two interfaces, because its pacing wants 2048 free
# frames of the 1024 that the sender has; HW_SW_MIN_RING_SIZE allows 3 seconds for 4096 frames, sent
# and received one by one, which are too few for an emulated processor.
results() {
	sed -nE "
	/HW_SW_(MIN|MAX)_RING_SIZE/d
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

for d in $devs; do
	ip link set "$d" promisc off
	sysctl -qw "net.ipv6.conf.$d.disable_ipv6=0"
done
echo 0 >/proc/sys/vm/nr_hugepages
check up tern-up
exit $failed

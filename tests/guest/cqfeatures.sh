#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck disable=SC2154
# cqfeatures.sh: runs cqfeatures, then ibv_rc_pingpong with timestamps, in one machine and across.
#
# Test: cqfeatures
# Tier: quick, 600 s
# Boot: pair
# Results: 15
# Proves: Two threads that read the device's clock while its low half wraps; its rate against the
#   system's. Wall clock between two readings of the PTP clock, also after that was set, shifted and
#   given other rates, and on one scale with SO_TIMESTAMPING; after a reset, which gives the PTP
#   clock the system's time. No order of data is promised. ibv_rc_pingpong -t of rdma-core reads
#   stamps, in one machine and between two.

. "${0%/*}/pairs.sh"
group=cqfeatures
part cqfeatures || failed=1

pci=$(readlink -f "/sys/class/infiniband/$dev/device")
netdev=$(basename "$pci"/net/*)
# apart: seconds between the PTP clock and the system's.
apart() { phc_ctl -q "$netdev" cmp | sed -nE 's/.*CLOCK_REALTIME is -?([0-9]+)ns.*/\1/p' | awk '{ printf "%.0f\n", $1 / 1e9 }'; }
check phc-ahead sh -c "phc_ctl -q '$netdev' adj 1000"
check phc-is-ahead [ "$(apart)" = 1000 ]
check reset sh -c "echo 1 >'$pci/reset'"
check phc-after-reset [ "$(apart)" = 0 ]
until_true 30 sh -c "ibv_devices | grep -q $dev && gid-index v4" >/dev/null
part cqfeatures 'wallclock*' | sed 's,cqfeatures/,cqfeatures/after-reset-,'
[ "${PIPESTATUS[0]}" = 0 ] || failed=1
for machine in loopback across; do
	place $machine
	# The addresses' order, and so the index, may be another there.
	server_gid=$(there "gid-index v4")
	pair ibv_rc_pingpong rc_pingpong-ts 18803 "ibv_rc_pingpong -d $dev -g $server_gid -n 500 -t -c -p 18803" \
		"ibv_rc_pingpong -d $dev -g $gid -n 500 -t -c -p 18803 $control"
done
exit "$failed"

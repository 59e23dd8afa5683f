#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# health.sh: tests the devlink health reporter: a failed device is reported with its reason,
# recovers automatically or on request, and netdev and RDMA work again. Runs in vm1.
#
# Test: health
# Tier: full, 900 s
# Boot: single
# Results: 37
# Proves: A device that fails, by the test of its devlink reporter: the failure is reported with its
#   reason. The device recovers by itself, on request and after a reset, but not twice within the
#   grace period and not when recovery is switched off; netdev and RDMA work afterwards. Its objects
#   cannot be read while it is dead. Optional counters count from their enabling on, and a CQ is
#   dumped.

set -u
group=health
# shellcheck source=tests/guest/results.sh
. "${0%/*}/results.sh"

health() { devlink health "$@"; }
shows() { # PATTERN...: devlink's output about the reporter contains each
	local text pattern
	text=$(health show "pci/$pci" reporter fw_fatal | tr '\n' ' ')
	echo "$text"
	for pattern; do [[ $text == *"$pattern"* ]] || return 1; done
}
diagnosis() { health diagnose "pci/$pci" reporter fw_fatal | grep -q "$1"; }
set_reporter() { health set "pci/$pci" reporter fw_fatal "$@"; }
fail_device() { health test "pci/$pci" reporter fw_fatal; }
recover() { health recover "pci/$pci" reporter fw_fatal; }
works() { tern-up && pingpong; }

objects_are_counted() {
	tern-objects
	[ "$(tern-objects | sed -n 's/^alive_qp //p')" -ge 1 ]
}
# `rdma statistic` shows counters, no gauges.
statistic_has_counters_only() {
	local text
	text=$(rdma statistic show link tern0/1)
	echo "$text"
	[[ $text == *tx_rdma_packets* ]] && ! [[ $text =~ alive_|dm_bytes|page_entries|parked_faults ]]
}
stat() { rdma statistic show link tern0/1 | sed -n "s/.* $1 \([0-9]*\).*/\1/p"; } # COUNTER: its value, nothing if it is not shown
optional() { rdma statistic set link tern0/1 optional-counters "$1"; }
# An optional counter is shown from its enabling on, and begins with 0 each time.
optional_counters_count() {
	local before now
	[ -z "$(stat rdma_tx_packets)" ] && pingpong && before=$(stat tx_rdma_packets) && [ "$before" -ge 100 ] || return
	optional rdma_tx_packets,rdma_rx_packets,cc_rx_ce_pkts && now=$(stat rdma_tx_packets) || return
	echo "$before packets before, $now counted"
	[ "$now" -lt 100 ] && [ "$(stat cc_rx_ce_pkts)" = 0 ] && pingpong || return
	now=$(stat rdma_tx_packets) before=$(($(stat tx_rdma_packets) - before))
	echo "$now packets, $before by the other counter"
	[ "$now" -ge 100 ] && [ "$now" -le "$before" ] && [ "$(stat rdma_rx_packets)" -ge 100 ] || return
	optional cc_tx_cnp_pkts && [ -z "$(stat rdma_tx_packets)" ] && [ "$(stat cc_tx_cnp_pkts)" = 0 ] || return
	optional rdma_tx_packets && [ "$(stat rdma_tx_packets)" -lt 100 ] || return
	rdma statistic unset link tern0/1 optional-counters && [ -z "$(stat rdma_tx_packets)" ]
}
# The reply to QUERY_CQ of each CQ: 32 bytes.
cq_is_dumped() {
	local text
	text=$(rdma -j -r resource show cq)
	echo "$text"
	python3 -c 'import json, sys
dumps = [x["data"] for x in json.load(sys.stdin)]
assert dumps and all(len(x) == 32 for x in dumps), dumps' <<<"$text"
}
# The counts of a dead device cannot be read.
objects_cannot_be_read() {
	local text
	text=$(tern-objects 2>&1) && return 1
	echo "$text"
	[[ $text == *"Input/output error" && $text != *alive_* ]]
}
open_file_fails() { ! cat <&"$objects"; }

count() { # error|recover
	health show "pci/$pci" reporter fw_fatal | tr '\n' ' ' | sed -n "s/.* $1 \([0-9]*\).*/\1/p"
}
counts() { # ERRORS RECOVERIES since the test began, in devlink's format
	echo "error $((errors + $1)) recover $((recoveries + $2)) "
}

pci=$(basename "$(readlink -f /sys/class/infiniband/tern0/device)")
dev=$(ls "/sys/bus/pci/devices/$pci/net")

check device-is-shown grep -q "$pci" <(devlink dev show)
check firmware-is-shown grep -q fw <(devlink dev info "pci/$pci")
check port-is-shown grep -q "netdev $dev flavour physical" <(devlink port show)
check is-healthy shows 'state healthy' 'auto_recover true'
check objects-are-counted objects_are_counted
check statistic-has-counters-only statistic_has_counters_only
check optional-counters-count optional_counters_count
check cq-is-dumped cq_is_dumped
errors=$(count error) recoveries=$(count recover)

# Automatic recovery.
set_reporter grace_period 0
mtu=$(($(cat "/sys/class/net/$dev/mtu") - 100))
ip link set "$dev" mtu $mtu
check fails fail_device
check recovers-by-itself until_true 200 shows 'state healthy' "$(counts 1 1)"
check reason-is-known diagnosis overrun
check netdev-keeps-its-configuration grep -qx $mtu "/sys/class/net/$dev/mtu"
check works-after-recovery works

# No automatic recovery within the grace period: the device keeps failing.
set_reporter grace_period 3600000
check fails-again fail_device
check is-left-alone-so-soon until_true 200 shows 'state error' "$(counts 2 1)"
check diagnosis-says-dead diagnosis dead
check objects-cannot-be-read objects_cannot_be_read
check has-no-link until_true 200 sh -c "! grep -qx 1 /sys/class/net/$dev/carrier"
check recovers-on-request recover
check is-healthy-on-request shows 'state healthy' "$(counts 2 2)"
check works-after-request works
check objects-are-counted-again objects_are_counted

# No automatic recovery when it is switched off; a reset recovers as well.
check auto-recovery-goes-off set_reporter grace_period 0 auto_recover false
check fails-third-time fail_device
check waits-for-somebody until_true 200 shows 'state error' "$(counts 3 2)"
check reset sh -c "echo 1 >/sys/bus/pci/devices/$pci/reset"
check is-healthy-after-reset shows 'state healthy' "$(counts 3 2)"
check works-after-reset works

# A failure while a program uses the device.
check auto-recovery-goes-on set_reporter auto_recover true
ib_write_bw -d tern0 -x "$(gid-index)" -F -D 600 -p 18600 >/dev/null 2>&1 &
server=$!
wait-listen 18600
ib_write_bw -d tern0 -x "$(gid-index)" -F -D 600 -p 18600 127.0.0.1 >/dev/null 2>&1 &
client=$!
check fails-under-traffic fail_device
check recovers-under-traffic until_true 200 shows 'state healthy' "$(counts 4 3)"
kill -KILL $server $client 2>/dev/null
wait
check works-after-traffic works

# The driver is unbound during recovery and while a debugfs file is open.
exec {objects}<"/sys/kernel/debug/tern/$pci/objects"
check fails-before-removal fail_device
check unbind sh -c "echo $pci >/sys/bus/pci/drivers/tern/unbind"
check reads-of-open-file-fail open_file_fails
exec {objects}<&-
check bind sh -c "echo $pci >/sys/bus/pci/drivers/tern/bind"
check works-after-bind works
exit $failed

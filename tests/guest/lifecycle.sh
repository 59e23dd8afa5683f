#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# lifecycle.sh: tests load, unload, kill, unbind and reset: no object is left over, and dmesg stays
# clean. Runs in vm1.
#
# Test: lifecycle
# Tier: full, 1800 s
# Boot: single
# Results: 45
# Order: -1
# Proves: Load, unload in any order the kernel allows, kill under traffic, unbind, reset, link down:
#   object counts return to the start and dmesg is clean.

set -u
group=lifecycle
# shellcheck source=tests/guest/results.sh
. "${0%/*}/results.sh"
pids=

# The live objects, one per line, without GIDs, which follow addresses.
objects() { tern-objects | grep -v alive_gid; }
same_objects() {
	local now
	now=$(objects)
	[ "$now" = "$baseline" ] && [ -n "$now" ] && return
	diff <(echo "$baseline") <(echo "$now") | tr '\n' ' '
	return 1
}
settled() { # waits, because the kernel frees a killed process's objects a little later
	local i
	for ((i = 0; i < 600; i++)); do
		same_objects >/dev/null && return
		sleep 0.1
	done
	same_objects
}
trouble() {
	kernel-complaints | tail -n 3 | grep . && return 1
	dmesg | grep -E 'tern .*: (reset|device) ' && return 1
	return 0
}

traffic() { # starts an endless loopback transfer; sets $pids
	ib_write_bw -d tern0 -x "$(gid-index)" -F -s 65536 -D 600 -p 18600 >/dev/null 2>&1 &
	pids=$!
	wait-listen 18600
	ib_write_bw -d tern0 -x "$(gid-index)" -F -s 65536 -D 600 -p 18600 127.0.0.1 >/dev/null 2>&1 &
	pids="$pids $!"
	local i
	for ((i = 0; i < 600; i++)); do
		[ "$(objects | awk '$1 == "alive_qp" { print $2 }')" -ge 2 ] && return
		sleep 0.1
	done
	return 1
}
# shellcheck disable=SC2086 # $pids is a list
end_traffic() {
	kill -KILL $pids 2>/dev/null
	wait $pids 2>/dev/null
	return 0
}

pci=$(basename "$(readlink -f /sys/class/infiniband/tern0/device)")
baseline=$(objects)
check objects-are-counted test -n "$baseline"
check idle-device-works pingpong
check objects-return-after-use settled

for round in 1 2 3; do
	check "traffic-runs-$round" traffic
	end_traffic
	check "objects-return-after-kill-$round" settled
done

check tern-is-held-by-tern_ib sh -c '! rmmod tern 2>/dev/null'
for round in 1 2 3 4 5; do
	check "unload-idle-$round" sh -c 'rmmod tern_ib && rmmod tern'
	check "load-$round" tern-up
done
check works-after-reload pingpong
check objects-return-after-reload settled

check unload-rdma-only rmmod tern_ib
check reload-rdma-only tern-up
check works-after-rdma-reload pingpong

traffic
end_traffic
check unload-right-after-kill sh -c 'rmmod tern_ib && rmmod tern'
check load-after-kill tern-up

traffic
check unload-under-traffic rmmod tern_ib
end_traffic
check unload-net-after-it rmmod tern
check load-after-traffic tern-up
check works-after-unload-under-traffic pingpong
check objects-return-after-unload-under-traffic settled

check unbind sh -c "echo $pci >/sys/bus/pci/drivers/tern/unbind"
check bind sh -c "echo $pci >/sys/bus/pci/drivers/tern/bind"
check up-after-bind tern-up
check works-after-bind pingpong

traffic
check reset-under-traffic sh -c "echo 1 >/sys/bus/pci/devices/$pci/reset"
end_traffic
check up-after-reset tern-up
check works-after-reset pingpong
check objects-return-after-reset settled

dev=$(ls "/sys/bus/pci/devices/$pci/net")
check link-down ip link set "$dev" down
check rdma-port-follows-down sh -c 'for i in $(seq 600); do grep -q DOWN /sys/class/infiniband/tern0/ports/1/state && exit; sleep 0.1; done; exit 1'
check link-up tern-up
check works-after-link-up pingpong

check dmesg-is-clean trouble
exit $failed

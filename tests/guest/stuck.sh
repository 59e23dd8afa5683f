#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# stuck.sh: resets, recovers, unbinds, removes and pulls out the adapter while it waits for a page
# that never arrives: of a userfaultfd, and of a file system in user space. Runs in vm1.
#
# Test: stuck
# Tier: full, 1200 s
# Lane: trixie
# Boot: single
# Results: 75
# Proves: The device is reset and removed while it waits for a page that never arrives.

set -u
group=stuck
# shellcheck source=tests/guest/results.sh
. "${0%/*}/results.sh"
log=$(mktemp)

pci=$(basename "$(readlink -f /sys/class/infiniband/tern0/device)")
function_of() { echo "/sys/bus/pci/devices/$pci"; }
gone() { [ ! -e "$(function_of)" ]; }

waiting() { grep -qsx tern_fault /proc/[0-9]*/comm; } # whether a thread of the driver exists
not_waiting() { ! waiting; }

flr() { grep -q flr "$(function_of)/reset_method" && echo flr >"$(function_of)/reset_method" && echo 1 >"$(function_of)/reset"; }
recover() {
	devlink health set "pci/$pci" reporter fw_fatal auto_recover false
	devlink health test "pci/$pci" reporter fw_fatal
	devlink health recover "pci/$pci" reporter fw_fatal
}
unbind() { echo "$pci" >/sys/bus/pci/drivers/tern/unbind && echo "$pci" >/sys/bus/pci/drivers/tern/bind; }
remove() { echo 1 >"$(function_of)/remove" && gone && echo 1 >/sys/bus/pci/rescan; }
pulled() {
	labctl removed vm1 on && echo 1 >"$(function_of)/remove" && gone || return
	labctl removed vm1 off && echo 1 >/sys/bus/pci/rescan
}
# A thread that waits is in the driver.
rmmod_refuses() { ! rmmod tern_ib && [ -e /sys/class/infiniband/tern0 ]; }

# What would otherwise last for ever.
bounded() { # ACTION
	"$1" &
	local pid=$!
	until_true 150 sh -c "! kill -0 $pid 2>/dev/null || grep -q '^State:.Z' /proc/$pid/status" || return
	wait $pid
}

for kind in uffd fuse; do
	for action in flr recover unbind remove pulled; do
		RDMAV_ALLOW_DISASSOC_DESTROY=1 odp --hold $kind >"$log" 2>&1 &
		holder=$!
		check "$kind-$action-waits" until_true 60 grep -qs ready "$log"
		[ "$action" != unbind ] || check "$kind-rmmod-refuses" bounded rmmod_refuses
		check "$kind-$action" bounded "$action" || exit 1
		check "$kind-$action-still-waits" waiting
		check "$kind-$action-works" tern-up
		check "$kind-$action-pingpong" pingpong
		kill -TERM $holder
		check "$kind-$action-ends" wait $holder
		check "$kind-$action-arrives" until_true 60 not_waiting
	done
done
check unload rmmod tern_ib
check load tern-up
check no-complaints sh -c '! kernel-complaints | grep .'
rm -f "$log"
exit $failed

#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# removal.sh: tests surprise removal of the adapter under traffic and its replacement; then orderly
# removal, reset and unbinding under traffic. Runs in vm1.
#
# Test: removal
# Tier: full, 600 s
# Boot: single
# Results: 60
# Proves: Surprise removal, hot unplug by QMP, orderly removal, function level reset and unbinding,
#   each under traffic: processes get an event and errors, continue, and release their objects by
#   themselves; meanwhile the adapter that came back works.
#
# Test: ternd-removal
# Tier: full, 1200 s
# Boot: ternd
# Results: 48
# Skip: * removal/unplug QEMU 11.1 ends with an assertion when a vfio-user-pci device is unplugged
#   (ternd.rst)
# Proves: The same with an adapter of ternd.

set -u
group=removal
# shellcheck source=tests/guest/results.sh
. "${0%/*}/results.sh"
log=$(mktemp)

pci=$(basename "$(readlink -f /sys/class/infiniband/tern0/device)")
gone() { [ ! -e "/sys/bus/pci/devices/$pci" ]; }

# start NAME: starts a process that watches for events, and endless traffic and page faults, before
# the adapter is removed.
start() {
	rm -f /run/removal.go
	# Without this variable libibverbs reports an error for objects that the kernel destroyed at
	# the removal.
	RDMAV_ALLOW_DISASSOC_DESTROY=1 removal "$1" /run/removal.go >"$log.watch" 2>&1 &
	watcher=$!
	ib_write_bw -d tern0 -x "$(gid-index)" -F -s 65536 -D 600 -p 18600 >/dev/null 2>&1 &
	wait-listen 18600
	ib_write_bw -d tern0 -x "$(gid-index)" -F -s 65536 -D 600 -p 18600 127.0.0.1 >/dev/null 2>&1 &
	odp --churn >"$log.churn" 2>&1 &
	until_true 60 grep -qs ready "$log.churn" && until_true 60 grep -qs ready "$log.watch"
}
# finish NUMBER: the watcher ends by itself.
finish() {
	touch /run/removal.go
	check "watcher-$1" wait $watcher
	pass_on "$log.watch"
}

check works pingpong

# A new adapter in the same slot, found by a bus scan, after the process has released its objects.
check start-1 start rescan
check pull-1 labctl removed vm1 on
check config-space-reads-ones sh -c "od -A n -t x1 -N 4 /sys/bus/pci/devices/$pci/config | grep 'ff ff ff ff'"
check told-1 until_true 60 grep -q 'queues-live' "$log.watch"
finish 1
end-test
check put-back labctl removed vm1 off
check scan sh -c "echo 1 >/sys/bus/pci/devices/$pci/remove && echo 1 >/sys/bus/pci/rescan"
check up-1 tern-up
check works-1 pingpong

# Hot unplug while the process still has its objects, then hot plug of another adapter.
replug() {
	check start-2 start replug
	check pull-2 labctl removed vm1 on
	check told-2 until_true 60 grep -q 'queues-live' "$log.watch"
	check unplug labctl qmp vm1 device_del id=tern0
	check unplugged until_true 120 gone
	finish 2
	end-test
	check plug labctl qmp vm1 device_add driver=tern id=tern0 bus=rp1 netdev=wire mac=52:54:00:77:00:01
	check up-2 tern-up
	check works-2 pingpong
}
. /tern/conf
if [ "$FRONT" = vfio-user ]; then
	# vfio_user_msix_teardown() asserts that the BAR still has a region that was removed with
	# the device.
	echo "ok removal/unplug # SKIP QEMU 11.1 ends with an assertion when a vfio-user-pci device is unplugged"
else
	replug
fi

# Orderly removal, with a process that keeps its objects and with endless traffic.
function_of() { echo "/sys/bus/pci/devices/$pci"; }
remove() { echo 1 >"$(function_of)/remove" && gone; }
rescan() { echo 1 >/sys/bus/pci/rescan; }
flr() { grep -q flr "$(function_of)/reset_method" && echo flr >"$(function_of)/reset_method" && echo 1 >"$(function_of)/reset"; }
unbind() { echo "$pci" >/sys/bus/pci/drivers/tern/unbind; }
bind() { echo "$pci" >/sys/bus/pci/drivers/tern/bind; }
orderly() { # NUMBER OUT BACK
	check "start-$1" start "$2"
	check "$2" "$2"
	check "told-$1" until_true 60 grep -q 'queues-live' "$log.watch"
	[ "$3" = true ] || check "$3" "$3"
	check "up-$1" tern-up
	# The old objects still exist when the new device works.
	check "works-$1" pingpong
	finish "$1"
	end-test
}
orderly 3 remove rescan
orderly 4 flr true
orderly 5 unbind bind

check no-complaints sh -c '! kernel-complaints | grep .'
rm -f "$log" "$log.watch"
exit $failed

#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# suspend.sh: suspends the devices of vm2 with user space frozen, while the adapter is idle and
# while it waits for a page that never arrives. Runs in vm1. Afterwards vm2 has no 9p any more,
# whose driver cannot suspend: nothing may follow in this boot.
#
# Test: suspend
# Tier: full, 900 s
# Lane: trixie
# Boot: beside --vms 2 --mem 1G
# Results: 15
# Proves: The machine suspends while the device waits for a page that never arrives.

set -u
group=suspend
# shellcheck source=tests/guest/results.sh
. "${0%/*}/results.sh"

on2() { timeout 150 ssh vm2 "$@"; }
suspend() {
	on2 'echo devices >/sys/power/pm_test && echo 1 >/sys/module/suspend/parameters/pm_test_delay && echo mem >/sys/power/state'
}
works() {
	on2 'tern-up && { ibv_rc_pingpong -d tern0 -g $(gid-index) -n 50 -c >/dev/null & } && wait-listen 18515 && ibv_rc_pingpong -d tern0 -g $(gid-index) -n 50 -c 127.0.0.1 && wait $!'
}
waiting() { on2 'grep -qsx tern_fault /proc/[0-9]*/comm'; } # whether a thread of the driver exists
not_waiting() { ! waiting; }

check copy on2 'cp /mnt/tern/build/guest/odp /run && umount -l /mnt/tern /mnt/share'
check idle suspend
check idle-works works
for kind in uffd fuse; do
	on2 "cd /run; RDMAV_ALLOW_DISASSOC_DESTROY=1 ./odp --hold $kind >/run/$kind.log 2>&1 & echo \$! >/run/$kind.pid" &
	check "$kind-waits" until_true 60 on2 "grep -qs ready /run/$kind.log"
	check "$kind" suspend || exit 1
	check "$kind-still-waits" waiting
	check "$kind-works" works
	check "$kind-ends" on2 "kill -TERM \$(cat /run/$kind.pid)"
	check "$kind-arrives" until_true 60 not_waiting
done
exit $failed

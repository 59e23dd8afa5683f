#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# reload.sh: unloads and loads both modules 50 times: idle, right after a kill, under a running
# process, and right after a load. No object is left over, and dmesg stays clean. Runs in vm1.
#
#   reload.sh [ROUNDS [traffic]]   traffic: each round under a running process with traffic
#
# Test: reload
# Tier: full, 1800 s
# Boot: single
# Run: reload.sh 15
# Results: 4
# Proves: Both modules are unloaded and loaded 15 times (reload-long: 50): idle, right after a kill,
#   under a living process, before the driver has settled. reload-traffic (lane debug): 50 times
#   under a living process with all its traffic.
#
# Test: reload-traffic
# Tier: full, 1800 s
# Lane: debug
# Boot: single
# Run: reload.sh 50 traffic
# Results: 4
# Proves: 50 times under a living process with all its traffic.
#
# Test: reload-long
# Tier: long, 1800 s
# Boot: single
# Results: 4
# Proves: The same 50 times.

set -u
. /tern/conf
rounds=${1:-50}
manner=${2:-all}
group=reload
# shellcheck source=tests/guest/results.sh
. "${0%/*}/results.sh"
victim=

# The live objects and pinned pages, one per line, without GIDs, which follow addresses.
objects() {
	tern-objects | grep -v alive_gid
	echo 1 >/proc/sys/vm/stat_refresh
	awk '$1 ~ /^nr_foll_pin_/ { n += $1 ~ /acquired/ ? $2 : -$2 } END { print "pinned_pages", n }' /proc/vmstat
}
settled() { # waits, because objects of a killed process and of the core change a little later
	local i
	for ((i = 0; i < 600; i++)); do
		[ "$(objects 2>&1)" = "$baseline" ] && return
		sleep 0.1
	done
	diff <(echo "$baseline") <(objects 2>&1) | grep '^[<>]' | tr '\n' ' '
	return 1
}
start_victim() { # starts a process that uses every kind of object, and may fork, until it is killed
	setsid killer --victim "$1" &
	victim=$!
	sleep 0.3
}
# Forked children keep files and mappings open until bury_victim.
kill_victim() { kill -KILL "$victim"; }
bury_victim() {
	kill -KILL -- "-$victim" 2>/dev/null
	wait "$victim" 2>/dev/null
	[ $? = 137 ] # it was killed, and did not end before
}
# While a page of an on-demand region is brought in, the module is in use (odp.rst).
unload() {
	local i
	for ((i = 0; i < 100; i++)); do
		if rmmod tern_ib 2>/run/rmmod.log; then
			rmmod tern
			return
		fi
		grep -q 'is in use' /run/rmmod.log || break
		sleep 0.1
	done
	cat /run/rmmod.log >&2
	return 1
}

baseline=$(objects)
[[ $baseline == *alive_qp* ]] || { not_ok objects-are-counted "$baseline"; exit 1; }
ok objects-are-counted

kills=0
# shellcheck disable=SC2094 # the log is read when a round has failed
for ((round = 1; round <= rounds; round++)); do
	why=
	kind=$((round % 5))
	[ "$manner" != traffic ] || kind=3
	case $kind in
	1 | 2) # the kernel is still destroying the objects
		start_victim "$round"
		kill_victim
		unload || why="unload right after a kill"
		bury_victim || why="the process ended before it was killed"
		kills=$((kills + 1))
		;;
	3) # the process loses its device, and is killed later
		start_victim "$round"
		unload || why="unload under a living process"
		sleep 0.3
		bury_victim || why="the process ended because its device disappeared"
		kills=$((kills + 1))
		;;
	4) # unload right after load
		unload || why="unload"
		{ insmod "/mnt/tern/$OUT/tern.ko" && insmod "/mnt/tern/$OUT/tern_ib.ko" && unload; } ||
			why="unload right after load"
		;;
	0) unload || why="unload" ;;
	esac
	tern-up || why="${why:-load}"
	left=$(settled) || why="${why:-left: $left}"
	[ -z "$why" ] || not_ok "round-$round" "$why: $(tail -n 1 /run/reload.log)"
	[ -e /sys/class/infiniband/tern0 ] || { not_ok device-is-there "none after round $round"; exit 1; }
done 2>/run/reload.log
[ $failed = 0 ] && ok "unloaded-and-loaded-$rounds-times-$kills-after-a-kill"

if trouble=$(kernel-complaints | tail -n 3 | grep .); then
	not_ok dmesg-is-clean "$trouble"
else
	ok dmesg-is-clean
fi
check works-afterwards pingpong
exit $failed

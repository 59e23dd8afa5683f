#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# attacked.sh: while vm1 and vm2 exchange data and compare it, a hypervisor attacks the ternd of both through an adapter of its own,
# and through the control socket (ternd_attack, on the host). Its own result lines are passed on. Runs in vm1.
set -u
group=attacked
# shellcheck source=tests/guest/results.sh
. "${0%/*}/results.sh"
work=$(mktemp -d)

# rping compares the data of each message.
ssh vm2 'rping -s -P -a 10.77.0.2 -p 7180' >/dev/null 2>&1 &
ssh vm2 'wait-listen 7180'
others() {
	local n
	for ((n = 1; ; n++)); do
		if ! timeout 120 rping -c -a 10.77.0.2 -p 7180 -C 50 -S 40000 -V >"$work/rping" 2>&1; then
			cp "$work/rping" "$work/failed"
			return
		fi
		echo $n >"$work/rounds.new" && mv "$work/rounds.new" "$work/rounds"
	done
}
rounds() { cat "$work/rounds" 2>/dev/null || echo 0; }
# Two more rounds begin and end well: one may have begun before.
others_go_on() {
	local from
	from=$(rounds)
	further() { [ -e "$work/failed" ] || [ "$(rounds)" -ge $((from + 2)) ]; }
	until_true 240 further && ! tail -n 3 "$work/failed"
}
# The first call starts the attacker.
attack() { labctl qmp vm1 x-attack >"$work/attack" 2>&1; }
ended() { attack && grep -q '"status": [0-9-]' "$work/attack"; }

others >/dev/null 2>&1 &
check others others_go_on
check begins attack
check ends until_true 600 ended
check meanwhile others_go_on
sed -E 's/.*"output": "//; s/", "status".*//' "$work/attack" | sed 's/\\n/\n/g' >"$work/lines"
pass_on "$work/lines"
check attached sh -c 'labctl state vm1 | tr -d " \"" | grep -q attached:true && labctl state vm2 | tr -d " \"" | grep -q attached:true'
# shellcheck disable=SC2046
kill $(jobs -p) 2>/dev/null
rm -rf "$work"
exit $failed

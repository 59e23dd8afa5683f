# shellcheck shell=bash disable=SC2154
# SPDX-License-Identifier: GPL-2.0-or-later
# Sourced after results.sh: vm1 and vm2 exchange data and compare it while others are killed or
# attacked. The script sets $work to a directory, and starts `others` in the background.

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

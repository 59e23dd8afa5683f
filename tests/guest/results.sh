# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Sourced: prints result lines. A script sets $group first and ends with `exit $failed`.
failed=0
check_log=$(mktemp)

# ok NAME
ok() { echo "ok $group/$1"; }

# not_ok NAME WHY
not_ok() {
	echo "not ok $group/$1 - $2"
	failed=1
}

# check NAME CMD...: ok if CMD succeeds, else not ok with the end of its output. CMD runs in this
# shell and may set variables.
check() {
	local name status
	name=$1
	shift
	"$@" >"$check_log" 2>&1
	status=$?
	if [ $status = 0 ]; then
		ok "$name"
	else
		not_ok "$name" "$(tail -n 3 "$check_log" | tr -s '\n' ' ')"
	fi
	return $status
}

# pass_on FILE: prints the result lines in FILE that another program wrote.
pass_on() {
	grep -E '^(not )?ok' "$1"
	! grep -q '^not ok' "$1" || failed=1
}

# part CMD...: runs a program whose results are a part of the script's, without its plan.
part() {
	"$@" | sed -u '/^1\.\./d'
	return "${PIPESTATUS[0]}"
}

# until_true SECONDS CMD...: repeats CMD until it succeeds.
until_true() {
	local end
	end=$(($(date +%s) + $1))
	shift
	until "$@"; do
		[ "$(date +%s)" -lt $end ] || return 1
		sleep 0.1
	done
}

# pingpong: a short exchange of messages within this machine; each end compares them.
pingpong() {
	local server
	ibv_rc_pingpong -d tern0 -g "$(gid-index)" -n 50 -c >/dev/null 2>&1 &
	server=$!
	wait-listen 18515
	ibv_rc_pingpong -d tern0 -g "$(gid-index)" -n 50 -c 127.0.0.1 >/dev/null && wait $server
}

# under_traffic NAME COMMAND...: COMMAND succeeds, and traffic goes on after it: the script defines
# moved().
under_traffic() {
	local name=$1
	shift
	check "$name" "$@"
	check "$name-moves" until_true 90 moved
}

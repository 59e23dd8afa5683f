# shellcheck shell=sh disable=SC2034,SC2154,SC2029
# SPDX-License-Identifier: GPL-2.0-or-later
# Sourced: runs a program twice, a server and its client, in one machine or in two, and says how it went.
# What ran is remembered for the matrix at the end.

dev=tern0
gid=$(gid-index v4)
gid6=$(gid-index v6)
log=$(mktemp)
matrix=$(mktemp)
trap 'rm -f "$log" "$log.s" "$matrix"' EXIT
failed=0
where=loopback
control=127.0.0.1
ip=10.77.0.1
ip6=fd77::1

# place loopback|across: where the servers are from here on.
place() {
	where=$1
	control=127.0.0.1 ip=10.77.0.1 ip6=fd77::1
	[ "$where" = loopback ] || control=10.78.0.2 ip=10.77.0.2 ip6=fd77::2
	[ "$where" = loopback ] || ssh vm2 true
}

# there CMD: a shell command in the server's machine.
there() {
	if [ "$where" = across ]; then ssh vm2 "$1"; else sh -c "$1"; fi
}

# Whether something listens at TCP port $1, or a cm_id does.
listening() {
	there "cat /proc/net/tcp /proc/net/tcp6; rdma resource show cm_id" 2>/dev/null |
		awk -v p="$(printf ':%04X' "$1")" -v q=":$1 " '
			$4 == "0A" && substr($2, length($2) - 4) == p { f = 1 }
			/state LISTEN/ && index($0 " ", q) { f = 1 }
			END { exit !f }'
}

# pair PROGRAM NAME PORT SERVER-COMMAND CLIENT-COMMAND: PROGRAM is the matrix's row. PORT is what the server listens
# at, or - when it has none: then it gets a second. A server that does not end by itself has its command begin with '&'.
pair() {
	program=$1 name=$2 at=$3 serve=$4 call=$5
	endless=0
	case $serve in '&'*) endless=1 serve=${serve#&} ;; esac
	# shellcheck disable=SC2086 # its words are the command
	if [ "$where" = across ]; then
		ssh vm2 "timeout 120 $serve" >"$log.s" 2>&1 </dev/null &
	else
		timeout 120 $serve >"$log.s" 2>&1 </dev/null &
	fi
	server=$!
	if [ "$at" = - ]; then
		sleep 1
	else
		# A connect that is only tried and closed would end some servers: look instead.
		tries=0
		until listening "$at" || [ $tries -ge 60 ]; do
			tries=$((tries + 1))
			sleep 0.1
		done
	fi
	# shellcheck disable=SC2086
	timeout 120 $call >"$log" 2>&1 </dev/null
	status=$?
	if [ $endless = 1 ]; then
		there "pkill -x ${serve%% *}"
		wait $server 2>/dev/null
		server_status=0
	else
		[ $status = 0 ] || there "pkill -x ${serve%% *}" 2>/dev/null
		wait $server 2>/dev/null
		server_status=$?
	fi
	if [ $status = 0 ] && [ $server_status = 0 ]; then
		echo "ok $group/$where/$name"
		echo "$program $where 1 1" >>"$matrix"
	else
		failed=1
		echo "not ok $group/$where/$name - $status/$server_status: $(tail -n 2 "$log" | tr -s "\r\n" " ") / $(tail -n 1 "$log.s" | tr -d "\r")"
		echo "$program $where 0 1" >>"$matrix"
	fi
}

# show_matrix: a line for each program, runs that passed of those that ran.
show_matrix() {
	awk 'function cell(p, w) { return (p, w) in all ? good[p, w] + 0 "/" all[p, w] : "-" }
		!($1 in seen) { seen[$1] = ++n; name[n] = $1 }
		{ good[$1, $2] += $3; all[$1, $2] += $4 }
		END {
			printf "# %-22s %10s %10s\n", "program", "loopback", "across"
			for (i = 1; i <= n; i++) printf "# %-22s %10s %10s\n", name[i], cell(name[i], "loopback"), cell(name[i], "across")
		}' "$matrix"
}

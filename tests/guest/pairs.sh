# shellcheck shell=sh disable=SC2034,SC2154,SC2029
# SPDX-License-Identifier: GPL-2.0-or-later
# Sourced: runs a program as server and client, in one machine or between two, and prints the
# result. A matrix at the end counts the runs.

# shellcheck source=tests/guest/results.sh
. "${0%/*}/results.sh"

dev=tern0
gid=$(gid-index v4)
gid6=$(gid-index v6)
log=$(mktemp)
matrix=$(mktemp)
trap 'rm -f "$check_log" "$log" "$log.s" "$log.ended" "$matrix"' EXIT
limit=400 # seconds: bounds a hang
where=loopback
control=127.0.0.1
ip=10.77.0.1
ip6=fd77::1

# place loopback|across: selects where the servers run.
place() {
	where=$1
	control=127.0.0.1 ip=10.77.0.1 ip6=fd77::1
	[ "$where" = loopback ] || control=10.78.0.2 ip=10.77.0.2 ip6=fd77::2
	[ "$where" = loopback ] || ssh vm2 true
}

# there CMD: runs a shell command in the server's machine.
there() {
	if [ "$where" = across ]; then ssh vm2 "$1"; else sh -c "$1"; fi
}

# here CMD: runs a shell command in the client's machine.
here() { sh -c "$1"; }

# Counts attachments to multicast groups in the server's machine.
attachments() { there 'tern-objects | sed -n "s/^alive_mcast //p"'; }

# ready PORT BEFORE: waits until the server listens, or has ended.
ready() {
	tries=0
	until [ -s "$log.ended" ] || [ $tries -ge 150 ]; do
		tries=$((tries + 1))
		# Do not connect to find out: some servers end when a connection closes.
		case $1 in
		-*) [ "$(attachments)" -lt $(($2 + ${1#-})) ] || return ;;
		*) ! there "wait-listen $1 2" || return ;;
		esac
		sleep 0.1
	done
}

# Prints the line in which one end reports that rdma_cm gave up a connection; fails if an end
# complained about data.
cm_gave_up() {
	[ $status != 124 ] && [ $server_status != 124 ] || return
	! grep -qiE 'mismatch|corrupt|data (error|verification)|wrong data' "$log" "$log.s" || return
	cat "$log" "$log.s" | tr -d '\r' | grep -m 1 -E \
		-e 'RDMA_CM_EVENT_(ADDR_ERROR|ROUTE_ERROR|CONNECT_ERROR|UNREACHABLE|REJECTED)' \
		-e '[Uu]nexpected (CM event|event from RDMA CM)|Unable to connect \(retries|bad event waiting for connect' \
		-e '(rconnect|rdma_connect|rdma_create_ep|rdma_resolve_[a-z]*).*(timed out|refused|reset)'
}

# The payload that has crossed an adapter of tern at one end, both ways, in bytes. A script whose
# ends are not in this machine has its own.
crossed() {
	sleep 0.05 # the kernel keeps what it has read for a moment
	cat "/sys/class/infiniband/$dev"/ports/1/hw_counters/[tr]x_rdma_bytes | awk '{ sum += $1 } END { print sum }'
}

# least COMMAND: the payload that COMMAND moves at least, by its options: a number and a size of
# messages. A program that compares no data succeeds only if the adapter has moved them. Operands of
# atomics are no payload: verbs-judge compares these.
least() {
	echo "$1" | awk '{
		n = $1 != "cmtime"
		size = 1
		for (i = 2; i <= NF; i++) {
			if ($i == "-n" || $i == "-C") n = $(i + 1)
			if ($i == "-s" && $(i + 1) ~ /^[0-9]+$/ || $i == "-S") size = $(i + 1)
			if ($i == "-a" && $1 ~ /^ib_/) size = 8388608
		}
		if ($1 ~ /^ib_atomic/) n = 0
		printf "%.0f\n", n * size
	}'
}

# The name to kill a server by: the kernel keeps 15 characters.
name_of() { printf %.15s "${1%% *}"; }

# Runs $serve there and $call here once; sets $status and $server_status.
attempt() {
	endless=0 run=$serve before=0
	case $run in '&'*) endless=1 run=${run#&} ;; esac
	case $at in -*) before=$(attachments) ;; esac
	rm -f "$log.ended"
	{
		there "timeout $limit $run" >"$log.s" 2>&1 </dev/null
		echo $? >"$log.ended"
	} &
	server=$!
	ready "$at" "$before"
	here "timeout $limit $call" >"$log" 2>&1 </dev/null
	status=$?
	if [ $endless = 1 ] || [ $status != 0 ]; then
		there "pkill -x $(name_of "$run")"
	fi
	wait $server 2>/dev/null
	server_status=$(cat "$log.ended")
	[ $endless = 0 ] || server_status=0
}

# pair PROGRAM NAME PORT SERVER-COMMAND CLIENT-COMMAND: PROGRAM is the row in the matrix. The server
# listens at PORT; -N instead means that it attaches N QPs to a multicast group. '&' before the
# server's command marks a server that does not end by itself. If rdma_cm gives up a connection,
# which the kernel's protocol does on a machine under load, the run is repeated, twice at most.
# tests/run counts the lines '# retried'. Nothing else is repeated.
pair() {
	program=$1 name=$2 at=$3 serve=$4 call=$5
	for try in 1 2 3; do
		had=$(crossed)
		attempt
		[ $status != 0 ] || [ $server_status != 0 ] || break
		[ $try -lt 3 ] && event=$(cm_gave_up) || break
		echo "# retried $group/$where/$name - $event"
	done
	moved=$(($(crossed) - had))
	wanted=$(least "$call")
	if [ $status = 0 ] && [ $server_status = 0 ] && [ $moved -lt $wanted ]; then
		not_ok "$where/$name" "succeeds, but $moved bytes of $wanted have crossed the adapter"
		echo "$program $where 0 1" >>"$matrix"
	elif [ $status = 0 ] && [ $server_status = 0 ]; then
		ok "$where/$name"
		echo "$program $where 1 1" >>"$matrix"
	else
		not_ok "$where/$name" "$status/$server_status: $(tail -n 2 "$log" | tr -s "\r\n" " ") / $(tail -n 1 "$log.s" | tr -d "\r")"
		echo "$program $where 0 1" >>"$matrix"
	fi
}

# verify_with ADDRESS RULE...: rules of connections with the other end at ADDRESS. `on`,
# $server_side and $client_side are the script's: on SIDE COMMAND puts device and GID of a side in
# place of @D and @G.
verify_with() {
	address=$1
	shift
	port=$((port + 1))
	server=$(on "$server_side" "/mnt/tern/build/guest/judge/verbs-rules --serve -d @D -g @G -p $port")
	client=$(on "$client_side" "/mnt/tern/build/guest/judge/verbs-rules -e 10 -d @D -g @G -p $port -c $address $(printf 'connections/%s ' "$@")")
	there "timeout 1100 $server" >"$log.s" 2>&1 </dev/null &
	server_pid=$!
	there "wait-listen $port"
	here "timeout 1000 $client" >"$log" 2>&1 </dev/null
	sed -nE "s,^((not )?ok) connections/,\1 $group/$where/verify-,p" "$log"
	! grep -q '^not ok' "$log" || failed=1
	grep -q '^ok' "$log" || not_ok "$where/verify" "$(tail -n 1 "$log")"
	there "pkill -x verbs-rules"
	wait $server_pid 2>/dev/null
}

# show_matrix: prints for each program the number of passed runs and of all runs.
show_matrix() {
	awk 'function cell(p, w) { return (p, w) in all ? good[p, w] + 0 "/" all[p, w] : "-" }
		!($1 in seen) { seen[$1] = ++n; name[n] = $1 }
		!($2 in place) { place[$2] = ++m; where[m] = $2 }
		{ good[$1, $2] += $3; all[$1, $2] += $4 }
		END {
			printf "# %-22s", "program"
			for (j = 1; j <= m; j++) printf " %12s", where[j]
			for (i = 1; i <= n; i++) {
				printf "\n# %-22s", name[i]
				for (j = 1; j <= m; j++) printf " %12s", cell(name[i], where[j])
			}
			print ""
		}' "$matrix"
}

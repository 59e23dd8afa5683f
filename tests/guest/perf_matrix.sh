#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# ibv_rc_pingpong and perftest's RC programs, loopback and across, 1 byte to 8 MiB, polling and
# event mode. usage: perf_matrix.sh [loopback|across]...; prints one ok/not ok line each.
set -u
dev=tern0
port=18700
failed=0
log=$(mktemp)
trap 'rm -f "$log" "$log.s"' EXIT

gid=$(gid-index v4)

# run NAME WHERE SERVER-COMMAND... -- EXTRA-CLIENT-ARGS: the same program twice, the client
# with the server's address behind it.
run() {
	name=$1 where=$2
	shift 2
	port=$((port + 1))
	if [ "$where" = across ]; then
		ssh vm2 "timeout 120 $* -p $port" >"$log.s" 2>&1 &
		host=10.78.0.2
	else
		timeout 120 "$@" -p $port >"$log.s" 2>&1 &
		host=127.0.0.1
	fi
	server=$!
	# The programs' servers listen when the port answers; a connect that is only tried and
	# closed would end some of them, so look at the socket table instead.
	tries=0
	until listening "$where" $port || [ $tries -ge 100 ]; do
		tries=$((tries + 1))
		sleep 0.1
	done
	if timeout 120 "$@" -p $port $host >"$log" 2>&1 && wait $server; then
		echo "ok perf/$where/$name"
	else
		kill $server 2>/dev/null
		wait $server 2>/dev/null
		failed=1
		echo "not ok perf/$where/$name - $(tail -n 1 "$log" | tr -d '\r') / $(tail -n 1 "$log.s")"
	fi
}

listening() {
	hex=$(printf ':%04X' "$2")
	if [ "$1" = across ]; then
		ssh vm2 cat /proc/net/tcp /proc/net/tcp6 2>/dev/null
	else
		cat /proc/net/tcp /proc/net/tcp6
	fi | awk -v p="$hex" '$4 == "0A" && substr($2, length($2) - 4) == p { f = 1 } END { exit !f }'
}

pingpong() {
	where=$1
	for mtu in 256 512 1024 2048 4096; do
		run "rc_pingpong-m$mtu" "$where" ibv_rc_pingpong -d $dev -g "$gid" -m $mtu -n 200 -c
	done
	for size in 1 63 4096 4097 1048576; do
		run "rc_pingpong-s$size" "$where" ibv_rc_pingpong -d $dev -g "$gid" -s $size -n 50 -c
	done
	run rc_pingpong-events "$where" ibv_rc_pingpong -d $dev -g "$gid" -e -n 200 -c
	run rc_pingpong-new-send "$where" ibv_rc_pingpong -d $dev -g "$gid" -N -n 200 -c
	run rc_pingpong-new-send-events "$where" ibv_rc_pingpong -d $dev -g "$gid" -N -e -n 200 -c
	run rc_pingpong-rx1 "$where" ibv_rc_pingpong -d $dev -g "$gid" -r 1 -n 200
}

perftest() {
	where=$1
	common="-d $dev -x $gid -F"
	for tool in ib_send_bw ib_write_bw ib_read_bw; do
		# shellcheck disable=SC2086 # $common is a list
		run "$tool-1byte" "$where" $tool $common -s 1 -n 200
		run "$tool-all" "$where" $tool $common -a -n 20 --tx-depth=16
		# perftest has no event mode for writes: their completions are polled.
		[ $tool = ib_write_bw ] || run "$tool-events" "$where" $tool $common -e -s 65536 -n 100 --tx-depth=16
		run "$tool-bidir" "$where" $tool $common -b -s 65536 -n 100 --tx-depth=16
		run "$tool-4qps" "$where" $tool $common -q 4 -s 4096 -n 200 --tx-depth=16
		run "$tool-mtu256" "$where" $tool $common -m 256 -s 65536 -n 50 --tx-depth=16
	done
	for tool in ib_send_lat ib_write_lat ib_read_lat; do
		run "$tool-all" "$where" $tool $common -a -n 20
		[ $tool = ib_write_lat ] || run "$tool-events" "$where" $tool $common -e -s 8 -n 200
	done
	run ib_send_lat-inline "$where" ib_send_lat $common -I 64 -s 64 -n 200
	for tool in ib_atomic_bw ib_atomic_lat; do
		for kind in CMP_AND_SWAP FETCH_AND_ADD; do
			run "$tool-$kind" "$where" $tool $common -A $kind -n 200
		done
		run "$tool-events" "$where" $tool $common -e -n 200
	done
}

[ -n "$gid" ] || {
	echo "not ok perf - $dev has no IPv4 GID"
	exit 1
}
for where in "${@:-loopback}"; do
	pingpong "$where"
	perftest "$where"
done
exit $failed

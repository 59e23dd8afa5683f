#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# rsockets.sh: programs that know only sockets, over RDMA with librspreload. It knows neither
# SOCK_CLOEXEC nor accept4(): Python's sockets, for one, stay with TCP.
#
# Test: rsockets-brief
# Tier: full, 300 s
# Boot: clients
# Run: VIA=tern rsockets.sh netcat
# Results: 1
# Proves: A row or two of the client, over tern alone.
#
# Test: rsockets
# Tier: clients, 900 s
# Boot: clients
# Results: 8

kind=sockets group=rsockets
# shellcheck source=tests/guest/clients/lib.sh
. "${0%/*}/lib.sh"
preload=/usr/lib/x86_64-linux-gnu/rsocket/librspreload.so
port=5200

# no_tcp: fails if this machine has or had a TCP connection with the port: then the data went that
# way. A closed one stays a minute.
no_tcp() {
	! awk -v p="$(printf ':%04X' $port)" 'substr($2, length($2) - 4) == p || substr($3, length($3) - 4) == p { f = 1 }
		END { exit !f }' /proc/net/tcp /proc/net/tcp6 && return
	echo "a TCP connection"
	return 1
}
# serve COMMAND...: starts the server in vm2, which must listen by RDMA.
serve() {
	on2 "LD_PRELOAD=$preload timeout 100 $* </dev/null >$work/there" 2>"$work/server" &
	server=$!
	until_true 30 on2 "rdma resource show cm_id | grep -q 'LISTEN.*:$port'" || { cat "$work/server" && return 1; }
}
# netcat: a file to vm2.
netcat() {
	local server
	data "$work/data"
	serve nc.traditional -l -s "$ip2" -p $port && timed $((mib * 1048576)) env LD_PRELOAD=$preload timeout 100 nc.traditional -q 1 "$ip2" $port <"$work/data" &&
		wait $server && no_tcp && same "$(sum_here "$work/data")" "$(sum_there "$work/there")"
}
# iperf v4|v6: its server counts what arrives.
iperf2() {
	local server to=$ip2 family=
	[ "$1" = v4 ] || { to=$ip2_6 && family=-V; }
	serve iperf -s $family -B "$to" -p $port -P 1 -y C &&
		timed $((mib * 1048576)) env LD_PRELOAD=$preload timeout 100 iperf -c "$to" $family -p $port -n "${mib}M" || return
	on2 "pkill -x iperf"
	wait $server
	no_tcp && on2 "cat $work/there" | awk -F, -v n=$((mib * 1048576)) '{ print } $8 == n { f = 1 } END { exit !f }'
}
version="rsockets $(version_of librdmacm1t64)"
verbs="RC: RDMA WRITE with immediate, inline SEND"
verified="a file, SHA-256 at the other end; no TCP connection"
compare netcat "netcat over rsockets" "netcat $(version_of netcat-traditional), $version" "$verbs" "$verified" by_device netcat
for v in v4 v6; do
	compare iperf-$v "iperf over rsockets, IP$v" "iperf $(version_of iperf), $version" "$verbs" "the server counts each byte; no TCP connection" by_device iperf2 $v
done
loss=1 compare loss "netcat over rsockets" "netcat $(version_of netcat-traditional), $version" "$verbs" "$verified" by_device netcat
finish

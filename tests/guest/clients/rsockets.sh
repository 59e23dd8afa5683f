#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# rsockets.sh: programs that know only sockets, over RDMA with librspreload.
kind=sockets group=rsockets
# shellcheck source=tests/guest/clients/lib.sh
. "${0%/*}/lib.sh"
here=${0%/*}
preload=/usr/lib/x86_64-linux-gnu/rsocket/librspreload.so
port=5200

# no_tcp: fails if TCP sockets of this machine are connected by the port: then the data takes that way.
no_tcp() {
	! awk -v p="$(printf ':%04X' $port)" '$4 == "01" && (substr($3, length($3) - 4) == p || substr($2, length($2) - 4) == p) { f = 1 }
		END { exit !f }' /proc/net/tcp /proc/net/tcp6 && return
	echo "a TCP connection"
	return 1
}
# python v4|v6: a file to vm2 by Python's sockets.
python() {
	local to=$ip2 server client
	[ "$1" = v4 ] || to=$ip2_6
	data "$work/data"
	on2 "LD_PRELOAD=$preload timeout 100 $here/stream.py tcp serve $to $port $work/there" >"$work/server" &
	server=$!
	until_true 30 grep -q listening "$work/server" || return
	LD_PRELOAD=$preload timeout 100 "$here/stream.py" tcp send "$to" $port "$work/data" >"$work/client" &
	client=$!
	sleep 0.5
	no_tcp || return
	wait $client && wait $server || return
	rate=$(cat "$work/client")
	same "$(sum_here "$work/data")" "$(sum_there "$work/there")"
}
# http: a file from Python's HTTP server in vm2 to its client here.
http() {
	local server
	on2 "head -c $((mib * 1048576)) /dev/urandom >$work/file; cd $work && LD_PRELOAD=$preload timeout 100 python3 -m http.server -b $ip2 $port" >"$work/server" 2>&1 &
	server=$!
	on2 "wait-listen $port 30" || return
	timed $((mib * 1048576)) env LD_PRELOAD=$preload timeout 100 python3 -c "
import urllib.request, shutil, sys
shutil.copyfileobj(urllib.request.urlopen('http://$ip2:$port/file'), open('$work/file', 'wb'))" || return
	no_tcp || return
	on2 "pkill -f http.server"
	wait $server
	same "$(sum_here "$work/file")" "$(sum_there "$work/file")"
}
version="rsockets $(version_of librdmacm1t64)"
verbs="RC: RDMA WRITE with immediate, inline SEND"
verified="a file, SHA-256 at the other end; no TCP connection"
compare python "Python's sockets over rsockets" "Python $(version_of python3), $version" "$verbs" "$verified" python v4
compare python-v6 "Python's sockets over rsockets, IPv6" "Python $(version_of python3), $version" "$verbs; IPv6" "$verified" python v6
compare http "HTTP server and client over rsockets" "Python $(version_of python3), $version" "$verbs" "$verified" http
loss=1 compare loss "Python's sockets over rsockets" "Python $(version_of python3), $version" "$verbs" "$verified" python v4
finish

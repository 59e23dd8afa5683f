#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# sockets.sh: programs that use sockets, and their like, over RDMA: rsockets under programs that do not know them, and fio's rdma engine.
kind=sockets group=sockets
# shellcheck source=tests/guest/clients/lib.sh
. "${0%/*}/lib.sh"
preload=/usr/lib/x86_64-linux-gnu/rsocket/librspreload.so
port=5200

# rsocket CMD...: runs CMD with librspreload.
rsocket() { LD_PRELOAD=$preload "$@"; }
# no_tcp PORT: fails if a TCP socket of this machine is connected to PORT, so the data cannot have taken that way.
no_tcp() { ! awk -v p="$(printf ':%04X' "$1")" '$4 == "01" && (substr($3, length($3) - 4) == p || substr($2, length($2) - 4) == p) { exit 1 }' /proc/net/tcp /proc/net/tcp6 || return 0; echo "TCP carries it" && return 1; }
sent() { cat "/sys/class/infiniband/$dev/ports/1/hw_counters/${1:-}" 2>/dev/null; }

# socat_file ADDRESS: a file to vm2, and one back, through socat over rsockets.
socat_file() { # v4|v6
	local to=$ip2 family=TCP4
	[ "$1" = v4 ] || { to="[$ip2_6]" family=TCP6; }
	data "$work/data"
	on2 "LD_PRELOAD=$preload socat -u $family-LISTEN:$port,reuseaddr OPEN:$work/there,creat,trunc" &
	on2 "wait-listen $port" || return
	timed $((mib * 1048576)) rsocket socat -u -b 65536 "OPEN:$work/data" "$family:$to:$port" || return
	wait $! || return
	same "$(sum_here "$work/data")" "$(sum_there "$work/there")"
}

# iperf ADDRESS OPTION...: iperf3 checks no data, so its counters of bytes at both ends are compared.
iperf() {
	on2 "LD_PRELOAD=$preload timeout 100 iperf3 -s -1 -p $port -J" >"$work/server.json" &
	on2 "wait-listen $port" || return
	rsocket timeout 100 iperf3 -c "$@" -p $port -t 4 -J >"$work/client.json" || return
	wait $! || return
	python3 - "$work/client.json" "$work/server.json" <<-'END' >"$work/iperf" || return
	import json, sys
	c, s = (json.load(open(f))["end"] for f in sys.argv[1:])
	if not 0 < s["sum_received"]["bytes"] <= c["sum_sent"]["bytes"]:
	    sys.exit(f"{s['sum_received']} {c['sum_sent']}")
	print(f"{s['sum_received']['bits_per_second'] / 8e6:.1f} MB/s")
	END
	rate=$(cat "$work/iperf")
}

# fio_rdma VERB: fio's server in vm2 and its client here; both verify the patterns of the blocks.
fio_rdma() {
	local size=$((mib * 1048576))
	on2 "timeout 120 fio --name=there --ioengine=rdma --port=$port --bs=64k --size=$size --rw=read --verify=crc32c --output=$work/fio" &
	on2 "wait-listen $port" || return
	timed "$size" timeout 120 fio --name=here --ioengine=rdma --hostname="$ip2" --port=$port --verb="$1" --bs=64k --iodepth=8 --size=$size \
		--rw=write --verify=crc32c --do_verify=0 --output="$work/fio" || { tail -n 5 "$work/fio"; return 1; }
	wait $! || { on2 "tail -n 5 $work/fio"; return 1; }
}

rsockets="rsockets $(version_of librdmacm1t64)"
compare socat "socat over rsockets" "$(version_of socat), $rsockets" "RC: RDMA WRITE with immediate" "a file, SHA-256 at the other end" socat_file v4
compare socat-v6 "socat over rsockets, IPv6" "$(version_of socat), $rsockets" "RC: RDMA WRITE with immediate; IPv6" "a file, SHA-256 at the other end" socat_file v6
loss=1 compare socat-loss "socat over rsockets" "$(version_of socat), $rsockets" "RC: RDMA WRITE with immediate" "a file, SHA-256 at the other end" socat_file v4
finish

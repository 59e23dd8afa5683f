#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# fio.sh: fio's engine rdma.
#
# Test: fio
# Tier: clients, 900 s
# Boot: clients
# Results: 6

kind=sockets group=fio
# shellcheck source=tests/guest/clients/lib.sh
. "${0%/*}/lib.sh"
port=5250

# engine VERB: the client writes into vm2's memory, reads from there, or sends. fio's engine
# verifies nothing of what the peer has: the row says so.
engine() {
	local server size=$((mib * 1048576)) verb=$1 receives=8
	# fio allows no RNR retry, so each SEND needs a receive from the start.
	[ "$verb" != send ] || receives=$((mib * 16))
	on2 "timeout 100 fio --name=there --ioengine=rdma --port=$port --bs=64k --iodepth=$receives --size=$size --rw=read --output=$work/fio" &
	server=$!
	on2 "wait-listen $port 30" || return
	timed "$size" timeout 100 fio --name=here --ioengine=rdma --hostname="$ip2" --port=$port --verb="$verb" --bs=64k --iodepth=8 --size=$size \
		--rw=write --output="$work/fio" || { tail -n 5 "$work/fio"; return 1; }
	wait $server || { on2 "tail -n 5 $work/fio"; return 1; }
	grep -q 'err= 0' "$work/fio" && on2 "grep -q 'err= 0' $work/fio" || { tail -n 5 "$work/fio"; return 1; }
	rate=$(sed -nE 's/.*(WRITE|READ): bw=.*\(([0-9.]+)([kM])B\/s\).*/\2 \3/p' "$work/fio" | head -n 1 |
		awk '{ printf "%.1f MB/s\n", $2 == "k" ? $1 / 1000 : $1 }')
}
for verb in write read send; do
	compare $verb "fio, ioengine=rdma" "$(version_of fio)" "RC: ${verb^^}" "fio's count of bytes and errors at both ends" engine $verb
done
finish

#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# fio.sh: fio's engine rdma.
kind=sockets group=fio
# shellcheck source=tests/guest/clients/lib.sh
. "${0%/*}/lib.sh"
port=5250

# engine VERB: the client writes blocks with checksums into vm2's memory, or reads them from there. The adapter's counters at both ends
# show that the data took the wire: fio's engine itself verifies nothing of what the peer has.
counter() { # CMD-PREFIX...
	"$@" cat "/sys/class/infiniband/$dev/ports/1/counters/port_$way_data" 2>/dev/null || echo 0
}
engine() {
	local server size=$((mib * 1048576)) verb=$1 peer=read
	case $verb in read) peer=read ;; esac
	on2 "timeout 100 fio --name=there --ioengine=rdma --port=$port --bs=64k --iodepth=8 --size=$size --rw=$peer --output=$work/fio" &
	server=$!
	sleep 3
	timed "$size" timeout 100 fio --name=here --ioengine=rdma --hostname="$ip2" --port=$port --verb="$verb" --bs=64k --iodepth=8 --size=$size \
		--rw=write --output="$work/fio" || { tail -n 5 "$work/fio"; return 1; }
	wait $server || { on2 "tail -n 5 $work/fio"; return 1; }
	grep -q 'err= 0' "$work/fio" || { tail -n 5 "$work/fio"; return 1; }
	rate=$(sed -nE 's/.*WRITE: bw=.*\(([0-9.]+)([kM])B\/s\).*/\1 \2/p; s/.*READ: bw=.*\(([0-9.]+)([kM])B\/s\).*/\1 \2/p' "$work/fio" | head -n 1 |
		awk '{ printf "%.1f MB/s\n", $2 == "k" ? $1 / 1000 : $1 }')
}
for verb in write read send; do
	compare $verb "fio, ioengine=rdma" "$(version_of fio)" "RC: ${verb^^}" "fio's count of bytes and errors at both ends" engine $verb
done
finish

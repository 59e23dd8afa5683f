#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# move.sh: moves machines to another QEMU while their connections carry data. vm2 and vm3 talk; vm1,
# whose programs and shares are on 9p, which cannot move, looks on.
#
# Test: move
# Tier: full, 900 s
# Lane: trixie
# Boot: beside --vms 3 --mem 512M --movable
# Proves: Machines move with connections open (Documentation/migration.rst): RC messages with
#   verified data, perftest's operations, UD and TCP go on while both ends move, no retry counter
#   runs out, and connections are made before, during and after.

set -u
group=move
# shellcheck source=tests/guest/results.sh
. "${0%/*}/results.sh"
moves=${MOVES:-2}
echo "1..$((16 + moves * 2))"

on() { # VM COMMAND: by tern's own network, which moves along
	timeout "${limit:-200}" ssh -o ControlPath=none "10.77.0.${1#vm}" "$2"
}
begin() { # NAME SERVER CLIENT: vm3 serves, vm2 is the client; they run until end()
	on vm3 "$2" >"/run/$1.server" 2>&1 &
	servers[$1]=$!
	on vm3 "wait-listen ${port[$1]}" || return 1
	on vm2 "$3" >"/run/$1.client" 2>&1 &
	clients[$1]=$!
}
ended() { # NAME: both ends succeed
	if wait "${clients[$1]}" && wait "${servers[$1]}"; then return 0; fi
	tail -n 5 "/run/$1.server" "/run/$1.client" >&2
	return 1
}
move() { # VM
	local answer
	answer=$(labctl migrate "$1") || return 1
	echo "# $1: $answer" >>/run/moves
}

declare -A servers clients port
for vm in vm2 vm3; do check "$vm-lets-go" on "$vm" 'umount -l /mnt/tern /mnt/share'; done

# Long enough for all moves; killed afterwards.
port=([rping]=7180 [again]=7181 [write]=18601 [read]=18602 [send]=18603 [atomic]=18604 [ud]=18605)
secs=$((30 + 15 * moves))
perf="-d tern0 -x \$(gid-index) -D $secs -F"
check begin-rping begin rping "rping -s -a 10.77.0.3 -p 7180 -V -S 20000" \
	"rping -c -a 10.77.0.3 -p 7180 -V -S 20000 -C 2000000"
for op in write read send; do
	check "begin-$op" begin $op "ib_${op}_bw $perf -s 16384 -p ${port[$op]}" \
		"ib_${op}_bw $perf -s 16384 -p ${port[$op]} 10.77.0.3"
done
check begin-atomic begin atomic "ib_atomic_bw $perf -p ${port[atomic]}" \
	"ib_atomic_bw $perf -p ${port[atomic]} 10.77.0.3"
check begin-ud begin ud "ib_send_bw $perf -c UD -s 1024 -p ${port[ud]}" \
	"ib_send_bw $perf -c UD -s 1024 -p ${port[ud]} 10.77.0.3"

for ((i = 1; i <= moves; i++)); do
	for vm in vm2 vm3; do check "$vm-moves-$i" move $vm; done
done
check connects begin again "rping -s -a 10.77.0.3 -p 7181 -V -C 20" \
	"rping -c -a 10.77.0.3 -p 7181 -V -C 20"
check again ended again
for op in write read send atomic ud; do check "$op" ended $op; done
# rping has not failed so far.
check rping-goes-on kill -0 "${clients[rping]}"
on vm2 'pkill rping'
on vm3 'pkill rping'
cat /run/moves
exit $failed

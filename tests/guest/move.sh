#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# move.sh: moves machines to another QEMU while their connections carry data. vm2 and vm3 talk; vm1,
# whose programs and shares are on 9p, which cannot move, talks to vm2. MOVES: how often each moves.
#
# Test: move
# Tier: full, 900 s
# Lane: trixie
# Boot: beside --vms 3 --mem 512M --movable
# Proves: Machines move with connections open (Documentation/migration.rst), by precopy and
#   postcopy: every operation over RC, XRC, UC and UD with verified bytes (stress), random programs
#   with windows, atomics and device memory, paging, rdma_cm, perftest and TCP go on while both ends
#   move, and no retry counter runs out. Connections are made before and after. A migration that is
#   cancelled, fails or has another property leaves the machine running; a machine is saved and
#   loaded.
#
# Test: move-often
# Tier: long, 1800 s
# Lane: trixie
# Boot: beside --vms 3 --mem 512M --movable --package nfs-common,nfs-kernel-server,rpcbind
# Run: MOVES=25 move.sh
# Proves: The same for 25 moves of each end, with NFS over RDMA and NVMe-oF, whose clients compare
#   what they read.

set -u
group=move
# shellcheck source=tests/guest/results.sh
. "${0%/*}/results.sh"
moves=${MOVES:-1}
echo "1..$((31 + moves * 2 + (moves > 1) * 4))"

on() { # VM COMMAND: by tern's own network, which moves along
	timeout "${limit:-200}" ssh -o ControlPath=none "10.77.0.${1#vm}" "$2"
}
begin() { # NAME SERVER CLIENT: vm3 serves, vm2 is the client; they run until ended()
	on vm3 "$2" >"/run/$1.server" 2>&1 &
	servers[$1]=$!
	on vm3 "wait-listen ${port[$1]}" || return 1
	on vm2 "$3" >"/run/$1.client" 2>&1 &
	clients[$1]=$!
}
ended() { # NAME: both ends succeed
	if wait "${clients[$1]}" && { [ -z "${servers[$1]:-}" ] || wait "${servers[$1]}"; }; then return 0; fi
	cp "/run/$1.client" "$TERN_SHARE/"
	grep -h '^not ok' "/run/$1.client" >&2 || tail -n 5 "/run/$1.server" "/run/$1.client" >&2 2>/dev/null
	return 1
}
begin_alone() { # NAME VM COMMAND
	on "$2" "$3" >"/run/$1.client" 2>&1 &
	clients[$1]=$!
}
move() { # VM [HOW]
	local answer
	answer=$(labctl migrate "$@") || return 1
	echo "# $*: $answer" >>/run/moves
}
refused() { # REASON COMMAND...: it fails for this reason
	local reason=$1 answer
	shift
	! answer=$("$@" 2>&1) && [[ $answer == *$reason* ]] && return
	echo "$answer"
	return 1
}
copies() { # VM: what runs there is no longer on 9p
	on "$1" 'cp /mnt/tern/build/guest/stress /mnt/tern/build/guest/judge/verbs-generate /run/
		umount -l /mnt/tern /mnt/share'
}

declare -A servers clients port
for vm in vm2 vm3; do check "$vm-lets-go" copies $vm; done

# Long enough for all moves.
secs=$((45 + 15 * moves)) limit=$((100 + 30 * moves))
port=([rping]=7180 [again]=7181 [write]=18601 [read]=18602 [send]=18603 [atomic]=18604 [ud]=18605
	[xrc]=18606 [odp]=18607)
perf="-d tern0 -x \$(gid-index) -D $secs -F"
limit=$((limit * 3)) check begin-rping begin rping "rping -s -a 10.77.0.3 -p 7180 -V -S 20000" \
	"rping -c -a 10.77.0.3 -p 7180 -V -S 20000 -C 2000000"
bandwidth() { # NAME PROGRAM OPTION...
	local name=$1
	shift
	all+=("$name")
	check "begin-$name" begin "$name" "$* $perf -p ${port[$name]}" "$* $perf -p ${port[$name]} 10.77.0.3"
}
all=()
bandwidth write ib_write_bw -s 16384
bandwidth read ib_read_bw -s 16384
bandwidth send ib_send_bw -s 16384
bandwidth atomic ib_atomic_bw
bandwidth ud ib_send_bw -c UD -s 1024
bandwidth xrc ib_send_bw -c XRC -s 4096
bandwidth odp ib_write_bw -s 65536 --odp
for vm in vm2 vm3; do
	begin_alone generate-$vm $vm "/run/verbs-generate --seeds 1-1000000 --timeout-factor 10 --seconds $secs"
	all+=("generate-$vm")
done
ssh vm2 '/run/stress -s -g $(gid-index v4)' &
ssh vm2 'wait-listen 18518'
stress -g "$(gid-index v4)" -w -r $((150 * moves + 150)) -c vm2 >/run/stress.client 2>&1 &
clients[stress]=$!
all+=(stress)

# vm2 has a disk for vm3, and mounts a directory of vm3.
nvme() {
	on vm2 'set -e
	modprobe -a nvmet-rdma loop
	mount -t configfs none /sys/kernel/config || mountpoint -q /sys/kernel/config
	truncate -s 48M /run/disk
	cd /sys/kernel/config/nvmet
	mkdir -p subsystems/moving ports/1
	echo 1 >subsystems/moving/attr_allow_any_host
	mkdir subsystems/moving/namespaces/1
	losetup -f --show /run/disk | tr -d "\n" >subsystems/moving/namespaces/1/device_path
	echo 1 >subsystems/moving/namespaces/1/enable
	cd ports/1
	echo rdma >addr_trtype; echo ipv4 >addr_adrfam; echo 10.77.0.2 >addr_traddr; echo 4420 >addr_trsvcid
	ln -s ../../subsystems/moving subsystems/' || return
	begin_alone nvme vm3 "modprobe nvme-rdma && nvme connect -t rdma -a 10.77.0.2 -s 4420 -n moving -i 2 -Q 32 || exit
	until [ -b /dev/nvme0n1 ]; do sleep 0.2; done
	exec fio --name=nvme --filename=/dev/nvme0n1 --bs=4k --rw=randwrite --direct=1 --ioengine=libaio \
		--iodepth=16 --verify=crc32c --verify_backlog=64 --verify_fatal=1 --time_based --runtime=$secs"
}
nfs() {
	on vm3 'set -e
	modprobe -a nfsd rpcrdma
	mkdir -p /run/exported /run/rpcbind /run/sendsigs.omit.d /var/lib/nfs/sm /var/lib/nfs/v4recovery /var/lib/nfs/nfsdcltrack
	mount -t tmpfs -o size=48M tmpfs /run/exported
	mount -t nfsd nfsd /proc/fs/nfsd
	touch /var/lib/nfs/etab /var/lib/nfs/rmtab
	rpcbind -w
	exportfs -o rw,no_root_squash,insecure,fsid=0,no_subtree_check "*:/run/exported"
	rpc.nfsd --grace-time 10 4
	echo Y >/proc/fs/nfsd/v4_end_grace
	rpc.mountd
	echo "rdma 20049" >/proc/fs/nfsd/portlist' || return
	begin_alone nfs vm2 "modprobe -a nfs nfsv4 rpcrdma && mkdir -p /run/nfs &&
	mount -t nfs -o vers=4.2,proto=rdma,port=20049 10.77.0.3:/ /run/nfs || exit
	head -c 8M /dev/urandom >/run/data
	end=\$((SECONDS + $secs))
	while ((SECONDS < end)); do
		cp /run/data /run/nfs/file && sync -f /run/nfs/file || exit
		echo 3 >/proc/sys/vm/drop_caches
		cmp /run/data /run/nfs/file || exit
	done"
}
if [ "$moves" -gt 1 ]; then
	check nvme-begins nvme
	check nfs-begins nfs
	all+=(nvme nfs)
fi

for ((i = 1; i <= moves; i++)); do
	for vm in vm2 vm3; do check "$vm-moves-$i" move $vm; done
done
check vm2-moves-by-postcopy move vm2 postcopy
check vm3-moves-by-postcopy move vm3 postcopy
check cancelled refused cancelled labctl migrate vm2 cancel
check killed refused '' labctl migrate vm3 kill
check other-property refused "'max-mw' is 0, and was 65536" labctl migrate vm2 max-mw=0
connects() {
	begin again "rping -s -a 10.77.0.3 -p 7181 -V -C 20" "rping -c -a 10.77.0.3 -p 7181 -V -C 20" && ended again
}
check connects connects
for name in "${all[@]}"; do check "$name" ended "$name"; done
# rping has not failed so far.
check rping-goes-on kill -0 "${clients[rping]}"
on vm2 'pkill rping'
on vm3 'pkill rping'
check save labctl save vm3 before
on vm3 'touch /run/later'
check load labctl load vm3 before
check is-as-it-was on vm3 '[ ! -e /run/later ]'
check connects-again connects
cat /run/moves
exit $failed

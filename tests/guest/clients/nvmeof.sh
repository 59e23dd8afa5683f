#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# nvmeof.sh: vm2 exports a disk in memory by NVMe over RDMA. The rows of scenarios follow blktests'
# group nvme, which Debian lacks.
#
# Test: nvmeof
# Tier: clients, 900 s
# Boot: clients
# Results: 9

kind=storage group=nvmeof
# shellcheck source=tests/guest/clients/lib.sh
. "${0%/*}/lib.sh"
nqn=nqn.2014-08.org.nvmexpress:tern-client
host=(--hostnqn=nqn.2014-08.org.nvmexpress:uuid:7e177e17-0000-4000-8000-000000000001
	--hostid=7e177e17-0000-4000-8000-000000000001)
subsystem=/sys/kernel/config/nvmet/subsystems/$nqn

serve() {
	on2 "set -e
	modprobe -a nvmet nvmet-rdma loop
	mountpoint -q /sys/kernel/config || mount -t configfs none /sys/kernel/config
	truncate -s 64M $work/disk
	loop=\$(losetup -f --show $work/disk)
	echo \$loop >$work/loop
	mkdir $subsystem
	echo 1 >$subsystem/attr_allow_any_host
	mkdir $subsystem/namespaces/1
	printf %s \$loop >$subsystem/namespaces/1/device_path
	echo 1 >$subsystem/namespaces/1/enable
	n=0
	for a in 'ipv4 10.77.0.2' 'ipv4 10.79.0.2' 'ipv6 fd77::2' 'ipv6 fd79::2'; do
		set -- \$a
		n=\$((n + 1))
		mkdir /sys/kernel/config/nvmet/ports/\$n
		cd /sys/kernel/config/nvmet/ports/\$n
		echo rdma >addr_trtype; echo \$1 >addr_adrfam; echo \$2 >addr_traddr; echo 4420 >addr_trsvcid
		ln -s $subsystem subsystems/
	done"
}
# shellcheck disable=SC2016 # expanded in vm2
stop() {
	on2 "cd /sys/kernel/config/nvmet || exit 0
	rm -f ports/*/subsystems/*
	rmdir ports/*
	echo 0 >$subsystem/namespaces/1/enable
	rmdir $subsystem/namespaces/1 $subsystem
	losetup -d \$(cat $work/loop)
	modprobe -r nvmet_rdma"
	modprobe -r nvme_rdma
}
disk() { # waits for it, too: a scan takes its time
	local i d
	for ((i = 0; i < 150; i++)); do
		d=$(grep -ls "$nqn" /sys/block/nvme[0-9]n1/device/subsysnqn | cut -d / -f 4)
		[ -z "$d" ] || [ ! -b "/dev/$d" ] || { echo "/dev/$d" && return; }
		sleep 0.1
	done
	echo "no disk" >&2
	return 1
}
connect() { # v4|v6
	local to=$ip2
	[ "$1" = v4 ] || to=$ip2_6
	nvme connect -t rdma -a "$to" -s 4420 -n "$nqn" -i 2 -Q 32 "${host[@]}" && disk >/dev/null
}
# controller DISK: with multipath, the disk's device is the subsystem and has the controller.
controller() {
	local device
	device=$(readlink -f "/sys/block/${1#/dev/}/device")
	[ -e "$device/reset_controller" ] || device=$(find "$device/" -maxdepth 1 -name 'nvme[0-9]' | head -n 1)
	basename "$device"
}
disconnect() { nvme disconnect -n "$nqn" >/dev/null; }
# written: a file to the disk and from it; the target compares its backing file.
transfer() { # v4|v6
	local d status=0
	connect "$1" || return
	d=$(disk)
	write_disk "$d" "$work/disk" || status=1
	disconnect
	return $status
}
verify_io() { # DISK [OPTION...]
	local d=$1
	shift
	fio --name=v --filename="$d" --size=4M --bs=4k --rw=randwrite --direct=1 --ioengine=libaio --iodepth=8 --verify=crc32c --verify_fatal=1 \
		--do_verify=1 --output="$work/fio" "$@" || { tail -n 4 "$work/fio" && return 1; }
}
# scenarios: nvme/003 and 030 discovery, 005 and 040 reset under I/O, 008 and 012 a file system, 031
# many connections, 021 and 023 queries, 048 another number of queues.
scenarios() {
	local d i c
	nvme discover -t rdma -a "$ip2" -s 4420 "${host[@]}" | grep -q "$nqn" || { echo "discovery does not name the subsystem" && return 1; }
	for ((i = 0; i < 5; i++)); do connect v4 && disconnect || return; done
	connect v4 || return
	d=$(disk) c=$(controller "$d")
	timed $((4 * 1048576)) verify_io "$d" || return
	verify_io "$d" --runtime=6 --time_based=1 --size=2M &
	i=$!
	sleep 1
	echo 1 >"/sys/class/nvme/$c/reset_controller" || { echo "no reset" && return 1; }
	wait $i || { echo "I/O failed over a reset" && return 1; }
	nvme smart-log "/dev/$c" | grep -q temperature && nvme id-ctrl "/dev/$c" | grep -q tern-client || { echo "no answer to a query" && return 1; }
	mkfs.ext4 -q -F "$d" && mkdir -p "$work/mnt" && mount "$d" "$work/mnt" && cp "$0" "$work/mnt/file" && umount "$work/mnt" || return
	disconnect || return
	connect v4 && mount -o ro "$(disk)" "$work/mnt" && same "$(sum_here "$0")" "$(sum_here "$work/mnt/file")" || return
	umount "$work/mnt"
	disconnect
}

modprobe nvme-rdma
verified="a disk written and read, SHA-256 there and at the target's backing file"
verbs="RC: SEND with invalidate, RDMA WRITE and READ, fast registration"
if check serve serve; then
	compare v4 "NVMe-oF" "$(kernel_version), nvme-cli $(version_of nvme-cli)" "$verbs" "$verified" transfer v4
	compare v6 "NVMe-oF, IPv6" "$(kernel_version), nvme-cli $(version_of nvme-cli)" "$verbs" "$verified" transfer v6
	loss=1 compare loss "NVMe-oF" "$(kernel_version), nvme-cli $(version_of nvme-cli)" "$verbs" "$verified" transfer v4
	remark="blktests is not in Debian: nvme/003, 005, 008, 012, 021, 023, 030, 031 and 040 are written out" \
		compare blktests "blktests' scenarios" "$(kernel_version), nvme-cli $(version_of nvme-cli)" "$verbs" \
		"fio's CRC-32C of each block, also over a reset of the controller; a file by SHA-256" scenarios
fi
stop
finish

#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# nvme.sh: vm2 exports a disk in memory with nvmet-rdma, and vm1 uses it with a file system through
# nvme-rdma. Tests kernel verbs, the connection manager and fast registration as a storage driver
# uses them.
#
# Test: nvme
# Tier: full, 1200 s
# Boot: pcap
# Results: 19
# Proves: Vm2 exports a disk through nvmet-rdma, vm1 has ext4 on it through nvme-rdma: kernel verbs,
#   rdma_cm, REG_MR, SEND_WITH_INV. 64 MiB and random 4 KiB blocks are verified, from the target
#   too; disconnecting leaves no object.

set -u
nqn=nqn.2014-08.org.nvmexpress:tern-test
host=(--hostnqn=nqn.2014-08.org.nvmexpress:uuid:7e177e17-0000-4000-8000-000000000001
	--hostid=7e177e17-0000-4000-8000-000000000001)
data=/run/nvme.data mnt=/run/nvme.mnt
group=nvme
# shellcheck source=tests/guest/results.sh
. "${0%/*}/results.sh"
on2() { ssh vm2 "$@"; }

# The live objects of a machine, one per line, without GIDs, which follow addresses.
objects() { ssh "$1" 'tern-objects | grep -v alive_gid'; } # VM
same_objects() { # VM BEFORE
	local i now
	for ((i = 0; i < 300; i++)); do
		now=$(objects "$1")
		[ -n "$now" ] && [ "$now" = "$2" ] && return
		sleep 0.2
	done
	diff <(echo "$2") <(echo "$now") | tr '\n' ' '
	return 1
}

export_disk() { # ADDRESS FAMILY PORT
	on2 "set -e
	modprobe -a nvmet nvmet-rdma loop
	[ -e /run/nvme.loop ] || { truncate -s 128M /run/nvme.disk; losetup -f --show /run/nvme.disk >/run/nvme.loop; }
	mountpoint -q /sys/kernel/config || mount -t configfs none /sys/kernel/config
	cd /sys/kernel/config/nvmet
	if [ ! -e subsystems/$nqn ]; then
		mkdir subsystems/$nqn
		echo 1 >subsystems/$nqn/attr_allow_any_host
		mkdir subsystems/$nqn/namespaces/1
		tr -d '\\n' </run/nvme.loop >subsystems/$nqn/namespaces/1/device_path
		echo 1 >subsystems/$nqn/namespaces/1/enable
	fi
	mkdir ports/$3
	cd ports/$3
	echo rdma >addr_trtype
	echo $2 >addr_adrfam
	echo $1 >addr_traddr
	echo 4420 >addr_trsvcid
	ln -s ../../subsystems/$nqn subsystems/"
}
# shellcheck disable=SC2016 # expanded in vm2
withdraw_disk() {
	on2 'cd /sys/kernel/config/nvmet || exit
	rm -f ports/*/subsystems/*
	rmdir ports/*
	for n in subsystems/*/namespaces/*; do echo 0 >"$n/enable"; rmdir "$n"; done
	rmdir subsystems/*
	losetup -d $(cat /run/nvme.loop)
	rm -f /run/nvme.loop /run/nvme.disk
	for m in nvmet_rdma nvmet; do
		! grep -q "^$m " /proc/modules || rmmod $m || exit
	done'
}
find_disk() {
	grep -l "$nqn" /sys/block/nvme[0-9]n1/device/subsysnqn 2>/dev/null | cut -d / -f 4
}
connect() { # ADDRESS
	nvme connect -t rdma -a "$1" -s 4420 -n "$nqn" -i 2 -Q 64 "${host[@]}" || return
	for ((i = 0; i < 900; i++)); do # a debug kernel is slow
		[ -b "/dev/$(find_disk)" ] && return
		sleep 0.2
	done
	dmesg | grep nvme | tail -n 3
	disconnect
	return 1
}
disconnect() { nvme disconnect -n "$nqn"; }

file_system() {
	mkfs.ext4 -q -F "/dev/$disk" && mkdir -p $mnt && mount "/dev/$disk" $mnt
}
write_file() { cp $data $mnt/file && sync -f $mnt/file; }
read_back() {
	echo 3 >/proc/sys/vm/drop_caches
	[ "$(sha256sum <$mnt/file)" = "$sum" ]
}
random_4k() {
	fio --name=nvme --filename=$mnt/fio --size=16M --bs=4k --rw=randrw --direct=1 --ioengine=libaio --iodepth=32 \
		--verify=crc32c --verify_fatal=1 --do_verify=1 --randseed=7 --output=/run/nvme.fio || {
		grep -iE 'err|verif' /run/nvme.fio
		return 1
	}
}
# Checks that vm2 finds the file on the disk, which must not be open elsewhere.
target_has_it() {
	[ "$(on2 'ns=$(echo /sys/kernel/config/nvmet/subsystems/*/namespaces/1) loop=$(cat /run/nvme.loop)
		echo 0 >$ns/enable
		blockdev --flushbufs $loop
		mkdir -p /run/nvme.mnt && mount -o ro $loop /run/nvme.mnt && sha256sum </run/nvme.mnt/file
		umount /run/nvme.mnt
		echo 1 >$ns/enable')" = "$sum" ]
}
# The raw disk, with large requests and over IPv6.
raw_v6() {
	local sum2
	connect fd77::2 && disk=$(find_disk) || return
	dd if=$data of="/dev/$disk" bs=1M count=32 oflag=direct status=none &&
		sum2=$(dd if="/dev/$disk" bs=256k count=128 iflag=direct status=none | sha256sum) || return
	disconnect || return
	[ "$sum2" = "$(head -c 33554432 $data | sha256sum)" ]
}
unload() { ! grep -q ^nvme_rdma /proc/modules || modprobe -r nvme-rdma; }
quiet() { [ -z "$(kernel-complaints; on2 kernel-complaints)" ]; }

modprobe nvme-rdma
head -c 67108864 /dev/urandom >$data
sum=$(sha256sum <$data)
disk=

check export export_disk 10.77.0.2 ipv4 1
if check connect connect 10.77.0.2; then
	check first-disconnect disconnect
	# Count from here on: ib_core keeps the CQs that it shares among storage drivers until the
	# RDMA device is removed.
	before1=$(objects vm1) before2=$(objects vm2)
	check connect-again connect 10.77.0.2
	disk=$(find_disk)
	if check file-system file_system; then
		check write-64MiB write_file
		check read-back read_back
		check random-4k random_4k
		check read-back-again read_back
		check unmount umount $mnt
	fi
	check disconnect disconnect
	check target-has-it target_has_it
	check export-v6 export_disk fd77::2 ipv6 2
	check large-requests-v6 raw_v6
else
	before1='' before2=''
fi
check withdraw withdraw_disk
check unload unload
check objects-return-vm1 same_objects vm1 "$before1"
check objects-return-vm2 same_objects vm2 "$before2"
check kernels-are-quiet quiet
rm -f $data
exit $failed

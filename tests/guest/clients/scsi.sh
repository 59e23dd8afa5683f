# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Sourced by the clients that are SCSI initiators: a target in vm2 with a disk in memory, and
# transfers to it.
target=/sys/kernel/config/target
store=$target/core/fileio_0/disk
scsi_verified="a disk written and read, SHA-256 there and at the target's backing file"

backstore() {
	on2 "set -e
	modprobe -a target_core_mod target_core_file
	mountpoint -q /sys/kernel/config || mount -t configfs none /sys/kernel/config
	truncate -s 64M $work/disk
	mkdir -p $store
	echo fd_dev_name=$work/disk,fd_dev_size=$((64 * 1048576)),fd_buffered_io=1 >$store/control
	echo 1 >$store/enable"
}
withdraw() { on2 "rmdir $store $target/core/fileio_0"; }
# scsi_disk: waits for the target's disk. One without a wire of its own has another vendor.
scsi_disk() {
	local i d
	for ((i = 0; i < 200; i++)); do
		for d in /sys/block/sd*; do
			[ -e "$d" ] && grep -q LIO-ORG "$d/device/vendor" && [ -b "/dev/${d##*/}" ] && echo "/dev/${d##*/}" && return
		done
		sleep 0.1
	done
	echo "no disk" >&2
	return 1
}
scsi_transfer() {
	local d
	d=$(scsi_disk) && write_disk "$d" "$work/disk"
}

#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# smb.sh: ksmbd in vm2 serves a directory in memory by SMB Direct, and vm1 mounts it. Debian's kernel has SMB without RDMA:
# build-client-modules makes both modules with it.
kind=storage group=smb
# shellcheck source=tests/guest/clients/lib.sh
. "${0%/*}/lib.sh"
mnt=$work/mnt
mkdir -p "$mnt"

# load MODULE: ours, after what the kernel's own needs.
load() {
	local m
	modprobe -a ib_core rdma_cm && for m in $(modprobe --show-depends "$1" | sed -nE '$d; s#^insmod .*/([^/.]+)\.ko.*#\1#p'); do
		modprobe "$m" || return
	done && insmod "$modules/$1.ko"
}
serve() {
	on2 "set -e
	modules=$modules
	$(declare -f load)
	load ksmbd
	mkdir -p /run/smb /etc/ksmbd /run/lock
	chmod 777 /run/smb
	printf '[global]\n\tserver multi channel support = no\n\tsmb2 leases = no\n[share]\n\tpath = /run/smb\n\twritable = yes\n\tguest ok = no\n' >/etc/ksmbd/ksmbd.conf
	ksmbd.adduser --add -p secret root
	ksmbd.mountd"
}
stop() {
	on2 "ksmbd.control --shutdown; sleep 1; rmmod ksmbd"
	rmmod cifs
}
transfer() { # OPTIONS
	local status=0
	mount -t cifs "//$ip2/share" "$mnt" -o "rdma,username=root,password=secret,vers=3.1.1,cache=none" || { dmesg | tail -n 4 && return 1; }
	{ grep -i rdma /proc/fs/cifs/DebugData && files; } || status=1
	umount "$mnt" || umount -l "$mnt"
	return $status
}
files() {
	data "$work/data"
	timed $((mib * 1048576)) dd if="$work/data" of="$mnt/file" bs=1M conv=fsync status=none || return
	same "$(sum_here "$work/data")" "$(sum_there /run/smb/file)" || return
	on2 "head -c $((mib * 1048576)) /dev/urandom >/run/smb/back" || return
	same "$(sum_here "$mnt/back")" "$(sum_there /run/smb/back)" || return
	rm -f "$mnt/file" "$mnt/back"
}
version="$(kernel_version), ksmbd-tools $(version_of ksmbd-tools)"
verbs="RC: SEND, RDMA WRITE and READ, fast registration"
verified="a file each way, SHA-256 at the other end"
if check modules load cifs && check serve serve; then
	remark="modules of Debian's linux-source of that version" compare smb "SMB Direct (cifs, ksmbd)" "$version" "$verbs" "$verified" transfer
	remark="modules of Debian's linux-source of that version" loss=1 compare loss "SMB Direct (cifs, ksmbd)" "$version" "$verbs" "$verified" transfer
fi
stop
finish

#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# smb.sh: ksmbd in vm2 serves a directory in memory by SMB Direct, and vm1 mounts it. Debian's
# kernel has SMB without RDMA: lab/build/client-modules makes both modules with it.
#
# Test: smb
# Tier: clients, 900 s
# Boot: clients
# Results: 6

kind=storage group=smb
# shellcheck source=tests/guest/clients/lib.sh
. "${0%/*}/lib.sh"
mnt=$work/mnt
mkdir -p "$mnt"

serve() {
	on2 "modprobe -a ib_core rdma_cm" && load_there ksmbd && on2 "set -e
	mkdir -p /run/smb /etc/ksmbd /run/lock
	chmod 777 /run/smb
	printf '[global]\n\tserver multi channel support = no\n\tsmb2 leases = no\n[share]\n\tpath = /run/smb\n\twritable = yes\n\tguest ok = no\n' >/etc/ksmbd/ksmbd.conf
	ksmbd.adduser --add -p secret root
	ksmbd.mountd"
}
stop() {
	on2 "ksmbd.control --shutdown; sleep 1"
	unload_there ksmbd
	unload cifs
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
modprobe -a ib_core rdma_cm
if check modules load cifs && check serve serve; then
	remark=$(by_modules cifs) compare smb "SMB Direct (cifs, ksmbd)" "$version" "$verbs" "$verified" transfer
	remark=$(by_modules cifs) loss=1 compare loss "SMB Direct (cifs, ksmbd)" "$version" "$verbs" "$verified" transfer
fi
stop
finish

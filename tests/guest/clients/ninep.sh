#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# ninep.sh: diod in vm2 serves a directory by 9P over RDMA, and vm1 mounts it. Debian's diod lacks
# RDMA: lab/build/client-programs makes it.
#
# Test: ninep
# Tier: clients, 900 s
# Boot: clients
# Results: 3

kind=storage group=ninep
# shellcheck source=tests/guest/clients/lib.sh
. "${0%/*}/lib.sh"
mnt=$work/mnt
mkdir -p "$mnt"

serve() {
	on2 "mkdir -p $work/export && mount -t tmpfs tmpfs $work/export && ($modules/diod -d 1 -f -n -U root -S -e $work/export -l 0.0.0.0:5641 -L $work/log </dev/null >$work/out 2>&1 &)
	wait-listen 5640 20 || { cat $work/out $work/log; exit 1; }"
}
stop() { on2 "pkill -x diod; sleep 0.3; umount $work/export"; }
transfer() {
	local status=0
	mount -t 9p "$ip2" "$mnt" -o "trans=rdma,port=5640,version=9p2000.L,uname=root,access=any,msize=65536,aname=$work/export" || { dmesg | tail -n 3 && on2 "cat $work/log $work/out"; return 1; }
	files || status=1
	umount "$mnt" || umount -l "$mnt"
	return $status
}
files() {
	data "$work/data"
	timed $((mib * 1048576)) dd if="$work/data" of="$mnt/file" bs=1M conv=fsync status=none || return
	same "$(sum_here "$work/data")" "$(sum_there "$work/export/file")" || return
	on2 "head -c $((mib * 1048576)) /dev/urandom >$work/export/back" || return
	same "$(sum_here "$mnt/back")" "$(sum_there "$work/export/back")" || return
	rm -f "$mnt/file" "$mnt/back"
}
modprobe -a 9p 9pnet_rdma
# No row with loss: Linux's client asks rdma_cm for no retries, so the first lost packet ends the
# connection.
verified="a file each way, SHA-256 at the other end"
if check serve serve; then
	remark="the server is Debian's source of diod, built with RDMA" compare ninep "9P" "$(kernel_version), diod $(cat "$modules/diod.version")" "RC: SEND" "$verified" transfer
fi
stop
finish

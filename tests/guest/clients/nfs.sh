#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# nfs.sh: vm2 exports a file system in memory by NFS over RDMA, and vm1 mounts it.
#
# Test: nfs-brief
# Tier: full, 300 s
# Boot: clients
# Run: VIA=tern nfs.sh v4.2
# Results: 2
# Proves: A row or two of the client, over tern alone.
#
# Test: nfs
# Tier: clients, 900 s
# Boot: clients
# Results: 11

kind=storage group=nfs
# shellcheck source=tests/guest/clients/lib.sh
. "${0%/*}/lib.sh"
mnt=$work/mnt
mkdir -p "$mnt"

serve() {
	on2 "set -e
	modprobe -a nfsd rpcrdma
	mkdir -p /run/nfs-export /run/rpcbind /run/sendsigs.omit.d /var/lib/nfs/sm /var/lib/nfs/v4recovery /var/lib/nfs/nfsdcltrack
	mountpoint -q /run/nfs-export || mount -t tmpfs -o size=256M tmpfs /run/nfs-export
	mountpoint -q /proc/fs/nfsd || mount -t nfsd nfsd /proc/fs/nfsd
	touch /var/lib/nfs/etab /var/lib/nfs/rmtab
	pgrep -x rpcbind >/dev/null || rpcbind -w
	pgrep -x rpc.statd >/dev/null || rpc.statd
	exportfs -o rw,no_root_squash,insecure,fsid=0,no_subtree_check '*:/run/nfs-export'
	rpc.nfsd --grace-time 10 8
	# A kernel without a program that tracks clients (7.2 without nfsdcld) refuses to end the
	# grace period early.
	echo Y 2>/dev/null >/proc/fs/nfsd/v4_end_grace || sleep 11
	pgrep -x rpc.mountd >/dev/null || rpc.mountd
	grep -q 'rdma 20049' /proc/fs/nfsd/portlist || echo 'rdma 20049' >/proc/fs/nfsd/portlist
	grep rdma /proc/fs/nfsd/portlist"
}
stop() {
	on2 "rpc.nfsd 0; exportfs -ua; for p in rpc.mountd rpc.statd rpcbind; do pkill -x \$p; done; umount /proc/fs/nfsd; umount /run/nfs-export"
	for p in rpc.statd rpcbind; do pkill -x $p; done
	:
}

# exchange ADDRESS OPTIONS PATH: a file in each direction, compared by checksum; the transport's own
# counters show RDMA.
exchange() {
	local status=0 family=ip2
	[ "$1" = v4 ] || family=ip2_6
	local server=${!family}
	[ "$1" = v4 ] || server="[$server]"
	mount -t nfs -o "$2,port=20049" "$server:$3" "$mnt" || return
	used "$1" && files || status=1
	umount "$mnt" || umount -l "$mnt"
	return $status
}
used() { grep -A 30 " $mnt with" /proc/self/mountstats | grep -m 1 'xprt:'; grep -A 30 " $mnt with" /proc/self/mountstats | grep -q 'xprt:[[:space:]]*rdma'; }
files() {
	data "$work/data"
	timed $((mib * 1048576)) sh -c "dd if=$work/data of=$mnt/file bs=1M conv=fsync status=none" || return
	same "$(sum_here "$work/data")" "$(sum_there /run/nfs-export/file)" || return
	on2 "head -c $((mib * 1048576)) /dev/urandom >/run/nfs-export/back" || return
	echo 3 >/proc/sys/vm/drop_caches
	same "$(sum_here "$mnt/back")" "$(sum_there /run/nfs-export/back)" || return
	rm -f "$mnt/file" "$mnt/back"
}

modprobe -a nfs nfsv4 nfsv3 rpcrdma
mkdir -p /run/rpcbind /var/lib/nfs/sm
rpcbind -w
rpc.statd
verified="a file each way, SHA-256 at the other end; mountstats name rdma"
verbs="RC: SEND, RDMA WRITE and READ, fast registration"
if check serve serve; then
	compare v4.2 "NFS 4.2" "$(kernel_version)" "$verbs" "$verified" exchange v4 vers=4.2,proto=rdma /
	compare v3 "NFS 3" "$(kernel_version)" "$verbs" "$verified" exchange v4 vers=3,proto=rdma,nolock,mountproto=tcp /run/nfs-export
	compare nconnect "NFS 4.2, nconnect=4" "$(kernel_version)" "$verbs; 4 QPs" "$verified" exchange v4 vers=4.2,proto=rdma,nconnect=4 /
	compare v6 "NFS 4.2, proto=rdma6" "$(kernel_version)" "$verbs; IPv6" "$verified" exchange v6 vers=4.2,proto=rdma6 /
	loss=1 compare loss "NFS 4.2" "$(kernel_version)" "$verbs" "$verified" exchange v4 vers=4.2,proto=rdma /
fi
stop
finish

#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# iser.sh: vm2 exports a disk in memory by iSCSI over RDMA (ib_isert), and vm1 uses it with ib_iser.
#
# Test: iser
# Tier: clients, 900 s
# Boot: clients
# Results: 6

kind=storage group=iser
# shellcheck source=tests/guest/clients/lib.sh
. "${0%/*}/lib.sh"
# shellcheck source=tests/guest/clients/scsi.sh
. "${0%/*}/scsi.sh"
iqn=iqn.2026-01.lab.tern:disk
tpg=$target/iscsi/$iqn/tpgt_1

serve() {
	# It syncs a header before it maps it: isert_create_send_desc().
	dma_reports none
	backstore && on2 "set -e
	modprobe -a iscsi_target_mod ib_isert
	mkdir -p $tpg/lun/lun_0 $tpg/np
	ln -s $store $tpg/lun/lun_0/disk
	for a in 10.77.0.2 10.79.0.2; do mkdir $tpg/np/\$a:3260; echo 1 >$tpg/np/\$a:3260/iser; done
	for k in 'authentication 0' 'demo_mode_write_protect 0' 'generate_node_acls 1' 'cache_dynamic_acls 1'; do set -- \$k; echo \$2 >$tpg/attrib/\$1; done
	echo 1 >$tpg/enable"
}
# A target that is removed before its sessions have ended is used after it was freed:
# iscsit_close_session().
sessions_end() { until_true 30 on2 "! pgrep -x iscsi_trx"; }
stop() {
	pkill -x iscsid
	sessions_end
	on2 "echo 0 >$tpg/enable; rm -f $tpg/lun/lun_0/disk; rmdir $tpg/np/* $tpg/lun/lun_0 $tpg $target/iscsi/$iqn $target/iscsi"
	withdraw
	modprobe -r ib_iser
	on2 "modprobe -r ib_isert iscsi_target_mod"
	dma_reports ""
}
login() {
	iscsiadm -m discovery -t sendtargets -p "$ip2" -I iser >"$work/found" || iscsiadm -m node -o new -T $iqn -p "$ip2:3260" -I iser || return
	iscsiadm -m node -T $iqn -p "$ip2:3260" -I iser --login
}
logout() { iscsiadm -m node -T $iqn -p "$ip2:3260" --logout && iscsiadm -m node -T $iqn -o delete; }
transfer() {
	local status=0
	login || return
	scsi_transfer || status=1
	logout || status=1
	return $status
}

modprobe -a ib_iser iscsi_tcp sd_mod
mkdir -p /run/lock/iscsi /etc/iscsi
echo "InitiatorName=iqn.2026-01.lab.tern:vm1" >/etc/iscsi/initiatorname.iscsi
verbs="RC: SEND with invalidate, RDMA WRITE and READ, fast registration"
if check serve serve && check iscsid iscsid; then
	compare iser "iSER" "$(kernel_version), open-iscsi $(version_of open-iscsi)" "$verbs" "$scsi_verified" transfer
	loss=1 compare loss "iSER" "$(kernel_version), open-iscsi $(version_of open-iscsi)" "$verbs" "$scsi_verified" transfer
fi
stop
finish

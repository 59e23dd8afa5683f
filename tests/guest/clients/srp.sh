#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# srp.sh: vm2 exports a disk in memory by SRP (ib_srpt), and vm1 uses it with ib_srp. Both connect
# by rdma_cm: RoCE has no subnet administrator.
#
# Test: srp
# Tier: clients, 900 s
# Boot: clients
# Results: 5

kind=storage group=srp
# shellcheck source=tests/guest/clients/lib.sh
. "${0%/*}/lib.sh"
# shellcheck source=tests/guest/clients/scsi.sh
. "${0%/*}/scsi.sh"
port=5555

# The name that ib_srpt gives to the port of a device.
wwn() { on2 "cat /sys/class/infiniband/$1/node_guid"; }
serve() {
	local d
	backstore && on2 "modprobe ib_srpt && mkdir -p $target/srpt && echo $port >$target/srpt/discovery_auth/rdma_cm_port" || return
	for d in tern0 rxe0; do
		local name
		name=$(wwn $d)
		tpgs+=("$target/srpt/$name/$name")
		on2 "set -e
		mkdir -p $target/srpt/$name/$name/lun/lun_0
		ln -s $store $target/srpt/$name/$name/lun/lun_0/disk
		echo 1 >$target/srpt/$name/$name/enable" || return
	done
}
stop() {
	local t
	modprobe -r ib_srp
	for t in "${tpgs[@]}"; do
		on2 "echo 0 >$t/enable; for a in $t/acls/*/; do rm -f \$a/lun_0/*; rmdir \$a/lun_0 \$a; done 2>/dev/null; rm -f $t/lun/lun_0/disk; rmdir $t/lun/lun_0 $t ${t%/*}"
	done
	on2 "rmdir $target/srpt"
	withdraw
	on2 "modprobe -r ib_srpt"
}
transfer() {
	local status=0 guid host t
	t=$target/srpt/$(wwn "$dev")/$(wwn "$dev")
	# ib_srpt names an initiator that comes by rdma_cm by the target's address:
	# route.addr.src_addr of a passive cm_id is the local one.
	on2 "for a in $ip1 $ip2; do mkdir -p $t/acls/\$a/lun_0 && { [ -e $t/acls/\$a/lun_0/disk ] || ln -s $t/lun/lun_0 $t/acls/\$a/lun_0/disk; } || exit; done" || return
	guid=$(on2 "cat /sys/module/ib_srpt/parameters/srpt_service_guid")
	guid=${guid#0x}
	echo "id_ext=$guid,ioc_guid=$guid,dest=$ip2:$port" >"/sys/class/infiniband_srp/srp-$dev-1/add_target" || { dmesg | tail -n 3 && return 1; }
	scsi_transfer || status=1
	for host in /sys/class/srp_remote_ports/*; do echo 1 >"$host/delete"; done
	until_true 20 sh -c '[ -z "$(ls /sys/class/srp_remote_ports)" ]' || status=1
	return $status
}

tpgs=()
modprobe -a ib_srp sd_mod
verbs="RC: SEND, RDMA WRITE and READ, fast registration"
if check serve serve; then
	compare srp "SRP" "$(kernel_version)" "$verbs" "$scsi_verified" transfer
	loss=1 compare loss "SRP" "$(kernel_version)" "$verbs" "$scsi_verified" transfer
fi
stop
finish

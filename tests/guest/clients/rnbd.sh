#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# rnbd.sh: vm2 exports a disk in memory by RNBD over RTRS, and vm1 maps it. Debian's kernel has
# neither: lab/build/client-modules makes them.
#
# Test: rnbd
# Tier: clients, 900 s
# Boot: clients
# Results: 6

kind=storage group=rnbd
# shellcheck source=tests/guest/clients/lib.sh
. "${0%/*}/lib.sh"

serve() {
	on2 "set -e
	modprobe loop
	modprobe -a ib_core rdma_cm
	truncate -s 64M $work/disk
	losetup -f --show $work/disk >$work/loop" && load_there rtrs-core rtrs-server rnbd-server
}
stop() {
	unload rnbd-client rtrs-client rtrs-core
	unload_there rnbd-server rtrs-server rtrs-core
	on2 "losetup -d \$(cat $work/loop)"
}
transfer() {
	local d loop status=0
	loop=$(on2 "cat $work/loop")
	echo "sessname=client-$via path=ip:$ip1@ip:$ip2 device_path=$loop" >/sys/devices/virtual/rnbd-client/ctl/map_device || return
	d=$(basename "$(readlink -f "/sys/class/rnbd-client/ctl/devices/${loop//\//!}@client-$via")")
	until_true 20 test -b "/dev/$d" || return
	write_disk "/dev/$d" "$loop" || status=1
	echo normal >"/sys/block/$d/rnbd/unmap_device" || status=1
	return $status
}

modprobe -a ib_core rdma_cm
verbs="RC: RDMA WRITE with immediate, SEND with invalidate, fast registration"
verified="a disk written and read, SHA-256 there and at the exported device"
if check modules load rtrs-core rtrs-client rnbd-client && check serve serve; then
	remark=$(by_modules rnbd-client) compare rnbd "RNBD over RTRS" "$(kernel_version)" "$verbs" "$verified" transfer
	remark=$(by_modules rnbd-client) loss=1 \
		fails_on="soft-roce" match="Input/output error" why="after a loss Soft-RoCE executes a fast registration again and refuses it, because the region is not free (rxe_reg_fast_mr())" \
		compare loss "RNBD over RTRS" "$(kernel_version)" "$verbs" "$verified" transfer
fi
stop
finish

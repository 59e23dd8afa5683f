#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# netdrv.sh TEST...: the kernel's own tests of network drivers
# (tools/testing/selftests/drivers/net), on tern's interface, with vm2 at the other end. TEST is the
# path of a script below drivers/net, without .py.
#
# Test: netdrv
# Tier: quick, 1800 s
# Lane: testing
# Needs: selftests
# Boot: --vms 2 --package bpftool,python3-yaml,socat
# Run: netdrv.sh ping queues stats napi_id napi_threaded ring_reconfig xdp hw/xsk_reconfig
#   hw/xdp_metadata hw/csum hw/tso hw/uso hw/rss_ctx hw/rss_api hw/rss_drv hw/rss_input_xfrm
#   hw/toeplitz hw/ntuple hw/nic_timestamp hw/irq
# Results: 179
# Skip: testing netdrv/ping.test_xdp_offload no XDP program runs in the device
# Skip: testing netdrv/stats.check_pause the device has no pause frames
# Skip: testing netdrv/stats.check_fec* the device has no FEC
# Skip: testing netdrv/hw/tso.vxlan* the device does not segment tunnels; Linux does
# Skip: testing netdrv/hw/tso.gre* the device does not segment tunnels; Linux does
# Skip: testing netdrv/hw/tso.ip?_ipv* the device does not segment tunnels; Linux does
# Skip: testing netdrv/hw/rss_ctx.test_rss_context32 needs more than the 16 queues that there are
# Skip: testing netdrv/hw/rss_ctx.test_rss_ntuple_addition a rule cannot add an offset to what RSS
#   selects
# Skip: testing netdrv/hw/rss_drv.resize_* the table of hashes has one size for any number of
#   channels
# Skip: testing netdrv/hw/toeplitz.test.rps_* needs two processors without a receive queue; the
#   machine has two
# Proves: Linux 7.3's own tests of network drivers (selftests/drivers/net) on tern's interface, with
#   vm2 at the other end, in the lane testing: queues, statistics, NAPI, rings, XDP, AF_XDP,
#   checksums, TSO, USO, RSS and its hash, ntuple rules, time stamps, interrupts.
#
# These tests of drivers/net cannot pass:
#   gro, hw/gro_hw: they send segments one by one, or in turns, and demand one packet; the device
#     coalesces segments that arrive together and holds none back
#   hw/rss_flow_label: the hash has no field for the flow label
#   hds, hw/devmem, hw/iou-zcrx, hw/nk_*, hw/userns_devmem: headers are not split from data
#   shaper, hw/devlink_rate_*: queues of Ethernet have no rates
#   macsec, psp, hw/ipsec_vxlan: the device encrypts nothing
#   so_txtime: frames are sent at once; Linux delays them
#   hw/devlink_port_split, hw/ethtool*, hw/loopback, hw/hw_stats_l3*: the port cannot be split or
#     negotiate a speed, and the last two test switches
#   netpoll_basic, hw/pp_alloc_fail: they need bpftrace, and functions that can be made to fail

group=netdrv
# shellcheck source=tests/guest/results.sh
. results.sh

tree=/tmp/selftests
[ -e $tree ] || cp -r "/mnt/tern/build/out-$TERN_LANE/selftests" $tree
tests=$tree/tools/testing/selftests/drivers/net
# An emulated machine takes tenths of a second to start the program that sends each message.
sed -i 's/"-T", "4000"/"-T", "40000"/' $tests/hw/toeplitz.py
# ... and a message of netlink while traffic keeps its processors busy.
sed -i '/def test_hitless_key_update/,/^def /s/total_seconds(), 0.15)/total_seconds(), 1.5)/' $tests/hw/rss_ctx.py
NETIF=$(basename /sys/class/infiniband/tern0/device/net/*)
export NETIF LOCAL_V4=10.77.0.1 REMOTE_V4=10.77.0.2 LOCAL_V6=fd77::1 REMOTE_V6=fd77::2 REMOTE_TYPE=ssh REMOTE_ARGS=root@alone
export PYTHONDONTWRITEBYTECODE=1
# A shared connection would keep the output of a command open after its ssh was ended.
cat - /root/.ssh/config >/root/.ssh/config.new <<-END
	Host alone
		HostName vm2
		HostKeyAlias vm2
		ControlMaster no
		ControlPath none
END
mv /root/.ssh/config.new /root/.ssh/config
# set_mtu MTU: of both machines.
set_mtu() {
	local m
	for m in vm1 vm2; do
		ssh $m "ip link set \$(basename /sys/class/infiniband/tern0/device/net/*) mtu $1"
	done
}
# Where tests pin their programs.
mountpoint -q /sys/fs/bpf || mount -t bpf bpf /sys/fs/bpf
# Tests take the interface down and expect its addresses afterwards; and they load XDP programs
# without fragments, which need a frame that fits into a page.
for m in vm1 vm2; do
	ssh $m "sysctl -qw net.ipv6.conf.all.keep_addr_on_down=1"
done
set_mtu 1500

# Result lines of a report in KTAP. A failure that the test itself expects is a skip here.
results() {
	sed -nE "
	s:^ok [0-9]+ ([^ ]*)$:ok $group/$1.\\1:p
	s:^ok [0-9]+ ([^ ]*) # (SKIP|XFAIL) *(.*)$:ok $group/$1.\\1 # SKIP \\3:p
	s:^not ok [0-9]+ ([^ ]*)( #.*)?$:not ok $group/$1.\\1 - see netdrv-$(basename "$1").log:p" | sed "s:$group/$1\.$(basename "$1")\.:$group/$1.:"
}

# queues N RX: channels, and descriptors of a receive ring.
queues() { ethtool -L "$NETIF" combined "$1" && ethtool -G "$NETIF" rx "$2"; }

for name; do
	# It wants more queues than there are processors, and no drop although the receiver is
	# slower than the sender.
	[ "$name" != hw/rss_ctx ] || queues 4 8192
	log=/mnt/share/netdrv-$(basename "$name").log
	(cd "$(dirname "$tests/$name")" && timeout 900 python3 "$tests/$name.py") >"$log" 2>&1
	status=$?
	[ "$name" != hw/rss_ctx ] || queues "$(nproc)" 1024
	results "$name" <"$log" >/tmp/results
	pass_on /tmp/results
	grep -q '^# Totals' "$log" || not_ok "$name" "exit status $status without a summary: $(tail -n 1 "$log")"
done
set_mtu 4500
exit $failed

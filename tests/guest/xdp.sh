#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# xdp.sh: XDP and AF_XDP on tern's netdev of two machines: all verdicts, sockets with and without
# copies, whose frames are compared byte by byte; and changes of the interface, a reset and an
# unload under their traffic. Runs in vm1.
#
# Test: xdp
# Tier: full, 1200 s
# Boot: pair
# Results: 66
# Order: 1
# Proves: XDP and AF_XDP between two machines (tests/guest/xdp, which loads its programs by system
#   calls). Frames of all lengths go from an AF_XDP socket in vm1 to vm2 and back, and every byte is
#   compared: reflected by XDP_TX, by sockets with and without copies and need_wakeup, redirected
#   from the wire to a veth and from there to the wire, and up to 9000 bytes in several chunks. Then
#   rings, channels, MTU, a reset, kills and an unload under that traffic and TCP.

set -u
group=xdp
# shellcheck source=tests/guest/results.sh
. "${0%/*}/results.sh"
dev=$(basename /sys/class/infiniband/tern0/device/net/*)
pci=$(basename "$(readlink -f /sys/class/infiniband/tern0/device)")
xdp=/mnt/tern/build/guest/xdp
peer_dev=$(ssh vm2 'basename /sys/class/infiniband/tern0/device/net/*')
peer=$(ssh vm2 "cat /sys/class/net/$peer_dev/address")

# start VM NAME COMMAND...: starts a command of xdp that runs until stop.
start() {
	local vm=$1 name=$2
	shift 2
	# shellcheck disable=SC2029
	ssh "$vm" "setsid $xdp $* >/tmp/$name.log 2>&1 </dev/null & echo \$! >/tmp/$name.pid; for i in \$(seq 300); do
		grep -qs ready /tmp/$name.log && exit; kill -0 \$! || break; sleep 0.1; done; cat /tmp/$name.log >&2; exit 1"
}
# stop VM NAME: fails if the command failed.
stop() {
	ssh "$1" "kill \$(cat /tmp/$2.pid) && while kill -0 \$(cat /tmp/$2.pid) 2>/dev/null; do sleep 0.1; done; cat /tmp/$2.log"
}
answered() { stop vm1 ping | grep 'all bytes right'; }
mtu() { ip link set "$dev" mtu "$1" && ssh vm2 ip link set "$peer_dev" mtu "$1"; }
# exchange NAME PEER-COMMAND OPTION...: frames to a program in vm2, and back.
exchange() {
	local name=$1 command=$2
	shift 2
	check "$name-start" start vm2 peer "$command"
	check "$name" timeout 300 $xdp ping "$dev" "$peer" 3000 "$@"
	check "$name-stop" stop vm2 peer
}

check mtu mtu 1500
exchange reflected-to-copying-socket "reflect $peer_dev" copy
exchange reflected-to-zero-copy-socket "reflect $peer_dev"
exchange copying-sockets "echo $peer_dev copy" copy
exchange zero-copy-sockets "echo $peer_dev"
exchange zero-copy-without-need-wakeup "echo $peer_dev no-wakeup" no-wakeup

# From the wire to a veth, back on its other end, and from the veth to the wire.
veth() {
	ssh vm2 "ip link add v0 type veth peer name v1 && ip link set v0 up && ip link set v1 up && sysctl -qw net.ipv6.conf.v0.disable_ipv6=1"
}
check veth veth
check reflect-on-veth start vm2 v1 "reflect v1"
check redirect-from-veth start vm2 v0 "redirect v0 $peer_dev"
exchange redirected-both-ways "redirect $peer_dev v0"
check redirect-from-veth-stop stop vm2 v0
check reflect-on-veth-stop stop vm2 v1
ssh vm2 ip link del v0

# Another processor passes the frames to the stack, where AF_PACKET sees them.
check redirect-to-processor-start start vm2 peer "cpu $peer_dev"
check ping-start start vm1 ping "ping $dev $peer 0 lossy"
check redirected-to-processor ssh vm2 "timeout 60 tcpdump -i $peer_dev -c 100 -w /dev/null ether proto 0x88b5"
stop vm1 ping >/dev/null
check redirect-to-processor-stop stop vm2 peer

# Frames of several buffers.
check mtu-9000 mtu 9000
exchange zero-copy-fragments "echo $peer_dev frags" frags
exchange reflected-fragments "reflect $peer_dev" frags
exchange copied-fragments "echo $peer_dev copy frags" copy frags
no_fragments() { ! timeout 60 $xdp ping "$dev" "$peer" 1; }
check program-without-fragments-refused no_fragments
check mtu-1500 mtu 1500

# What a socket does not prevent, under its traffic and that of the stack through the same queues.
check echo-start start vm2 peer "echo $peer_dev lossy"
check ping-start start vm1 ping "ping $dev $peer 0 lossy"
ssh vm2 iperf3 -s -D
iperf3 -t 900 -c 10.77.0.2 >/dev/null 2>&1 &
moved() { # frames still come back
	local before
	before=$(wc -l </tmp/ping.log)
	sleep 1
	[ "$(wc -l </tmp/ping.log)" -gt "$before" ]
}
large=$(ethtool -g "$dev" | awk '/^RX:/ { n = $2 } END { print n }')
under_traffic fewer-descriptors ethtool -G "$dev" rx 128 tx 128
under_traffic more-descriptors ethtool -G "$dev" rx "$large" tx "$large"
under_traffic one-channel ethtool -L "$dev" combined 1
under_traffic two-channels ethtool -L "$dev" combined 2
under_traffic smaller-mtu ip link set "$dev" mtu 1400
under_traffic mtu-back ip link set "$dev" mtu 1500
too_large() { ! ip link set "$dev" mtu 4500; }
check too-large-mtu-refused too_large
under_traffic down-and-up sh -c "ip link set $dev down && ip link set $dev up"
under_traffic reset sh -c "echo flr >/sys/bus/pci/devices/$pci/reset_method && echo 1 >/sys/bus/pci/devices/$pci/reset"
check still-right answered

# The process dies, or the driver goes, under traffic.
for i in 1 2 3 4 5; do
	start vm1 ping "ping $dev $peer 0 lossy" && sleep 0.3
	kill -KILL "$(cat /tmp/ping.pid)"
done
check after-kills timeout 300 $xdp ping "$dev" "$peer" 3000 lossy
check ping-start start vm1 ping "ping $dev $peer 0 lossy"
check unload sh -c 'rmmod tern_ib && rmmod tern'
kill -KILL "$(cat /tmp/ping.pid)"
kill %1
check up tern-up
stop vm2 peer >/dev/null
ssh vm2 "pkill iperf3; ip link set $peer_dev mtu 4500"
check no-complaints sh -c '! kernel-complaints | grep .'
check no-complaints-there ssh vm2 'sh -c "! kernel-complaints | grep ."'
exit $failed

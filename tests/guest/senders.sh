#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# senders.sh: senders that the stack does not keep away from a transmit queue: pktgen, whose cloned
# frames keep their queue while channels go, and netconsole, which sends with interrupts disabled,
# through queues that XDP uses. Runs in vm1, with lockdep and KASAN.
#
# Test: senders
# Tier: full, 900 s
# Lane: debug
# Boot: pair
# Results: 24
# Proves: Debug lane only. Senders that the stack does not keep away from a queue: pktgen, whose
#   cloned frames keep the number of a queue while channels go, and netconsole, which sends with
#   interrupts disabled while XDP_TX uses the queue. Only this kernel has pktgen and lockdep.

set -u
group=senders
# shellcheck source=tests/guest/results.sh
. "${0%/*}/results.sh"
dev=$(basename /sys/class/infiniband/tern0/device/net/*)
xdp=/mnt/tern/build/guest/xdp
peer_dev=$(ssh vm2 'basename /sys/class/infiniband/tern0/device/net/*')
peer=$(ssh vm2 "cat /sys/class/net/$peer_dev/address")
mtu=$(cat "/sys/class/net/$dev/mtu")
channels=$(ethtool -l "$dev" | awk '/^Combined:/ { n = $2 } END { print n }')

pg=/proc/net/pktgen
generate() { # frames of queue 15 until stopped, each skb many times
	local command
	echo "add_device $dev" >$pg/kpktgend_0 || return 1
	for command in 'count 0' 'clone_skb 1000000' 'pkt_size 60' 'delay 0' 'queue_map_min 15' 'queue_map_max 15' 'dst 10.77.0.9' "dst_mac $peer"; do
		echo "$command" >"$pg/$dev" || return 1
	done
	echo start >$pg/pgctrl &
}
generated() { sed -nE 's/.*pkts-sofar: ([0-9]+).*/\1/p' "$pg/$dev"; }
moved() {
	local before
	before=$(generated)
	sleep 1
	[ "$(generated)" -gt "$before" ]
}
dropped() { cat "/sys/class/net/$dev/statistics/tx_dropped"; }
check sixteen-channels ethtool -L "$dev" combined 16
check pktgen generate
until_true 30 moved
before=$(dropped)
for i in 1 2 3; do
	under_traffic "one-channel-$i" ethtool -L "$dev" combined 1
	under_traffic "sixteen-channels-$i" ethtool -L "$dev" combined 16
done
check frames-without-a-queue-dropped [ "$(dropped)" -gt "$before" ]
echo stop >$pg/pgctrl
wait
echo rem_device_all >$pg/kpktgend_0
check channels ethtool -L "$dev" combined "$channels"

# vm1 returns the frames of vm2 by XDP_TX, and writes to the console meanwhile.
target=/sys/kernel/config/netconsole/tern
console() {
	local name value
	mountpoint -q /sys/kernel/config || mount -t configfs none /sys/kernel/config
	mkdir $target
	for value in "dev_name=$dev" local_ip=10.77.0.1 remote_ip=10.77.0.2 remote_port=6666 "remote_mac=$peer" enabled=1; do
		name=${value%%=*}
		echo "${value#*=}" >$target/"$name" || return 1
	done
}
say() {
	local i
	for i in $(seq 300); do
		echo "tern netconsole $i" >/dev/kmsg
		sleep 0.02
	done
}
check mtu sh -c "ip link set $dev mtu 1500 && ssh vm2 ip link set $peer_dev mtu 1500"
$xdp reflect "$dev" >/tmp/reflect.log 2>&1 &
reflect=$!
check reflect until_true 30 grep -q ready /tmp/reflect.log
check netconsole console
ssh vm2 "timeout 120 tcpdump -i $peer_dev -c 100 -w /dev/null udp dst port 6666" >/tmp/heard.log 2>&1 &
heard=$!
until_true 30 grep -q listening /tmp/heard.log
say &
said=$!
check frames-return ssh vm2 "timeout 300 $xdp ping $peer_dev $(cat "/sys/class/net/$dev/address") 3000 lossy"
check messages-arrive wait $heard
wait $said
echo 0 >$target/enabled
rmdir $target
kill $reflect
check mtu-back sh -c "ip link set $dev mtu $mtu && ssh vm2 ip link set $peer_dev mtu $mtu"
check no-complaints sh -c '! kernel-complaints | grep .'
check no-complaints-there ssh vm2 'sh -c "! kernel-complaints | grep ."'
exit $failed

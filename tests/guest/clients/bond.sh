#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# bond.sh: an active-backup bond of two adapters, whose active link is lost under traffic. Its boot
# has --adapters 2.
#
# Test: bond
# Tier: clients, 600 s
# Boot: --vms 2 --virtio-wire --adapters 2
# Results: 3

kind=operations group=bond
# shellcheck source=tests/guest/clients/lib.sh
. "${0%/*}/lib.sh"
ip=10.84.0

# bond_up, bond_down: in the machine where they run.
bond_up() { # NUMBER
	local d
	modprobe bonding
	# A kernel with bonding built in has one already.
	ip link del bond0 2>/dev/null
	ip link add bond0 type bond mode active-backup miimon 100 || return
	for d in tern0 tern1; do
		d=$(rdma link show $d/1 | sed -nE 's/.* netdev (\S+).*/\1/p')
		ip addr flush dev "$d"
		ip link set "$d" down && ip link set "$d" master bond0 || return
	done
	ip addr add "10.84.0.$1/24" dev bond0 && ip link set bond0 up
}
bond_down() {
	ip link del bond0
	tern-up
}
gid_on() { # DEVICE: whether it has the GID of the bond's address
	grep -ls '0000:0000:0000:0000:0000:ffff:0a54:000' "/sys/class/infiniband/$1/ports/1/gids"/* | grep -q .
}
on_adapter() { # DEVICE: both machines have the bond's GID there
	gid_on "$1" && on2 "$(declare -f gid_on); gid_on $1"
}
ping_data() {
	local server
	on2 "timeout 60 rping -s -a $ip.2 -p 7700 -C 50 -V" >"$work/server" 2>&1 &
	server=$!
	on2 "wait-listen 7700 30" && timeout 60 rping -c -a $ip.2 -p 7700 -C 50 -V && wait $server
}
links() { labctl link vm1:0 "$1" && labctl link vm2:0 "$1"; }
# failover: rping's connection ends with an error when its link is lost, within a bounded time; the
# next one takes the other adapter.
failover() {
	local client server began
	[ "$via" = tern ] || { echo "the lab has one wire with Soft-RoCE" && return 1; }
	bond_up 1 && on2 "$(declare -f bond_up); bond_up 2" && until_true 20 on_adapter tern0 && ping_data || return
	on2 "rping -s -a $ip.2 -p 7701" >/dev/null 2>&1 &
	server=$!
	on2 "wait-listen 7701 30"
	rping -c -a $ip.2 -p 7701 -S 4096 -C 100000 >"$work/client" 2>&1 &
	client=$!
	sleep 1
	began=$SECONDS
	links down
	until_true 20 on_adapter tern1 || { echo "the GID stays where the link is lost" && return 1; }
	ping -c 2 -i 0.3 -W 5 $ip.2 || return
	until_true 60 sh -c "! kill -0 $client 2>/dev/null" || { echo "rping hangs" && return 1; }
	wait $client
	# Its status is 0 if the server's end has noticed first.
	grep -E 'wait for|completion failed' "$work/client" || { echo "rping says nothing of the loss" && return 1; }
	echo "the old connection ended after $((SECONDS - began)) s"
	ping_data || return
	links up
	rate=works
}
after() {
	links up
	bond_down
	on2 "$(declare -f bond_down); bond_down"
}
limit=180
fails_on="soft-roce" match="one wire" why="the lab has one wire with Soft-RoCE, so nothing to fail over to" \
	compare bond "bonding, active-backup, link lost under traffic" "$(kernel_version)" "RC by rdma_cm" \
	"rping compares its data before and after; the GID moves to the other adapter; the old connection ends with an error" failover
check restored after
finish

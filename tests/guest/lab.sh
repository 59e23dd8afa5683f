#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# lab.sh [MIB]: tests that the machines are as run-vm documents them, and that tern's netdev carries
# TCP. MIB: of device memory.
#
# Test: lab
# Tier: quick, 600 s
# Boot: pair
# Run: lab.sh 256
# Order: -1
# Results: 19
# Proves: What run-vm promises of a machine (Documentation/lab.rst), with a device memory of 256
#   MiB.
#
# Test: ternd-lab
# Tier: quick, 600 s
# Boot: ternd
# Results: 19
# Proves: The same with Debian testing's QEMU and adapters of ternd (Documentation/ternd.rst).

group=lab
# shellcheck source=tests/guest/results.sh
. "${0%/*}/results.sh"
on2() { ssh vm2 "$@"; }
dev=$(basename /sys/bus/pci/drivers/tern*/*/net/*)
transfer() {
	head -c 16777216 /dev/urandom >/tmp/lab.data
	ssh vm2 'nc -l 9001 >/tmp/lab.data' &
	ssh vm2 'wait-listen 9001'
	nc -N 10.77.0.2 9001 </tmp/lab.data && wait
	[ "$(sha256sum </tmp/lab.data)" = "$(ssh vm2 'sha256sum </tmp/lab.data')" ]
}
# BAR 4 has the expected size and an address, and is prefetchable 64-bit memory.
bar4() { # DEVICE BYTES
	local start end flags
	read -r start end flags < <(sed -n 5p "/sys/bus/pci/devices/$1/resource")
	[ $((start)) != 0 ] && [ $((end - start + 1)) = "$2" ] && [ $((flags & 0x20102200)) = $((0x102200)) ]
}
pci=$(readlink -f "/sys/class/net/$dev/device")
# The PCI Express link of a function, as it is (current) or could be (max): what carries the port's
# 100 Gbit/s.
pcie_link() { # FUNCTION current|max
	[ "$(cat "$1/$2_link_speed" "$1/$2_link_width")" = $'8.0 GT/s PCIe\n16' ]
}
check name [ "$(hostname)" = vm1 ]
check ssh-there [ "$(on2 hostname)" = vm2 ]
check ssh-back [ "$(on2 ssh vm1 hostname)" = vm1 ]
check ipv4 ping -c 3 -i 0.2 -q 10.77.0.2
check ipv6 ping -c 3 -i 0.2 -q fd77::2
check link-local ping -c 3 -i 0.2 -q "fe80::5054:ff:fe77:2%$dev"
check big-frames ping -c 3 -i 0.2 -q -M do -s $(($(cat "/sys/class/net/$dev/mtu") - 28)) 10.77.0.2
check tcp transfer
check device ibv_devinfo -d tern0
check active grep -q ACTIVE /sys/class/infiniband/tern0/ports/1/state
check memlock [ "$(ulimit -l)" = unlimited ]
check share touch /mnt/share/.lab
check qmp labctl qmp vm2 query-status
check device-memory bar4 "${pci##*/}" $((${1:-16} << 20))
check port-speed [ "$(cat /sys/class/infiniband/tern0/ports/1/rate)" = '100 Gb/sec (4X EDR)' ]
# The speed can change while the port is up. Linux 7.3 reports it, as event 20.
events() { # NUMBER TEXT: waits for so many lines of ibv_asyncwatch.
	local i
	for i in $(seq 300); do
		[ "$(grep -c "$2" /tmp/lab.events)" -lt "$1" ] || return 0
		sleep 0.1
	done
	return 1
}
speed_is() { # NUMBER-OF-EVENTS MBPS RATE
	labctl speed vm1 "$2" && [ "$(cat "/sys/class/net/$dev/speed")" = "$2" ] &&
		[ "$(cat /sys/class/infiniband/tern0/ports/1/rate)" = "$3" ] &&
		{ [ "$TERN_LANE" = trixie ] || events "$1" '(20)'; }
}
speed_changes() {
	stdbuf -oL ibv_asyncwatch -d tern0 >/tmp/lab.events &
	local watch=$! ok=0
	events 1 'async event FD' && speed_is 1 25000 '25 Gb/sec (1X EDR)' && speed_is 2 100000 '100 Gb/sec (4X EDR)' || ok=1
	kill $watch
	return $ok
}
check speed-changes speed_changes
check pcie-capability pcie_link "$pci" max
check pcie-link pcie_link "$pci" current
check pcie-port pcie_link "${pci%/*}" current
exit $failed

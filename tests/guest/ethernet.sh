#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# ethernet.sh: tern's netdev with the programs that use an Ethernet adapter: captures with VLANs and
# checksums, iperf3, time stamps and PTP, raw Ethernet QPs of perftest; and changes, resets and a
# removal under TCP. Runs in vm1; linuxptp is installed.
#
# Test: ethernet
# Tier: full, 1800 s
# Boot: pair
# Results: 62
# Order: 1
# Proves: The netdev with tcpdump (VLAN tags; every checksum of TCP and UDP over IPv4 and IPv6 as it
#   arrives), iperf3, ptp4l and phc2sys with hardware time stamps, and perftest's raw Ethernet QPs;
#   then channels, rings, RSS, offloads, MTU, a reset and a removal under TCP. What users of an
#   Ethernet adapter run.

set -u
group=ethernet
# shellcheck source=tests/guest/results.sh
. "${0%/*}/results.sh"
dev=$(basename /sys/class/infiniband/tern0/device/net/*)
pci=$(basename "$(readlink -f /sys/class/infiniband/tern0/device)")
peer_dev=$(ssh vm2 'basename /sys/class/infiniband/tern0/device/net/*')
mac=$(cat "/sys/class/net/$dev/address")
peer_mac=$(ssh vm2 "cat /sys/class/net/$peer_dev/address")
work=$(mktemp -d)

# on2 NAME COMMAND: starts a command in vm2, which end2 ends.
on2() {
	# shellcheck disable=SC2029
	ssh vm2 "setsid $2 >/tmp/$1.log 2>&1 </dev/null & echo \$! >/tmp/$1.pid"
}
end2() { ssh vm2 "kill \$(cat /tmp/$1.pid); while kill -0 \$(cat /tmp/$1.pid) 2>/dev/null; do sleep 0.1; done"; }
says2() { ssh vm2 "grep -q '$2' /tmp/$1.log"; }

# Frames that the device segments and whose checksums it computes, as they arrive: without GRO,
# which would put them together.
vlans() {
	ip link add link "$dev" name tv7 type vlan id 7 && ip addr add 10.77.107.1/24 dev tv7 && ip link set tv7 up &&
		ssh vm2 "ethtool -K $peer_dev gro off rx-gro-hw off && ip link add link $peer_dev name tv7 type vlan id 7 &&
		ip addr add 10.77.107.2/24 dev tv7 && ip link set tv7 up"
}
capture() { # NAME FILTER COMMAND...
	local name=$1 filter=$2
	shift 2
	on2 capture "tcpdump -i $peer_dev -Q in -c 2000 -w /tmp/$name.pcap $filter" && until_true 30 says2 capture listening || return 1
	"$@" >/dev/null
	sleep 1
	end2 capture
}
# The capture has frames of that kind, and tcpdump finds no wrong checksum.
checksums() { # NAME PATTERN
	# shellcheck disable=SC2029
	ssh vm2 "tcpdump -r /tmp/$1.pcap -nn -e -vv 2>/dev/null >/tmp/$1.txt; grep -c '$2' /tmp/$1.txt
		grep -c -E '\(correct\)|udp sum ok' /tmp/$1.txt; ! grep -m 3 -E 'incorrect|bad (udp )?cksum' /tmp/$1.txt" >"$work/found" || return 1
	awk '$1 < 20 { bad = 1 } { print } END { exit bad || NR < 2 }' "$work/found"
}
# iperf ADDRESS OPTION...: with a server of its own.
iperf() {
	local address=$1
	shift
	on2 iperf "iperf3 -s -1" && until_true 30 ssh vm2 wait-listen 5201 && timeout 120 iperf3 -J -c "$address" "$@" >"$work/iperf"
}
# received FIELD: at least half of what was sent has arrived at the other end; the rest may be under
# way, or lost before a busy receiver.
received() {
	python3 - "$work/iperf" "$1" <<-'END'
		import json, sys
		end = json.load(open(sys.argv[1]))["end"]
		sent, there = (end[key][sys.argv[2]] for key in ("sum_sent", "sum_received"))
		print(f"{there} {sys.argv[2]} of {sent}")
		sys.exit(not 0 < sent <= 2 * there)
	END
}

mtu=$(cat "/sys/class/net/$dev/mtu")
check same-mtu [ "$mtu" = "$(ssh vm2 "cat /sys/class/net/$peer_dev/mtu")" ]
check vlans vlans
check capture-tcp capture tcp "tcp and net 10.77.0.0/24" iperf 10.77.0.2 -t 2
check capture-udp capture udp "udp and net 10.77.0.0/24" iperf 10.77.0.2 -u -t 2 -b 20M -l 1400
check capture-v6 capture v6 "ip6 and tcp" iperf fd77::2 -t 2
check capture-vlan capture vlan "vlan 7 and tcp" iperf 10.77.107.2 -t 2
check checksums-tcp checksums tcp "IPv4"
check checksums-udp checksums udp "UDP"
check checksums-v6 checksums v6 "IPv6"
check checksums-vlan checksums vlan "vlan 7"
ip link del tv7
ssh vm2 "ip link del tv7; ethtool -K $peer_dev gro on rx-gro-hw on"
for v in 10.77.0.2 fd77::2; do
	for kind in "tcp bytes -P 2 -n 40M" "udp packets -u -b 10M -t 2"; do
		read -r name field options <<<"$kind"
		# shellcheck disable=SC2086
		check "iperf-$name-$v" iperf "$v" $options
		check "iperf-$name-$v-received" received "$field"
	done
done

# Time: both clocks synchronized by the hardware's time stamps.
clock() { ethtool -T "$dev" | sed -nE 's/^(PTP Hardware Clock|Hardware timestamp provider index): ([0-9]+)$/\2/p'; }
stamps() { ethtool -T "$dev" | grep -q hardware-transmit && ethtool -T "$dev" | grep -q hardware-receive && [ -e "/dev/ptp$(clock)" ]; }
check time-stamps stamps
# However far the clocks are apart, 20 seconds more do not bring them together.
check clocks-apart ssh vm2 "phc_ctl -q $peer_dev adj 20"
on2 master "ptp4l -i $peer_dev -H -m -q --tx_timestamp_timeout 1000 --priority1 1"
ptp4l -i "$dev" -H -m -q -s --tx_timestamp_timeout 1000 >"$work/ptp4l" 2>&1 &
check ptp4l-follows until_true 120 grep -q 'UNCALIBRATED to SLAVE' "$work/ptp4l"
# The servo locks from its third sample on. A busy host delays frames, so one good sample is enough.
offset() { # AWK-CONDITION on the offset in ns
	awk "{ n = \$0; if (sub(/.*offset +/, \"\", n)) { n += 0; if (n < 0) n = -n; if ($1) found = 1 } } END { exit !found }" "$work/ptp4l"
}
locked() { grep -q ' s2 freq' "$work/ptp4l" && offset 'n < 1000000'; }
check ptp4l-measures-the-offset until_true 60 offset 'n > 300000000'
check ptp4l-locked-within-a-millisecond until_true 60 locked
phc2sys -s "$dev" -c CLOCK_REALTIME -O 0 -m -q >"$work/phc2sys" 2>&1 &
check phc2sys-locked until_true 60 grep -q ' s2 freq' "$work/phc2sys"
kill %phc2sys %ptp4l
end2 master

# perftest's raw Ethernet QPs. The messages fit into the receive queue, because nothing waits for
# the receiver.
raw() { # PROGRAM OPTION...; $client_options, $server_options: of one end
	local program=$1 status
	shift
	# -F: perftest cannot measure the processor's clock on a busy host, and its figures are not
	# judged.
	on2 raw "stdbuf -oL timeout 100 $program -F -d tern0 --server -B $peer_mac -E $mac $* ${server_options-}" && until_true 60 says2 raw '#bytes' || return 1
	timeout 100 "$program" -F -d tern0 --client -B "$mac" -E "$peer_mac" "$@" ${client_options-} >"$work/raw" && grep -A 1 '#bytes' "$work/raw"
	status=$?
	end2 raw 2>/dev/null
	return $status
}
check raw-ethernet-bw raw raw_ethernet_bw -n 400 -s 1024
check raw-ethernet-bw-received until_true 30 says2 raw '^ *1024'
check raw-ethernet-lat raw raw_ethernet_lat -n 200 -s 64
# The program reports no send, and waits for ever, if a completion stands for more than one. The
# server destroys its QP after the last receive: replies that its pacer still held would be lost, so
# its rate is high.
client_options=--rate_limit=10 server_options=--rate_limit=10000 check raw-ethernet-burst-lat \
	raw raw_ethernet_burst_lat -Q 1 -n 100 -s 64 --burst_size=32 --rate_units=M --rate_limit_type=PP --typical_pkt_size=64
flow_rate() {
	timeout 100 raw_ethernet_fs_rate -F -d tern0 --server -B "$mac" -E "$peer_mac" -J 10.77.0.1 -j 10.77.0.2 -K 1000 -k 2000 -n 1000 | grep -A 1 '#flows'
}
check raw-ethernet-fs-rate flow_rate

# Under TCP.
on2 iperf "iperf3 -s"
ssh vm2 wait-listen 5201
iperf3 -t 3000 -c 10.77.0.2 >/dev/null 2>&1 &
traffic=$!
bytes() { cat "/sys/class/net/$dev/statistics/tx_bytes"; }
# More than what other protocols send.
moved() {
	local before
	before=$(bytes)
	sleep 1
	[ $(($(bytes) - before)) -gt 100000 ]
}
under_traffic one-channel ethtool -L "$dev" combined 1
under_traffic sixteen-channels ethtool -L "$dev" combined 16
check sixteen-queues-each-way sh -c "[ \$(ls -d /sys/class/net/$dev/queues/rx-* | wc -l) = 16 ] && [ \$(ls -d /sys/class/net/$dev/queues/tx-* | wc -l) = 16 ]"
under_traffic two-channels ethtool -L "$dev" combined 2
under_traffic small-rings ethtool -G "$dev" rx 64 tx 64
under_traffic large-rings ethtool -G "$dev" rx 4096 tx 4096
under_traffic one-queue-of-rss ethtool -X "$dev" weight 0 1
under_traffic all-queues-of-rss ethtool -X "$dev" default
under_traffic without-offloads ethtool -K "$dev" tx off tso off rx off gro off
under_traffic with-offloads ethtool -K "$dev" tx on tso on rx on gro on
under_traffic smaller-mtu ip link set "$dev" mtu 1500
under_traffic mtu-back ip link set "$dev" mtu "$mtu"
under_traffic moderation ethtool -C "$dev" rx-usecs 50 rx-frames 32 tx-usecs 50 tx-frames 32
# Where an administrator sends an interrupt, it goes after a reset, too.
cpus_of_irq() { echo "/proc/irq/$(awk -F: -v name="tern-comp1@pci:$pci" 'index($0, name) { print $1 + 0; exit }' /proc/interrupts)/smp_affinity_list"; }
cpus=$(($(nproc) - 1))
[ "$(cat "$(cpus_of_irq)")" != $cpus ] || cpus=0
check affinity sh -c "echo $cpus >$(cpus_of_irq)"
under_traffic function-level-reset sh -c "echo flr >/sys/bus/pci/devices/$pci/reset_method && echo 1 >/sys/bus/pci/devices/$pci/reset"
check affinity-kept [ "$(cat "$(cpus_of_irq)")" = $cpus ]
# A new netdev: the old connection has lost its route until tern-up.
removed() { echo 1 >"/sys/bus/pci/devices/$pci/remove" && echo 1 >/sys/bus/pci/rescan && tern-up; }
under_traffic removal removed
kill $traffic
end2 iperf
check no-complaints sh -c '! kernel-complaints | grep .'
check no-complaints-there ssh vm2 'sh -c "! kernel-complaints | grep ."'
rm -rf "$work"
exit $failed

#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck disable=SC1091,SC2034,SC2154,SC2086,SC2029
# Machines on two hosts (run-vm --two-hosts): tern in vm1 and vm2, which VXLAN is between, and
# Soft-RoCE on a virtio-net in vm3, on vm1's host.
#
# Test: uplinks
# Tier: long, 2400 s
# Boot: --vms 3 --mem 1G --front vfio-user --two-hosts --soft-roce vm3 --mtu 1450
# Results: 100
# Proves: Two hosts, joined by VXLAN, with a ternd each; tern on both and Soft-RoCE on one. RC
#   operations with verified data, perftest and rping between tern and tern across VXLAN, and
#   between tern and Soft-RoCE both ways; TCP over IPv4, IPv6 and a VLAN by checksum. Path MTU 1024
#   in an Ethernet of 1500 bytes, and 4096.
#
# Test: uplinks-large
# Tier: long, 2400 s
# Boot: --vms 3 --mem 1G --front vfio-user --two-hosts --soft-roce vm3
# Results: 100
# Proves: The same with a path MTU of 4096.

set -u
group=uplinks
. "${0%/*}/pairs.sh"
port=18900
netdev=$(basename /sys/bus/pci/drivers/tern*/*/net/*)
mtu=$(cat "/sys/class/net/$netdev/mtu")
[ "$mtu" -lt 4200 ] && path_mtu=1024 || path_mtu=4096

# at MACHINE COMMAND
at() {
	if [ "$1" = vm1 ]; then sh -c "$2"; else ssh "$1" "$2"; fi
}
device_of() {
	if [ "$1" = vm3 ]; then echo rxe0; else echo tern0; fi
}

# between CLIENT SERVER: where the next programs run.
between() {
	from_vm=$1 to_vm=$2
	where=$1-to-$2
	client_side="$(device_of "$1") $(at "$1" "gid-index v4 $(device_of "$1")")"
	server_side="$(device_of "$2") $(at "$2" "gid-index v4 $(device_of "$2")")"
	ip=10.77.0.${2#vm}
}
here() { at "$from_vm" "$1"; }
there() { at "$to_vm" "$1"; }
# One of the two has tern.
crossed() {
	if [ "$from_vm" = vm3 ]; then tern_vm=$to_vm; else tern_vm=$from_vm; fi
	at "$tern_vm" 'sleep 0.05; cat /sys/class/infiniband/tern0/ports/1/hw_counters/[tr]x_rdma_bytes' | awk '{ sum += $1 } END { print sum }'
}
# on "DEVICE GID" COMMAND: @D and @G stand for them.
on() { echo "$2" | sed "s/@D/${1% *}/g; s/@G/${1#* }/g"; }

# run PROGRAM OPTION...: the client gets the server's address.
run() {
	port=$((port + 1))
	pair "$1" "$1" $port "$(on "$server_side" "$* -p $port")" "$(on "$client_side" "$* -p $port $ip")"
}

# Emulated Soft-RoCE takes milliseconds per packet: timeouts of 4 s and few messages.
programs() {
	run ib_send_bw -d @D -x @G -F -u 18 -m $path_mtu -s 65536 -n 20 --tx-depth=4
	run ib_write_bw -d @D -x @G -F -u 18 -m $path_mtu -s 65536 -n 20 --tx-depth=4
	run ib_read_bw -d @D -x @G -F -u 18 -m $path_mtu -o 4 -s 65536 -n 20 --tx-depth=4
	run ib_send_lat -d @D -x @G -F -u 18 -s 64 -n 50
	port=$((port + 1))
	pair rping rping $port "rping -s -a $ip -p $port -C 10 -S 60000 -V" "rping -c -a $ip -p $port -C 10 -S 60000 -V"
}

# Operations of RC with their data verified, by the program that tests tern against tern.
verify() { verify_with "$ip" "$@"; }

# transfer FROM TO ADDRESS: 8 MiB by TCP, compared by their checksum.
transfer() {
	at "$1" 'head -c 8388608 /dev/urandom >/tmp/tcp.data'
	at "$2" "nc ${4:-} -l 9001 >/tmp/tcp.data" &
	tcp=$!
	at "$2" 'wait-listen 9001'
	at "$1" "timeout 300 nc -N $3 9001 </tmp/tcp.data" || return
	wait $tcp
	[ "$(at "$1" 'sha256sum </tmp/tcp.data')" = "$(at "$2" 'sha256sum </tmp/tcp.data')" ]
}

# vlan MACHINE: gives it an interface in VLAN 5.
vlan() {
	at "$1" "ip link add link \$(ip -br -4 addr show to 10.77.0.0/24 | cut -d' ' -f1) name v5 type vlan id 5 &&
		ip link set v5 up && ip addr add 10.85.0.${1#vm}/24 dev v5"
}

for pair in 'vm1 vm2' 'vm2 vm1' 'vm1 vm3' 'vm3 vm1' 'vm2 vm3' 'vm3 vm2'; do
	from=${pair% *} to=${pair#* }
	check "$from-to-$to/largest-frame" at "$from" "ping -c 3 -i 0.2 -q -M do -s $((mtu - 28)) 10.77.0.${to#vm}"
	check "$from-to-$to/tcp" transfer "$from" "$to" "10.77.0.${to#vm}"
	check "$from-to-$to/tcp6" transfer "$from" "$to" "fd77::${to#vm}" -6
done
for vm in vm1 vm2 vm3; do vlan $vm; done
# Those of virtio-net are left to segment.
for pair in 'vm1 vm2' 'vm3 vm1' 'vm3 vm2'; do
	check "${pair% *}-to-${pair#* }/vlan" transfer ${pair% *} ${pair#* } "10.85.0.${pair#* vm}"
done
for vm in vm1 vm2 vm3; do at $vm 'ip link del v5'; done

ibv_devinfo -d tern0 | grep active_mtu >/tmp/active_mtu
check path-mtu grep -q "$path_mtu" /tmp/active_mtu
rc="send*sizes* write*sizes* read*sizes* every_mtu rdma_sge_list fetch_add compare_swap fence write_then_send many_reads psn_wrap both_ways zero_length"
between vm1 vm2
programs
verify $rc
between vm2 vm1
verify $rc
for pair in 'vm1 vm3' 'vm2 vm3' 'vm3 vm2'; do
	between ${pair% *} ${pair#* }
	programs
	verify send_sizes_post write_sizes_post read_sizes_post fetch_add compare_swap psn_wrap
done
show_matrix
exit $failed

#!/bin/bash
# guest.sh SECONDS: makes the measurements of `make bench` in the guests. Runs in vm1 of two
# machines with --virtio-wire. Leaves lines of JSON and the results of iperf3 and mmio_store in the
# directory shared with the host.
set -u
export PATH=/mnt/tern/build/guest:$PATH
seconds=$1
out=/mnt/share
rm -f $out/lines $out/net-* $out/mmio $out/drop
failed=0
grep -m 1 'model name' /proc/cpuinfo >$out/processor

bench() { # DEV WORD...
	local dev=$1
	shift
	verbs_bench -d "$dev" -t "$seconds" "$@" >>$out/lines || {
		echo "bench: verbs_bench -d $dev $* failed" >&2
		failed=1
	}
}
# Alternate between the devices, so that both see the same load.
for dev in tern0 rxe0; do bench $dev loop; done
for dev in tern0 rxe0; do
	# shellcheck disable=SC2029
	ssh vm2 "$(command -v verbs_bench) -d $dev serve" &
	bench $dev across vm2
	wait
done
bench tern0 memory
# Soft-RoCE's windows, which come last, sometimes fail: keep the earlier figures.
verbs_bench -d rxe0 -t "$seconds" memory >>$out/lines || echo "bench: Soft-RoCE failed; its remaining figures are left out" >&2
bench tern0 limits
# Without RDMA: tern's network device, the virtio-net below Soft-RoCE, and tern with one queue and
# without offloads.
net() { # NAME NETWORK OPTION...
	local name=$1 network=$2
	shift 2
	ssh vm2 iperf3 -s -1 -D
	for ((i = 0; i < 50; i++)); do
		iperf3 -J -t 2 "$@" -c "10.$network.0.2" >"$out/net-$name" && break
		sleep 0.2
	done
}
eth=$(basename /sys/class/infiniband/tern0/device/net/*)
virtio=$(ip -o -4 addr show to 10.79.0.0/24 | awk '{ print $2 }')
# shellcheck disable=SC2029
both() { for vm in vm1 vm2; do ssh $vm "$1" >/dev/null; done; }
mtu() { both "ip link set $eth mtu $1; ip link set $virtio mtu $1"; }
jumbo=$(cat "/sys/class/net/$virtio/mtu")
for what in "tcp-jumbo" "tcp-1" "tcp-4 -P 4" "udp-packets -u -b 0 -l 18"; do
	read -r name options <<<"$what"
	[ "$name" = tcp-jumbo ] || mtu 1500
	for device in tern0:77 rxe0:79; do
		# shellcheck disable=SC2086
		net "${device%:*}-$name" "${device#*:}" $options
	done
done
# Frames that an XDP program in vm2 drops, sent from an AF_XDP socket.
read -r peer mac < <(ssh vm2 'cd /sys/class/infiniband/tern0/device/net && echo * && cat */address' | paste -sd' ')
# shellcheck disable=SC2029
ssh vm2 "setsid $(command -v xdp) drop $peer >/tmp/drop 2>&1 </dev/null & echo \$! >/tmp/drop.pid; until grep -q ready /tmp/drop; do sleep 0.1; done"
xdp flood "$eth" "$mac" "$seconds" || failed=1
# shellcheck disable=SC2016
ssh vm2 'kill $(cat /tmp/drop.pid); while kill -0 $(cat /tmp/drop.pid) 2>/dev/null; do sleep 0.1; done; tail -n 1 /tmp/drop' >$out/drop
both "ethtool -L $eth combined 1; ethtool -K $eth tx off rx off tso off gso off gro off rx-gro-hw off sg off"
net tern0-tcp-plain 77
mtu "$jumbo"
net tern0-tcp-plain-jumbo 77
# A bound driver owns the doorbell page: unbind it.
pci=$(basename "$(readlink -f /sys/class/infiniband/tern0/device)")
echo "$pci" >/sys/bus/pci/drivers/tern/unbind
mmio_store "/sys/bus/pci/devices/$pci/resource2" >$out/mmio || failed=1
exit $failed

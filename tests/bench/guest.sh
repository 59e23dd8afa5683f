#!/bin/bash
# guest.sh SECONDS: what `make bench` measures in the guests, in vm1 of two machines with --virtio-wire. Lines of JSON, results
# of iperf3 and of mmio_store are left in the directory shared with the host.
set -u
export PATH=/mnt/tern/build/guest:$PATH
seconds=$1
out=/mnt/share
rm -f $out/lines $out/tcp-* $out/mmio
failed=0

bench() { # DEV WORD...
	local dev=$1
	shift
	verbs_bench -d "$dev" -t "$seconds" "$@" >>$out/lines || {
		echo "bench: verbs_bench -d $dev $* failed" >&2
		failed=1
	}
}
# One device after the other in each step, so that both see the machine in the same mood.
for dev in tern0 rxe0; do bench $dev loop; done
for dev in tern0 rxe0; do
	# shellcheck disable=SC2029
	ssh vm2 "$(command -v verbs_bench) -d $dev serve" &
	bench $dev across vm2
	wait
done
bench tern0 memory
# Its windows, the last of these, fail now and then: what was measured before stands.
verbs_bench -d rxe0 -t "$seconds" memory >>$out/lines || echo "bench: that was Soft-RoCE; the figure is left out" >&2
bench tern0 limits
for net in tern0:77 rxe0:79; do
	ssh vm2 iperf3 -s -1 -D
	for ((i = 0; i < 50; i++)); do
		iperf3 -J -t 2 -c "10.${net#*:}.0.2" >"$out/tcp-${net%:*}" && break
		sleep 0.2
	done
done
# The doorbell page belongs to the driver as long as there is one.
pci=$(basename "$(readlink -f /sys/class/infiniband/tern0/device)")
echo "$pci" >/sys/bus/pci/drivers/tern/unbind
mmio_store "/sys/bus/pci/devices/$pci/resource2" >$out/mmio || failed=1
exit $failed

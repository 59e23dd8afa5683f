# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Sourced by the scripts in this directory: each runs one client of RDMA between vm1 and vm2, first
# over tern, then over Soft-RoCE, in the same boot (run-vm --virtio-wire). tests/clients makes
# build/report/clients.rst of their rows.
#
# A script sets $kind (storage, messaging, sockets or operations) and $group (the name of its test),
# sources this file, prepares what it needs, calls `compare` for each row of the page, and ends with
# `finish`. The function that it gives to `compare` runs in this shell, once for each device, with
# these variables:
#	via		tern or soft-roce
#	dev netdev	the RDMA device and its network device in vm1; netdev2: the one in vm2
#	ip1 ip2		the IPv4 addresses of vm1 and vm2 on the wire; ip1_6 ip2_6: IPv6
#	mib		how many MiB to transfer (fewer than $MIB over Soft-RoCE, which is slow)
#	lossy		1 if the wire loses 1 % of the packets
# It compares the data itself, by checksums at both ends (`sum_here`, `sum_there`), and sets `rate`
# (with `timed` or itself). It fails by its status, and its output is shown then. An exit status
# alone proves nothing.
#
#	compare ROW CLIENT VERSION TRANSPORT VERIFIED FUNCTION [ARGUMENT...]
#
# ROW is the name in the result lines `ok GROUP/ROW-tern` and `ok GROUP/ROW-soft-roce`; the other
# words are the cells of the row, printed as
#	client: KIND|CLIENT|VERSION|TRANSPORT|VERIFIED|RATE OVER TERN|RATE OVER SOFT-ROCE|REMARK
# `loss=1 compare ...` does it with 1 % loss in both directions. `remark=TEXT compare ...` adds a
# remark. Where a client cannot work, the script says so: `fails_on="soft-roce" why="CAUSE"
# match="REGEX" compare ...`. The failure is then expected, its output must match REGEX, and the
# cause becomes the remark; if it works, or fails otherwise, the result is `not ok`. fails_on may
# name both devices. Arguments of a script are the rows to run; without any, it runs all. VIA=tern
# runs them over tern alone.
# shellcheck source=tests/guest/results.sh
. /mnt/tern/tests/guest/results.sh
set -u
# shellcheck disable=SC1091
. /tern/conf
: "${kind:?}" "${group:?}"
work=/run/client-$group
# Kernel modules and programs that Debian does not build.
modules=/mnt/tern/$OUT/clients
# load MODULE...: the module of lab/build/client-modules, after what the kernel's own needs; without
# one, the kernel's.
load() {
	local m dep
	for m; do
		[ -e "$modules/$m.ko" ] || { modprobe "$m" && continue || return; }
		for dep in $(modprobe --show-depends "$m" 2>/dev/null | sed -nE '$d; s#^insmod .*/([^/.]+)\.ko.*#\1#p'); do
			modprobe "$dep" || return
		done
		insmod "$modules/$m.ko" || return
	done
}
# load_there MODULE...: the same in vm2.
load_there() { on2 "modules=$modules; $(declare -f load); load $*"; }
# unload MODULE...: unloads those of lab/build/client-modules.
unload() {
	local m
	for m; do [ ! -e "$modules/$m.ko" ] || rmmod "${m//-/_}" || return; done
}
unload_there() { on2 "modules=$modules; $(declare -f unload); unload $*"; }
# by_modules MODULE: the remark of a row whose client is such a module.
by_modules() { [ ! -e "$modules/$1.ko" ] || echo "modules of Debian's linux-source of that version"; }
only=" $* "
: "${loss:=}" "${remark:=}" "${fails_on:=}" "${why:=}" "${match:=}" "${limit:=150}"

on2() {
	# shellcheck disable=SC2029 # expanded here
	ssh vm2 "${attempt:+export CLIENT_ATTEMPT=1; }$*"
}
attempt=

# over tern|soft-roce: sets the variables of a device.
over() {
	via=$1 dev=tern0 net=77 mib=${MIB:-16}
	[ "$via" = tern ] || { dev=rxe0 net=79 mib=$(((mib + 3) / 4)); }
	netdev=$(netdev_of "$dev") netdev2=$(on2 "rdma link show $dev/1" | netdev_in)
	ip1=10.$net.0.1 ip2=10.$net.0.2 ip1_6=fd$net::1 ip2_6=fd$net::2
}
netdev_in() { sed -nE 's/.* netdev (\S+).*/\1/p'; }
netdev_of() { rdma link show "$1/1" | netdev_in; }

# dma_reports DRIVER: the DMA debugging of both kernels, if they have that, reports errors of this
# driver only; '': of all. For clients that handle DMA wrongly: the kernel blames the adapter's
# driver.
dma_reports() {
	local set="f=/sys/kernel/debug/dma-api/driver_filter; [ ! -e \$f ] || echo '$1' >\$f"
	sh -c "$set" && on2 "$set"
}

# data FILE [MIB]: random bytes; prints nothing.
data() { head -c $((${2:-$mib} * 1048576)) /dev/urandom >"$1"; }
sum_here() { sha256sum <"$1" | cut -d ' ' -f 1; }
sum_there() { on2 "sha256sum <$1" | cut -d ' ' -f 1; }
# same A B: fails, with both, unless they are equal and not empty.
same() {
	[ -n "$1" ] && [ "$1" = "$2" ] && return
	echo "checksums differ: $1 and $2"
	return 1
}

# write_disk DISK THERE: writes data to DISK, which vm2 exports from THERE, and compares what each
# end then reads. Sets rate.
write_disk() {
	data "$work/data"
	timed $((mib * 1048576)) dd if="$work/data" of="$1" bs=256k oflag=direct status=none &&
		same "$(sum_here "$work/data")" "$(dd if="$1" bs=256k count=$((mib * 4)) iflag=direct status=none | sha256sum | cut -d ' ' -f 1)" &&
		same "$(sum_here "$work/data")" "$(on2 "head -c $((mib * 1048576)) $2 | sha256sum" | cut -d ' ' -f 1)"
}

# timed BYTES CMD...: runs CMD and sets rate.
timed() {
	local bytes=$1 began took
	shift
	began=$(date +%s%N)
	"$@" || return
	took=$(($(date +%s%N) - began))
	rate=$(awk -v b="$bytes" -v t="$took" 'BEGIN { printf "%.1f MB/s\n", b * 1000 / t }')
}

# bytes: what the device has sent; Soft-RoCE counts packets only.
bytes() {
	sleep 0.05 # the kernel keeps what it has read for a moment
	if [ "$via" = tern ]; then
		cat /sys/class/infiniband/tern0/ports/1/hw_counters/tx_rdma_bytes
	else
		cat /sys/class/infiniband/rxe0/ports/1/hw_counters/sent_pkts
	fi
}
# by_device CMD...: fails unless the device sent something while CMD ran. A client may have other
# ways than RDMA.
by_device() {
	local before
	before=$(bytes)
	"$@" || return
	[ "$(bytes)" -gt "$before" ] && return
	echo "$dev sent nothing"
	return 1
}

# lose on|off: 1 % of the packets of this device, in both directions. Off fails if none was lost.
lose() {
	local n i
	if [ "$via" = tern ]; then
		for i in 1 2; do
			if [ "$1" = on ]; then
				labctl faults vm$i "drop tx rate=1% seed=$i" || return
			else
				labctl faults vm$i >>"$work/rules"
				labctl faults vm$i -
			fi
		done
		[ "$1" = on ] || { n=$(grep -oE 'applied [0-9]+' "$work/rules" | awk '{ s += $2 } END { print s + 0 }') && rm -f "$work/rules"; }
	elif [ "$1" = on ]; then
		modprobe sch_netem && tc qdisc add dev "$netdev" root netem limit 10000 loss 1% &&
			on2 "modprobe sch_netem && tc qdisc add dev $netdev2 root netem limit 10000 loss 1%" || return
	else
		n=$({ tc -s qdisc show dev "$netdev" && on2 "tc -s qdisc show dev $netdev2"; } |
			sed -nE 's/.*dropped ([0-9]+).*/\1/p' | awk '{ s += $1 } END { print s + 0 }')
		tc qdisc del dev "$netdev" root
		on2 "tc qdisc del dev $netdev2 root"
	fi
	[ "$1" = on ] && return
	echo "$n packets were lost"
	[ "$n" -gt 0 ]
}

# attempt FUNCTION [ARGUMENT...]: one run over the device of `over`. It runs in a shell of its own,
# which $limit seconds end.
attempt() {
	local status=0
	rm -f "$work/rate"
	lossy=0
	[ "$loss" != 1 ] || { lossy=1 && lose on || return; }
	(
		attempt=1 rate=''
		"$@"
		status=$?
		echo "$rate" >"$work/rate"
		exit $status
	) </dev/null &
	local pid=$! end=$((SECONDS + limit))
	while kill -0 $pid 2>/dev/null; do
		if [ $SECONDS -ge $end ]; then
			echo "no end after $limit s"
			tree $pid | xargs -r kill -KILL 2>/dev/null
			break
		fi
		sleep 0.05
	done
	wait $pid || status=$?
	[ $status = 0 ] || on2 'grep -lsz "^CLIENT_ATTEMPT=" /proc/[0-9]*/environ | cut -d / -f 3 | xargs -r kill -KILL' 2>/dev/null
	[ "$loss" != 1 ] || lose off || { [ $status != 0 ] || status=1; }
	rate=$(cat "$work/rate" 2>/dev/null)
	[ $status = 0 ] && [ -z "$rate" ] && { echo "no rate was measured" && status=1; }
	return $status
}
# tree PID: the process and its descendants.
tree() {
	local child
	echo "$1"
	for child in $(pgrep -P "$1"); do tree "$child"; done
}

compare() { # ROW CLIENT VERSION TRANSPORT VERIFIED FUNCTION [ARGUMENT...]
	local row=$1 client=$2 version=$3 transport=$4 verified=$5 said=$remark rates=()
	shift 5
	[ "$only" = "  " ] || [[ $only == *" $row "* ]] || return 0
	[ -n "$version" ] || { not_ok "$row" "the client has no version" && return 1; }
	[ "$loss" != 1 ] || transport+=", 1 % loss"
	for via in ${VIA:-tern soft-roce}; do
		over "$via"
		if [[ " $fails_on " == *" $via "* ]]; then
			if attempt "$@" >"$check_log" 2>&1; then
				not_ok "$row-$via" "works now, though the script says: $why"
			elif ! grep -qE -- "$match" "$check_log"; then
				not_ok "$row-$via" "fails in another way: $(tail -n 3 "$check_log" | tr -s '\n' ' ')"
			else
				ok "$row-$via-fails-as-known"
				[[ $said == *"$why"* ]] || said="${said:+$said; }$why"
			fi
			rates+=(none)
		elif check "$row-$via" attempt "$@"; then
			rates+=("$rate")
		else
			sed "s/^/# /" "$check_log"
			rates+=(fails)
		fi
		# tests/run counts them.
		grep '^# retried' "$check_log"
	done
	# A row compares both.
	[ -n "${VIA:-}" ] || echo "client: $kind|$client|$version|$transport|$verified|${rates[0]}|${rates[1]}|${said:--}"
}

# version_of PACKAGE: the version of the installed package, without epoch and Debian's revision.
version_of() { dpkg-query -W -f '${Version}\n' "$1" | sed -E 's/^[0-9]+://; s/-[^-]*$//'; }
# The kernel's clients have its version.
kernel_version() { echo "Linux $(uname -r | grep -oE '^[0-9]+\.[0-9]+(\.[0-9]+)?')"; }

# finish: removes the script's files in both machines and exits.
finish() {
	rm -rf "$work"
	on2 "rm -rf $work"
	# shellcheck disable=SC2154 # results.sh
	exit "$failed"
}
rm -rf "$work"
mkdir -p "$work"
on2 "rm -rf $work && mkdir -p $work"

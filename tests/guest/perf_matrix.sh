#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck disable=SC1091,SC2034,SC2154,SC2086
# Runs ibv_*_pingpong and perftest, as far as tern's transports allow: RC, UC, UD, XRC, with and
# without SRQ, event mode and rdma_cm (-R). usage: perf_matrix.sh
# [loopback|across][-brief|-rest]...; prints a line for each run, and a matrix. -brief runs each
# program once in each mode; -rest runs what -brief leaves out.
#
# Test: perf
# Tier: full, 3600 s
# Boot: pair
# Run: perf_matrix.sh across-brief
# Results: 22
# Proves: Ibv_*_pingpong and perftest, in one machine and between two: sizes 1 byte to 8 MiB, MTUs,
#   polling and events, several QPs, every transport, device memory, memory on demand. perftest
#   compares no data (verbs-judge and stress do): each program must succeed at both ends,
#   and the adapter must have moved as many bytes as its options say. So it is with rdmacm-utils and
#   qperf (cm) and in interop-brief. make test runs each program and mode once between two machines;
#   perf-rest, cm-loop and interop-programs have the others.
#
# Test: perf-rest
# Tier: long, 3600 s
# Boot: pair
# Run: perf_matrix.sh loopback across-rest
# Results: 206
# Proves: The other sizes, modes and places of perf.

set -u
group=perf
. "${0%/*}/pairs.sh"
port=18700

# One run of each program and mode: -brief runs these, -rest the others.
brief=" rc_pingpong-events rc_pingpong-dm rc_pingpong-v6 uc_pingpong-v4 ud_pingpong-v4
	srq_pingpong-v4 xsrq_pingpong-v4 rc_pingpong-odp-implicit ib_read_bw-odp ib_send_bw-bidir
	ib_write_bw-4qps ib_read_bw-all ib_send_lat-inline ib_write_lat-cm ib_read_lat-events
	ib_write_bw-write-imm ib_atomic_bw-FETCH_AND_ADD ib_atomic_lat-CMP_AND_SWAP ib_send_bw-srq
	ib_send_bw-UD-cm ib_write_bw-UC ib_send_lat-XRC "

# run NAME COMMAND...: runs COMMAND as server and client, if it belongs to $part. The client gets
# the server's address appended.
run() {
	name=$1
	shift
	case $brief in
	*[[:space:]]${name}[[:space:]]*) [ "$part" != rest ] || return 0 ;;
	*) [ "$part" != brief ] || return 0 ;;
	esac
	port=$((port + 1))
	host=$control
	case " $* " in *" -R "*) host=$ip ;; esac
	pair "$1" "$name" $port "$* -p $port" "$* -p $port $host"
}

pingpong() {
	rc="ibv_rc_pingpong -d $dev -g $gid"
	for mtu in 256 512 2048 4096; do
		run "rc_pingpong-m$mtu" $rc -m $mtu -n 200 -c
	done
	run rc_pingpong-m1024 $rc -m 1024 -n 200 -c
	for size in 1 63 4096 4097 1048576; do
		run "rc_pingpong-s$size" $rc -s $size -n 50 -c
	done
	run rc_pingpong-events $rc -e -n 200 -c
	run rc_pingpong-new-send $rc -N -n 200 -c
	run rc_pingpong-new-send-events $rc -N -e -n 200 -c
	run rc_pingpong-dm $rc -j -n 200 -c
	run rc_pingpong-dm-new-send-events $rc -j -N -e -n 200 -c
	run rc_pingpong-rx1 $rc -r 1 -n 200
	run rc_pingpong-v6 ibv_rc_pingpong -d $dev -g "$gid6" -n 200 -c
	for v in v4 v6; do
		g=$gid
		[ $v = v4 ] || g=$gid6
		run uc_pingpong-$v ibv_uc_pingpong -d $dev -g "$g" -n 200 -c
		run ud_pingpong-$v ibv_ud_pingpong -d $dev -g "$g" -n 200 -s 1024 -c
		run srq_pingpong-$v ibv_srq_pingpong -d $dev -g "$g" -q 4 -n 200 -c
		run xsrq_pingpong-$v ibv_xsrq_pingpong -d $dev -g "$g" -n 200
	done
	run uc_pingpong-s65536 ibv_uc_pingpong -d $dev -g "$gid" -m 1024 -s 65536 -n 50 -c
	run uc_pingpong-events ibv_uc_pingpong -d $dev -g "$gid" -e -n 200 -c
	run ud_pingpong-events ibv_ud_pingpong -d $dev -g "$gid" -e -n 200 -s 64 -c
	run srq_pingpong-events ibv_srq_pingpong -d $dev -g "$gid" -q 8 -e -n 200 -c
	run xsrq_pingpong-events ibv_xsrq_pingpong -d $dev -g "$gid" -e -n 200
}

# On-demand paging: explicit and implicit regions, with and without a prefetch.
on_demand() {
	run rc_pingpong-odp $rc -o -n 200 -c
	run rc_pingpong-odp-prefetch $rc -o -P -n 200 -c
	run rc_pingpong-odp-implicit $rc -O -n 200 -c
	run rc_pingpong-odp-implicit-prefetch $rc -O -P -s 1048576 -n 20 -c
	run rc_pingpong-odp-new-send-events $rc -o -N -e -n 200 -c
	run srq_pingpong-odp ibv_srq_pingpong -d $dev -g "$gid" -o -q 4 -n 200 -c
	for tool in ib_send_bw ib_write_bw ib_read_bw; do
		run "$tool-odp" $tool $common --odp -s 1048576 -n 20 --tx-depth=16
	done
	for tool in ib_send_lat ib_write_lat ib_read_lat ib_atomic_lat; do
		size="-s 4096"
		[ $tool != ib_atomic_lat ] || size=
		run "$tool-odp" $tool $common --odp $size -n 100
	done
}

perftest_rc() {
	for tool in ib_send_bw ib_write_bw ib_read_bw; do
		run "$tool-1byte" $tool $common -s 1 -n 200
		run "$tool-all" $tool $common -a -n 5 --tx-depth=16
		# perftest has no event mode for writes.
		[ $tool = ib_write_bw ] || run "$tool-events" $tool $common -e -s 65536 -n 100 --tx-depth=16
		run "$tool-bidir" $tool $common -b -s 65536 -n 100 --tx-depth=16
		run "$tool-4qps" $tool $common -q 4 -s 4096 -n 200 --tx-depth=16
		run "$tool-mtu256" $tool $common -m 256 -s 65536 -n 50 --tx-depth=16
		run "$tool-cm" $tool $common -R -s 65536 -n 50 --tx-depth=16
	done
	for tool in ib_send_lat ib_write_lat ib_read_lat; do
		run "$tool-all" $tool $common -a -n 5
		[ $tool = ib_write_lat ] || run "$tool-events" $tool $common -e -s 8 -n 200
		run "$tool-cm" $tool $common -R -s 8 -n 100
	done
	run ib_send_lat-inline ib_send_lat $common -I 64 -s 64 -n 200
	run ib_write_lat-write-imm ib_write_lat $common --write_with_imm -s 64 -n 200
	run ib_write_bw-write-imm ib_write_bw $common --write_with_imm -s 4096 -n 200 --tx-depth=16
	for tool in ib_atomic_bw ib_atomic_lat; do
		for kind in CMP_AND_SWAP FETCH_AND_ADD; do
			run "$tool-$kind" $tool $common -A $kind -n 200
		done
		run "$tool-events" $tool $common -e -n 200
		run "$tool-cm" $tool $common -R -n 100
	done
}

perftest_others() {
	for tool in ib_send_bw ib_send_lat; do
		depth=
		[ $tool = ib_send_lat ] || depth=--tx-depth=16
		qps=
		[ $tool = ib_send_lat ] || qps="-q 4"
		run "$tool-srq" $tool $common --use-srq $qps -s 4096 -n 100 $depth
		run "$tool-srq-events" $tool $common --use-srq -e -s 4096 -n 100 $depth
		for type in UC UD; do
			run "$tool-$type" $tool $common -c $type -s 1024 -n 200 $depth
			run "$tool-$type-events" $tool $common -c $type -e -s 1024 -n 100 $depth
			# perftest refuses -R with UC.
			[ $type = UC ] || run "$tool-$type-cm" $tool $common -c $type -R -s 1024 -n 100 $depth
		done
		run "$tool-UD-srq" $tool $common -c UD --use-srq -s 1024 -n 100 $depth
	done
	run ib_write_bw-UC ib_write_bw $common -c UC -s 65536 -n 50 --tx-depth=16
	run ib_write_lat-UC ib_write_lat $common -c UC -s 64 -n 200
	for tool in ib_send_bw ib_send_lat ib_write_bw ib_write_lat ib_read_bw ib_read_lat ib_atomic_bw ib_atomic_lat; do
		size="-s 4096"
		case $tool in ib_atomic*) size= ;; esac
		run "$tool-XRC" $tool $common -c XRC $size -n 100
		case $tool in ib_write*) ;; *) run "$tool-XRC-events" $tool $common -c XRC -e $size -n 100 ;; esac
	done
}

[ -n "$gid" ] || {
	not_ok gid "$dev has no IPv4 GID"
	exit 1
}
# An ACK timeout of 4 s: under load the peer may wait for a processor longer than perftest's default
# timeout.
common="-d $dev -x $gid -F -u 18"
for w in "${@:-loopback}"; do
	part=${w#*-}
	place "${w%%-*}"
	pingpong
	on_demand
	perftest_rc
	perftest_others
done
show_matrix
exit $failed

#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck disable=SC1091,SC2034,SC2154,SC2086
# Runs rdmacm-utils and qperf over IPv4 and IPv6. usage: cm_matrix.sh [loopback|across]...; prints a
# line for each, and a matrix.
#
# Test: cm
# Tier: full, 2400 s
# Boot: net-wire
# Run: cm_matrix.sh across
# Results: 41
# Proves: Rdma_cm: rdmacm-utils and qperf between two machines.
#
# Test: cm-loop
# Tier: long, 2400 s
# Boot: net-wire
# Run: cm_matrix.sh loopback
# Results: 41
# Proves: Cm in one machine.

set -u
group=cm
. "${0%/*}/pairs.sh"
port=17400

next() { port=$((port + 1)); }

# cmtime supports only IPv4, and connects made-up QP numbers: within one machine the two sides must
# differ. No udpong: datagrams of rsockets use address handles without a GRH, which RoCE refuses on
# any adapter.
both_families() {
	stream="-T v -S 4096 -C 50 -I 10"
	for a in "$ip" "$ip6"; do
		v=v4
		case $a in *:*) v=v6 ;; esac
		next
		pair rping rping-$v $port "rping -s -a $a -p $port -C 20 -V" "rping -c -a $a -p $port -C 20 -V"
		next
		pair ucmatose ucmatose-$v $port "ucmatose -b $a -p $port -c 4 -C 10 -S 4096" "ucmatose -s $a -p $port -c 4 -C 10 -S 4096"
		pair udaddy udaddy-$v 7174 "udaddy -b $a -c 4 -C 10 -S 1024" "udaddy -s $a -c 4 -C 10 -S 1024"
		next
		pair rstream rstream-$v $port "rstream -b $a -p $port $stream" "rstream -s $a -p $port $stream"
		next
		pair riostream riostream-$v $port "riostream -b $a -p $port $stream" "riostream -s $a -p $port $stream"
		next
		pair rdma_client rdma_client-$v $port "rdma_server -s $a -p $port" "rdma_client -s $a -p $port"
	done
}

variants() {
	next
	pair cmtime cmtime $port "cmtime -b $ip -p $port -c 20" "cmtime -s $ip -p $port -c 20 -q 5000"
	next
	pair rping rping-own-qp $port "rping -s -a $ip -p $port -C 20 -V -q" "rping -c -a $ip -p $port -C 20 -V -q"
	next
	pair rping rping-big $port "rping -s -a $ip -p $port -C 5 -V -S 65535" "rping -c -a $ip -p $port -C 5 -V -S 65535"
	next
	for size in 64 65536 1048576; do
		next
		pair rstream rstream-$size $port "rstream -b $ip -p $port -T v -S $size -C 20 -I 5" "rstream -s $ip -p $port -T v -S $size -C 20 -I 5"
		next
		pair riostream riostream-$size $port "riostream -b $ip -p $port -T v -S $size -C 20 -I 5" "riostream -s $ip -p $port -T v -S $size -C 20 -I 5"
	done
	next
	# Not -T a: rstream treats a hang-up that arrives with the last data as an error.
	pair rstream rstream-nonblocking $port "rstream -b $ip -p $port -T n -S 4096 -C 50 -I 10" "rstream -s $ip -p $port -T n -S 4096 -C 50 -I 10"
	next
	pair cmtime cmtime-threads $port "cmtime -b $ip -p $port -c 20 -n 4" "cmtime -s $ip -p $port -c 20 -n 4 -q 5000"
	for type in r x; do
		next
		pair rdma_xclient rdma_xclient-$type $port "rdma_xserver -p $port -c $type" "rdma_xclient -s $ip -p $port -c $type"
	done
	next
	head -c 8388608 /dev/urandom >/tmp/rcopy.from
	there "rm -f /tmp/rcopy.to"
	pair rcopy rcopy $port "&rcopy -p $port" "rcopy /tmp/rcopy.from $ip:/tmp/rcopy.to -p $port"
	if [ "$(sha256sum </tmp/rcopy.from)" = "$(there "sha256sum </tmp/rcopy.to")" ]; then
		ok "$where/rcopy-content"
	else
		not_ok "$where/rcopy-content" "the file differs"
	fi
}

# mckey with IPv4 only: the kernel's rdma_cm cannot join IPv6 groups on RoCEv2 (-ENOTSUPP).
multicast() {
	local_ip=10.77.0.1
	pair mckey mckey-v4 -1 "mckey -m 239.77.1.1 -b $ip -C 10" "mckey -m 239.77.1.1 -s -b $local_ip -C 10"
	pair mckey mckey-4 -4 "mckey -m 239.77.1.2 -b $ip -c 4 -C 10" "mckey -m 239.77.1.2 -s -b $local_ip -c 4 -C 10"
}

# Not ud_* and uc_*: qperf's address vectors have no GRH, which RoCE refuses on any adapter.
qperf_tests() {
	for t in rc_lat rc_bw rc_bi_bw rc_rdma_read_lat rc_rdma_read_bw rc_rdma_write_lat rc_rdma_write_bw rc_rdma_write_poll_lat \
		rc_compare_swap_mr rc_fetch_add_mr ver_rc_compare_swap ver_rc_fetch_add; do
		next
		pair qperf qperf-$t $port "&qperf -lp $port" "qperf -lp $port -ip $((port + 1000)) -to 120 -cm1 -t 1 $ip $t"
	done
}

for w in "${@:-loopback}"; do
	place "$w"
	both_families
	variants
	multicast
	qperf_tests
done
show_matrix
exit $failed

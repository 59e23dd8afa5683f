#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck disable=SC1091,SC2034,SC2154,SC2086
# rdmacm-utils and qperf, over IPv4 and IPv6. usage: cm_matrix.sh [loopback|across]...; a line each, and a matrix.
set -u
group=cm
. "${0%/*}/pairs.sh"
port=17400

next() { port=$((port + 1)); }

both_families() {
	for a in "$ip" "$ip6"; do
		v=v4
		case $a in *:*) v=v6 ;; esac
		next
		pair rping rping-$v $port "rping -s -a $a -p $port -C 20 -V" "rping -c -a $a -p $port -C 20 -V"
		next
		pair ucmatose ucmatose-$v $port "ucmatose -b $a -p $port -c 4 -C 10 -S 4096" "ucmatose -s $a -p $port -c 4 -C 10 -S 4096"
		pair udaddy udaddy-$v 7174 "udaddy -b $a -c 4 -C 10 -S 1024" "udaddy -s $a -c 4 -C 10 -S 1024"
		next
		pair rstream rstream-$v $port "rstream -b $a -p $port -T v -S all" "rstream -s $a -p $port -T v -S all"
		next
		pair riostream riostream-$v $port "riostream -b $a -p $port -T v -S all" "riostream -s $a -p $port -T v -S all"
		next
		pair cmtime cmtime-$v $port "cmtime -b $a -p $port -c 20" "cmtime -s $a -p $port -c 20"
		next
		pair udpong udpong-$v - "&udpong -b $a -p $port" "udpong -s $a -p $port -C 50 -S 1000"
		next
		pair rdma_client rdma_client-$v $port "rdma_server -s $a -p $port" "rdma_client -s $a -p $port"
	done
}

variants() {
	next
	pair rping rping-own-qp $port "rping -s -a $ip -p $port -C 20 -V -q" "rping -c -a $ip -p $port -C 20 -V -q"
	next
	pair rping rping-big $port "rping -s -a $ip -p $port -C 5 -V -S 65536" "rping -c -a $ip -p $port -C 5 -V -S 65536"
	next
	pair rstream rstream-async $port "rstream -b $ip -p $port -T a -S all" "rstream -s $ip -p $port -T a -S all"
	next
	pair cmtime cmtime-threads $port "cmtime -b $ip -p $port -c 20 -n 4" "cmtime -s $ip -p $port -c 20 -n 4"
	for type in r x; do
		next
		pair rdma_xclient rdma_xclient-$type $port "rdma_xserver -p $port -c $type" "rdma_xclient -s $ip -p $port -c $type"
	done
	next
	head -c 8388608 /dev/urandom >/tmp/rcopy.from
	there "rm -f /tmp/rcopy.to"
	pair rcopy rcopy $port "&rcopy -p $port" "rcopy -p $port /tmp/rcopy.from $ip:/tmp/rcopy.to"
	if [ "$(sha256sum </tmp/rcopy.from)" = "$(there "sha256sum </tmp/rcopy.to")" ]; then
		echo "ok $group/$where/rcopy-content"
	else
		failed=1
		echo "not ok $group/$where/rcopy-content - the file differs"
	fi
}

# mckey: the receiver has no port; it is told apart by the group. The sender stops by itself, as the receiver does.
multicast() {
	local_ip=10.77.0.1
	pair mckey mckey-v4 - "mckey -m 239.77.1.1 -b $ip -C 10" "mckey -m 239.77.1.1 -s -b $local_ip -C 10"
	pair mckey mckey-v6 - "mckey -m ff0e::77:1 -b $ip6 -C 10" "mckey -m ff0e::77:1 -s -b fd77::1 -C 10"
	pair mckey mckey-4 - "mckey -m 239.77.1.2 -b $ip -c 4 -C 10" "mckey -m 239.77.1.2 -s -b $local_ip -c 4 -C 10"
}

qperf_tests() {
	for t in rc_lat rc_bw rc_bi_bw rc_rdma_read_lat rc_rdma_read_bw rc_rdma_write_lat rc_rdma_write_bw rc_rdma_write_poll_lat \
		rc_compare_swap_mr rc_fetch_add_mr ver_rc_compare_swap ver_rc_fetch_add uc_lat uc_bw uc_bi_bw uc_rdma_write_lat \
		uc_rdma_write_bw uc_rdma_write_poll_lat ud_lat ud_bw ud_bi_bw; do
		next
		pair qperf qperf-$t $port "&qperf -lp $port" "qperf -lp $port -ip $((port + 1000)) -cm1 -t 1 $ip $t"
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

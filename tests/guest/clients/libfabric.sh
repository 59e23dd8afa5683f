#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# libfabric.sh: fi_pingpong, and fabtests of libfabric's source, over its verbs provider, alone and
# below ofi_rxm and ofi_rxd. fabtests itself compares the data where the option is -v or -V. A test
# that a provider cannot run says so with the status 61 (no data).
#
# Test: libfabric-brief
# Tier: full, 300 s
# Boot: clients
# Run: VIA=tern libfabric.sh pingpong
# Results: 1
# Proves: A row or two of the client, over tern alone.
#
# Test: libfabric
# Tier: clients, 900 s
# Boot: clients
# Results: 8

kind=messaging group=libfabric
# shellcheck source=tests/guest/clients/lib.sh
. "${0%/*}/lib.sh"
# shellcheck source=tests/guest/clients/messages.sh
. "${0%/*}/messages.sh"
port=9228

# A size is given where a test takes one: without it the tests register 1 GiB, half of the machine.
size="-I 20 -S 65536"
msg=("fi_msg_pingpong $size -v" "fi_msg_bw $size -v" "fi_rma_bw -e msg -o write $size" "fi_rma_bw -e msg -o read $size" "fi_rma_bw -e msg -o writedata $size"
	"fi_rma_pingpong -e msg -o writedata $size -v" "fi_cq_data -e msg -o senddata" "fi_msg_epoll" "fi_cm_data" "fi_shared_ctx -e msg --no-tx-shared-ctx")
# fi_shared_ctx is not here: ofi_rxm has no shared receive context, and fi_getinfo() says so with
# ENODATA.
rxm=("fi_rdm_pingpong $size -v" "fi_rdm_tagged_pingpong $size -v" "fi_rdm_tagged_bw $size -v" "fi_rma_bw -e rdm -o write $size -v" "fi_rma_bw -e rdm -o read $size"
	"fi_rdm_atomic -I 2 -o all -S 64 -v" "fi_unexpected_msg -e rdm -I 10 -v" "fi_multi_recv -e rdm $size" "fi_rdm_tagged_peek" "fi_rdm" "fi_recv_cancel -e rdm")
rxd=("fi_rdm_pingpong $size -v" "fi_rdm_tagged_pingpong $size -v" "fi_rdm_tagged_bw $size -v" "fi_rma_bw -e rdm -o write $size" "fi_unexpected_msg -e rdm -I 10 -v")

# one PROVIDER TEST: the test's server in vm2, its client here. Both must end well.
one() {
	local provider=$1 test=$2 env="FI_VERBS_DEVICE_NAME=$dev" status=0 there="-s $ip2" here="-s $ip1 $ip2"
	[[ $provider != *rxd ]] || there=-E here="-E $ip2"
	on2 "$env timeout 60 $programs/fabtests/$test -p '$provider' $there" >"$work/server" 2>&1 &
	# Some tests listen at a port of their own.
	on2 "for i in \$(seq 10); do wait-listen $port 1 || wait-listen 3000 1 && exit; done; exit 1" || status=1
	# shellcheck disable=SC2086 # words
	env $env timeout 60 $programs/fabtests/$test -p "$provider" $here >"$work/client" 2>&1 || status=$?
	[ "$status" = 0 ] || on2 "pkill -f fabtests/fi_"
	wait $! || status="$status, server $?"
	[ "$status" = 0 ] && return
	echo "$test: client $status"
	tail -n 3 "$work/client" "$work/server"
	return 1
}

# pingpong PROVIDER ENDPOINT: fi_pingpong of Debian's package compares its data.
pingpong() {
	local server
	on2 "timeout 60 fi_pingpong -p '$1' -d $dev -e $2 -c -I 20 -S 65536" >"$work/server" 2>&1 &
	server=$!
	on2 "wait-listen 47592 30" || { cat "$work/server" && return 1; }
	timeout 60 fi_pingpong -p "$1" -d "$dev" -e "$2" -c -I 20 -S 65536 "$ip2" >"$work/client" 2>&1 && wait $server || {
		tail -n 3 "$work/client" "$work/server"
		return 1
	}
	rate=$(awk '$1 == "64k" { print $6 " MB/s" }' "$work/client")
}

all() { # PROVIDER BANDWIDTH-TEST TEST...
	local provider=$1 bandwidth=$2 test
	shift 2
	for test; do one "$provider" "$test" || return; done
	one "$provider" "$bandwidth -S 1048576 -W 4 -I $((mib * 2)) -v" || return
	rate=$(awk '$1 == "1m" { print $5 " MB/s" }' "$work/client" | tail -n 1)
}

version=$(version_of libfabric1)
compare pingpong "libfabric, verbs: fi_pingpong" "$version" "RC: SEND" "messages of 64 KiB, every byte compared at both ends" by_device pingpong verbs msg
for list in msg rxm rxd; do
	declare -n tests=$list
	verified="${#tests[@]} of fabtests, most of which compare the data"
	case $list in
	msg) compare msg "libfabric, verbs" "$version" "RC: SEND, RDMA WRITE and READ" "$verified" by_device all verbs fi_msg_bw "${tests[@]}" ;;
	rxm) fails_on="soft-roce" match="fi_enable.*ret=-22" why="ofi_rxm asks for a CQ of 262144 entries, and Soft-RoCE has 32767" \
		compare rxm "libfabric, verbs;ofi_rxm" "$version" "RC: SEND, RDMA WRITE and READ, SRQ" "$verified" by_device all "verbs;ofi_rxm" fi_rdm_tagged_bw "${tests[@]}" ;;
	rxd) compare rxd "libfabric, verbs;ofi_rxd" "$version" "UD: SEND" "$verified" by_device all "verbs;ofi_rxd" fi_rdm_tagged_bw "${tests[@]}" ;;
	esac
done
finish

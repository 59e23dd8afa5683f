#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# ucx.sh: UCX's kinds of communication between two workers, each with every byte compared, with no
# setting of UCX over tern.
#
# Test: ucx
# Tier: clients, 900 s
# Boot: messaging
# Results: 16

kind=messaging group=ucx
# shellcheck source=tests/guest/clients/lib.sh
. "${0%/*}/lib.sh"
# shellcheck source=tests/guest/clients/messages.sh
. "${0%/*}/messages.sh"
port=13340

move() { # KIND [SETTING...]
	local kind=$1 settings
	shift
	mapfile -t settings < <(ucx_settings)
	[ $# = 0 ] || settings=("$@")
	on2 "${settings[*]} timeout 100 $programs/ucx $port" >"$work/server" 2>&1 &
	on2 "timeout 30 wait-listen $port" || return
	by_device both_ends "$kind" $! "${settings[@]}"
}
# For Soft-RoCE the adapter's name is needed: by itself, UCX takes the faster one.
no_settings() {
	if [ "$via" = tern ]; then move "$1"; else move "$1" UCX_NET_DEVICES=rxe0:1; fi
}
both_ends() { # KIND SERVER [SETTING...]
	local status=0
	rate=$(env "${@:3}" timeout 100 "$programs/ucx" $port "$ip2" "$1" "$mib") || status=1
	wait "$2" || status=1
	cat "$work/server"
	return $status
}

version=$(version_of libucx0)
every="sizes from 1 byte to 1 MiB, every byte compared at both ends"
remark=$by_tcp
compare tag "UCX tag matching" "$version" "RC, UD: SEND, RDMA READ" "$every" move tag
compare stream "UCX streams" "$version" "RC, UD: SEND" "$every" move stream
compare am "UCX active messages" "$version" "RC, UD: SEND, RDMA READ" "$every" move am
compare put "UCX put" "$version" "RC, UD: RDMA WRITE" "$every" move put
compare get "UCX get" "$version" "RC, UD: RDMA READ" "$every" move get
remark="UCX does them in software over verbs, which lack some of its operations; $by_tcp" \
	compare atomics "UCX atomics" "$version" "RC, UD: SEND" "32 and 64 bits: each returned value, and the result at the other end" move atomic
loss=1 compare loss "UCX tag matching" "$version" "RC, UD: SEND, RDMA READ" "$every" move tag
remark="" fails_on=soft-roce why=$drops match="unhandled timeout error" \
	compare defaults "UCX, no settings" "$version" "RC, UD: SEND, RDMA READ" "$every" no_settings tag
finish

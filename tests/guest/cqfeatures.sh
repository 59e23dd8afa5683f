#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck disable=SC2154
# cqfeatures.sh: runs cqfeatures, then ibv_rc_pingpong with timestamps, in one machine and across.
cqfeatures
own=$?
. "${0%/*}/pairs.sh"
group=cqfeatures
for machine in loopback across; do
	place $machine
	# The addresses' order, and so the index, may be another there.
	server_gid=$(there "gid-index v4")
	pair ibv_rc_pingpong rc_pingpong-ts 18803 "ibv_rc_pingpong -d $dev -g $server_gid -n 500 -t -c -p 18803" \
		"ibv_rc_pingpong -d $dev -g $gid -n 500 -t -c -p 18803 $control"
done
[ $own = 0 ] && [ "$failed" = 0 ]

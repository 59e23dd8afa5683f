#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck disable=SC2154
# bare.sh DEVICE: tests a device without memory windows, device memory and on-demand paging.
#
# Test: bare
# Tier: full, 600 s
# Boot: iommu
# Run: bare.sh tern1
# Results: 10
# Proves: A device with dm-size=0, max-mw=0 and odp=off: it reports so, the verbs answer EOPNOTSUPP,
#   no object is counted, the rest works.

. "${0%/*}/pairs.sh"
group=bare
part devmem -b -d "$1" || failed=1
dev=$1
gid=$(gid-index v4 "$dev")
pair ibv_rc_pingpong rc_pingpong 18801 "ibv_rc_pingpong -d $dev -g $gid -n 100 -c -p 18801" "ibv_rc_pingpong -d $dev -g $gid -n 100 -c -p 18801 $control"
pair ib_write_bw ib_write_bw 18802 "ib_write_bw -d $dev -x $gid -F -n 100 -p 18802" "ib_write_bw -d $dev -x $gid -F -n 100 -p 18802 $control"
# The program must report that device memory is missing.
if out=$(ibv_rc_pingpong -d "$dev" -g "$gid" -j -n 10 2>&1); then
	not_ok rc_pingpong-dm "it runs"
elif [[ $out == *"support dm"* ]]; then
	ok rc_pingpong-dm
else
	not_ok rc_pingpong-dm "$out"
fi
exit "$failed"

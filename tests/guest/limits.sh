#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# limits.sh: the cgroup controller rdma limits a process that makes QPs without end, and nobody
# else.
#
# Test: limits
# Tier: quick, 300 s
# Boot: pair
# Results: 6
# Proves: A process in a cgroup with a limit of objects (rdma.max) gets EAGAIN there, others get
#   theirs, and what it frees is available again.

group=limits
# shellcheck source=tests/guest/results.sh
. "${0%/*}/results.sh"

cgroup=/sys/fs/cgroup
mountpoint -q $cgroup || mount -t cgroup2 none $cgroup
echo +rdma >$cgroup/cgroup.subtree_control
mkdir -p $cgroup/limited
echo "tern0 hca_handle=2 hca_object=40" >$cgroup/limited/rdma.max

qps() { python3 "${0%/*}/qps.py" tern0 "$1"; } # WANTED
limited() { (echo $BASHPID >$cgroup/limited/cgroup.procs && qps 1000); }

before=$(tern-objects)
# A PD, a CQ and the context's own objects leave a few QPs less than the limit.
found=$(limited)
# shellcheck disable=SC2086
set -- $found
check limited [ "${1:-0}" -gt 20 -a "${1:-0}" -lt 40 ]
check errno [ "${2:-0}" = 11 ]
check others [ "$(qps 100)" = 100 ]
check freed [ "$(limited)" = "$found" ]
check objects [ "$(tern-objects)" = "$before" ]
check uncharged grep -q 'tern0 hca_handle=0 hca_object=0' $cgroup/limited/rdma.current
# Linux frees a removed cgroup that has limits while the device's list still refers to it: the end
# of the device then corrupts memory.
echo "tern0 hca_handle=max hca_object=max" >$cgroup/limited/rdma.max
rmdir $cgroup/limited
exit $failed

#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# openmpi.sh: Open MPI over UCX with 2 and 4 ranks on vm1 and vm2, or with 8 on 8 machines (ranks-8,
# in a boot that has them). Debian's /etc/openmpi/openmpi-mca-params.conf excludes UCX and
# libfabric, so that MPI takes TCP unless it is told otherwise. One-sided operations are slow over
# plain verbs: UCX does atomics in software, in the target's process, with a strong fence before
# each. UCX's ud ignores that fence. Its rc refuses it on any adapter but mlx5 and prints two or
# three errors for each operation ("flush(remote) is not supported"); Open MPI's daemons forward
# each line, on the processors on which the ranks poll. 200 rounds of two ranks on an idle host took
# 0.8 s over rc and 0.12 s over ud; 0.16 to 0.22 s over rc with UCX_LOG_LEVEL=fatal, 0.15 to 0.22 s
# with UCX_FENCE_MODE=weak. A put and its flush took 40 us over rc and 118 us over ud.
#
# Test: openmpi
# Tier: clients, 900 s
# Boot: messaging
# Results: 4
#
# Test: openmpi-8
# Tier: clients, 1500 s
# Lane: trixie
# Boot: alone --vms 8 --mem 640M --virtio-wire --package libucx0,openmpi-bin
# Run: openmpi.sh ranks-8
# Results: 2
# Proves: Eight ranks on eight machines. Eight debug kernels on two processors do not end in hours.
#   Eight debug kernels on two processors do not end in hours.

kind=messaging group=openmpi
# shellcheck source=tests/guest/clients/lib.sh
. "${0%/*}/lib.sh"
# shellcheck source=tests/guest/clients/messages.sh
. "${0%/*}/messages.sh"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

run() { # RANKS MACHINES
	local ranks=$1 chosen=() setting hosts
	for setting in $(ucx_settings); do chosen+=(-x "$setting"); done
	hosts=$(seq -f "vm%g:$((ranks / $2))" -s , "$2")
	by_device timeout -k 5 $((limit - 20)) mpirun -H "$hosts" --mca pml ucx --mca osc ucx "${chosen[@]}" \
		"$programs/mpi-openmpi" 20 "$mib" >"$work/out" 2>&1 || late_failure $? "$work/out" || { last "$work/out"; return 1; }
	grep -q 'all ranks compared everything' "$work/out" || { cat "$work/out"; return 1; }
	rate=$(sed -n 's/^rate //p' "$work/out")
}

version="$(version_of libopenmpi40), UCX $(version_of libucx0)"
verified="every rank compares what it gets: point to point, collectives, put, get, atomics"
for n in 2 4 8; do
	machines=2
	if [ $n = 8 ]; then
		[[ $only == *" ranks-8 "* ]] || continue
		machines=8 limit=600
	fi
	remark="with --mca pml ucx --mca osc ucx, which Debian's configuration excludes; UCX's rc refuses the fence before an atomic and prints errors, which takes most of the time (UCX_FENCE_MODE=weak avoids it); $by_tcp" \
		compare "ranks-$n" "Open MPI, $n ranks, $machines machines" "$version" "UCX: RC, UD" "$verified" run "$n" "$machines"
done
finish

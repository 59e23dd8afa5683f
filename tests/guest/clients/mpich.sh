#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# mpich.sh: MPICH with 2 and 4 ranks on vm1 and vm2. Debian builds it for UCX (ch4:ucx), not for
# libfabric.
#
# Test: mpich
# Tier: clients, 900 s
# Boot: messaging
# Results: 5

kind=messaging group=mpich
# shellcheck source=tests/guest/clients/lib.sh
. "${0%/*}/lib.sh"
# shellcheck source=tests/guest/clients/messages.sh
. "${0%/*}/messages.sh"

run() { # RANKS
	local setting=() word
	for word in $(ucx_settings); do setting+=(-genv "${word%%=*}" "${word#*=}"); done
	by_device timeout -k 5 120 mpiexec.mpich -hosts "vm1:$(($1 / 2)),vm2:$(($1 / 2))" -iface ctl0 -n "$1" "${setting[@]}" "$programs/mpi-mpich" 20 "$mib" >"$work/out" 2>&1 || late_failure $? "$work/out" ||
		{ last "$work/out"; return 1; }
	grep -q 'all ranks compared everything' "$work/out" || { cat "$work/out"; return 1; }
	rate=$(sed -n 's/^rate //p' "$work/out")
}

if check ucx grep -q ch4:ucx <(mpichversion); then
	for n in 2 4; do
		remark="Debian builds MPICH for UCX, not for libfabric; $by_tcp" compare "ranks-$n" "MPICH, $n ranks" "$(version_of libmpich12), UCX $(version_of libucx0)" "UCX: RC, UD" \
			"every rank compares what it gets: point to point, collectives, put, get, atomics" run "$n"
	done
fi
finish

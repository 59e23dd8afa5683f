#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# kunit.sh: loads the drivers' KUnit modules and prints the result of each test. The debug lane's
# kernel has KUnit built in.
#
# Test: kunit
# Tier: quick, 600 s
# Lane: debug
# Boot: single
# Results: 207
# Proves: Lane debug: KUnit tests of every pure function of the drivers. Rings, phases, tags,
#   status codes and vectors (tern_util); the receive filter (tern_filter); work requests, queue
#   sizes and completions (tern_ib_ring); the memory of kernel queues, of every maximum, of all
#   proportions, and without memory (tern_ib_kbuf); limits, capabilities, and checks of the
#   arguments of CQs, SRQs and QPs (tern_ib_limits, tern_ib_qp); access flags, address vectors,
#   page lists and send WQEs (tern_ib). They need no device. A stub is the device of on-demand
#   regions (tern_ib_odp, tern_ib_odp_pages), revoked dma-bufs (tern_ib_revoke) and completion
#   counters (tern_ib_comp_cntr). The admin queue (tern_aq) runs against a device made of memory:
#   answers in any order, late, twice, to nobody's request, without an interrupt, or none at all.
#   So does the network device (tern_net): a new MTU without memory, queues that the device
#   refuses, a receive ring without buffers, an error during removal, a frame for a queue that was
#   removed, a sender of XDP frames beside the stack, a channel whose queues are replaced, rules
#   that the device refuses meanwhile; and the PTP clock (tern_ptp), whose page follows it. make
#   kunit runs them alone.


. /tern/conf
shopt -s nullglob
suites=0
for ko in "/mnt/tern/$OUT"/tern*_test.ko; do
	module=${ko##*/} module=${module%.ko}
	before=$(ls /sys/kernel/debug/kunit)
	if ! insmod "$ko"; then
		echo "not ok kunit/$module - cannot be loaded"
		continue
	fi
	for suite in $(comm -13 <(echo "$before") <(ls /sys/kernel/debug/kunit)); do
		suites=$((suites + 1))
		/mnt/tern/tests/tap/ktap -v group=kunit "/sys/kernel/debug/kunit/$suite/results"
	done
	rmmod "$module" || echo "not ok kunit/$module - cannot be unloaded"
done
[ $suites -gt 0 ] || echo "not ok kunit - no suite ran"

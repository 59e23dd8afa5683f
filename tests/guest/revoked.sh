#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# revoked.sh: dma-bufs whose exporter takes the memory back, in regions of an adapter with on-demand
# paging (tern0) and of one without (tern1).
#
# Test: revoked
# Tier: full, 600 s
# Also: testing
# Boot: iommu
# Results: 10
# Proves: An exporter revokes a dma-buf of a region: the keys stay and refer to nothing, also for
#   requests under way and while regions are registered; not a byte is written afterwards.

group=revoked
# shellcheck source=tests/guest/results.sh
. "${0%/*}/results.sh"
for ko in /mnt/tern/build/kmod-*/kernel/tests/tern_exporter.ko; do
	[ "$(modinfo -F vermagic "$ko" | cut -d' ' -f1)" = "$(uname -r)" ] && break
done
alive() { tern-objects "$1" | grep -E '^alive_(pd|cq|mr|qp) ' | xargs; }
same() { [ "$(alive "$1")" = "$2" ]; }
insmod "$ko"
for dev in tern0 tern1; do
	before=$(alive $dev)
	part odp --revoke -d $dev || failed=1
	check $dev/leaves-nothing until_true 60 same $dev "$before"
done
rmmod tern_exporter
exit "$failed"

#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# iommu.sh: an IOMMU translates what the adapter accesses, and RC does all it does without one.
#
# Test: ternd-iommu
# Tier: full, 600 s
# Boot: ternd-iommu
# Results: 87
# Proves: RC operations behind a vIOMMU whose mappings reach ternd page by page and go in ranges,
#   with traffic.
#
# Test: iommu
# Tier: full, 600 s
# Boot: iommu
# Results: 87
# Proves: Reliable connections with an emulated VT-d between adapter and memory, where each access
#   of the device is translated: the kernel says that it translates those of the adapter, and the
#   driver's queues have other addresses for the device than in memory.

group=$TEST_NAME
# shellcheck source=tests/guest/results.sh
. "${0%/*}/results.sh"
pci=$(readlink -e /sys/class/infiniband/tern0/device)
# Not "identity", in which addresses are passed through.
translated() { grep '^DMA' "$pci/iommu_group/type"; }
# The base of the admin queue, as the device has it (AQ_BASE_LO), is no address of the machine's 2
# GiB: Linux gives out the highest ones below 4 GiB.
elsewhere() {
	local bar register
	read -r bar _ <"$pci/resource"
	register=$(labctl qmp vm1 human-monitor-command command-line="xp /1wx $(printf %#x $((bar + 0x20)))") || return
	echo "$register"
	[[ $register =~ ": "(0x[0-9a-f]+) ]] && [ $((BASH_REMATCH[1])) -gt $((2 << 30)) ]
}
check translated translated
check queue-at-another-address elsewhere
part verbs-rules --strict "connections/*" || failed=1
exit "$failed"

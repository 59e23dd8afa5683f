#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# kverbs.sh: tests kernel verbs. tern_kverbs.ko: use, unload of the driver, and unload with a dead
# device. tern_kqueues.ko: the largest queues, in fragmented memory.
#
# Test: kverbs
# Tier: quick, 600 s
# Boot: single
# Results: 138
# Proves: Kernel verbs: fast registration, windows and queues of a kernel consumer.

. /tern/conf
group=kverbs
# shellcheck source=tests/guest/results.sh
. "${0%/*}/results.sh"
for ko in /mnt/tern/build/kmod-*/kernel/tests/tern_kverbs.ko; do
	[ "$(modinfo -F vermagic "$ko" | cut -d' ' -f1)" = "$(uname -r)" ] && break
done
bdf=$(basename "$(dirname /sys/bus/pci/drivers/tern/*/net)")
pci=/sys/bus/pci/devices/$bdf
seen=0
report() { # PART: prints the results that the module reported since the last call
	local lines
	mapfile -t lines < <(dmesg | sed -n 's/.*kverbs: \(\(not \)\?ok .*\)/\1/p')
	printf '%s\n' "${lines[@]:seen}" | sed "s|kverbs/|kverbs/$1/|"
	seen=${#lines[@]}
}
alive() { tern-objects | grep -E '^alive_(pd|cq|mr|qp) ' | xargs; }
settled() { # COUNTS: waits, because uverbs and others release objects a little later
	local i
	for ((i = 0; i < 600; i++)); do
		[ "$(alive)" = "$1" ] && return
		sleep 0.1
	done
	return 1
}
mapfile -t old < <(dmesg | grep 'kverbs: .*ok ')
seen=${#old[@]}

before=$(alive)
insmod "$ko"
report use
rmmod tern_kverbs
report end
check leaves-nothing settled "$before"

insmod "${ko%/*}/tern_kqueues.ko"
report queues
rmmod tern_kqueues
check leaves-nothing-queues settled "$before"

insmod "$ko"
report unload-use
rmmod tern_ib
report unload
tern-up
report load-use

# With memory decoding off, reads of the function return all ones, as after surprise removal.
printf '\0\0' | dd of="$pci/config" bs=1 seek=4 conv=notrunc status=none
sleep 3
check dead-unload timeout 300 rmmod tern_ib
report dead
printf '\6\0' | dd of="$pci/config" bs=1 seek=4 conv=notrunc status=none
echo 1 >"$pci/reset"
tern-up
report revived-use
check unused timeout 300 rmmod tern_kverbs
report revived
check leaves-nothing-dead settled "$before"
exit $failed

#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# plugged.sh: memory is plugged and unplugged while the adapter works. Runs in vm1, booted with less
# memory than it registers.
#
# Test: ternd-plugged
# Tier: full, 600 s
# Boot: beside --vms 1 --front vfio-user --mem 512M --qemu-arg=-m --qemu-arg=slots=2,maxmem=4G
# Results: 10
# Proves: Memory is plugged under traffic; a region that needs it is written and compared. Memory
#   that the guest does not use is unplugged again.

set -u
group=plugged
# shellcheck source=tests/guest/results.sh
. "${0%/*}/results.sh"
gib=1073741824
auto=/sys/devices/system/memory/auto_online_blocks
total() { awk '/MemTotal/ { print $2 * 1024 }' /proc/meminfo; }
# Bytes that the adapter can reach.
reached() { labctl state vm1 | sed 's/.*"memory": \([0-9]*\).*/\1/'; }
reaches() { [ "$(reached)" = "$1" ]; }
plug() { # N
	labctl qmp vm1 object-add qom-type=memory-backend-memfd "id=plugged$1" size=$gib share=true &&
		labctl qmp vm1 device_add driver=pc-dimm "id=dimm$1" "memdev=plugged$1"
}
unplugged() { [ "$(reached)" = "$first" ] && labctl qmp vm1 object-del id=plugged2; }
traffic() { kill -0 $writer; }

boot=$(reached)
ib_write_bw -d tern0 -x "$(gid-index)" -F -s 65536 -D 600 -p 18600 >/dev/null 2>&1 &
wait-listen 18600
ib_write_bw -d tern0 -x "$(gid-index)" -F -s 65536 -D 600 -p 18600 127.0.0.1 >/dev/null 2>&1 &
writer=$!

before=$(total)
echo online >$auto
check plug plug 1
check reached until_true 30 reaches $((boot + gib))
grown() { [ "$(total)" -gt $((before + gib * 9 / 10)) ]; }
check online until_true 60 grown
first=$(reached)
check data python3 "${0%/*}/plugged.py" $((before / 1048576 + 100)) "$(gid-index)"
check traffic traffic

# Memory that the guest does not use can go again.
echo offline >$auto
check plug-offline plug 2
check reached-offline until_true 30 reaches $((boot + 2 * gib))
check unplug labctl qmp vm1 device_del id=dimm2
check unplugged until_true 60 unplugged
check traffic-after traffic
kill $writer
exit $failed

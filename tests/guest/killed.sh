#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# killed.sh: kills the QEMU of vm3 under traffic, while it boots, and in its driver's probe, and
# starts another one on the same socket, while vm1 and vm2 exchange data and compare it. Runs in
# vm1, with adapters of ternd.
#
# Test: ternd-killed
# Tier: long, 2400 s
# Boot: --vms 3 --front vfio-user
# Results: 29
# Proves: The QEMU of a third machine is killed under traffic, while it boots, and in its driver's
#   probe. Each time its adapter is reset and its link goes down, while the other two exchange data
#   and compare it; another QEMU attaches to the same socket.

set -u
group=killed
# shellcheck source=tests/guest/results.sh
. "${0%/*}/results.sh"
work=$(mktemp -d)
mark=/mnt/share/killed

# shellcheck source=tests/guest/others.sh
. "${0%/*}/others.sh"

# vm3 after the first kill has no other network than tern's.
there() { ssh -o ControlMaster=no -o ControlPath=none -o ConnectTimeout=10 10.77.0.3 "$@"; }
state() { labctl state vm3 | tr -d ' "'; }
unattached() { [ "$(state)" = '{link:false,attached:false,memory:0,queue_pairs:0,keys:0}' ]; }
attached() { state | grep -q attached:true; }
boots() { labctl power vm3 on && until_true 400 there true; }
# After a kill the adapter is reset, and the others are not disturbed.
after() { # NAME
	check "$1-reset" until_true 20 unattached
	check "$1-others" others_go_on
}

others >/dev/null 2>&1 &
check others others_go_on

# Under traffic, of its own and of a peer's.
ssh vm3 'ib_write_bw -d tern0 -x "$(gid-index)" -F -b -s 65536 -D 600 -p 18600' >/dev/null 2>&1 &
ssh vm3 'wait-listen 18600'
ib_write_bw -d tern0 -x "$(gid-index)" -F -b -s 65536 -D 600 -p 18600 10.77.0.3 >/dev/null 2>&1 &
peer=$!
sleep 5
check traffic-runs kill -0 $peer
check traffic-kill labctl power vm3 off
after traffic
kill $peer 2>/dev/null

# While it boots: the firmware, the kernel; its adapter has no driver yet.
for seconds in 1 5; do
	check boot-$seconds-on labctl power vm3 on
	check boot-$seconds-attaches until_true 60 attached
	sleep $seconds
	check boot-$seconds-no-driver sh -c '! ping -c 1 -W 1 -q 10.77.0.3'
	check boot-$seconds-kill labctl power vm3 off
	after boot-$seconds
done

# In the driver's probe: it waits for the answer to a command, which the adapter drops.
in_probe() { labctl faults vm3 | grep -q 'applied 1'; }
check probe-on boots
check probe-fault labctl faults vm3 'admin-drop opcode=query-caps nth=1'
# shellcheck disable=SC2016
check probe-begin there 'cat >/run/probe && chmod +x /run/probe && setsid -f /run/probe >/dev/null 2>&1 </dev/null' <<-END
	#!/bin/bash
	sleep 1
	for pci in /sys/bus/pci/drivers/tern/*:*; do pci=\${pci##*/}; done
	echo \$pci >/sys/bus/pci/drivers/tern/unbind
	echo \$pci >/sys/bus/pci/drivers/tern/bind
	touch $mark.ended
END
check probe-waits until_true 60 in_probe
check probe-kill labctl power vm3 off
check probe-not-ended [ ! -e $mark.ended ]
after probe
check probe-fault-removed labctl faults vm3 -

# The next one works.
check again-on boots
check again-data sh -c "ssh -o ControlMaster=no -o ControlPath=none 10.77.0.3 'timeout 120 rping -s -a 10.77.0.3 -p 7181 -C 50 -S 40000 -V' &
	sleep 5; timeout 120 rping -c -a 10.77.0.3 -p 7181 -C 50 -S 40000 -V && wait \$!"
check again-others others_go_on
# shellcheck disable=SC2046
kill $(jobs -p) 2>/dev/null
# The shared connection to the first vm3 is dead: a command over it would wait for its timeout.
ssh -O exit vm3 2>/dev/null
rm -rf $mark.ended "$work"
exit $failed

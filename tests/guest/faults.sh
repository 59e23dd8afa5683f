#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# faults.sh: tests fault injection, mostly in vm2's adapter, and its effects on the driver and on
# programs: rules and their counts, lost commands, a failed device, link changes. micro tests faults
# of single packets.
#
# Test: faults
# Tier: full, 900 s
# Boot: faults
# Results: 33
# Proves: Rules by QMP: refused ones and their errors, counts, the ICRC modes, commands without
#   answer, memory that cannot be reached, link down and up with their events, a fatal error;
#   afterwards everything is as before.

set -u
group=faults
# shellcheck source=tests/guest/results.sh
. "${0%/*}/results.sh"
log=$(mktemp)
hw=/sys/class/infiniband/tern0/ports/1/hw_counters
state=/sys/class/infiniband/tern0/ports/1/state

on2() {
	# shellcheck disable=SC2029 # expanded here
	ssh vm2 "$@"
}
counter() { on2 "sleep 0.05; cat $hw/$1"; }
refuses() { # TEXT ERROR
	local out
	out=$(labctl faults vm2 "$1" 2>&1) && return 1
	echo "$out"
	[[ $out == *"$2"* ]]
}
pingpong() { # OPTION...: from this machine to vm2
	on2 "timeout 200 ibv_rc_pingpong -d tern0 -g \$(gid-index) $*" >"$log.server" 2>&1 &
	local server=$!
	on2 'wait-listen 18515'
	# shellcheck disable=SC2068 # options are words
	timeout 200 ibv_rc_pingpong -d tern0 -g "$(gid-index)" $@ 10.78.0.2 && wait $server
	local status=$?
	cat "$log.server"
	return $status
}
pci=$(on2 'basename $(readlink -f /sys/class/infiniband/tern0/device)')
reset_vm2() {
	on2 "echo 1 >/sys/bus/pci/devices/$pci/reset && tern-up"
}

# The tests examine a failed device before it is recovered.
check no-recovery-by-itself on2 "devlink health set pci/$pci reporter fw_fatal auto_recover false"

# Rules are refused with a reason, counted and cleared.
labctl faults vm1 -
labctl faults vm2 -
check refused-action refuses 'lose tx' "no action 'lose'"
check refused-value refuses 'drop tx; drop rx nth=0' 'rule 2: nth must be from 1'
check refused-icrc sh -c '! labctl icrc vm2 sometimes'
check no-rules test -z "$(labctl faults vm2)"

# With faults in both directions every byte arrives: -c compares them.
wire() { # tx|rx SEED
	echo "drop $1 rate=1% seed=${2}1; duplicate $1 rate=1% seed=${2}2; reorder=2 $1 rate=1% seed=${2}3; corrupt=any $1 rate=1% seed=${2}4"
}
labctl faults vm2 "$(wire tx 5); $(wire rx 6)"
before=$(counter rx_icrc_encapsulated)
check data-over-a-bad-wire pingpong -c -n 300 -s 20000 -m 1024
labctl faults vm2 | tee "$log.rules"
check each-rule-was-applied sh -c "grep -q applied $log.rules && ! grep 'applied 0$' $log.rules"
check icrc-errors-are-counted test "$(counter rx_icrc_encapsulated)" -gt "$before"
labctl faults vm2 -
before=$(counter duplicate_request)/$(counter out_of_sequence)/$(counter rx_icrc_encapsulated)
check no-rules-no-faults pingpong -c -n 300 -s 20000 -m 1024
check counters-stay test "$(counter duplicate_request)/$(counter out_of_sequence)/$(counter rx_icrc_encapsulated)" = "$before"

# The link goes down and up, with events.
# shellcheck disable=SC2016 # expanded in vm2
on2 'stdbuf -oL ibv_asyncwatch -d tern0 >/run/watch 2>&1 </dev/null & echo $! >/run/watch.pid'
until_true 30 on2 'grep -q "async event FD" /run/watch'
check link-goes-down sh -c "labctl link vm2 down && ssh vm2 'for i in \$(seq 300); do grep -q DOWN $state && exit; sleep 0.1; done; exit 1'"
check no-traffic-without-link sh -c '! ping -c 1 -W 1 10.77.0.2'
check link-comes-up sh -c "labctl link vm2 up && ssh vm2 'for i in \$(seq 300); do grep -q ACTIVE $state && exit; sleep 0.1; done; exit 1'"
check port-events until_true 30 on2 'grep -q PORT_ERR /run/watch && grep -q PORT_ACTIVE /run/watch'
on2 'cat /run/watch; kill $(cat /run/watch.pid)'
check traffic-after-link pingpong -c -n 50

# A lost command in each machine, at the same time because each takes half a minute. In vm1 only its
# caller fails, and the device continues. In vm2 the command gave memory to the device: the driver
# stops the device, and a reset recovers it.
labctl faults vm1 'admin-drop opcode=query-counters nth=1'
labctl faults vm2 'admin-drop opcode=create-mr nth=1'
cat $hw/tx_rdma_packets >"$log.lost" 2>&1 &
lost=$!
check registration-fails sh -c "! ssh vm2 'timeout 120 ibv_rc_pingpong -d tern0 -g 1 </dev/null'"
wait $lost
check command-times-out grep -i 'timed out' "$log.lost"
check next-command-is-answered cat $hw/tx_rdma_packets
check lost-command-is-counted grep -q 'applied 1$' <(labctl faults vm1)
labctl faults vm1 -
labctl faults vm2 -
check stopped-device-answers-nothing sh -c "! ssh vm2 'cat $hw/tx_rdma_packets'"
check reset-brings-it-back reset_vm2
check traffic-after-both pingpong -c -n 50

# A fatal error: at once, then at a packet.
labctl faults vm2 fatal
check fatal-is-noticed until_true 30 sh -c "! ssh vm2 'cat $hw/tx_rdma_packets' 2>/dev/null"
labctl faults vm2 -
check reset-after-fatal reset_vm2
on2 '/mnt/tern/build/guest/removal fatal' >"$log.watch" 2>&1 &
watcher=$!
check victim-is-ready until_true 60 grep -q ready "$log.watch"
labctl faults vm2 'fatal tx opcode=request transport=rc nth=20'
on2 'ib_write_bw -d tern0 -x $(gid-index) -F -D 600 -p 18600 >/dev/null 2>&1 </dev/null &'
on2 'wait-listen 18600; ib_write_bw -d tern0 -x $(gid-index) -F -D 600 -p 18600 127.0.0.1 >/dev/null 2>&1 </dev/null &'
check victim-ends-by-itself wait $watcher
pass_on "$log.watch"
check fatal-is-counted grep -q 'applied 1$' <(labctl faults vm2)
labctl faults vm2 -
on2 end-test
check reset-after-fatal-under-traffic reset_vm2

check all-is-as-before pingpong -c -n 300 -s 20000
rm -f "$log" "$log".*
exit $failed

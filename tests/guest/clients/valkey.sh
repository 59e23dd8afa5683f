#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# valkey.sh: valkey over RDMA in vm2, and its own test in vm1, which sets random values and compares
# what it gets. Debian's valkey lacks RDMA: lab/build/client-programs makes it.
#
# Test: valkey
# Tier: clients, 900 s
# Boot: clients
# Results: 2

kind=sockets group=valkey
# shellcheck source=tests/guest/clients/lib.sh
. "${0%/*}/lib.sh"
keys=1000
clients=4

serve() {
	on2 "rm -f $work/dump.rdb; ($modules/valkey-server --port 0 --unixsocket $work/socket --dir $work --rdma-bind $ip2 --rdma-port 6379 --protected-mode no --save '' </dev/null >$work/log 2>&1 &)
	for i in \$(seq 100); do [ \"\$($modules/valkey-cli -s $work/socket ping 2>/dev/null)\" = PONG ] && exit; sleep 0.1; done; cat $work/log; exit 1"
}
cli() { on2 "$modules/valkey-cli -s $work/socket $*"; }
# The server, asked by a Unix socket, has as many keys as the test says it has set, all of them of
# the test's length.
values() {
	local set got status=0
	serve || return
	{
		by_device timed $((2 * clients * keys * 1024)) "$modules/valkey-rdma-test" -h "$ip2" -t $clients -m $keys -M $((keys + 1)) >"$work/out" &&
			set=$(sed -nE 's/.* SET ([0-9]+) KVs .OK.$/\1/p' "$work/out" | awk '{ s += $1 } END { print s + 0 }') &&
			got=$(cli "--scan --pattern 'THREAD*' | sed 's/^/STRLEN /' | $modules/valkey-cli -s $work/socket | grep -cx 1024") &&
			echo "$set values set, $got are in the server" &&
			[ "$set" = $((clients * keys)) ] && [ "$got" = "$set" ] && grep -q 'Valkey Over RDMA test .OK.' "$work/out"
	} || { status=1 && cat "$work/out" && on2 "tail -n 5 $work/log"; }
	on2 "pkill -x valkey-server"
	return $status
}
# No row with loss: the test waits a second for an answer, and rdma_cm's timeout for a lost last
# packet is longer.
verified="valkey's own test compares each value it gets; the values at the server are counted by a Unix socket"
remark="Debian's source, built with RDMA" \
	compare valkey "valkey" "$(cat "$modules/valkey.version")" "RC by rdma_cm: SEND, RDMA WRITE with immediate" "$verified" values
finish

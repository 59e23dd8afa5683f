#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# exported.sh: in vm1 of machines whose kernel and rdma-core are built from the exported series: they work together.
# What the machines run is looked at first: a test of the lab's own drivers would prove nothing.
failed=0
say() { # NAME STATUS [WHY]
	if [ "$2" = 0 ]; then
		echo "ok export-run/$1"
	else
		echo "not ok export-run/$1${3:+ - $3}"
		failed=1
	fi
}
check() { # NAME CMD...
	local out status
	out=$("${@:2}" 2>&1 </dev/null)
	status=$?
	printf '%s\n' "$out" | sed 's/^/# /'
	say "$1" $status "it ended with $status"
}
each() { # CMD: in both machines
	local vm
	for vm in vm1 vm2; do
		# shellcheck disable=SC2029
		ssh "$vm" "$1" || return
	done
}
# shellcheck disable=SC2016
check kernel each 'uname -r && case $(uname -r) in *-tern-exported) ;; *) exit 1 ;; esac &&
	for m in tern tern_ib; do [ "$(modinfo -F intree $m)" = Y ] && [ -z "$(cat /sys/module/$m/taint)" ] || exit; done'
# shellcheck disable=SC2016
check rdma-core each 'cd /usr/lib/x86_64-linux-gnu && ls -l libibverbs.so.1 libibverbs/libtern-* && case $(readlink libibverbs.so.1) in *.65.*) ;; *) exit 1 ;; esac &&
	[ "$(ls libibverbs/libtern-*)" = libibverbs/libtern-rdmav65.so ]'
check devinfo each 'ibv_devinfo -d tern0 -v'
check rc-loopback sh -c 'timeout 600 ibv_rc_pingpong -d tern0 -g "$(gid-index v4)" -c & wait-listen 18515 && timeout 600 ibv_rc_pingpong -d tern0 -g "$(gid-index v4)" -c 127.0.0.1 && wait $!'
# shellcheck disable=SC2016
check rc-across sh -c 'ssh vm2 "timeout 600 ibv_rc_pingpong -d tern0 -g \$(gid-index v4) -c" & ssh vm2 "wait-listen 18515" && timeout 600 ibv_rc_pingpong -d tern0 -g "$(gid-index v4)" -c vm2 && wait $!'
check rdma-cm sh -c 'ssh vm2 "timeout 600 rping -s -a 10.77.0.2 -C 10 -V" & ssh vm2 "wait-listen 7174" && timeout 600 rping -c -a 10.77.0.2 -C 10 -V && wait $!'
windows --kind 2b
say windows $?
# The series' patch to ib_core: an aborted region with a window bound to it stays, without a warning.
lostmr
say lostmr $?
exit $failed

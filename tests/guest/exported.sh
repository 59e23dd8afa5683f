#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# exported.sh [--modules]: tests that kernel and rdma-core built from the exported series work
# together. Runs in vm1. First checks that the machines do run them: a test of the lab's own drivers
# would prove nothing. --modules: with drivers in /mnt/share, which lack parts.
group=export-run
# shellcheck source=tests/guest/results.sh
. "${0%/*}/results.sh"
show() { # NAME CMD...: check, and print the output as comments
	check "$@" </dev/null
	sed 's/^/# /' "$check_log"
}
each() { # CMD: in both machines
	local vm
	for vm in vm1 vm2; do
		# shellcheck disable=SC2029
		ssh "$vm" "$1" || return
	done
}
modules=${1:-}
if [ "$modules" ]; then
	show modules each 'modprobe -a ib_uverbs rdma_ucm ib_umad && insmod /mnt/share/tern.ko && insmod /mnt/share/tern_ib.ko && tern-up'
else
# shellcheck disable=SC2016
show kernel each 'uname -r && case $(uname -r) in *-tern-exported) ;; *) exit 1 ;; esac &&
	for m in tern tern_ib; do [ "$(modinfo -F intree $m)" = Y ] && [ -z "$(cat /sys/module/$m/taint)" ] || exit; done'
# shellcheck disable=SC2016
show rdma-core each 'cd /usr/lib/x86_64-linux-gnu && ls -l libibverbs.so.1 libibverbs/libtern-* && case $(readlink libibverbs.so.1) in *.65.*) ;; *) exit 1 ;; esac &&
	[ "$(ls libibverbs/libtern-*)" = libibverbs/libtern-rdmav65.so ]'
fi
show devinfo each 'ibv_devinfo -d tern0 -v'
show rc-loopback sh -c 'timeout 600 ibv_rc_pingpong -d tern0 -g "$(gid-index v4)" -c & wait-listen 18515 && timeout 600 ibv_rc_pingpong -d tern0 -g "$(gid-index v4)" -c 127.0.0.1 && wait $!'
# shellcheck disable=SC2016
show rc-across sh -c 'ssh vm2 "timeout 600 ibv_rc_pingpong -d tern0 -g \$(gid-index v4) -c" & ssh vm2 "wait-listen 18515" && timeout 600 ibv_rc_pingpong -d tern0 -g "$(gid-index v4)" -c vm2 && wait $!'
show rdma-cm sh -c 'ssh vm2 "timeout 600 rping -s -a 10.77.0.2 -C 10 -V" & ssh vm2 "wait-listen 7174" && timeout 600 rping -c -a 10.77.0.2 -C 10 -V && wait $!'
if part verbs-rules --strict --kind 2b "windows/*"; then ok windows; else not_ok windows "the program failed"; fi
[ -z "$modules" ] || exit $failed
# With the series' patch to ib_core, a region whose registration is aborted while a window is bound
# stays, without a warning.
if part badudata; then ok badudata; else not_ok badudata "the program failed"; fi
if part lostmr; then ok lostmr; else not_ok lostmr "the program failed"; fi
# With the other patches, the calls that spoiled ib_core fail without harm.
part uverbsfuzz --core-bugs --seconds 60 || failed=1
exit $failed

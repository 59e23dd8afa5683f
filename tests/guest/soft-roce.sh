#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# soft-roce.sh TABLE [NAME]: runs a test of memory windows on Soft-RoCE in this machine, or all that
# do not crash its kernel, and writes the results to TABLE. Each test has a process of its own.
# Crashes of the process or the kernel, and kernel warnings, are results.
bin=/mnt/tern/build/guest/windows
table=$1
modprobe rdma_rxe && rdma link add rxe0 type rxe netdev ctl0 || exit 1
for ((i = 0; i < 600; i++)); do
	grep -qs 'RoCE v2' /sys/class/infiniband/rxe0/ports/1/gid_attrs/types/1 && break
	sleep 0.1
done
: >"$table"
"$bin" --list | while IFS=$'\t' read -r name crashes _; do
	if [ "$name" != "${2:-$name}" ] || { [ "$crashes" = crashes ] && [ $# -lt 2 ]; }; then
		continue
	fi
	kernel-complaints --mark "$name"
	timeout -k 5 "${LIMIT:-120}" "$bin" --against -d rxe0 --table /run/table "$name" </dev/null
	status=$?
	case $status in
	0 | 1) result=$(cut -f 2- /run/table) ;;
	139) result='the program crashes inside the provider' ;;
	*) result=hangs ;;
	esac
	said=$(kernel-complaints --since "$name" | grep -oE 'NULL pointer dereference|WARNING|Oops' | head -n 1)
	case $said in
	'') ;;
	WARNING) result+="; the kernel warns" ;;
	*) result="the kernel crashes: $said" ;;
	esac
	printf '%s\t%s\n' "$name" "$result" >>"$table"
	case $result in 'the kernel crashes'*) break ;; esac
done
exit 0

#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# many.sh N: N machines on one switch. Each reaches each other one, and all pairs of neighbours
# exchange data at the same time and compare it. Runs in vm1.
#
# Test: ternd-many
# Tier: long, 1200 s
# Boot: alone --vms 16 --mem 512M --smp 1 --front vfio-user
# Run: many.sh 16
# Results: 24
# Proves: Sixteen machines on one switch: each reaches each other one, and eight pairs exchange data
#   at the same time and compare it.

set -u
group=many
# shellcheck source=tests/guest/results.sh
. "${0%/*}/results.sh"
work=$(mktemp -d)
n=$1

# at I CMD: runs a command in machine I.
at() {
	if [ "$1" = 1 ]; then sh -c "$2"; else ssh "vm$1" "$2"; fi
}
for ((i = 1; i <= n; i++)); do
	check "reaches-$i" at "$i" "for j in \$(seq $n); do ping -c 1 -W 20 10.77.0.\$j || exit; done"
done

exchange() { # SERVER CLIENT
	at "$1" "rping -s -C 100 -a 10.77.0.$1 -p 7180" >/dev/null 2>&1 &
	at "$1" 'wait-listen 7180'
	at "$2" "timeout 300 rping -c -a 10.77.0.$1 -p 7180 -C 100 -S 40000 -V" >"$work/$2" 2>&1
}
for ((i = 1; i < n; i += 2)); do
	{
		exchange "$i" $((i + 1))
		echo $? >"$work/$i.status"
	} &
done
wait
for ((i = 1; i < n; i += 2)); do
	check "exchange-$i" sh -c "tail -n 2 $work/$((i + 1)); exit $(cat "$work/$i.status")"
done
exit $failed

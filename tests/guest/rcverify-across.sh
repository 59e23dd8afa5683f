#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# rcverify-across.sh: rcverify with the other end in vm2.
bin=/mnt/tern/build/guest/rcverify
ssh vm2 "timeout 280 $bin -s -1 -g \$(gid-index v4)" &
for ((i = 0; i < 50; i++)); do
	ssh vm2 'ss -Hltn sport = :18515' | grep -q . && break
	sleep 0.1
done
"$bin" -g "$(gid-index v4)" -c 10.78.0.2

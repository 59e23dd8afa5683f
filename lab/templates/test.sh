#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# NAME.sh: two machines exchange messages, and each compares what arrives.
#
# Test: NAME
# Tier: full, 300 s
# Boot: pair
# Results: 2

group=NAME
# shellcheck source=tests/guest/results.sh
. "${0%/*}/results.sh"

exchange() {
	ssh vm2 'ibv_rc_pingpong -d tern0 -g $(gid-index v4) -c' &
	ssh vm2 'wait-listen 18515'
	ibv_rc_pingpong -d tern0 -g "$(gid-index v4)" -c 10.77.0.2 && wait $!
}

objects() { tern-objects | grep -v alive_gid; }
same_objects() { [ "$(objects)" = "$before" ]; }

before=$(objects)
check exchange exchange
check no-objects-left until_true 10 same_objects
exit $failed

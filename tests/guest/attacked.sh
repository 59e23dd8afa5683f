#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# attacked.sh: while vm1 and vm2 exchange data and compare it, a hypervisor attacks the ternd of
# both through an adapter of its own, and through the control socket (ternd_attack, on the host).
# Its own result lines are passed on. Runs in vm1.
#
# Test: ternd-attacked
# Tier: full, 900 s
# Boot: ternd
# Results: 15
# Proves: Ternd_attack, a hypervisor that does what it should not and a stranger at the control
#   socket, attacks the daemon through an adapter that is added while two machines exchange data and
#   compare it.

set -u
group=attacked
# shellcheck source=tests/guest/results.sh
. "${0%/*}/results.sh"
work=$(mktemp -d)

# shellcheck source=tests/guest/others.sh
. "${0%/*}/others.sh"

# The first call starts the attacker.
attack() { labctl qmp vm1 x-attack >"$work/attack" 2>&1; }
ended() { attack && grep -q '"status": [0-9-]' "$work/attack"; }

others >/dev/null 2>&1 &
check others others_go_on
check begins attack
check ends until_true 600 ended
check meanwhile others_go_on
sed -E 's/.*"output": "//; s/", "status".*//' "$work/attack" | sed 's/\\n/\n/g' >"$work/lines"
pass_on "$work/lines"
check attached sh -c 'labctl state vm1 | tr -d " \"" | grep -q attached:true && labctl state vm2 | tr -d " \"" | grep -q attached:true'
# shellcheck disable=SC2046
kill $(jobs -p) 2>/dev/null
rm -rf "$work"
exit $failed

#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# micro.sh loop|across: runs micro in this machine, or with the server in vm2.
#
# Test: micro
# Tier: long, 1200 s
# Boot: faults
# Run: micro.sh across
# Proves: A table of faults (Documentation/faults.rst): in each case one packet is lost, delayed,
#   duplicated or damaged. Checked are the completions of both ends, their data, and every error
#   counter: those that the case names have moved by the stated amount, and no others. micro:
#   between two machines; micro-loop: in one, with loopback.
#
# Test: micro-loop
# Tier: long, 1200 s
# Boot: faults
# Run: micro.sh loop
# Proves: The same in one machine, with loopback.

case $1 in
loop) exec micro -g "$(gid-index v4)" ;;
across) exec across.sh 18517 -s micro -c vm2 ;;
*) echo "usage: micro.sh loop|across" >&2; exit 2 ;;
esac

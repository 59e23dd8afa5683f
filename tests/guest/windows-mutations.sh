#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# windows-mutations.sh: switches off the rules of memory windows one after the other, half of them
# in vm2.
#
# Test: windows-mutations
# Tier: long, 3600 s
# Lane: trixie
# Boot: --vms 2 --mutate
# Proves: Each rule of memory windows, switched off in the device, makes its tests fail.

run="/mnt/tern/build/guest/mutations --strict -g \$(gid-index v4) --part"
ssh vm2 "$run 2/2" &
eval "$run 1/2"
status=$?
wait $! && exit $status

#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# apm.sh: gives this machine and vm2 a second IPv4 address and runs apm between them.
#
# Test: apm
# Tier: quick, 600 s
# Boot: pair
# Order: 2
# Proves: Two machines with two addresses each: a path is armed, dies under traffic, and every
#   message arrives once by the other one; migration at the request of either end; what is refused
#   and queried; a path whose own address is gone as well. Events at both ends.

add='ip address add 10.79.0.$(hostname | tr -dc 0-9)/24 dev $(cat /sys/class/infiniband/tern0/ports/1/gid_attrs/ndevs/0)'
eval "$add" && ssh vm2 "$add" || exit 1
ssh vm2 "/mnt/tern/build/guest/apm -s" &
ssh vm2 "wait-listen 18520"
apm -c 10.78.0.2
status=$?
wait $! || status=1
exit $status

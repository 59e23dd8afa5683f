#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# steering.sh: the engine's steering, compared with that of Linux in a network namespace of its own.
# Needs no adapter.
# shellcheck disable=SC2016
#
# Test: steering
# Tier: full, 600 s
# Boot: single
# Order: -2
# Proves: 12,000 frames through 48 sets of 40 flows: each belongs to the flow that the engine says
#   and Linux's flower classifier, given the same flows as filters, says as well. Addresses, tags,
#   protocols, ports, TOS, TTL and fragments under masks; frames miss in a bit, are cut short or
#   have headers that are too short. Where Linux looks at less than Documentation/spec/steering.rst
#   demands, as at lengths, the frames are regular. flower knows neither flow labels nor copies, and
#   sees no headers inside of VXLAN.

exec unshare -n sh -ec '
	ip link add va type veth peer name vb
	ip link add sink type dummy
	for dev in va vb sink; do
		sysctl -qw net.ipv6.conf.$dev.disable_ipv6=1
		ip link set $dev up
	done
	tc qdisc add dev vb clsact
	exec "$1"' sh "${0%/*}/../../build/guest/steering"

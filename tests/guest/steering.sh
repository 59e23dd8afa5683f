#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# steering.sh: the engine's steering, compared with that of Linux in a network namespace of its own.
# Needs no adapter.
# shellcheck disable=SC2016
exec unshare -n sh -ec '
	ip link add va type veth peer name vb
	ip link add sink type dummy
	for dev in va vb sink; do
		sysctl -qw net.ipv6.conf.$dev.disable_ipv6=1
		ip link set $dev up
	done
	tc qdisc add dev vb clsact
	exec "$1"' sh "${0%/*}/../../build/guest/steering"

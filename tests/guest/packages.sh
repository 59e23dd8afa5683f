#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# packages.sh: runs as root in a plain Debian machine. The first run installs the packages and
# reboots.
exec >/dev/ttyS0 2>&1 </dev/null
cd "${0%/*}" || exit
check() { # NAME CMD...
	name=packages/$1
	shift
	if "$@"; then echo "%% ok $name"; else echo "%% not ok $name"; fi
}
if [ ! -e /var/lib/tern-test ]; then
	check not-there-before sh -c '! modinfo tern && ! ibv_devinfo -d tern0'
	# The line of README.md; apt does not ask, and dpkg does not wait for the disk.
	printf '%s\n' 'APT::Get::Assume-Yes true;' 'Dpkg::Options:: "--force-unsafe-io";' >/etc/apt/apt.conf.d/99test
	check install sh ./install
	touch /var/lib/tern-test
	sync
	systemctl reboot
	exit
fi

appears() {
	tries=0
	until [ -e /sys/class/infiniband/tern0 ] || [ $tries -ge 120 ]; do
		tries=$((tries + 1))
		sleep 1
	done
	ibv_devinfo -d tern0
}
# udev must have loaded the drivers by the device's id.
check after-reboot appears
configure() {
	netdev=$(basename /sys/class/infiniband/tern0/device/net/*)
	ip link set "$netdev" up mtu 4500
	ip addr add 10.77.0.1/24 dev "$netdev"
	index=$(grep -l '0000:0000:0000:0000:0000:ffff:0a4d:0001' /sys/class/infiniband/tern0/ports/1/gids/* | while read -r gid; do
		grep -q v2 "/sys/class/infiniband/tern0/ports/1/gid_attrs/types/${gid##*/}" && echo "${gid##*/}"
	done)
}
connection() { # OPTION...: data passes between two processes
	ibv_rc_pingpong -d tern0 -g "$index" -c "$@" &
	server=$!
	sleep 5
	ibv_rc_pingpong -d tern0 -g "$index" -c "$@" 127.0.0.1 &
	client=$!
}
pingpong() { # also fails after 100 s
	connection
	(sleep 100 && kill $server $client) &
	limit=$!
	wait $client && wait $server
	status=$?
	kill $limit
	return $status
}
configure
check traffic pingpong
# Soft-RoCE fails rules: the page counts.
netdev=$netdev sh ./judge >judge.log
check judge sh -c '[ $(grep -cE "^(not )?ok " judge.log) -gt 300 ] && [ -s rxe0.html ]'

# The next version comes while a connection is open. It waits for events: without messages it
# would not use a processor.
connection -e -n 1000000000
ticks() { cut -d ' ' -f 14 /proc/$client/stat; }
goes_on() {
	before=$(ticks)
	sleep 10
	[ "$(ticks)" -gt $((before + 20)) ]
}
check connected goes_on
next=$(find next -name "tern-modules-$(uname -r)_*.deb")
[ "$next" ] || next=$(find next -name 'tern-dkms_*.deb')
check upgrade apt-get install "./$next" ./next/libtern1_*.deb ./next/verbs-judge_*.deb
version=$(dpkg-deb -f "$next" Version)
check upgraded sh -c "dpkg-query -W -f '\${Version}\n' 'tern-*' verbs-judge libtern1 | grep -v '^$' | sed 's/+testing$//' | uniq | grep -qx '$version'"
check goes-on goes_on
kill $server $client
wait $server $client
check unload sh -c 'modprobe -r tern_ib && modprobe -r tern'
modprobe tern_ib
check load appears
configure
check traffic-after pingpong
check remove sh -c "dpkg-query -W -f '\${Package}\n' 'tern-*' libtern1 verbs-judge | xargs dpkg --purge"
check removed sh -c '! modinfo tern && [ ! -e /etc/libibverbs.d/tern.driver ]'
sync
systemctl poweroff

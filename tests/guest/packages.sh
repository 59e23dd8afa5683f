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

# udev must have loaded the drivers by the device's id.
tries=0
until [ -e /sys/class/infiniband/tern0 ] || [ $tries -ge 120 ]; do
	tries=$((tries + 1))
	sleep 1
done
check after-reboot ibv_devinfo -d tern0
netdev=$(basename /sys/class/infiniband/tern0/device/net/*)
ip link set "$netdev" up mtu 4500
ip addr add 10.77.0.1/24 dev "$netdev"
index=$(grep -l '0000:0000:0000:0000:0000:ffff:0a4d:0001' /sys/class/infiniband/tern0/ports/1/gids/* | while read -r gid; do
	grep -q v2 "/sys/class/infiniband/tern0/ports/1/gid_attrs/types/${gid##*/}" && echo "${gid##*/}"
done)
timeout 100 ibv_rc_pingpong -d tern0 -g "$index" -c &
sleep 5
check traffic timeout 100 ibv_rc_pingpong -d tern0 -g "$index" -c 127.0.0.1
wait
# Soft-RoCE fails rules: the page counts.
netdev=$netdev sh ./judge >judge.log
check judge sh -c '[ $(grep -cE "^(not )?ok " judge.log) -gt 300 ] && [ -s rxe0.html ]'
check remove dpkg --purge tern-dkms libtern1 verbs-judge
check removed sh -c '! modinfo tern && [ ! -e /etc/libibverbs.d/tern.driver ]'
sync
systemctl poweroff

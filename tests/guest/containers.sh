#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# containers.sh: containers of podman that use adapters. Their root file system is a layer over the
# machine's, so nothing is fetched. The adapters of the machine are connected to each other.
#
# Test: containers
# Tier: long, 600 s
# Boot: beside --vms 1 --adapters 2 --loop --package podman,crun,netavark,aardvark-dns
# Results: 23
# Proves: Containers use adapters as Documentation/containers.rst says: one that several share, one
#   adapter each in its own network namespace, with rdma_cm, and limits of objects. A container sees
#   no adapter that it was not given, and a killed one leaves nothing.

set -u
group=containers
# shellcheck source=tests/guest/results.sh
. "${0%/*}/results.sh"

cdev=/dev/infiniband
root=/run/container-root
# The storage of podman cannot lie on the machine's overlay.
mkdir -p /var/lib/containers $root
mount -t tmpfs none /var/lib/containers
mount --bind / $root

# run NETWORK OPTION... -- COMMAND...: a container.
run() {
	local options=()
	while [ "$1" != -- ]; do
		options+=("$1")
		shift
	done
	shift
	podman run --rm --ulimit memlock=-1 --stop-timeout 1 "${options[@]}" --rootfs $root:O "$@"
}
shared() { run --network host --device $cdev/uverbs0 --device $cdev/rdma_cm "$@"; }
sees() { # ADAPTERS COMMAND...: ibv_devinfo in the container lists these only
	local wanted=$1 found
	shift
	found=$("$@" ibv_devinfo -l | sed -n 's/^\t//p' | tr -d ' ' | xargs)
	echo "found: $found"
	[ "$found" = "$wanted" ]
}
refuses() { ! "$@"; }
objects() { tern-objects tern0 && tern-objects tern1; }

before=$(objects)

check given sees tern0 shared --
check not-given sees "" run --network host --

talk() {
	local server
	shared -- ibv_rc_pingpong -d tern0 -g "$gid" -n 50 -c &
	server=$!
	wait-listen 18515 60 && shared -- ibv_rc_pingpong -d tern0 -g "$gid" -n 50 -c 127.0.0.1 && wait $server
}
gid=$(gid-index)
check shared talk
ping_cm() {
	local server
	shared -- rping -s -a 10.77.0.1 -C 3 -v &
	server=$!
	wait-listen 7174 60 && shared -- rping -c -a 10.77.0.1 -C 3 -v && wait $server
}
check shared-cm ping_cm
# Without the right to lock memory a program registers no more than its limit.
registers() { # BYTES LIMIT
	shared --user 65534 --ulimit "memlock=$2:$2" -i -- python3 - "$1" <<'END'
import sys
from pyverbs.device import Context
from pyverbs.enums import IBV_ACCESS_LOCAL_WRITE
from pyverbs.mr import MR
from pyverbs.pd import PD
MR(PD(Context(name="tern0")), int(sys.argv[1]), IBV_ACCESS_LOCAL_WRITE)
END
}
chmod 666 $cdev/uverbs0
check memlock-enough registers 1000000 16777216
check memlock refuses registers 1000000 65536

# From now on each adapter belongs to one network namespace.
check exclusive rdma system set netns exclusive
begin() { # N: container N, with adapter N, and 60 objects at most
	local pid
	run -d --name "c$1" --network none --device $cdev --cgroup-conf="rdma.max=tern$1 hca_handle=4 hca_object=60" -- sleep infinity || return
	pid=$(podman inspect -f '{{.State.Pid}}' "c$1")
	ip netns attach "c$1" "$pid" && rdma dev set "tern$1" netns "c$1" && ip link set "eth$1" netns "c$1" &&
		ip -n "c$1" addr add "10.77.9.$1/24" dev "eth$1" && ip -n "c$1" link set "eth$1" up &&
		until_true 30 sh -c "podman exec c$1 cat /sys/class/infiniband/tern$1/ports/1/gids/1 | grep -q :0a4d:090$1" &&
		ip netns delete "c$1" # the container's processes keep it
}
check begin-0 begin 0
check begin-1 begin 1
check own-0 sees tern0 podman exec c0
check own-1 sees tern1 podman exec c1
check own-none sees "" run --network host --device $cdev --
# The stranger's node is there, but cannot be opened.
# shellcheck disable=SC2016
check stranger refuses podman exec c0 bash -c 'exec 3<>'$cdev/uverbs1

across() { # SERVER... -- CLIENT...: in c0 and c1
	local server=() pid
	while [ "$1" != -- ]; do
		server+=("$1")
		shift
	done
	shift
	podman exec c0 "${server[@]}" &
	pid=$!
	until_true 60 podman exec c0 wait-listen "$port" 1 && podman exec c1 "$@" && wait $pid
}
port=18515
check data across ibv_rc_pingpong -d tern0 -g 1 -n 50 -c -- ibv_rc_pingpong -d tern1 -g 1 -n 50 -c 10.77.9.0
port=7174
check cm across rping -s -a 10.77.9.0 -C 3 -v -- rping -c -a 10.77.9.0 -C 3 -v

qps() { podman exec -i "c$1" python3 - "tern$1" "$2" <"${0%/*}/qps.py"; } # N WANTED: in container N
limited() {
	local found
	found=$(qps 0 1000)
	echo "$found"
	# A PD, a CQ and the context's own objects count as well.
	[[ $found =~ ^[45][0-9]\ 11$ ]]
}
check limit limited
check limit-freed limited
check limit-other [ "$(qps 1 40)" = 40 ]

# Both containers are killed while they talk, by rdma_cm: a TCP connection would keep its network
# namespace until its last retry.
podman exec c0 ib_write_bw -R -D 60 >/dev/null 2>&1 &
until_true 60 podman exec c0 wait-listen 18515 1
podman exec c1 ib_write_bw -R -D 60 10.77.9.0 >/dev/null 2>&1 &
sent() { podman exec c1 cat /sys/class/infiniband/tern1/ports/1/counters/port_xmit_packets; }
moving() { [ "$(sent)" -gt 10000 ]; }
check traffic until_true 60 moving
check killed podman kill c0 c1
# Their adapters belong to the machine again.
returned() { [ -d /sys/class/net/eth0 ] && [ -d /sys/class/net/eth1 ] && [ "$(rdma dev | wc -l)" = 2 ]; }
check returned until_true 60 returned
works() { rdma system set netns shared && tern-up && pingpong; }
check works works
check objects [ "$(objects)" = "$before" ]
exit $failed

#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# netns.sh: RDMA in network namespaces, shared among them and exclusive to one.
#
# Test: netns
# Tier: clients, 900 s
# Boot: clients
# Results: 4

kind=operations group=netns
# shellcheck source=tests/guest/clients/lib.sh
. "${0%/*}/lib.sh"
ns="client-ns"
# In a namespace sysfs is another one, and gid-index reads sysfs: ip netns exec mounts it.
inside() { ip netns exec $ns "$@"; }

# everywhere COMMAND: in both machines, with their own netdev as $n and number as $i.
everywhere() {
	i=1 n=$netdev dev=$dev ns=$ns bash -euc "$1" && on2 "i=2 n=$netdev2 dev=$dev ns=$ns bash -euc '$1'"
}
addresses=$(cat <<'EOS'
	net=77; [ $dev = tern0 ] || net=79
	$1 ip addr replace 10.$net.0.$i/24 dev $n
	$1 ip -6 addr replace fd$net::$i/64 dev $n nodad
	$1 ip link set $n up
EOS
)
enter='ip netns add $ns; ip -n $ns link set lo up; ip link set $n netns $ns; set -- "ip netns exec $ns"; '$addresses
leave='ip -n $ns link set $n netns 1; ip netns del $ns; set -- ""; '$addresses
# Makes Soft-RoCE's device again, which ends when its network device moves.
restore='[ $dev = tern0 ] || rdma link show rxe0/1 2>/dev/null || rdma link add rxe0 type rxe netdev $n'
# exchange: a pingpong inside, which compares its data.
exchange() {
	local server
	until_true 20 inside gid-index v4 "$dev" >/dev/null 2>&1 && on2 "ip netns exec $ns gid-index v4 $dev" >/dev/null || { echo "no GID in the namespace" && return 1; }
	# ibv_rc_pingpong meets its peer by TCP: over the wire itself.
	on2 "ip netns exec $ns timeout 30 ibv_rc_pingpong -d $dev -g \$(ip netns exec $ns gid-index v4 $dev) -n 200 -s 16384 -c" >"$work/server" 2>&1 &
	server=$!
	on2 "for i in \$(seq 100); do ip netns exec $ns ss -ltn | grep -q :18515 && exit; sleep 0.1; done; exit 1" || { cat "$work/server" && return 1; }
	inside timeout 30 ibv_rc_pingpong -d "$dev" -g "$(inside gid-index v4 "$dev")" -n 200 -s 16384 -c "$ip2" >"$work/client" 2>&1 && wait $server || {
		tail -n 2 "$work/client" "$work/server"
		return 1
	}
	rate=$(sed -nE 's/.* = ([0-9.]+) Mbit.*/\1/p' "$work/client" | awk '{ printf "%.1f MB/s\n", $1 / 8 }')
}
shared() {
	local status=0
	everywhere "$enter" && exchange || status=1
	everywhere "$leave; $restore" || status=1
	return $status
}
exclusive() {
	local status=0
	everywhere 'rdma system set netns exclusive; ip netns add $ns; rdma dev set $dev netns $ns; ip netns exec $ns rdma dev show $dev; ! rdma dev show $dev 2>/dev/null' || status=1
	if [ $status = 0 ]; then
		everywhere 'ip -n $ns link set lo up; ip link set $n netns $ns; set -- "ip netns exec $ns"; '"$addresses" && exchange || status=1
		everywhere 'ip -n $ns link set $n netns 1' || status=1
	fi
	# The RDMA device returns when its namespace ends.
	everywhere 'ip netns del $ns; sleep 1; set -- ""; '"$addresses"'; rdma system set netns shared; '"$restore" || status=1
	return $status
}
verified="pingpong compares its data"
fails_on="soft-roce" match="no GID in the namespace" why="a device of Soft-RoCE ends when its network device enters a namespace" \
	compare shared "network namespace, device shared" "$(kernel_version), iproute2 $(version_of iproute2)" "RC: SEND" "$verified" shared
fails_on="soft-roce" match="Operation not supported" why="a device of Soft-RoCE cannot enter a namespace" \
	compare exclusive "network namespace, device exclusive" "$(kernel_version), iproute2 $(version_of iproute2)" "RC: SEND" \
	"$verified; the device is not seen outside" exclusive
finish

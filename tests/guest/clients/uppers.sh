#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# uppers.sh: RDMA over network devices above the adapter's, in namespaces, and while addresses and
# the MTU change.
#
# Test: vlan-brief
# Tier: full, 300 s
# Boot: clients
# Run: VIA=tern uppers.sh vlan
# Results: 1
# Proves: A row or two of the client, over tern alone.
#
# Test: uppers
# Tier: clients, 900 s
# Boot: clients
# Results: 6

kind=operations group=uppers
# shellcheck source=tests/guest/clients/lib.sh
. "${0%/*}/lib.sh"

# The index of an address among the GIDs of a device, in the machine where it runs.
cat >"$work/gid-of" <<'EOS'
#!/bin/bash
# gid-of DEVICE ADDRESS: waits for it.
IFS=. read -r a b c d <<<"$2"
want=$(printf '0000:0000:0000:0000:0000:ffff:%02x%02x:%02x%02x' "$a" "$b" "$c" "$d")
for ((n = 0; n < 100; n++)); do
	for f in /sys/class/infiniband/$1/ports/1/gids/*; do
		read -r gid <"$f" 2>/dev/null || continue
		if [ "$gid" = "$want" ] && grep -qs 'RoCE v2' "${f%/gids/*}/gid_attrs/types/${f##*/}"; then
			echo "${f##*/}"
			exit
		fi
	done
	sleep 0.1
done
echo "no GID of $2" >&2
exit 1
EOS
chmod +x "$work/gid-of"
scp -q "$work/gid-of" "vm2:$work/gid-of"

# messages ADDRESS1 ADDRESS2 [MESSAGES]: a pingpong that compares its data, between these addresses;
# its rate.
messages() {
	local server g1 g2 n=${3:-100} status=0
	[ "$via" = tern ] || n=$((n / 5))
	g1=$("$work/gid-of" "$dev" "$1") && g2=$(on2 "$work/gid-of $dev $2") || return
	on2 "timeout 60 ibv_rc_pingpong -d $dev -g $g2 -n $n -s 16384 -c" >"$work/server" 2>&1 &
	server=$!
	on2 "wait-listen 18515 30" || { cat "$work/server" && return 1; }
	timeout 60 ibv_rc_pingpong -d "$dev" -g "$g1" -n "$n" -s 16384 -c vm2 >"$work/client" 2>&1 || status=$?
	[ $status = 0 ] && wait $server || {
		tail -n 3 "$work/client" "$work/server"
		echo "the client's status is $status"
		return 1
	}
	rate=$(sed -nE 's/.* = ([0-9.]+) Mbit.*/\1/p' "$work/client" | awk '{ printf "%.1f MB/s\n", $1 / 8 }')
}
# rdma_cm ADDRESS: rping verifies its data.
rping_to() {
	local server
	on2 "timeout 60 rping -s -a $1 -p 7600 -C 20 -V" >"$work/server" 2>&1 &
	server=$!
	on2 "wait-listen 7600 30" && timeout 60 rping -c -a "$1" -p 7600 -C 20 -V && wait $server
}
upper() { # NAME ADDRESS-NET LINK-OPTION...
	local name=$1 net=$2 status=0
	shift 2
	ip link add link "$netdev" name "$name" "$@" && ip addr add "$net.1/24" dev "$name" && ip link set "$name" up &&
		on2 "ip link add link $netdev2 name $name $* && ip addr add $net.2/24 dev $name && ip link set $name up" &&
		ping -c 2 -i 0.2 -W 5 "$net.2" && messages "$net.1" "$net.2" && rping_to "$net.2" || status=1
	ip link del "$name"
	on2 "ip link del $name"
	return $status
}
# The MTU and the addresses change while messages run.
changes() {
	local client mtu status=0 i
	mtu=$(cat "/sys/class/net/$netdev/mtu")
	messages "$ip1" "$ip2" 600 &
	client=$!
	for i in 1 2 3; do
		ip link set "$netdev" mtu 1500 && ip addr add "10.81.0.$i/24" dev "$netdev" || status=1
		sleep 0.3
		ip link set "$netdev" mtu "$mtu" && ip addr del "10.81.0.$i/24" dev "$netdev" || status=1
		sleep 0.3
	done
	wait $client || return
	rate=works
	return $status
}

verified="pingpong and rping compare their data"
verbs="RC: SEND; rdma_cm"
compare vlan "VLAN" "$(kernel_version)" "$verbs" "$verified" upper vlan10 10.82.0 type vlan id 10
fails_on="soft-roce" match="status is 124" why="Soft-RoCE drops the packets that macvlan receives: it finds its device by the network device, and looks below VLANs only" \
	compare macvlan "macvlan" "$(kernel_version)" "$verbs" "$verified" upper mac0 10.83.0 type macvlan mode bridge
compare changes "MTU and addresses change under traffic" "$(kernel_version)" "RC: SEND" "pingpong compares its data" changes
finish

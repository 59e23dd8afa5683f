#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# own.sh: tests what users bring to the machines: Debian packages, an overlay, several adapters; and
# the modules that packages want. Its boot has --adapters 2, --overlay tests/guest/overlay, and the
# packages valkey-server, gcc, libc6-dev and libibverbs-dev.
#
# Test: own
# Tier: full, 1200 s
# Boot: --vms 2 --adapters 2 --package valkey-server,gcc,libc6-dev,libibverbs-dev --overlay
#   tests/guest/overlay
# Results: 24
# Skip: debug own/modules that kernel has built in what the tests need, and no modules
#   (lab/build/debug.config)
# Proves: Packages, files and programs that a user brings (Documentation/lab.rst).

group=own
# shellcheck source=tests/guest/results.sh
. "${0%/*}/results.sh"
work=$(mktemp -d)
cd "$work" || exit

# A package that the sysroot lacks.
serve() {
	ssh vm2 'valkey-server --bind 10.77.1.2 --port 6400 --protected-mode no --save "" --daemonize yes' && ssh vm2 wait-listen 6400 &&
		[ "$(valkey-cli -h 10.77.1.2 -p 6400 set key value)" = OK ] && [ "$(valkey-cli -h 10.77.1.2 -p 6400 get key)" = value ]
}
# Packages that the sysroot has, of which the image left out nearly all files.
cat >list.c <<'EOF'
#include <infiniband/verbs.h>
#include <stdio.h>
int main(void)
{
	int n;
	struct ibv_device **list = ibv_get_device_list(&n);

	for (int i = 0; list && i < n; i++)
		puts(ibv_get_device_name(list[i]));
	return !list;
}
EOF
check packages-installed dpkg-query -W valkey-server gcc libc6-dev libibverbs-dev
check package-across serve
check compile gcc -Wall -Werror -o list list.c -libverbs
check compiled-runs [ "$(./list | sort | tr '\n' ' ')" = "tern0 tern1 " ]
check overlay [ "$(from-overlay) $(ssh vm2 from-overlay)" = "overlay on vm1 overlay on vm2" ]

# Two adapters, each on a wire of its own.
slot() { basename "$(readlink -f "/sys/class/infiniband/$1/device/..")"; }
across() { # DEVICE: messages to the same adapter of vm2, by its own GID
	ssh vm2 "timeout 120 ibv_rc_pingpong -d $1 -g \$(gid-index v4 $1) -n 50 -c" >/dev/null &
	ssh vm2 'wait-listen 18515' && timeout 120 ibv_rc_pingpong -d "$1" -g "$(gid-index v4 "$1")" -n 50 -c vm2 && wait $!
}
carrier() { cat "/sys/class/infiniband/$1/device/net"/*/carrier; }
one_link_down() { [ "$(carrier tern0) $(carrier tern1)" = "1 0" ]; }
both_links_up() { [ "$(carrier tern0) $(carrier tern1)" = "1 1" ]; }
one_left() { [ "$(ls /sys/class/infiniband)" = tern0 ]; }
check own-root-ports [ "$(slot tern0)" != "$(slot tern1)" ]
for n in 0 1; do
	check "ping-$n" ping -c 3 -i 0.2 -q "10.77.$n.2"
	check "ping6-$n" ping -c 3 -i 0.2 -q "fd77:0:0:$n::2"
	check "messages-$n" across "tern$n"
done
check link-down labctl link vm1:1 down
check only-that-link until_true 30 one_link_down
check link-up labctl link vm1:1 up
check both-links until_true 30 both_links_up
check faults labctl faults vm2:1 'drop tx opcode=ack nth=1'
check faults-of-one sh -c '[ -z "$(labctl faults vm2)" ] && labctl faults vm2:1 | grep drop'
check unplug labctl qmp vm1 device_del id=tern1
check unplugged until_true 120 one_left
check tern-up tern-up 1
check first-works across tern0

# What packages for storage and networks want; they have their own modules for each kernel of a
# lane.
if [ -d "/lib/modules/$(uname -r)/kernel" ]; then
	check modules modprobe -a nvme_rdma nvmet_rdma nvme_tcp nvmet_tcp ib_iser ib_isert ib_srp ib_srpt iscsi_tcp iscsi_target_mod \
		target_core_mod target_core_iblock target_core_file tcm_loop rds_rdma rpcrdma nfs nfsd cifs ksmbd smc 9pnet_rdma null_blk loop \
		brd zram dm_mod raid1 sd_mod scsi_debug nd_pmem xfs btrfs ib_ipoib bridge vxlan vrf bonding team veth macvlan wireguard \
		sch_netem sch_tbf sch_fq cls_u32 cls_flower act_mirred nf_tables nft_nat
else
	echo "ok $group/modules # SKIP this kernel has no modules"
fi
check no-complaints sh -c '! kernel-complaints | grep .'
ssh vm2 'valkey-cli -h 10.77.1.2 -p 6400 shutdown nosave'
exit $failed

#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# rdma_core_write.sh [ARGUMENT of rdma_core.py]...: runs rdma-core's tests with a libibverbs built
# with IOCTL_MODE=write, which sends commands by write() where it can. Runs in vm1.
#
# Test: rdma-core-odp-write
# Tier: long, 1200 s
# Boot: pair
# Run: rdma_core_write.sh test_odp
# Results: 18
# Proves: Rdma-core's test_odp with a libibverbs of IOCTL_MODE=write.
#
# Test: rdma-core-write
# Tier: long, 2400 s
# Boot: net-wire
# Run: rdma_core_write.sh --without test_odp
# Results: 165
# Skip: * * those of rdma-core, and what needs ioctl(): see rdma_core.expect
# Proves: Rdma-core's tests with a libibverbs of IOCTL_MODE=write.

set -u
. /tern/conf
library=/mnt/tern/$OUT/write

# written LIBRARY-PATH: counts the commands of a client, which creates its objects before it finds
# that it has no server.
written() {
	LD_LIBRARY_PATH=$1 strace -f -y -e trace=write,ioctl -o /run/written ibv_rc_pingpong -d tern0 -g "$(gid-index)" 127.0.0.1 >/dev/null 2>&1
	grep -c 'write([0-9]*</dev/infiniband/uverbs' /run/written
}
with=$(written "$library") without=$(written "")
if [ "$with" -gt "$without" ]; then
	echo "ok rdma-core-write/by-write # $with commands, $without with the distribution's library"
else
	echo "not ok rdma-core-write/by-write - $with commands use write(), $without with the distribution's library"
	exit 1
fi
# These tests cannot pass by write() with any driver.
cat "$(dirname "$(command -v rdma_core.py)")/rdma_core.expect" - >/run/rdma_core_write.expect <<'END'
tests.test_device.DMTest.test_multi_process_alloc_dm fail the kernel takes write() only from the process that opened the file (ib_safe_file_access)
tests.test_shared_pd.SharedPDTestCase.test_imported_rc_ex_rdma_write fail libibverbs makes the CQ of an imported context by ioctl() alone
END
LD_LIBRARY_PATH=$library exec rdma_core.py --expect /run/rdma_core_write.expect "$@"

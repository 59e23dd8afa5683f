#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""plugged.py MIB GID: one region of MIB MiB, which must be more memory than the machine booted
with. A WRITE to itself copies its first half to its second, which is compared. GID is an index.
Prints nothing if all is right."""
import sys
import time

import pyverbs.enums as e
from pyverbs.addr import AHAttr, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, SendWR

MIB = 1 << 20
GID = int(sys.argv[2])


def connect(qp, gid):
    attr = QPAttr(qp_state=e.IBV_QPS_INIT, port_num=1)
    attr.qp_access_flags = e.IBV_ACCESS_REMOTE_WRITE
    qp.to_init(attr)
    attr = QPAttr(port_num=1)
    attr.path_mtu = e.IBV_MTU_1024
    attr.dest_qp_num = qp.qp_num
    attr.min_rnr_timer = 12
    attr.ah_attr = AHAttr(port_num=1, is_global=1, gr=GlobalRoute(dgid=gid, sgid_index=GID,
                                                                  hop_limit=64))
    attr.timeout = 18
    attr.retry_cnt = 7
    qp.to_rts(attr)


def pattern(i):
    return bytes((i * 7 + i // 251 + k * 31) % 256 for k in range(4096)) * (MIB // 4096)


def main():
    half = int(sys.argv[1]) // 2
    with Context(name="tern0") as context:
        pd = PD(context)
        cq = CQ(context, 4)
        qp = QP(pd, QPInitAttr(qp_type=e.IBV_QPT_RC, scq=cq, rcq=cq, cap=QPCap(1, 1, 1, 1)))
        connect(qp, context.query_gid(1, GID))
        mr = MR(pd, 2 * half * MIB, e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE)
        for i in range(half):
            mr.write(pattern(i), MIB, i * MIB)
        wr = SendWR(opcode=e.IBV_WR_RDMA_WRITE, num_sge=1, sg=[SGE(mr.buf, half * MIB, mr.lkey)])
        wr.set_wr_rdma(mr.rkey, mr.buf + half * MIB)
        qp.post_send(wr)
        n = 0
        while not n:
            n, wcs = cq.poll(1)
            time.sleep(0.01)
        if wcs[0].status != e.IBV_WC_SUCCESS:
            sys.exit(f"the WRITE completed with status {wcs[0].status}")
        for i in range(half):
            if mr.read(MIB, (half + i) * MIB) != pattern(i):
                sys.exit(f"wrong data in MiB {i}")


main()

# SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause)
"""What a program of pyverbs expects of a region: its bounds hold for a peer."""
import subprocess
import unittest

import pyverbs.enums as e
from pyverbs.addr import AHAttr, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, SendWR

SIZE = 4096


class Bounds(unittest.TestCase):
    def setUp(self):
        self.context = Context(name="tern0")
        self.gid = int(subprocess.check_output(["gid-index"]))
        self.pd, self.cq = PD(self.context), CQ(self.context, 4)
        cap = QPCap(max_send_wr=4, max_recv_wr=1)
        self.qp, self.peer = (QP(
            self.pd, QPInitAttr(qp_type=e.IBV_QPT_RC, scq=self.cq, rcq=self.cq, cap=cap))
                              for _ in range(2))
        self.connect(self.qp, self.peer)
        self.connect(self.peer, self.qp)
        self.source = MR(self.pd, SIZE, e.IBV_ACCESS_LOCAL_WRITE)
        self.target = MR(self.pd, SIZE, e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE)

    def connect(self, qp, other):
        attr = QPAttr(port_num=1)
        route = GlobalRoute(dgid=self.context.query_gid(1, self.gid), sgid_index=self.gid)
        attr.ah_attr = AHAttr(port_num=1, is_global=1, gr=route)
        attr.dest_qp_num, attr.path_mtu = other.qp_num, e.IBV_MTU_1024
        attr.qp_access_flags = e.IBV_ACCESS_REMOTE_WRITE
        attr.timeout, attr.retry_cnt, attr.rnr_retry, attr.min_rnr_timer = 14, 7, 7, 12
        qp.to_rts(attr)

    def write(self, offset, length):
        """Returns the status of a WRITE into the target."""
        wr = SendWR(opcode=e.IBV_WR_RDMA_WRITE, num_sge=1, send_flags=e.IBV_SEND_SIGNALED,
                    sg=[SGE(self.source.buf, length, self.source.lkey)])
        wr.set_wr_rdma(self.target.rkey, self.target.buf + offset)
        self.qp.post_send(wr)
        done = []
        while not done:
            done = self.cq.poll(1)[1]
        return done[0].status

    def test_within(self):
        self.source.write("x" * 100, 100)
        self.assertEqual(self.write(10, 100), e.IBV_WC_SUCCESS)
        self.assertEqual(self.target.read(100, 10), b"x" * 100)

    def test_beyond(self):
        self.assertEqual(self.write(SIZE - 10, 11), e.IBV_WC_REM_ACCESS_ERR)


if __name__ == "__main__":
    unittest.main()

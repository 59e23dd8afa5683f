# SPDX-License-Identifier: GPL-2.0-or-later
"""Send queues that the device polls: Documentation/spec/doorbells.rst."""

import struct
import time
import unittest

import tern_hw as hw
from qtest import Qemu
from test_dma import Vtd

OFTEN = 200  # enough doorbells to make the device poll


class NopQp:
    """A UD QP in RTS, on page 0, whose driver posts NOPs."""

    CQ, QP = hw.Tern.FREE, hw.Tern.FREE + 0x1000
    CQ_RECORD, QP_RECORD = hw.Tern.FREE + 0x2000, hw.Tern.FREE + 0x2100
    LOG_SIZE = 4

    def __init__(self, qemu, tern):
        self.qemu = qemu
        self.tern = tern
        self.pi = self.ci = 0
        pd = self.make(hw.CMD_ALLOC_PD, bytes(8))
        cq = self.make(
            hw.CMD_CREATE_CQ,
            self.pages(self.CQ) +
            struct.pack("<QIIBB6x", self.CQ_RECORD, hw.NO_EQ, hw.UAR_KERNEL, self.LOG_SIZE, 0))
        self.number = self.make(
            hw.CMD_CREATE_QP,
            self.pages(self.QP) +
            struct.pack("<Q8I6B2x", self.QP_RECORD, 0, 2048, pd, hw.UAR_KERNEL, cq, cq, 0, 0,
                        hw.QPT_UD, 0, self.LOG_SIZE, 6, 0, 6))
        for state, given in ((hw.QPS_INIT, hw.QPA_PKEY_INDEX | hw.QPA_PORT | hw.QPA_QKEY),
                             (hw.QPS_RTR, 0), (hw.QPS_RTS, hw.QPA_SQ_PSN)):
            # The rate limit, then the alternate path, are zeros.
            attr = bytes(40) + struct.pack("<5IHB8xB", 0, 0, 0, 0, 0, 0, state,
                                           1) + bytes(16) + bytes(48)
            self.run(hw.CMD_MODIFY_QP,
                     struct.pack("<4I", self.number, hw.QPA_STATE | given, 0, 0) + attr)

    @staticmethod
    def pages(addr):
        return struct.pack("<QIBBH", addr, 1, 12, hw.PAGES_DIRECT, 0)

    def run(self, command, data, out_len=0):
        status, out = self.tern.run(command, data, out_len)
        assert status == hw.ST_OK, (hex(command), status)
        return out

    def make(self, command, data):
        return struct.unpack_from("<I", self.run(command, data, 8))[0]

    def status(self):
        return self.qemu.readl(self.QP_RECORD + 0x80)

    def ring(self):
        self.tern.doorbell(hw.UAR_KERNEL, hw.DB_CMD_SQ << 28 | self.number)

    def state(self):
        return self.run(hw.CMD_QUERY_QP, struct.pack("<II", self.number, 0), 152)[0x3e]

    def post(self):
        """Posts a NOP without a doorbell."""
        slot = self.QP + 64 * (self.pi % (1 << self.LOG_SIZE))
        self.qemu.write(slot, struct.pack("<BB30x", hw.WR_NOP, hw.WQE_F_SIGNALED))
        self.pi += 1
        self.qemu.writel(self.QP_RECORD, self.pi)

    def completed(self):
        """Takes the next completion, if there is one."""
        slot = self.CQ + 64 * (self.ci % (1 << self.LOG_SIZE))
        phase = ~(self.ci >> self.LOG_SIZE) & 1
        if self.qemu.readl(slot + 60) & hw.CQE_PHASE != phase:
            return False
        self.ci += 1
        self.qemu.writel(self.CQ_RECORD, self.ci)
        return True


class SqPoller(unittest.TestCase):
    def start(self, *properties, machine=()):
        self.qemu = self.enterContext(
            Qemu(*machine, "-device", ",".join(("tern,addr=4", ) + properties)))
        self.tern = hw.Tern(self.qemu).start()
        return NopQp(self.qemu, self.tern)

    def ring_often(self, qp):
        """Rings while the machine is stopped: the device counts the doorbells but does not run."""
        self.qemu.qmp("stop")
        for _ in range(OFTEN):
            qp.ring()

    def assert_rings(self, qp):
        qp.post()
        time.sleep(0.05)
        self.assertFalse(qp.completed(), "without a doorbell")
        qp.ring()
        self.qemu.wait(qp.completed, "a completion")

    def test_work_of_a_polled_queue_is_found(self):
        qp = self.start()
        self.assertEqual(qp.status(), 0)
        self.ring_often(qp)
        self.assertEqual(qp.status(), hw.QP_ST_SQ_POLLED)
        qp.post()
        self.qemu.qmp("cont")
        self.qemu.wait(qp.completed, "a completion without doorbell")
        self.qemu.wait(lambda: qp.status() == 0, "the end of it")
        self.assert_rings(qp)

    def test_a_reset_ends_it(self):
        qp = self.start()
        self.ring_often(qp)
        self.assertEqual(qp.status(), hw.QP_ST_SQ_POLLED)
        self.qemu.qmp("cont")
        self.tern.reset()
        self.tern.enable()
        self.assertEqual(self.tern.run(hw.CMD_NOP)[0], hw.ST_OK)

    def test_the_property(self):
        qp = self.start("poll=off")
        self.ring_often(qp)
        self.assertEqual(qp.status(), 0)
        qp.post()
        self.qemu.qmp("cont")
        self.qemu.wait(qp.completed, "what the doorbells before were for")
        self.assert_rings(qp)

    def test_ends_where_an_iommu_translates(self):
        # With translation, only a thread that holds QEMU's big lock may access memory.
        qp = self.start(machine=("-device", "intel-iommu"))
        vtd = Vtd(self.qemu, 4)
        for at in (self.tern.AQ, self.tern.ACQ, self.tern.IN, self.tern.OUT, qp.CQ, qp.QP,
                   qp.CQ_RECORD):
            vtd.map(at, at)
        self.ring_often(qp)
        self.assertEqual(qp.status(), hw.QP_ST_SQ_POLLED)
        qp.post()
        vtd.switch(True)
        self.assertEqual(qp.status(), 0)
        for _ in range(OFTEN):
            qp.ring()
        self.assertEqual(qp.status(), 0)
        self.qemu.qmp("cont")
        self.qemu.wait(qp.completed, "what was posted before")
        self.assert_rings(qp)


if __name__ == "__main__":
    unittest.main()

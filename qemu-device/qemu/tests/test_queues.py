# SPDX-License-Identifier: GPL-2.0-or-later
"""Queues as a driver creates them: doorbells for a whole page, and memory mapped by an IOMMU for
one direction."""

import time
import unittest

import tern_hw as hw
from qtest import Qemu
from test_dma import Vtd
from test_poll import NopQp


class PageDoorbell(unittest.TestCase):
    def setUp(self):
        self.qemu = self.enterContext(Qemu("-device", "tern,addr=4,poll=off"))
        self.tern = hw.Tern(self.qemu).start()
        self.qp = NopQp(self.qemu, self.tern)

    def test_is_a_kick_of_every_queue_of_the_page(self):
        for _ in range(40):
            self.qp.post()
            self.tern.doorbell(hw.UAR_KERNEL, hw.DB_CMD_PAGE << 28)
            self.qemu.wait(self.qp.completed, "a completion")
        # The queue number is ignored.
        self.qp.post()
        self.tern.doorbell(hw.UAR_KERNEL, hw.DB_CMD_PAGE << 28 | 0x123456)
        self.qemu.wait(self.qp.completed, "a completion")

    def test_of_another_page_is_none(self):
        page = self.qp.make(hw.CMD_ALLOC_UAR, b"")
        self.assertNotEqual(page, hw.UAR_KERNEL)
        self.qp.post()
        for _ in range(10):
            self.tern.doorbell(page, hw.DB_CMD_PAGE << 28)
        # The answer to a later command shows that the doorbells were processed.
        self.assertEqual(self.tern.run(hw.CMD_NOP)[0], hw.ST_OK)
        time.sleep(0.05)
        self.assertFalse(self.qp.completed())
        self.tern.doorbell(hw.UAR_KERNEL, hw.DB_CMD_PAGE << 28)
        self.qemu.wait(self.qp.completed, "a completion")

    def test_of_a_page_that_is_nobodys(self):
        for page in (1, 7, 4095):
            self.tern.doorbell(page, hw.DB_CMD_PAGE << 28)
        self.assertEqual(self.tern.run(hw.CMD_NOP)[0], hw.ST_OK)


class Directions(unittest.TestCase):
    """Each page is mapped only for the direction in which the device accesses it."""
    def setUp(self):
        self.qemu = self.enterContext(
            Qemu("-device", "intel-iommu", "-device", "tern,addr=4,poll=off"))
        self.tern = hw.Tern(self.qemu).start()
        self.vtd = Vtd(self.qemu, 4)

    def start(self, **wrong):
        """Maps everything that a QP needs; `wrong` overrides the access of single pages."""
        read, write = Vtd.READ, Vtd.WRITE
        access = {
            "AQ": read, "ACQ": write, "IN": read, "OUT": write, "CQ": write, "QP": read,
            "CQ_RECORD": read | write, **wrong
        }
        for name, allowed in access.items():
            at = getattr(NopQp, name, None) or getattr(hw.Tern, name)
            self.vtd.map(at, at, allowed)
        self.vtd.switch(True)
        self.tern.reset()
        self.tern.enable()
        return NopQp(self.qemu, self.tern)

    def test_exact(self):
        qp = self.start()
        for _ in range(40):
            qp.post()
            qp.ring()
            self.qemu.wait(qp.completed, "a completion")
        self.assertEqual(qp.state(), hw.QPS_RTS)

    def expect_error(self, qp):
        qp.post()
        qp.ring()
        self.qemu.wait(lambda: qp.state() == hw.QPS_ERR, "the error")
        self.assertFalse(self.tern.reg(hw.REG_STATUS) & hw.STATUS_FATAL)

    def test_a_send_queue_that_cannot_be_read(self):
        self.expect_error(self.start(QP=Vtd.WRITE))

    def test_a_completion_queue_that_cannot_be_written(self):
        qp = self.start(CQ=Vtd.READ)
        self.expect_error(qp)
        self.assertFalse(qp.completed())

    def test_a_record_that_cannot_be_read(self):
        self.expect_error(self.start(CQ_RECORD=Vtd.WRITE))

    def test_an_admin_queue_of_the_wrong_direction(self):
        for queue, access in (("AQ", Vtd.WRITE), ("ACQ", Vtd.READ)):
            with self.subTest(queue):
                with self.assertRaises(AssertionError):
                    self.start(**{queue: access})
                self.assertEqual(self.tern.reg(hw.REG_FATAL), hw.FATAL_AQ_DMA)
                self.vtd.switch(False)


if __name__ == "__main__":
    unittest.main()

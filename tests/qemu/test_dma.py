# SPDX-License-Identifier: GPL-2.0-or-later
"""Admin commands and DMA: the memory that the device can reach, and its reaction to a hostile
guest."""

import unittest

import tern_hw as hw
from qtest import RAM_SIZE, Qemu


def number(data, offset, size):
    return int.from_bytes(data[offset:offset + size], "little")


class Caps(unittest.TestCase):
    def query(self, properties=""):
        with Qemu("-device", "tern,addr=4" + properties) as qemu:
            status, caps = hw.Tern(qemu).start().run(hw.CMD_QUERY_CAPS, out_len=1024)
            self.assertEqual((status, len(caps)), (hw.ST_OK, 192))
            return caps

    def test_obey_the_properties(self):
        caps = self.query(",mac=52:54:00:11:22:33,dm-size=1M,uar-size=512K,max-qp=100,max-cq=200,"
                          "max-mr=300,max-mw=400,max-pages=5000,vectors=5")
        self.assertEqual(caps[0x84:0x8a].hex(), "525400112233")
        self.assertEqual(number(caps, 0x18, 8),
                         1 << 20 if number(caps, 0, 8) & hw.CAP_DM else 0)
        self.assertEqual(number(caps, 0x28, 4), 128)
        for offset, most in ((0x30, 300), (0x34, 400), (0x40, 200), (0x48, 100)):
            self.assertLessEqual(number(caps, offset, 4), most)
        self.assertEqual(number(caps, 0x7e, 2), 5)
        self.assertEqual(number(caps, 0xb0, 8), 5000)
        self.assertTrue(number(caps, 0, 8) & hw.CAP_RC)
        self.assertEqual(caps[0x8b], 1)  # port

    def test_every_refusal_is_an_answer(self):
        with Qemu("-device", "tern,addr=4") as qemu:
            tern = hw.Tern(qemu).start()
            self.assertEqual(tern.run(0x7777)[0], hw.ST_BAD_OPCODE)
            self.assertEqual(tern.run(hw.CMD_NOP, version=9)[0], hw.ST_BAD_VERSION)
            self.assertEqual(tern.run(hw.CMD_ALLOC_PD, bytes(4), 8)[0], hw.ST_BAD_LENGTH)
            for _ in range(40):  # wraps the queues more than once
                self.assertEqual(tern.run(hw.CMD_NOP)[0], hw.ST_OK)


class Memory(unittest.TestCase):
    # Addresses that are not RAM: BARs of the device, beyond RAM, the end of the address space, ROM.
    NOWHERE = (hw.Tern.REGS, hw.Tern.UAR, hw.Tern.DM, RAM_SIZE + 0x1000, 0xfee00000,
               (1 << 64) - 64, 0x7fffffffffffffc0)

    def setUp(self):
        self.qemu = self.enterContext(Qemu("-device", "tern,addr=4"))
        self.tern = hw.Tern(self.qemu).start()

    def fatal(self):
        return self.tern.reg(hw.REG_STATUS) & hw.STATUS_FATAL

    def assert_fatal(self, code):
        self.qemu.wait(self.fatal, "FATAL")
        self.assertEqual(self.tern.reg(hw.REG_FATAL), code)
        self.tern.reset()
        self.tern.enable()
        self.assertEqual(self.tern.run(hw.CMD_NOP)[0], hw.ST_OK)

    def test_input_that_is_not_ram(self):
        for addr in self.NOWHERE:
            status, _ = self.tern.run(hw.CMD_ALLOC_PD, bytes(8), 8, in_addr=addr)
            self.assertEqual(status, hw.ST_DMA_ERROR, hex(addr))

    def test_another_function(self):
        # The other function's device memory is reachable, its registers are not: see
        # Documentation/spec/overview.rst.
        with Qemu("-device", "tern,addr=4", "-device", "tern,addr=5") as qemu:
            tern, other = hw.Tern(qemu).start(), hw.Tern(qemu, slot=5)
            other.REGS, other.UAR, other.DM = 0xe2000000, 0xe3000000, 0x900000000
            other.map_bars()
            for addr in (other.REGS, other.UAR):
                self.assertEqual(tern.run(hw.CMD_ALLOC_PD, bytes(8), 8, in_addr=addr)[0], hw.ST_DMA_ERROR)
            tern.IN, tern.OUT = other.DM + 0x1000, other.DM + 0x2000
            caps = tern.run(hw.CMD_QUERY_CAPS, out_len=1024)[1]
            self.assertEqual(len(caps), 192)
            self.assertEqual(qemu.read(other.DM + 0x2000, 192), caps)
            self.assertEqual(tern.run(hw.CMD_ALLOC_PD, bytes(8), 8)[0], hw.ST_OK)
            # Unreachable once the other function stops decoding memory.
            other.command(0)
            self.assertEqual(tern.run(hw.CMD_ALLOC_PD, bytes(8), 8)[0], hw.ST_DMA_ERROR)

    def test_queues_that_are_not_ram(self):
        for addr in self.NOWHERE:
            for queues in ({"aq": addr}, {"acq": addr}):
                self.tern.reset()
                self.tern.enable(**queues)
                self.tern.set_reg(hw.REG_AQ_TAIL, 1)
                self.assert_fatal(hw.FATAL_AQ_DMA)

    def test_queue_that_ends_with_the_ram(self):
        self.tern.reset()
        self.tern.enable(acq=RAM_SIZE - 64)
        for _ in range(4):
            self.tern.post(hw.CMD_NOP)
        self.assertFalse(self.fatal())
        self.tern.post(hw.CMD_NOP)
        self.assert_fatal(hw.FATAL_AQ_DMA)

    def test_queue_in_read_only_memory(self):
        self.tern.reset()
        self.tern.enable(acq=0xfffff000)  # the BIOS
        self.tern.post(hw.CMD_NOP)
        self.assert_fatal(hw.FATAL_AQ_DMA)

    def test_tail_beyond_the_queue(self):
        self.tern.set_reg(hw.REG_AQ_TAIL, 1000)
        self.assert_fatal(hw.FATAL_AQ_OVERRUN)

    def test_no_bus_master(self):
        self.tern.command(self.tern.MEMORY)
        self.tern.post(hw.CMD_NOP)
        self.qemu.wait(self.fatal, "FATAL")
        self.assertEqual(self.tern.reg(hw.REG_FATAL), hw.FATAL_AQ_DMA)
        self.tern.start()
        self.assertEqual(self.tern.run(hw.CMD_NOP)[0], hw.ST_OK)

    def test_doorbells_of_nothing(self):
        for page in (0, 1, 4095):
            for command in range(16):
                for queue in (0, 1, 2, 0x1234, 0xffffff):
                    self.tern.doorbell(page, command << 28 | queue)
        for offset in range(0, 4096, 4):
            self.qemu.writel(self.tern.UAR + offset, 0xffffffff)
        self.assertEqual(self.tern.run(hw.CMD_NOP)[0], hw.ST_OK)
        status, counters = self.tern.run(hw.CMD_QUERY_COUNTERS, bytes((0, 0, 0, 0, 1, 0, 0, 0)), 1024)
        self.assertEqual(status, hw.ST_OK)
        self.assertGreater(number(counters, 8 * hw.CNT_BAD_DOORBELL, 8), 200)

    def test_registers_of_any_value(self):
        for value in (0, 1, 0xffffffff, 0x80000000, 0x12345678):
            for offset in range(0, 0x100, 4):
                if offset != hw.REG_CTRL:
                    self.tern.set_reg(offset, value)
                self.tern.reg(offset)
        self.tern.start()
        self.assertEqual(self.tern.run(hw.CMD_NOP)[0], hw.ST_OK)


class Vtd:
    """A minimal Intel IOMMU: 4 levels, one domain, 4 KiB pages."""

    BASE = 0xfed90000
    GCMD, GSTS, RTADDR, CCMD, IOTLB = 0x18, 0x1c, 0x20, 0x28, 0xf8
    ROOT, CONTEXT, TABLES = 0x200000, 0x201000, 0x202000
    READ, WRITE = 1, 2

    def __init__(self, qemu, slot):
        self.qemu = qemu
        self.next_table = self.TABLES + 0x1000
        qemu.write(self.ROOT, (self.CONTEXT | 1).to_bytes(16, "little"))
        entry = (1 << 8 | 2) << 64 | self.TABLES | 1  # domain 1, 48 bits, present
        qemu.write(self.CONTEXT + 16 * (slot << 3), entry.to_bytes(16, "little"))

    def writeq(self, offset, value):
        self.qemu.command("writeq", hex(self.BASE + offset), hex(value))

    def map(self, iova, addr, access=READ | WRITE):
        """Maps a page, or unmaps it if addr is None. Does not invalidate caches."""
        table = self.TABLES
        for level in (39, 30, 21, 12):
            at = table + 8 * (iova >> level & 511)
            if level == 12:
                entry = 0 if addr is None else addr | access
                self.qemu.write(at, entry.to_bytes(8, "little"))
                return
            table = int.from_bytes(self.qemu.read(at, 8), "little") & ~0xfff
            if not table:
                table, self.next_table = self.next_table, self.next_table + 0x1000
                self.qemu.write(at, (table | 3).to_bytes(8, "little"))

    def flush(self):
        self.writeq(self.CCMD, 1 << 63 | 1 << 61)
        self.writeq(self.IOTLB, 1 << 63 | 1 << 60)

    def switch(self, on):
        self.writeq(self.RTADDR, self.ROOT)
        self.qemu.writel(self.BASE + self.GCMD, 1 << 30)
        self.flush()
        self.qemu.writel(self.BASE + self.GCMD, 1 << 31 if on else 0)
        assert self.qemu.readl(self.BASE + self.GSTS) >> 31 == on


class Iommu(unittest.TestCase):
    IOMMU = "intel-iommu"

    def setUp(self):
        self.qemu = self.enterContext(Qemu("-device", self.IOMMU, "-device", "tern,addr=4", "-trace", "tern_iommu_*"))
        self.tern = hw.Tern(self.qemu).start()
        self.vtd = Vtd(self.qemu, 4)

    def test_translates_and_follows_changes(self):
        tern, vtd, far = self.tern, self.vtd, 0x7f0000000000
        for at in (tern.AQ, tern.ACQ, tern.IN, tern.OUT):
            vtd.map(far + at, at)
        vtd.switch(True)
        tern.reset()
        tern.enable(aq=far + tern.AQ, acq=far + tern.ACQ)
        self.assertEqual(tern.run(hw.CMD_NOP)[0], hw.ST_OK)
        self.assertEqual(tern.run(hw.CMD_NOP, bytes(8), in_addr=far + tern.IN)[0], hw.ST_OK)
        # The physical address is not mapped.
        self.assertEqual(tern.run(hw.CMD_NOP, bytes(8), in_addr=tern.IN)[0], hw.ST_DMA_ERROR)
        # The completion queue is remapped while in use,
        moved = tern.FREE + 0x10000
        self.qemu.write(moved, bytes(4096))
        vtd.map(far + tern.ACQ, moved)
        vtd.flush()
        tern.post(hw.CMD_NOP)
        self.qemu.wait(lambda: self.qemu.read(moved + 16 * 3 + 12, 1) == b"\1", "the completion")
        # and then unmapped.
        vtd.map(far + tern.ACQ, None)
        vtd.flush()
        tern.post(hw.CMD_NOP)
        self.qemu.wait(lambda: tern.reg(hw.REG_STATUS) & hw.STATUS_FATAL, "FATAL")
        self.assertEqual(tern.reg(hw.REG_FATAL), hw.FATAL_AQ_DMA)
        vtd.switch(False)
        tern.reset()
        tern.enable()
        self.assertEqual(tern.run(hw.CMD_NOP)[0], hw.ST_OK)

    def test_is_polled(self):
        self.vtd.switch(True)
        self.vtd.switch(False)
        self.assertNotIn("tern_iommu_silent", self.qemu.output())


class SilentIommu(Iommu):
    """An IOMMU that refuses notifiers, but only once the guest enables it."""

    IOMMU = "intel-iommu,snoop-control=on"

    def test_is_polled(self):
        self.vtd.switch(True)
        self.assertIn("tern_iommu_silent", self.qemu.output())
        self.vtd.switch(False)
        self.assertTrue(self.qemu.alive())


if __name__ == "__main__":
    unittest.main()

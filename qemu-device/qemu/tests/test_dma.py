# SPDX-License-Identifier: GPL-2.0-or-later
"""Admin commands and DMA: the memory that the device can reach, and its reaction to a hostile
guest."""

import unittest

import tern_hw as hw
from qtest import RAM_SIZE, PciFunction, Qemu


def number(data, offset, size):
    return int.from_bytes(data[offset:offset + size], "little")


class Caps(unittest.TestCase):
    def query(self, properties=""):
        with Qemu("-device", "tern,addr=4" + properties) as qemu:
            status, caps = hw.Tern(qemu).start().run(hw.CMD_QUERY_CAPS, out_len=1024)
            self.assertEqual((status, len(caps)), (hw.ST_OK, 216))
            return caps

    def test_obey_the_properties(self):
        caps = self.query(",mac=52:54:00:11:22:33,dm-size=1M,uar-size=512K,max-qp=100,max-cq=200,"
                          "max-mr=300,max-mw=400,max-pages=5000,vectors=5")
        self.assertEqual(caps[0x84:0x8a].hex(), "525400112233")
        self.assertEqual(number(caps, 0x18, 8), 1 << 20 if number(caps, 0, 8) & hw.CAP_DM else 0)
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
    NOWHERE = (hw.Tern.REGS, hw.Tern.UAR, hw.Tern.DM, RAM_SIZE + 0x1000, 0xfee00000, (1 << 64) - 64,
               0x7fffffffffffffc0)

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
                self.assertEqual(
                    tern.run(hw.CMD_ALLOC_PD, bytes(8), 8, in_addr=addr)[0], hw.ST_DMA_ERROR)
            tern.IN, tern.OUT = other.DM + 0x1000, other.DM + 0x2000
            caps = tern.run(hw.CMD_QUERY_CAPS, out_len=1024)[1]
            self.assertEqual(len(caps), 216)
            self.assertEqual(qemu.read(other.DM + 0x2000, 216), caps)
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
        status, counters = self.tern.run(hw.CMD_QUERY_COUNTERS, bytes((0, 0, 0, 0, 1, 0, 0, 0)),
                                         1024)
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
        self.qemu = self.enterContext(
            Qemu("-device", self.IOMMU, "-device", "tern,addr=4", "-trace", "tern_iommu_*"))
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


class AmdIommu:
    """An AMD IOMMU that refuses all DMA of bus 0 and reports each fault by a message, which it
    sends while the device asks for the translation."""

    BASE = 0xfed80000
    DEVICES, EVENTS, CONTROL = 0, 0x10, 0x18
    TABLE, LOG = 0x200000, 0x202000
    CLASS, MSI = 0x0806, 5

    def __init__(self, qemu):
        self.qemu = qemu
        nothing = (1 << 9 | 3).to_bytes(32, "little")  # valid, one level, neither read nor write
        qemu.write(self.TABLE, nothing * 256)
        self.function = next(f for f in (PciFunction(qemu, 0, slot) for slot in range(32))
                             if f.config_read(0xa, 2) == self.CLASS)

    def writeq(self, offset, value):
        self.qemu.command("writeq", hex(self.BASE + offset), hex(value))

    def switch(self, on):
        self.writeq(self.DEVICES, self.TABLE | 1)  # 8 KiB
        self.writeq(self.EVENTS, 8 << 56 | self.LOG)
        self.writeq(self.CONTROL, 5 if on else 0)  # translation, event log

    def set_message(self, addr, data):
        """Each fault stores data (16 bits) in the word at addr."""
        msi = self.function.capability(self.MSI)
        for at, size, value in ((4, 4, addr & 0xffffffff), (8, 4, addr >> 32), (12, 2, data), (2, 2,
                                                                                               1)):
            self.function.config_write(msi + at, size, value)

    def logged(self):
        return any(self.qemu.read(self.LOG, 16))


class FaultMessages(unittest.TestCase):
    """A fault of ours whose message is a store to the registers of our own function."""

    MMCONFIG = 0xb0000000
    PCIE, PM = 0x10, 1

    def setUp(self):
        # Freed memory is overwritten.
        self.qemu = self.enterContext(
            Qemu("-global", "ICH9-LPC.acpi-pci-hotplug-with-bridge-support=off", "-device",
                 "amd-iommu", "-device", "pcie-root-port,id=rp,addr=6", "-device",
                 "tern,id=tern,bus=rp,dm-size=0", env={"MALLOC_PERTURB_": "90"}))
        bridge = PciFunction(self.qemu, 0, 0)
        bridge.config_write(0x64, 4, 0)
        bridge.config_write(0x60, 4, self.MMCONFIG | 1)
        port = self.port = PciFunction(self.qemu, 0, 6)
        port.config_write(0x18, 4, 0x010100)
        port.config_write(0x20, 4, 0xe1f0e000)  # window 0xe0000000 to 0xe1ffffff
        port.command(port.MEMORY | port.MASTER)
        self.tern = hw.Tern(self.qemu, bus=1, slot=0)
        self.iommu = AmdIommu(self.qemu)
        self.use()

    def use(self):
        self.tern.start()
        self.assertEqual(self.tern.run(hw.CMD_NOP)[0], hw.ST_OK)

    def provoke(self, addr, data):
        """Has the device read its admin queue, which the IOMMU refuses with a store at addr."""
        self.iommu.set_message(addr, data)
        self.iommu.switch(True)
        self.tern.post(hw.CMD_NOP)
        self.assertTrue(self.iommu.logged())
        self.assertEqual(self.qemu.qmp("query-status")["status"], "running")

    def own(self, offset):
        return self.MMCONFIG + (1 << 20) + offset

    def assert_fatal(self):
        self.qemu.wait(lambda: self.tern.reg(hw.REG_STATUS) & hw.STATUS_FATAL, "FATAL")
        self.assertEqual(self.tern.reg(hw.REG_FATAL), hw.FATAL_AQ_DMA)

    def test_to_the_command_register(self):
        tern = self.tern
        self.provoke(self.own(tern.COMMAND), tern.MEMORY)
        self.assertEqual(tern.config_read(tern.COMMAND, 2), tern.MEMORY)
        self.assert_fatal()
        self.iommu.switch(False)
        tern.reset()
        tern.enable()
        tern.post(hw.CMD_NOP)
        self.assert_fatal()  # no bus master
        self.use()

    def test_which_hides_the_function(self):
        self.provoke(self.own(self.tern.COMMAND), 0)
        self.assertEqual(self.tern.config_read(self.tern.COMMAND, 2), 0)
        self.iommu.switch(False)
        self.use()

    def test_that_resets_the_function(self):
        tern = self.tern
        self.provoke(self.own(tern.capability(self.PCIE) + 8), 0x8000)
        self.assertEqual(tern.config_read(tern.COMMAND, 2), 0)
        self.iommu.switch(False)
        tern.map_bars()
        self.assertEqual(tern.reg(hw.REG_STATUS), hw.STATUS_READY)
        self.use()

    def test_that_puts_it_to_sleep(self):
        tern = self.tern
        control = tern.capability(self.PM) + 4
        self.provoke(self.own(control), 3)
        self.assertEqual(tern.config_read(control, 2) & 3, 3)
        self.iommu.switch(False)
        tern.config_write(control, 2, 0)
        self.use()

    def test_that_unplugs_it(self):
        slot_control = self.port.capability(self.PCIE) + 0x18
        self.provoke(self.MMCONFIG + (6 << 15) + slot_control, 0x0700)  # power and indicator off
        self.assertEqual(self.tern.config_read(0, 4), 0xffffffff)
        self.qemu.wait(
            lambda: "tern" not in
            [d["name"] for d in self.qemu.qmp("qom-list", path="/machine/peripheral")],
            "the device to go")
        self.iommu.switch(False)
        self.qemu.qmp("device_add", driver="tern", id="tern", bus="rp", **{"dm-size": 0})
        self.port.config_write(slot_control, 2, 0x0100)
        self.use()


if __name__ == "__main__":
    unittest.main()

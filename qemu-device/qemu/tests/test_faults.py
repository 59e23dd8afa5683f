# SPDX-License-Identifier: GPL-2.0-or-later
"""Fault injection by properties: rules, ICRC mode, surprise removal."""

import subprocess
import unittest

import tern_hw as hw
from qtest import QEMU, PciFunction, Qemu
from test_function import refused

PATH = "/machine/peripheral/tern"
ONES = 0xffffffff


class Rules(unittest.TestCase):
    def setUp(self):
        self.qemu = self.enterContext(
            Qemu("-device", "tern,id=tern,addr=4,icrc=warn,"
                 "faults=admin-drop opcode=nop nth=2"))
        self.tern = hw.Tern(self.qemu).start()

    def get(self, name):
        return self.qemu.qmp("qom-get", path=PATH, property=name)

    def set(self, name, value):
        self.qemu.qmp("qom-set", path=PATH, property=name, value=value)

    def test_those_of_the_command_line_hold(self):
        self.assertEqual(self.tern.run(hw.CMD_NOP)[0], hw.ST_OK)
        self.tern.post(hw.CMD_NOP)  # dropped by the rule
        self.tern.post(hw.CMD_NOP)
        tag, status, _ = self.tern.answer()
        self.assertEqual((tag, status), (3, hw.ST_OK))
        self.assertEqual(self.get("faults"),
                         "admin-drop opcode=nop nth=2  # matched 3, applied 1\n")

    def test_set_and_read_at_run_time(self):
        self.set("faults", "drop tx rate=5% seed=3; delay=2ms rx qp=7")
        text = "drop tx rate=5% seed=3  # matched 0, applied 0\n" \
               "delay=2ms rx qp=7  # matched 0, applied 0\n"
        self.assertEqual(self.get("faults"), text)
        self.set("faults", text)
        self.assertEqual(self.get("faults"), text)
        self.set("faults", "")
        self.assertEqual(self.get("faults"), "")

    def test_by_the_monitor(self):
        def monitor(line):
            return self.qemu.qmp("human-monitor-command", **{"command-line": line})

        self.assertEqual(monitor(f'qom-set {PATH} faults mark rx; drop tx count=3'), "")
        self.assertIn("drop tx count=3", monitor(f"qom-get {PATH} faults"))

    def test_a_wrong_text_changes_nothing(self):
        before = self.get("faults")
        with self.assertRaisesRegex(RuntimeError, "rule 2: nth must be from 1 to"):
            self.set("faults", "drop tx; drop rx nth=0")
        self.assertEqual(self.get("faults"), before)

    def test_a_wrong_text_makes_no_device(self):
        self.assertIn("property 'faults': rule 1: no action 'lose'", refused("faults=lose tx"))
        self.assertIn("maybe", refused("icrc=maybe"))

    def test_icrc(self):
        self.assertEqual(self.get("icrc"), "warn")
        for mode in ("off", "check", "warn"):
            self.set("icrc", mode)
            self.assertEqual(self.get("icrc"), mode)
        with self.assertRaisesRegex(RuntimeError, "sometimes"):
            self.set("icrc", "sometimes")
        self.assertEqual(self.get("icrc"), "warn")

    def test_port_speed(self):
        self.tern.start()
        for mbps in (25_000, 1, 100_000):
            self.set("port-speed", mbps)
            self.assertEqual(self.get("port-speed"), mbps)
            status, port = self.tern.run(hw.CMD_QUERY_PORT, b"\1" + bytes(7), 24)
            self.assertEqual((status, int.from_bytes(port[16:20], "little")), (hw.ST_OK, mbps))
        for wrong in (0, 100_001):
            with self.assertRaisesRegex(RuntimeError, "must be 1 to 100000"):
                self.set("port-speed", wrong)
        self.assertEqual(self.get("port-speed"), 100_000)
        self.assertIn("at run time", refused("port-speed=1000"))

    def test_fatal_at_once(self):
        self.set("faults", "fatal=3")
        self.assertTrue(self.tern.reg(hw.REG_STATUS) & hw.STATUS_FATAL)
        self.assertEqual(self.tern.reg(hw.REG_FATAL), hw.FATAL_EQ_DMA)
        self.tern.start()
        self.assertEqual(self.tern.run(hw.CMD_NOP)[0], hw.ST_OK)

    def test_memory_that_cannot_be_reached(self):
        self.set("faults", f"dma-error addr={self.tern.IN}")
        status, _ = self.tern.run(hw.CMD_ALLOC_PD, bytes(8), 8)
        self.assertEqual(status, hw.ST_DMA_ERROR)
        self.set("faults", "")
        self.assertEqual(self.tern.run(hw.CMD_ALLOC_PD, bytes(8), 8)[0], hw.ST_OK)

    def test_help_describes_them(self):
        text = subprocess.run([QEMU, "-device", "tern,help"], capture_output=True, text=True,
                              timeout=20, check=True).stdout
        for name in ("faults", "icrc", "port-speed", "removed"):
            line = next(l for l in text.splitlines() if l.strip().startswith(name + "="))
            self.assertRegex(line, r" - \S")


class Removal(unittest.TestCase):
    def setUp(self):
        self.qemu = self.enterContext(Qemu("-device", "tern,id=tern,addr=4,dm-size=64K"))
        self.tern = hw.Tern(self.qemu).start()

    def removed(self, value):
        self.qemu.qmp("qom-set", path=PATH, property="removed", value=value)
        self.assertEqual(self.qemu.qmp("qom-get", path=PATH, property="removed"), value)

    def assert_gone(self):
        tern, qemu = self.tern, self.qemu
        self.assertEqual([tern.config_read(at, 4) for at in (0, 4, 0x10, 0xfc)], [ONES] * 4)
        for base in (tern.REGS, tern.REGS + hw.REG_STATUS, tern.REGS + hw.MSIX_TABLE_OFFSET,
                     tern.REGS + hw.MSIX_PBA_OFFSET, tern.UAR, tern.UAR + hw.UAR_CLOCK_LO, tern.DM,
                     tern.DM + 0x8000):
            self.assertEqual(qemu.readl(base), ONES, hex(base))
        self.assertEqual(qemu.command("readb", hex(tern.REGS))[0], "0x00000000000000ff")

    def test_everything_reads_ones_and_nothing_happens(self):
        tern = self.tern
        tern.set_vector(0, tern.MSI, 0x4321)
        self.qemu.write(tern.DM, b"\x12\x34")
        self.removed(True)
        self.assert_gone()
        tern.post(hw.CMD_NOP)
        tern.set_reg(hw.REG_CTRL, hw.CTRL_RESET)
        tern.doorbell(0, hw.DB_CMD_EQ_CI << 28)
        self.qemu.write(tern.DM, bytes(64))
        tern.command(0)
        self.qemu.clock_step(1_000_000_000)
        self.assert_gone()
        self.assertEqual(self.qemu.read(tern.ACQ, 16), bytes(16))
        self.assertEqual(self.qemu.read(tern.MSI, 4), bytes(4))

    def test_another_adapter_is_not_found_before_a_scan(self):
        self.assertEqual(self.tern.run(hw.CMD_ALLOC_PD, bytes(8), 8)[0], hw.ST_OK)
        self.removed(True)
        self.removed(False)
        self.assertEqual(self.tern.config_read(0, 2), hw.PCI_VENDOR_ID)
        self.assertEqual(self.tern.config_read(self.tern.COMMAND, 2), 0)
        self.assertEqual(self.tern.config_read(0x10, 4), 0)
        self.assertNotEqual(self.tern.reg(hw.REG_MAGIC), hw.MAGIC)
        self.tern.start()
        self.assertEqual(self.qemu.read(self.tern.DM, 2), bytes(2))
        status, counts = self.tern.run(hw.CMD_QUERY_OBJECTS, out_len=72)
        self.assertEqual((status, int.from_bytes(counts[4:8], "little")), (hw.ST_OK, 0))

    def test_resets_do_not_bring_it_back(self):
        self.removed(True)
        self.qemu.qmp("system_reset")
        self.qemu.clock_step(1_000_000)
        self.assertEqual(self.tern.config_read(0, 4), ONES)
        self.removed(False)
        self.tern.start()
        self.assertEqual(self.tern.run(hw.CMD_NOP)[0], hw.ST_OK)

    def test_a_removed_one_is_unplugged(self):
        with Qemu("-global", "ICH9-LPC.acpi-pci-hotplug-with-bridge-support=off", "-device",
                  "pcie-root-port,id=rp,addr=6", "-device", "tern,id=tern,bus=rp") as qemu:
            port = PciFunction(qemu, 0, 6)
            qemu.qmp("qom-set", path=PATH, property="removed", value=True)
            qemu.qmp("device_del", id="tern")
            port.config_write(port.capability(0x10) + 0x18, 2, 0x0700)
            qemu.wait(
                lambda: "tern" not in
                (d["name"] for d in qemu.qmp("qom-list", path="/machine/peripheral")),
                "the device to go")
            qemu.qmp("device_add", driver="tern", id="tern", bus="rp")

    def test_one_that_was_never_there(self):
        with Qemu("-device", "tern,id=tern,addr=4,removed=on") as qemu:
            tern = hw.Tern(qemu)
            self.assertEqual(tern.config_read(0, 4), ONES)
            qemu.qmp("qom-set", path=PATH, property="removed", value=False)
            self.assertEqual(tern.start().run(hw.CMD_NOP)[0], hw.ST_OK)


if __name__ == "__main__":
    unittest.main()

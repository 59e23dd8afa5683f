# SPDX-License-Identifier: GPL-2.0-or-later
"""The PCI function: config space, BARs, MSI-X, resets, power, properties."""

import os
import subprocess
import unittest

import tern_hw as hw
from qtest import QEMU, QEMU_MUTATE, PciFunction, Qemu

PCIE, PM, MSIX = 0x10, 0x01, 0x11

# Property, type and, where there is one, default.
HELP = """\
netdev str
mac str
dm-size size 16777216
uar-size size 16777216
max-qp uint64 16384
max-cq uint64 16384
max-mr uint64 65536
max-mw uint64 65536
tm-tags uint64 1024
eth-queues uint64 16
max-pages size 67108864
vectors uint64 32
mtu uint64 9000
speed uint64 100000
mw-type str 2b
odp bool on
congestion str on
poll bool on
wire str
pcap str
pcap-limit size 0
events str
events-limit size 0
faults string
icrc TernIcrc check
"""

# Property with a wrong value, and what it must be.
REFUSED = """\
dm-size=1 a multiple of 64K from 0 to 64G
dm-size=96K a multiple of 64K from 0 to 64G
dm-size=1T a multiple of 64K from 0 to 64G
uar-size=3M a power of two from 128K to 1G
uar-size=64K a power of two from 128K to 1G
max-qp=0 from 1 to 16777214
max-cq=4294967297 from 1 to 16777214
max-mr=0 from 1 to 16777214
max-mw=16777215 from 0 to 16777213
tm-tags=4097 from 0 to 4096
eth-queues=0 from 1 to 16
eth-queues=17 from 1 to 16
max-pages=1023 from 1K to 4G
max-pages=4294967297 from 1K to 4G
vectors=1 from 2 to 128
vectors=129 from 2 to 128
mtu=1499 from 1500 to 9216
mtu=9217 from 1500 to 9216
speed=0 from 1 to 4294967295
mw-type=2c 2b or 2a
mw-type=1 2b or 2a
mw-type= 2b or 2a
pcap-limit=23 0, or from 24 to 4P
events-limit=111 0, or from 112 to 4P
congestion=of on, off or parameters
congestion=rp_gd=16 on, off or parameters
"""


def refused(*properties, binary=QEMU, env=None):
    """Returns the last line that QEMU prints when it refuses a device."""
    args = [
        binary, "-L", "/usr/share/seabios", "-L", "/usr/share/qemu", "-nodefaults", "-display",
        "none", "-machine", "q35", "-S", "-device", ",".join(("tern", ) + properties)
    ]
    done = subprocess.run(args, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=20, check=False, env=dict(os.environ, **env or {}))
    assert done.returncode == 1, done
    return done.stderr.strip().splitlines()[-1]


def help_text(binary=QEMU):
    return subprocess.run([binary, "-device", "tern,help"], capture_output=True, text=True,
                          timeout=20, check=True).stdout


class Properties(unittest.TestCase):
    def test_help_has_type_default_and_description_of_each(self):
        text = help_text()
        for row in HELP.splitlines():
            name, kind, *default = row.split()
            line = next(l for l in text.splitlines() if l.strip().startswith(name + "="))
            self.assertRegex(line, rf"^  {name}=<{kind}> +- \S")
            if default:
                self.assertIn(f"(default: {default[0]})", line)
        self.assertIn("largest Ethernet MTU in bytes; from 1500 to 9216", text)

    def test_wrong_values_are_refused_with_name_and_range(self):
        for row in REFUSED.splitlines():
            prop, allowed = row.split(maxsplit=1)
            name = prop.split("=", maxsplit=1)[0]
            self.assertIn(f"property '{name}' must be {allowed}", refused(prop))
        self.assertIn("'max-mr' and 'max-mw' must be at most 16777214 together",
                      refused("max-mr=10000000", "max-mw=10000000"))
        self.assertIn("No such file or directory", refused("pcap=/nonexistent/file"))
        self.assertIn("No such file or directory", refused("events=/nonexistent/file"))
        self.assertIn("can't find value", refused("netdev=nobody"))


class ConfigSpace(unittest.TestCase):
    def test_identity(self):
        with Qemu("-device", "tern,addr=4") as qemu:
            tern = hw.Tern(qemu)
            self.assertEqual(tern.config_read(0, 2), hw.PCI_VENDOR_ID)
            self.assertEqual(tern.config_read(2, 2), hw.PCI_DEVICE_ID)
            self.assertEqual(tern.config_read(8, 1), hw.PCI_REVISION)
            self.assertEqual(tern.config_read(8, 4) >> 8, hw.PCI_CLASS)
            self.assertEqual(tern.config_read(0xe, 1), 0)

    def test_bars(self):
        with Qemu("-device", "tern,addr=4,dm-size=320K,uar-size=1M", "-device",
                  "tern,addr=5,dm-size=0", "-device", "tern,addr=6", "-device",
                  "tern,addr=7,dm-size=1G") as qemu:
            tern, without_dm = hw.Tern(qemu), hw.Tern(qemu, slot=5)
            self.assertEqual(hw.Tern(qemu, slot=6).bar_size(hw.BAR_DM), 16 << 20)
            self.assertEqual(hw.Tern(qemu, slot=7).bar_size(hw.BAR_DM), 1 << 30)
            self.assertEqual([tern.bar_size(n) for n in (0, 2, 4)],
                             [hw.BAR_REGS_SIZE, 1 << 20, 512 << 10])
            self.assertEqual(without_dm.bar_size(hw.BAR_DM), 0)
            self.assertEqual([tern.config_read(0x10 + 4 * n, 1) & 0xf for n in (0, 2, 4)],
                             [0, 4, 0xc])

    def test_capabilities(self):
        with Qemu("-device", "tern,addr=4,vectors=33", "-device", "pcie-root-port,id=rp,addr=6",
                  "-device", "tern,bus=rp") as qemu:
            tern = hw.Tern(qemu)
            pcie, pm, msix = (tern.capability(c) for c in (PCIE, PM, MSIX))
            self.assertEqual(tern.config_read(pcie + 2, 1) >> 4, 9)  # integrated endpoint
            self.assertTrue(tern.config_read(pcie + 4, 4) & 1 << 28)  # FLR
            self.assertEqual(tern.config_read(pm + 2, 2) & 7, 3)
            self.assertEqual(tern.config_read(msix + 2, 2) & 0x7ff, 32)
            self.assertEqual(tern.config_read(msix + 4, 4), hw.MSIX_TABLE_OFFSET)
            self.assertEqual(tern.config_read(msix + 8, 4), hw.MSIX_PBA_OFFSET)
            PciFunction(qemu, 0, 6).config_write(0x18, 4, 0x010100)
            behind = PciFunction(qemu, 1, 0)
            self.assertEqual(behind.config_read(2, 2), hw.PCI_DEVICE_ID)
            self.assertEqual(behind.config_read(behind.capability(PCIE) + 2, 1) >> 4, 0)


class Link(unittest.TestCase):
    """The PCI Express link: what the function has, and what it and its port agree on."""

    GT_S = {1: 2.5, 2: 5, 3: 8, 4: 16, 5: 32, 6: 64}
    FULL = {"x-speed": 64, "x-width": 16}

    @staticmethod
    def machine(*links):
        """Machine of one root port with a tern device for each (properties of port, of device)."""
        args = []
        for i, (port, tern) in enumerate(links):

            def words(props):
                return "".join(f",{k}={v}" for k, v in props.items())

            args += [
                "-device", f"pcie-root-port,id=rp{i},chassis={i},addr={i + 4}" + words(port),
                "-device", f"tern,bus=rp{i},dm-size=0" + words(tern)
            ]
        return Qemu(*args)

    @staticmethod
    def ends(qemu, index):
        """The functions at both ends of a link, the port first."""
        port = PciFunction(qemu, 0, index + 4)
        port.config_write(0x18, 4, 0x010100 * (index + 1))
        return port, PciFunction(qemu, index + 1, 0)

    @staticmethod
    def status(function):
        """Speed code and width."""
        value = function.config_read(function.capability(PCIE) + 0x12, 2)
        return value & 0xf, value >> 4 & 0x3f

    def assert_capability(self, tern, speed, width):
        pcie = tern.capability(PCIE)
        caps = tern.config_read(pcie + 0xc, 4)
        self.assertEqual((caps & 0xf, caps >> 4 & 0x3f), (speed, width))
        self.assertEqual(tern.config_read(pcie + 0x2c, 4) & 0xfe, (2 << speed) - 2)  # and all below
        self.assertEqual(tern.config_read(pcie + 0x30, 2) & 0xf, speed)  # target

    def carries(self, speed, width):
        """Gbit/s of payload in TLPs of 128 bytes with 26 bytes around each."""
        return self.GT_S[speed] * width * 128 / 130 * 128 / 154

    def test_it_sustains_the_port(self):
        speeds = ((1, 3), (25000, 3), (100000, 3), (100001, 4), (200000, 4), (400000, 5),
                  (400001, 6), (800000, 6), (2**32 - 1, 6))
        for mbps, speed in speeds:
            with self.subTest(speed=mbps), self.machine((self.FULL, {"speed": mbps})) as qemu:
                port, tern = self.ends(qemu, 0)
                self.assert_capability(tern, speed, 16)
                self.assertEqual(self.status(tern), (speed, 16))
                self.assertEqual(self.status(port), (speed, 16))
                if mbps <= 800000:
                    self.assertGreater(self.carries(speed, 16) * 1000, mbps)

    def test_by_default(self):
        with self.machine(({}, {})) as qemu:
            port, tern = self.ends(qemu, 0)
            self.assert_capability(tern, 3, 16)
            self.assertEqual(self.status(tern), (3, 16))
            self.assertEqual(self.status(port), (3, 16))

    def test_a_port_can_be_slower_or_narrower(self):
        with self.machine(({"x-speed": 5, "x-width": 4}, {}), ({"x-speed": 5, "x-width": 32}, {}),
                          ({"x-speed": 16, "x-width": 1}, {}),
                          ({"x-speed": "2_5", "x-width": 2}, {"speed": 400000})) as qemu:
            for index, (capability, agreed) in enumerate(
                (((3, 16), (2, 4)), ((3, 16), (2, 16)), ((3, 16), (3, 1)), ((5, 16), (1, 2)))):
                with self.subTest(index=index):
                    port, tern = self.ends(qemu, index)
                    self.assert_capability(tern, *capability)
                    self.assertEqual(self.status(tern), agreed)
                    self.assertEqual(self.status(port), agreed)

    def test_an_integrated_endpoint_has_none(self):
        with Qemu("-device", "tern,addr=4") as qemu:
            tern = hw.Tern(qemu)
            pcie = tern.capability(PCIE)
            self.assertEqual([tern.config_read(pcie + at, 4) for at in (0xc, 0x10, 0x2c, 0x30)],
                             [0] * 4)


class Access(unittest.TestCase):
    def setUp(self):
        self.qemu = self.enterContext(Qemu("-device", "tern,addr=4,dm-size=64K"))
        self.tern = hw.Tern(self.qemu)
        self.tern.map_bars()

    def test_registers_are_words(self):
        tern, qemu = self.tern, self.qemu
        self.assertEqual(tern.reg(hw.REG_MAGIC), hw.MAGIC)
        self.assertEqual(tern.reg(hw.REG_VERSION), hw.VERSION_MAJOR << 16 | hw.VERSION_MINOR)
        for op, ones in (("readb", 0xff), ("readw", 0xffff), ("readq", (1 << 64) - 1)):
            for base in (tern.REGS, tern.UAR):
                self.assertEqual(int(qemu.command(op, hex(base))[0], 0), ones)
        self.assertEqual(qemu.readl(tern.REGS + 2), 0xffffffff)
        self.assertEqual(qemu.readl(tern.REGS + hw.BAR_REGS_SIZE - 4), 0xffffffff)
        tern.reset()
        tern.set_reg(hw.REG_PAGE_SHIFT, 16)
        for op in ("writeb", "writew", "writeq"):
            qemu.command(op, hex(tern.REGS + hw.REG_PAGE_SHIFT), 12)
        self.assertEqual(tern.reg(hw.REG_PAGE_SHIFT), 16)

    def test_device_memory_is_memory(self):
        pattern = bytes(range(256)) * 256
        self.qemu.write(self.tern.DM, pattern)
        self.assertEqual(self.qemu.read(self.tern.DM, len(pattern)), pattern)
        self.qemu.command("writeb", hex(self.tern.DM + 1), 0x55)
        self.assertEqual(self.qemu.read(self.tern.DM, 3), b"\x00\x55\x02")

    def test_clock_runs_with_the_machine(self):
        def clock():
            low = self.tern.reg(hw.REG_CLOCK_LO)
            return self.tern.reg(hw.REG_CLOCK_HI) << 32 | low

        before = clock()
        self.assertEqual(clock(), before)
        self.qemu.clock_step(5_000_000_000)
        self.assertEqual(clock() - before, 5_000_000_000)
        self.assertEqual(self.qemu.readl(self.tern.UAR + hw.UAR_CLOCK_LO), clock() & 0xffffffff)


class Mutations(unittest.TestCase):
    """The property that switches a rule off exists only in a build for mutation tests."""

    PATH = "/machine/peripheral/t"

    def test_a_normal_build_has_no_such_property(self):
        self.assertNotIn("mutate", help_text())
        self.assertIn("'tern.mutate' not found", refused("mutate=mw-pd"))
        with Qemu("-device", "tern,id=t", env={"TERN_MUTATE": "mw-pd"}) as qemu:
            names = [p["name"] for p in qemu.qmp("qom-list", path=self.PATH)]
            self.assertIn("dm-size", names)
            self.assertNotIn("mutate", names)

    def machine(self, props="", env=None):
        self.assertTrue(QEMU_MUTATE, "TERN_QEMU_MUTATE names no QEMU")
        return Qemu("-device", "tern,id=t,addr=4" + props, binary=QEMU_MUTATE, env=env)

    def rule(self, qemu):
        return qemu.qmp("qom-get", path=self.PATH, property="mutate")

    def test_set_at_any_time(self):
        with self.machine() as qemu:
            tern = hw.Tern(qemu).start()
            self.assertEqual(self.rule(qemu), "")
            for rule in ("mw-pd", "inv-mr-bound", "bind-range", ""):
                qemu.qmp("qom-set", path=self.PATH, property="mutate", value=rule)
                self.assertEqual(self.rule(qemu), rule)
                self.assertEqual(tern.run(hw.CMD_NOP)[0], hw.ST_OK)
            qemu.qmp("qom-set", path=self.PATH, property="mutate", value="mw-high")
            tern.reset()
            self.assertEqual(self.rule(qemu), "mw-high")

    def test_set_when_made(self):
        with self.machine(",mutate=mw-low", env={"TERN_MUTATE": "mw-qp"}) as qemu:
            self.assertEqual(self.rule(qemu), "mw-low")
        with self.machine(env={"TERN_MUTATE": "mw-qp"}) as qemu:
            self.assertEqual(self.rule(qemu), "mw-qp")

    def test_unknown_rules_are_refused(self):
        self.assertRegex(help_text(QEMU_MUTATE), r"mutate=<str\w*> +- \S")
        wanted = r"'mutate' must be empty or one of .*mw-pd, .*, inv-mr-bound, not 'mw-pdx'"
        self.assertRegex(refused("mutate=mw-pdx", binary=QEMU_MUTATE), wanted)
        self.assertRegex(refused(binary=QEMU_MUTATE, env={"TERN_MUTATE": "mw-pdx"}), wanted)
        with self.machine(",mutate=mw-read") as qemu:
            with self.assertRaisesRegex(RuntimeError, wanted):
                qemu.qmp("qom-set", path=self.PATH, property="mutate", value="mw-pdx")
            self.assertEqual(self.rule(qemu), "mw-read")


class Interrupts(unittest.TestCase):
    def setUp(self):
        self.qemu = self.enterContext(Qemu("-device", "tern,addr=4"))
        self.tern = hw.Tern(self.qemu).start()

    def pending(self):
        return self.qemu.readl(self.tern.REGS + hw.MSIX_PBA_OFFSET) & 1

    def message(self):
        return int.from_bytes(self.qemu.read(self.tern.MSI, 4), "little")

    def test_a_completion_raises_vector_0(self):
        self.tern.set_vector(0, self.tern.MSI, 0x4321)
        self.assertEqual(self.tern.run(hw.CMD_NOP), (hw.ST_OK, b""))
        self.qemu.wait(lambda: self.message() == 0x4321, "the message")
        self.assertFalse(self.pending())

    def test_a_masked_vector_stays_pending(self):
        self.tern.set_vector(0, self.tern.MSI, 0x4321)
        control = self.tern.REGS + hw.MSIX_TABLE_OFFSET + 12
        self.qemu.writel(control, 1)
        self.tern.run(hw.CMD_NOP)
        self.qemu.wait(self.pending, "the pending bit")
        self.assertEqual(self.message(), 0)
        self.qemu.writel(control, 0)
        self.assertEqual(self.message(), 0x4321)
        self.assertFalse(self.pending())

    def test_a_message_to_the_device_itself_does_no_harm(self):
        for target in (self.tern.REGS + hw.REG_CTRL, self.tern.REGS + hw.REG_AQ_TAIL, self.tern.UAR,
                       self.tern.DM):
            self.tern.set_vector(0, target, hw.CTRL_RESET)
            for _ in range(3):
                self.tern.post(hw.CMD_NOP)
                self.qemu.clock_step(1000)
            self.assertEqual(self.tern.reg(hw.REG_MAGIC), hw.MAGIC)
            self.tern.start()


class Reset(unittest.TestCase):
    def setUp(self):
        # Freed memory is overwritten.
        self.qemu = self.enterContext(
            Qemu("-global", "ICH9-LPC.acpi-pci-hotplug-with-bridge-support=off", "-device",
                 "pcie-root-port,id=rp,addr=6", "-device", "tern,id=tern,bus=rp,dm-size=0",
                 env={"MALLOC_PERTURB_": "90"}))
        port = self.port = PciFunction(self.qemu, 0, 6)
        port.config_write(0x18, 4, 0x010100)
        port.config_write(0x20, 4, 0xe1f0e000)  # window 0xe0000000 to 0xe1ffffff
        port.command(port.MEMORY | port.MASTER)
        self.tern = hw.Tern(self.qemu, bus=1, slot=0)
        self.use()

    def use(self):
        """Starts the device in any state and creates an object."""
        self.tern.start()
        self.assertEqual(self.objects(), 0)
        self.assertEqual(self.tern.run(hw.CMD_ALLOC_PD, bytes(8), 8)[0], hw.ST_OK)
        self.assertEqual(self.objects(), 1)
        self.tern.set_vector(0, self.tern.MSI, 1)

    def objects(self):
        status, counts = self.tern.run(hw.CMD_QUERY_OBJECTS, out_len=72)
        self.assertEqual((status, len(counts)), (hw.ST_OK, 72))
        return int.from_bytes(counts[4:8], "little")

    def test_by_register(self):
        self.tern.set_reg(hw.REG_CTRL, hw.CTRL_RESET)
        self.qemu.wait(lambda: self.tern.reg(hw.REG_STATUS) == hw.STATUS_READY, "READY")
        self.use()

    def assert_as_at_power_on(self):
        self.assertEqual(self.tern.config_read(self.tern.COMMAND, 2), 0)
        self.assertEqual(self.tern.config_read(self.tern.capability(MSIX) + 2, 2) & 0x8000, 0)
        self.tern.map_bars()
        self.assertEqual(self.tern.reg(hw.REG_STATUS), hw.STATUS_READY)
        self.assertEqual(self.qemu.readl(self.tern.REGS + hw.MSIX_TABLE_OFFSET), 0)
        self.use()

    def test_of_the_function(self):
        self.tern.config_write(self.tern.capability(PCIE) + 8, 2, 0x8000)
        self.assert_as_at_power_on()

    def test_of_the_bus(self):
        control = self.port.config_read(0x3e, 2)
        self.port.config_write(0x3e, 2, control | 0x40)
        self.port.config_write(0x3e, 2, control)
        self.assert_as_at_power_on()

    def test_of_the_machine(self):
        self.qemu.qmp("system_reset")
        self.qemu.wait(lambda: self.port.config_read(0x18, 4) & 0xffff00 == 0, "the reset")
        self.port.config_write(0x18, 4, 0x010100)
        self.port.config_write(0x20, 4, 0xe1f0e000)
        self.port.command(self.port.MEMORY | self.port.MASTER)
        self.assert_as_at_power_on()

    def test_d3_keeps_the_state(self):
        control = self.tern.capability(PM) + 4
        self.tern.config_write(control, 2, 3)
        self.assertEqual(self.tern.config_read(control, 2) & 3, 3)
        self.qemu.clock_step(1_000_000_000)
        self.tern.config_write(control, 2, 0)
        self.assertEqual(self.objects(), 1)

    def test_stop_and_continue(self):
        self.qemu.qmp("stop")
        self.tern.post(hw.CMD_NOP)
        self.assertEqual(self.qemu.read(self.tern.ACQ + 16 * self.tern.seen + 12, 1), b"\0")
        self.qemu.qmp("cont")
        self.assertEqual(self.tern.answer()[1], hw.ST_OK)

    def peripherals(self):
        return [d["name"] for d in self.qemu.qmp("qom-list", path="/machine/peripheral")]

    def test_an_interrupt_that_unplugs_the_device(self):
        # A message to the Slot Control register of the port, by MMCONFIG.
        mmconfig = 0xb0000000
        bridge = PciFunction(self.qemu, 0, 0)
        bridge.config_write(0x64, 4, 0)
        bridge.config_write(0x60, 4, mmconfig | 1)
        self.assertEqual(self.qemu.readl(mmconfig + (1 << 20)), self.tern.config_read(0, 4))
        slot_control = mmconfig + (6 << 15) + self.port.capability(PCIE) + 0x18
        self.tern.set_vector(0, slot_control, 0x0700)  # power and indicator off
        self.tern.post(hw.CMD_NOP)
        self.qemu.wait(lambda: self.tern.config_read(0, 4) == 0xffffffff, "the unplug")
        self.qemu.wait(lambda: "tern" not in self.peripherals(), "the device to go")
        self.qemu.qmp("device_add", driver="tern", id="tern", bus="rp", **{"dm-size": 0})
        self.port.config_write(self.port.capability(PCIE) + 0x18, 2, 0x0100)
        self.use()

    def test_unplug_and_plug(self):
        slot_control = self.port.capability(PCIE) + 0x18
        for _ in range(3):
            self.qemu.qmp("device_del", id="tern")
            self.port.config_write(slot_control, 2, 0x0700)  # power and indicator off
            self.qemu.wait(lambda: self.tern.config_read(0, 4) == 0xffffffff, "the unplug")
            self.assertEqual(self.tern.reg(hw.REG_MAGIC), 0)  # nothing decodes the address
            self.qemu.wait(lambda: "tern" not in self.peripherals(), "the device to go")
            self.qemu.qmp("device_add", driver="tern", id="tern", bus="rp", **{"dm-size": 0})
            self.port.config_write(slot_control, 2, 0x0100)
            self.use()


if __name__ == "__main__":
    unittest.main()

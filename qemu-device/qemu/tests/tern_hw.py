# SPDX-License-Identifier: GPL-2.0-or-later
"""The hardware contract for tests, with constants from firmware-if's headers."""

import os
import re

from qtest import PciFunction

FIRMWARE_IF = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../firmware-if")


def _constants():
    """Returns each #define of the contract whose value is a number, BIT(), GENMASK() or a
    combination of those."""
    values = {"BIT": lambda n: 1 << n, "GENMASK": lambda h, l: (1 << h + 1) - (1 << l)}
    with open(os.path.join(FIRMWARE_IF, "tern_hw.hpp"), encoding="ascii") as contract:
        names = re.findall(r'^#include "(tern_\w+\.h)"$', contract.read(), re.M)
    for name in names:
        with open(os.path.join(FIRMWARE_IF, name), encoding="ascii") as header:
            text = re.sub(r"/\*.*?\*/", "", header.read(), flags=re.S)
        for key, value in re.findall(r"^#define\s+(TERN_\w+)[ \t]+(\S.*?)\s*$", text, re.M):
            try:
                values[key] = eval(re.sub(r"(?<=[0-9a-fA-F])U\b", "", value), values)
            except (SyntaxError, NameError):
                pass
    return {k[5:]: v for k, v in values.items() if isinstance(v, int) and k.startswith("TERN_")}


globals().update(_constants())


class Tern(PciFunction):
    """A tern function whose BARs are mapped at fixed addresses."""

    REGS = 0xe0000000
    UAR = 0xe1000000
    DM = 0x800000000
    # Guest RAM used by the tests: admin queues, MSI-X targets, a command, its answer, the rest.
    AQ, ACQ, MSI, IN, OUT, FREE = 0x100000, 0x101000, 0x102000, 0x110000, 0x111000, 0x120000
    AQ_LOG_SIZE = 4

    def __init__(self, qemu, bus=0, slot=4):
        super().__init__(qemu, bus, slot)
        self.tail = 0
        self.seen = 0

    def map_bars(self):
        self.set_bar(BAR_REGS, self.REGS)
        self.set_bar(BAR_UAR, self.UAR)
        if self.config_read(0x20, 4):
            self.set_bar(BAR_DM, self.DM)
        self.command(self.MEMORY | self.MASTER)

    def reg(self, offset):
        return self.qemu.readl(self.REGS + offset)

    def set_reg(self, offset, value):
        self.qemu.writel(self.REGS + offset, value)

    def doorbell(self, page, value, page_shift=12):
        self.qemu.writel(self.UAR + (page << page_shift) + UAR_DB, value)

    def reset(self):
        self.set_reg(REG_CTRL, CTRL_RESET)
        self.qemu.wait(lambda: self.reg(REG_STATUS) == STATUS_READY, "READY")
        self.tail = self.seen = 0

    def enable(self, aq=AQ, acq=ACQ):
        self.qemu.write(self.ACQ, bytes(16 << self.AQ_LOG_SIZE))
        self.set_reg(REG_PAGE_SHIFT, 12)
        for reg, value in ((REG_AQ_BASE_LO, aq), (REG_ACQ_BASE_LO, acq)):
            self.set_reg(reg, value & 0xffffffff)
            self.set_reg(reg + 4, value >> 32)
        self.set_reg(REG_AQ_LOG_SIZE, self.AQ_LOG_SIZE)
        self.set_reg(REG_CTRL, CTRL_ENABLE)

    def set_vector(self, vector, addr, data):
        """Programs an MSI-X vector to store data at addr, and enables MSI-X."""
        entry = self.REGS + MSIX_TABLE_OFFSET + 16 * vector
        for i, word in enumerate((addr & 0xffffffff, addr >> 32, data, 0)):
            self.qemu.writel(entry + 4 * i, word)
        control = self.capability(0x11) + 2
        self.config_write(control, 2, self.config_read(control, 2) | 0x8000)

    def start(self):
        """Maps the BARs, resets the device and enables it."""
        self.map_bars()
        self.reset()
        self.enable()
        return self

    def post(self, opcode, data=b"", out_len=0, version=None, in_addr=None, ring=True):
        """Puts a command into the admin queue; rings the doorbell unless `ring` is false."""
        word = (lambda v, n: v.to_bytes(n, "little"))
        in_addr = self.IN if in_addr is None else in_addr
        if data and in_addr == self.IN:
            self.qemu.write(in_addr, data)
        entry = (word(opcode, 2) + word(CMD_VERSION if version is None else version, 2) +
                 word(self.tail + 1, 4) + word(len(data), 2) + word(out_len, 2) + bytes(4) +
                 word(in_addr, 8) + word(self.OUT, 8))
        index = self.tail % (1 << self.AQ_LOG_SIZE)
        self.qemu.write(self.AQ + 32 * index, entry)
        self.tail += 1
        if ring:
            self.ring()

    def ring(self):
        """Writes the tail register, which submits all commands queued so far."""
        self.set_reg(REG_AQ_TAIL, self.tail)

    def answer(self):
        """Waits for the next completion and returns (tag, status, bytes of the answer)."""
        size = 1 << self.AQ_LOG_SIZE
        at = self.ACQ + 16 * (self.seen % size)
        phase = ~(self.seen // size) & 1
        entry = b""

        def there():
            nonlocal entry
            entry = self.qemu.read(at, 16)
            return entry[12] & 1 == phase

        self.qemu.wait(there, "an admin completion")
        self.seen += 1
        number = (lambda a, b: int.from_bytes(entry[a:b], "little"))
        out = number(6, 8)
        return (number(0, 4), number(4, 6), self.qemu.read(self.OUT, out) if out else b"")

    def run(self, opcode, data=b"", out_len=0, **more):
        """Runs one command and returns (status, answer)."""
        self.post(opcode, data, out_len, **more)
        tag, status, out = self.answer()
        assert tag == self.tail, (tag, self.tail)
        return status, out

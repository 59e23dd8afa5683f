# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs QEMU without a CPU, by the qtest protocol: memory, PCI config space, BARs."""

import json
import os
import shlex
import socket
import subprocess
import tempfile
import time

QEMU = os.environ.get("TERN_QEMU", "qemu-system-x86_64")
# A build whose tern devices allow a rule to be switched off, for mutation tests.
QEMU_MUTATE = os.environ.get("TERN_QEMU_MUTATE")
RAM_SIZE = 256 << 20


class Qemu:
    """Runs QEMU with qtest as its only CPU, for the duration of a with block.

    args: words of the command line after the machine; fds: descriptors that it inherits; binary:
    another QEMU; env: additional environment. Guest RAM starts at 0.
    """
    def __init__(self, *args, fds=(), binary=QEMU, env=None):
        self.args = args
        self.fds = fds
        self.binary = binary
        self.env = env
        self.dir = tempfile.TemporaryDirectory(prefix="tern-qtest-")

    def path(self, name):
        return os.path.join(self.dir.name, name)

    def __enter__(self):
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(self.path("qtest"))
        listener.listen(1)
        listener.settimeout(20)
        self.log = open(self.path("log"), "w+", encoding="utf-8", errors="replace")
        self.process = subprocess.Popen([
            self.binary, "-L", "/usr/share/seabios", "-L", "/usr/share/qemu", "-nodefaults",
            "-display", "none", "-machine", "q35,accel=qtest", "-m", f"{RAM_SIZE >> 20}M", "-qtest",
            f"unix:{self.path('qtest')}", "-qtest-log", "/dev/null", "-qmp",
            f"unix:{self.path('qmp')},server=on,wait=off", *self.args
        ], stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, pass_fds=self.fds,
                                        env=dict(os.environ, **self.env or {}))
        try:
            self.socket = listener.accept()[0]
        except TimeoutError:
            self.process.kill()
            self.process.wait()
            raise RuntimeError("QEMU did not start: " + self.output()) from None
        finally:
            listener.close()
        self.socket.settimeout(20)
        self.stream = self.socket.makefile("rw", encoding="ascii", newline="\n")
        return self

    def __exit__(self, *exc):
        if self.process.poll() is None:
            self.process.terminate()
        try:
            self.process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise
        self.stream.close()
        self.socket.close()
        self.log.close()
        self.dir.cleanup()

    def output(self):
        """Returns everything that QEMU has printed so far."""
        with open(self.path("log"), encoding="utf-8", errors="replace") as log:
            return log.read()

    def qmp(self, command, **arguments):
        """Runs a monitor command and returns its result."""
        with socket.socket(socket.AF_UNIX) as monitor:
            monitor.settimeout(20)
            monitor.connect(self.path("qmp"))
            with monitor.makefile("rw", encoding="utf-8") as stream:
                for request in ({"execute": "qmp_capabilities"},
                                {"execute": command, "arguments": arguments}):
                    stream.write(json.dumps(request) + "\n")
                    stream.flush()
                    answer = {}
                    while "return" not in answer and "error" not in answer:
                        answer = json.loads(stream.readline())
                    if "error" in answer:
                        raise RuntimeError(f"{command}: {answer['error']['desc']}")
        return answer["return"]

    def alive(self):
        return self.process.poll() is None

    def command(self, *words):
        """Sends a qtest command and returns the words of its answer after OK."""
        while True:
            try:
                if words:
                    self.stream.write(" ".join(str(w) for w in words) + "\n")
                    self.stream.flush()
                line = self.stream.readline()
            except ConnectionError:
                line = ""
            if not line:
                raise RuntimeError(f"QEMU is gone ({self.process.wait()}): {self.output()}")
            words = ()
            answer = shlex.split(line)
            if answer[0] == "OK":
                return answer[1:]
            if answer[0] != "IRQ":
                raise RuntimeError("qtest says " + line)

    def read(self, addr, size):
        return bytes.fromhex(self.command("read", hex(addr), hex(size))[0][2:])

    def write(self, addr, data):
        if data:
            self.command("write", hex(addr), hex(len(data)), "0x" + bytes(data).hex())

    def readl(self, addr):
        return int(self.command("readl", hex(addr))[0], 0)

    def writel(self, addr, value):
        self.command("writel", hex(addr), hex(value & 0xffffffff))

    def clock_step(self, ns):
        """Advances the virtual clock."""
        self.command("clock_step", ns)

    def wait(self, condition, what, step_ns=100000, seconds=10):
        """Waits until condition() is true, and lets the virtual clock run meanwhile."""
        end = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > end:
                raise AssertionError("waited in vain for " + what)
            self.clock_step(step_ns)
            time.sleep(0.001)


class PciFunction:
    """The config space of a function, accessed by the ports of configuration mechanism 1."""

    COMMAND = 0x04
    MEMORY, MASTER = 2, 4

    def __init__(self, qemu, bus, slot):
        self.qemu = qemu
        self.select = 0x80000000 | bus << 16 | slot << 11

    def config_read(self, offset, size):
        self.qemu.command("outl", "0xcf8", hex(self.select | offset & ~3))
        value = int(self.qemu.command("inl", "0xcfc")[0], 0)
        return value >> (offset & 3) * 8 & (1 << size * 8) - 1

    def config_write(self, offset, size, value):
        self.qemu.command("outl", "0xcf8", hex(self.select | offset & ~3))
        op = {1: "outb", 2: "outw", 4: "outl"}[size]
        self.qemu.command(op, hex(0xcfc | offset & 3), hex(value))

    def capability(self, number):
        """Returns the offset of a capability, or None."""
        at = self.config_read(0x34, 1)
        while at:
            if self.config_read(at, 1) == number:
                return at
            at = self.config_read(at + 1, 1)
        return None

    def bar_size(self, bar):
        """Returns the size in bytes, or 0 if the BAR is absent."""
        at = 0x10 + 4 * bar
        old = self.config_read(at, 4)
        wide = old & 7 == 4
        old_high = self.config_read(at + 4, 4) if wide else 0
        self.config_write(at, 4, 0xffffffff)
        mask = self.config_read(at, 4) & ~0xf
        self.config_write(at, 4, old)
        if wide:
            self.config_write(at + 4, 4, 0xffffffff)
            mask |= self.config_read(at + 4, 4) << 32
            self.config_write(at + 4, 4, old_high)
            return -mask & (1 << 64) - 1
        return -mask & 0xffffffff

    def set_bar(self, bar, addr):
        at = 0x10 + 4 * bar
        wide = self.config_read(at, 4) & 7 == 4
        self.config_write(at, 4, addr & 0xffffffff)
        if wide:
            self.config_write(at + 4, 4, addr >> 32)

    def command(self, bits):
        self.config_write(self.COMMAND, 2, bits)

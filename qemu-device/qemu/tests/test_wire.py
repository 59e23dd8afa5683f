# SPDX-License-Identifier: GPL-2.0-or-later
"""Frames between guest memory and the netdev, and their capture."""

import os
import socket
import struct
import time
import unittest

import tern_hw as hw
from qtest import Qemu

MAC = bytes.fromhex("525400112233")
PEER = bytes.fromhex("525400445566")


def frame(index, size=200, to=PEER):
    """Returns a frame of an experimental type with its number in it."""
    head = to + (MAC if to == PEER else PEER) + b"\x88\xb5"
    return head + index.to_bytes(4, "little") + bytes(size - len(head) - 4)


def index_of(data):
    return int.from_bytes(data[14:18], "little")


def read_pcap(path):
    """Returns the frames of a capture; fails if the file is truncated or malformed."""
    with open(path, "rb") as capture:
        data = capture.read()
    magic, major, minor, _, _, snaplen, link = struct.unpack_from("=IHHiIII", data)
    assert (magic, major, minor, link) == (0xa1b23c4d, 2, 4, 1), data[:24]
    at, frames, last = 24, [], 0
    while at < len(data):
        sec, nsec, kept, size = struct.unpack_from("=IIII", data, at)
        assert kept == size <= snaplen and nsec < 10**9 and at + 16 + kept <= len(data)
        assert last <= sec * 10**9 + nsec, "time runs backwards"
        last = sec * 10**9 + nsec
        frames.append(data[at + 16:at + 16 + kept])
        at += 16 + kept
    return frames


class Port(hw.Tern):
    """The Ethernet function of a device: one queue for each direction, polled."""

    LOG_SIZE = 10
    CQ, TX, RX, TX_DATA, RX_DATA = 0x400000, 0x440000, 0x460000, 0x1000000, 0x2000000
    BUFFER = 2048

    def open(self):
        self.start()
        size = 1 << self.LOG_SIZE
        self.cqns, self.queues = [], []
        for direction, base in enumerate((self.TX, self.RX)):
            cq = self.CQ + direction * 0x20000
            self.qemu.command("memset", hex(cq), hex(0x20000), 0)
            self.qemu.command("memset", hex(base), hex(0x8000), 0)
            cqn = self.create(
                hw.CMD_CREATE_CQ,
                struct.pack("<QIBBHQIIBB6x", cq, 0, 0, 0, 0, cq + 64 * size, hw.NO_EQ, 0,
                            self.LOG_SIZE, 0))
            self.queues.append(
                self.create(
                    hw.CMD_CREATE_ETH_QUEUE,
                    struct.pack("<QIBBHQIIBBB5x", base, 0, 0, 0, 0, base + 16 * size, cqn, 0,
                                direction, self.LOG_SIZE, 1)))
        self.enable_port()
        self.sent = self.done = self.posted = self.taken = 0
        return self

    def enable_port(self):
        status, _ = self.run(hw.CMD_MODIFY_PORT,
                             struct.pack("<II6sBB", hw.PORT_ENABLE, 0, bytes(6), 1, 1))
        assert status == hw.ST_OK, status

    def create(self, command, data):
        status, answer = self.run(command, data, 8)
        assert status == hw.ST_OK, (command, status)
        return int.from_bytes(answer[:4], "little")

    def slot(self, index):
        return index % (1 << self.LOG_SIZE)

    def completed(self):
        """Counts the completions of sent frames and returns their CQ entries to the device."""
        while self.done < self.sent and (entry := self.cqe(0, self.done)):
            assert entry[0x28] == hw.ETH_TX and entry[0x29] == hw.CQE_SUCCESS, entry.hex()
            self.done += 1
        self.qemu.writel(self.CQ + (64 << self.LOG_SIZE), self.done)
        return self.done

    def send(self, *frames):
        """Posts frames and rings once; waits for room in the ring first."""
        self.qemu.wait(lambda: self.sent - self.completed() + len(frames) <= 1 << self.LOG_SIZE,
                       "room in the ring", step_ns=10_000_000)
        for data in frames:
            slot = self.slot(self.sent)
            self.qemu.write(self.TX_DATA + slot * self.BUFFER, data)
            self.qemu.write(
                self.TX + 16 * slot,
                struct.pack("<QIHH", self.TX_DATA + slot * self.BUFFER, len(data), hw.ETH_F_EOP, 0))
            self.sent += 1
        self.qemu.writel(self.TX + (16 << self.LOG_SIZE), self.sent)
        self.doorbell(0, hw.DB_CMD_ETH_TX << 28 | self.queues[0])

    def post(self, *words, **more):
        """Without arguments posts a receive buffer, otherwise an admin command."""
        if words:
            return super().post(*words, **more)
        slot = self.slot(self.posted)
        self.qemu.write(self.RX + 16 * slot,
                        struct.pack("<QII", self.RX_DATA + slot * self.BUFFER, self.BUFFER, 0))
        self.posted += 1
        self.qemu.writel(self.RX + (16 << self.LOG_SIZE), self.posted)
        return None

    def cqe(self, direction, index):
        entry = self.qemu.read(self.CQ + direction * 0x20000 + 64 * self.slot(index), 64)
        there = entry[60] & 1 == ~(index >> self.LOG_SIZE) & 1
        return entry if there else None

    def receive(self):
        """Waits for the next received frame and returns it."""
        self.qemu.wait(lambda: self.cqe(1, self.taken), "a frame", step_ns=10000)
        entry = self.cqe(1, self.taken)
        assert entry[0x28] == hw.ETH_RX and entry[0x29] == hw.CQE_SUCCESS
        data = self.qemu.read(self.RX_DATA + self.slot(self.taken) * self.BUFFER,
                              int.from_bytes(entry[0xc:0x10], "little"))
        self.taken += 1
        return data


class OnWire(unittest.TestCase):
    """A device whose wire ends in the test."""

    MORE = ""  # further properties of the device

    def setUp(self):
        self.cable, theirs = socket.socketpair()
        self.addCleanup(self.cable.close)
        self.cable.settimeout(5)
        self.pcap = os.path.join("/tmp", f"tern-qtest-{os.getpid()}.pcap")
        self.addCleanup(lambda: os.path.exists(self.pcap) and os.unlink(self.pcap))
        self.qemu = self.enterContext(
            Qemu("-netdev", f"stream,id=n,server=off,addr.type=fd,addr.str={theirs.fileno()}",
                 "-device",
                 f"tern,id=tern,addr=4,netdev=n,mac={MAC.hex(':')},pcap={self.pcap}{self.MORE}",
                 fds=[theirs.fileno()]))
        theirs.close()
        # Frames sent before the netdev is connected are lost.
        self.qemu.wait(
            lambda: "connecting" not in self.qemu.qmp(
                "human-monitor-command", **{"command-line": "info network"}), "the netdev")
        self.port = Port(self.qemu).open()
        self.received = b""

    def from_wire(self):
        """Returns the next frame that the device sent."""
        def need(size):
            while len(self.received) < size:
                more = self.cable.recv(1 << 18)
                self.assertTrue(more, "the wire was cut")
                self.received += more

        need(4)
        size = int.from_bytes(self.received[:4], "big")
        need(4 + size)
        data, self.received = self.received[4:4 + size], self.received[4 + size:]
        return data

    def to_wire(self, data):
        self.cable.sendall(len(data).to_bytes(4, "big") + data)


class Wire(OnWire):
    def test_out(self):
        sizes = (60, 61, 200, 1000, 1514)
        self.port.send(*(frame(i, n) for i, n in enumerate(sizes)))
        for i, n in enumerate(sizes):
            self.assertEqual(self.from_wire(), frame(i, n))
        self.qemu.wait(lambda: self.port.completed() == len(sizes), "the completions")

    def test_in(self):
        for i, n in enumerate((60, 200, 1514)):
            self.port.post()
            self.to_wire(frame(i, n, MAC))
            self.assertEqual(self.port.receive(), frame(i, n, MAC))

    def test_without_a_buffer_a_frame_is_lost_alone(self):
        self.to_wire(frame(1, to=MAC))
        self.qemu.wait(
            lambda: int.from_bytes(
                self.port.run(hw.CMD_QUERY_COUNTERS, bytes((hw.COUNTERS_ETH, 0, 0, 0, 1, 0, 0, 0)),
                              1024)[1][8 * hw.ETH_CNT_RX_NO_BUFFER:][:8], "little") == 1,
            "the loss")
        self.port.post()
        self.to_wire(frame(2, to=MAC))
        self.assertEqual(index_of(self.port.receive()), 2)

    def test_a_slow_peer_loses_nothing(self):
        for start in (0, 512):
            self.port.send(*(frame(start + i, 1514) for i in range(512)))
        # So many that the device holds some back; it still executes commands.
        self.assertEqual(self.port.run(hw.CMD_NOP)[0], hw.ST_OK)
        self.assertLess(self.port.completed(), 1024)
        self.assertEqual([index_of(self.from_wire()) for _ in range(1024)], list(range(1024)))
        self.qemu.wait(lambda: self.port.completed() == 1024, "the completions")

    def test_a_deaf_peer_stops_nothing(self):
        for start in range(0, 4000, 500):
            self.port.send(*(frame(start + i, 1000) for i in range(500)))
        for _ in range(30):
            self.qemu.clock_step(50_000_000)
            time.sleep(0.002)
        self.qemu.wait(lambda: self.port.completed() == 4000, "the completions")
        got = [index_of(self.from_wire())]
        self.port.send(frame(4000))
        while got[-1] != 4000:
            got.append(index_of(self.from_wire()))
        self.assertEqual(got, sorted(got))
        self.assertLess(len(got), 4001)

    def test_link(self):
        def link():
            return self.port.run(hw.CMD_QUERY_PORT, b"\1" + bytes(7), 24)[1][0]

        self.assertEqual(link(), 1)
        self.qemu.qmp("set_link", name="tern", up=False)
        self.assertEqual(link(), 0)
        self.qemu.qmp("set_link", name="tern", up=True)
        self.assertEqual(link(), 1)
        self.port.send(frame(1))
        self.assertEqual(index_of(self.from_wire()), 1)

    def test_capture_survives_a_kill(self):
        started = time.time()
        self.port.post()
        self.to_wire(frame(1, to=MAC))
        self.port.receive()
        self.port.send(frame(2), frame(3))
        self.from_wire()
        time.sleep(0.5)
        self.qemu.process.kill()
        self.qemu.process.wait()
        self.assertEqual([index_of(f) for f in read_pcap(self.pcap)], [1, 2, 3])
        with open(self.pcap, "rb") as capture:
            first = struct.unpack_from("=I", capture.read(), 24)[0]
        self.assertTrue(started - 2 <= first <= time.time() + 2, first)

    def test_capture_of_a_machine_that_ends(self):
        self.port.send(*(frame(i) for i in range(1000)))
        self.qemu.wait(lambda: self.port.completed() == 1000, "the completions")
        self.qemu.qmp("quit")
        self.qemu.process.wait(timeout=20)
        self.assertEqual([index_of(f) for f in read_pcap(self.pcap)], list(range(1000)))

    def test_frames_stop_with_the_machine(self):
        self.port.post()
        self.qemu.qmp("stop")
        self.to_wire(frame(1, to=MAC))
        time.sleep(0.1)
        self.assertIsNone(self.port.cqe(1, 0))
        self.qemu.qmp("cont")
        self.to_wire(frame(2, to=MAC))
        self.assertIn(index_of(self.port.receive()), (1, 2))


class LimitedCapture(OnWire):
    LIMIT = 10_000
    MORE = f",pcap-limit={LIMIT}"

    def full(self):
        return self.qemu.qmp("qom-get", path="/machine/peripheral/tern", property="pcap-full")

    def test_it_ends_with_a_whole_frame(self):
        size = 1000
        fit = (self.LIMIT - 24) // (16 + size)
        self.port.send(*(frame(i, size) for i in range(fit)))
        self.qemu.wait(lambda: self.port.completed() == fit, "the completions")
        self.assertFalse(self.full())
        self.port.send(frame(fit, size))
        self.qemu.wait(self.full, "the limit")
        # Later frames are not captured, however short, and the device continues to send.
        self.port.send(*(frame(fit + 1 + i, 60) for i in range(100)))
        self.qemu.wait(lambda: self.port.completed() == fit + 101, "the completions")
        self.assertEqual([index_of(self.from_wire()) for _ in range(fit + 101)],
                         list(range(fit + 101)))
        self.assertEqual([index_of(f) for f in read_pcap(self.pcap)], list(range(fit)))
        self.assertLessEqual(os.path.getsize(self.pcap), self.LIMIT)
        self.assertIn("is complete", self.qemu.output())


if __name__ == "__main__":
    unittest.main()

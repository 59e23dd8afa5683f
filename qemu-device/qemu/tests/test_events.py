# SPDX-License-Identifier: GPL-2.0-or-later
"""The event log: the file that the property `events` names."""

import os
import struct
import time
import unittest

import tern_hw as hw
from test_wire import MAC, OnWire, frame

HEADER = struct.Struct("<8sHHHBxQ6s2x32s")
EVENT = struct.Struct("<QBBHIQQIIII")


def read_log(path):
    """Returns the header's fields and the events of a log; fails if it is malformed."""
    with open(path, "rb") as log:
        data = log.read()
    header = HEADER.unpack_from(data)
    assert header[:4] == (b"ternlog\0", hw.LOG_VERSION, HEADER.size, EVENT.size), header
    assert (len(data) - HEADER.size) % EVENT.size == 0, len(data)
    events = list(EVENT.iter_unpack(data[HEADER.size:]))
    assert events == sorted(events, key=lambda e: e[0]), "time runs backwards"
    return header, events


class EventLog(OnWire):
    LOG = os.path.join("/tmp", f"tern-qtest-{os.getpid()}.events")
    MORE = f",events={LOG}"

    def setUp(self):
        self.addCleanup(lambda: os.path.exists(self.LOG) and os.unlink(self.LOG))
        super().setUp()

    def send(self, frames):
        self.port.send(*(frame(i) for i in range(frames)))
        self.qemu.wait(lambda: self.port.completed() == frames, "the completions")

    @staticmethod
    def of_type(kind, events):
        return [e for e in events if e[1] == kind]

    def test_header_and_events(self):
        started = time.time_ns()
        self.send(10)
        self.qemu.qmp("stop")
        header, events = read_log(self.LOG)
        self.assertEqual(header[4], hw.LOG_CLOCK_VIRTUAL)
        self.assertLess(abs(header[5] + events[0][0] - started), 10**10)
        self.assertEqual(header[6], MAC)
        self.assertEqual(header[7].rstrip(b"\0"), b"tern")
        self.assertEqual(len(self.of_type(hw.LOG_CQE, events)), 10)
        doorbells = self.of_type(hw.LOG_DOORBELL, events)
        self.assertIn(hw.DB_CMD_ETH_TX, [e[2] for e in doorbells])
        self.assertTrue(self.of_type(hw.LOG_INTERRUPT, events))
        # The clock stands still while the machine is stopped.
        time.sleep(0.2)
        self.qemu.qmp("cont")
        epochs = [e[5] for e in self.of_type(hw.LOG_EPOCH, read_log(self.LOG)[1])]
        self.assertGreater(epochs[-1], epochs[-2] + 10**8)

    def test_it_survives_a_kill(self):
        self.send(10)
        time.sleep(0.5)
        self.qemu.process.kill()
        self.qemu.process.wait()
        self.assertEqual(len(self.of_type(hw.LOG_CQE, read_log(self.LOG)[1])), 10)

    def test_it_is_complete_when_the_machine_ends(self):
        self.send(500)
        self.qemu.qmp("quit")
        self.qemu.process.wait(timeout=20)
        self.assertEqual(len(self.of_type(hw.LOG_CQE, read_log(self.LOG)[1])), 500)

    def test_a_reset_is_an_event(self):
        self.send(1)
        self.qemu.qmp("system_reset")
        self.qemu.wait(lambda: self.of_type(hw.LOG_RESET, read_log(self.LOG)[1]), "the event")


class LimitedLog(OnWire):
    LOG = os.path.join("/tmp", f"tern-qtest-{os.getpid()}.events")
    FIT = 20
    MORE = f",events={LOG},events-limit={HEADER.size + FIT * EVENT.size + 1}"

    def test_it_ends_with_a_whole_event(self):
        self.addCleanup(os.unlink, self.LOG)
        self.port.send(*(frame(i) for i in range(50)))
        self.qemu.wait(lambda: self.port.completed() == 50, "the completions")
        self.qemu.wait(lambda: "is complete" in self.qemu.output(), "the limit")
        events = read_log(self.LOG)[1]
        self.assertEqual(len(events), self.FIT)
        self.assertEqual([e[1] == hw.LOG_FULL for e in events], [False] * (self.FIT - 1) + [True])


if __name__ == "__main__":
    unittest.main()

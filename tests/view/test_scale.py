# SPDX-License-Identifier: GPL-2.0-or-later
"""What tern-view's work grows with: steps are counted, not seconds. And files that are larger than
memory, or become shorter."""
import os
import struct
import sys
import tracemalloc
import unittest
from unittest import mock

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.realpath(__file__))
TOOLS = os.path.join(HERE, "../../tools")
sys.path[:0] = [HERE, os.path.join(TOOLS, "tern-view"), os.path.join(HERE, "../judge"), TOOLS]

import capture as cap  # noqa: E402
import events  # noqa: E402
import pairs  # noqa: E402
import roce.pcap  # noqa: E402
import message_tracker as msg  # noqa: E402
from build import Link, Scene, encode  # noqa: E402
from roce.headers import OPCODES  # noqa: E402
from test_tern_view import Directory, pcapng  # noqa: E402

READS = 2000


def steps(call):
    """(result, lines of the tools that were executed)."""
    count = 0

    def line(frame, event, _):
        nonlocal count
        count += event == "line"
        return line

    def enter(frame, event, _):
        return line if os.path.realpath(frame.f_code.co_filename).startswith(
            os.path.realpath(TOOLS)) else None

    before = sys.gettrace()
    sys.settrace(enter)
    try:
        result = call()
    finally:
        sys.settrace(before)
    return result, count


def story_of(capture):
    return msg.Story(capture, pairs.join(capture.flows)[2])


class Responses(Directory):
    """READs and atomics, of whose responses the capture lacks every hundredth."""
    def write(self, name, missing):
        scene, count = Scene(), 0
        link = Link(scene, 0x11, 0x22, psn=0xFFFF00, mtu=1024)
        for k in range(READS):
            link.read(8) if k % 2 else link.atomic()
            response = scene.frames[-1]
            assert OPCODES[response["opcode"]].response
            count += 1
            if missing and count % 100 == 0:
                scene.frames.pop()
        path = self.path(name)
        scene.write(path)
        return cap.Capture([path], check=False)

    def test_missing_responses_cost_nothing(self):
        whole, every = steps(lambda: story_of(self.whole))
        lost, some = steps(lambda: story_of(self.lost))
        self.assertLess(some, 1.5 * every)
        self.assertEqual(set(whole.messages.status), {msg.DONE})
        # The later responses do not stand for those that are missing.
        found = [k for k, status in enumerate(lost.messages.status) if status == msg.OPEN]
        self.assertEqual(found, list(range(99, READS, 100)))

    def setUp(self):
        super().setUp()
        self.whole, self.lost = self.write("whole.pcap", False), self.write("lost.pcap", True)


class Late(Directory):
    """Messages that the capture has only as retransmissions."""
    def story_of(self, scene):
        path = self.path("late.pcap")
        scene.write(path)
        return story_of(cap.Capture([path], check=False))

    def test_a_late_message_is_acknowledged_with_the_rest(self):
        scene = Scene()
        link = Link(scene, 0x11, 0x22, psn=0, mtu=1024)
        link.read(8)
        scene.frames.pop()
        psns = []
        for _ in range(6):
            psns.append(link.data(0, 64))
            link.ack()
        link.data(0, 64)
        first = [
            f for f in scene.frames if f["psn"] == psns[3] and not OPCODES[f["opcode"]].response
        ][0]
        scene.frames.remove(first)
        link.data(0, 64, first_psn=psns[3])
        link.ack()
        story = self.story_of(scene)
        self.assertEqual(list(story.messages.status), [msg.OPEN] + [msg.DONE] * 7)


class Flows(Directory):
    def write(self, flows):
        """Flows of both directions with one pair of addresses and one source port, which all
        request before any is answered."""
        scene = Scene()
        links = [Link(scene, 0x1000 + k, 0x9000 + k, psn=k * 16, mtu=1024) for k in range(flows)]
        psns = [link.data(0, 64) for link in links]
        for link, psn in zip(links, psns):
            link.ack()
        for frame in scene.frames:
            frame["sport"] = 0xC123
        path = self.path(f"{flows}.pcap")
        with open(path, "wb") as f:
            f.write(roce.pcap.header() + b"".join(
                roce.pcap.record(1000 * k, encode(frame)) for k, frame in enumerate(scene.frames)))
        return path

    def test_flows_of_one_port_are_not_compared_all_with_all(self):
        few, many = self.write(300), self.write(1200)
        some = steps(lambda: cap.Capture([few], check=False))[1]
        all_of_them = steps(lambda: cap.Capture([many], check=False))[1]
        self.assertLess(all_of_them, 6 * some)

    def test_pairs_that_the_user_names(self):
        path = self.write(300)
        x, y = "10.0.0.1", "10.0.0.2"
        frame = next(roce.pcap.records(path))[2]
        x, y = (".".join(map(str, frame[at:at + 4])) for at in (26, 30))
        connections = cap.Connections(path, [(x, hex(0x1000 + k), y, hex(0x9000 + 299 - k))
                                             for k in range(300)])
        found = {flow.key[3]: flow.peer.key[3] for flow in connections.flows.values() if flow.peer}
        self.assertEqual(
            found, {
                **{0x1000 + k: 0x9000 + 299 - k for k in range(300)},
                **{0x9000 + k: 0x1000 + 299 - k for k in range(300)}
            })


class Files(Directory):
    def test_frames_across_pieces(self):
        path = self.story()
        whole = list(roce.pcap.records(path))
        blocks = self.path("blocks", pcapng([(time, data) for _, time, data, _ in whole]))
        expected = list(roce.pcap.records(blocks))
        for size in (48, 4096):
            with mock.patch.object(roce.pcap, "PIECE", size):
                self.assertEqual(list(roce.pcap.records(path)), whole)
                self.assertEqual(list(roce.pcap.records(blocks)), expected)

    def test_a_frame_that_claims_too_much(self):
        cut = []
        path = self.path(
            "long",
            roce.pcap.header() + roce.pcap.record(1, b"x" * 60) +
            struct.pack("<IIII", 0, 0, 1 << 31, 1 << 31) + bytes(4096))
        with mock.patch.object(roce.pcap, "PIECE",
                               64), mock.patch.object(roce.pcap, "LONGEST", 1024):
            self.assertEqual(len(list(roce.pcap.records(path, cut.append))), 1)
        self.assertEqual(cut, [2])

    def test_a_capture_that_becomes_shorter(self):
        path, cut = self.story(), []
        with mock.patch.object(roce.pcap, "PIECE", 256):
            frames = roce.pcap.records(path, cut.append)
            first = next(frames)
            os.truncate(path, 30)
            self.assertLess(len([first, *frames]), 5)

    def test_a_log_takes_little_more_memory_than_its_columns(self):
        count = 40000
        head = events.HEADER.pack(events.MAGIC, events.VERSION, events.HEADER.size, events.RECORD,
                                  0, 1 << 40, bytes(6), b"vm1")
        path = self.path(
            "log", head + b"".join(
                struct.pack("<QBBHIQQIIII", k, events.CQE, 0, 0, 1, 2, 3, 4, 5, 6, 7)
                for k in range(count)))
        with mock.patch.object(events, "PIECE", 1000):
            tracemalloc.start()
            try:
                log = events.Log(path)
                log.packet = events.array("I", [0]) * log.count
                found = events.Events([log])
                peak = tracemalloc.get_traced_memory()[1]
            finally:
                tracemalloc.stop()
        self.assertEqual((len(found), found.time[5], found.detail[-1]), (count, (1 << 40) + 5, 7))
        self.assertLess(peak, 1.6 * count * events.RECORD)

    def test_times_across_pieces(self):
        """Epochs and clocks that run backwards, wherever a piece ends."""
        head = events.HEADER.pack(events.MAGIC, events.VERSION, events.HEADER.size, events.RECORD,
                                  0, 1000, bytes(6), b"vm1")
        rows = [(1, events.CQE, 0), (2, events.EPOCH, 500), (3, events.CQE, 0),
                (600, events.CQE, 0), (601, events.EPOCH, 2000), (602, events.CQE, 0)]
        path = self.path(
            "log", head + b"".join(
                struct.pack("<QBBHIQQIIII", clock, kind, 0, 0, 0, addr, 0, 0, 0, 0, 0)
                for clock, kind, addr in rows))
        for size in (1, 2, 3, 100):
            with mock.patch.object(events, "PIECE", size):
                log = events.Log(path)
            self.assertEqual((log.count, list(log.time)), (6, [1001, 1001, 1001, 1100, 2601, 2602]))


if __name__ == "__main__":
    unittest.main()

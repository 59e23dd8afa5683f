# SPDX-License-Identifier: GPL-2.0-or-later
"""tern-view without a browser: captures in every format, what it finds in them, and captures that
are wrong."""
import base64
import contextlib
import io
import json
import os
import random
import re
import struct
import subprocess
import sys
import tempfile
import unittest
import zlib

HERE = os.path.dirname(os.path.realpath(__file__))
TOOL = os.path.join(HERE, "../../tools/tern-view")
sys.path[:0] = [HERE, TOOL, os.path.join(HERE, "../judge"), os.path.join(HERE, "../../tools")]

import captures  # noqa: E402
import capture as cap  # noqa: E402
import page  # noqa: E402
import pairs  # noqa: E402
import refusals  # noqa: E402
import message_tracker as msg  # noqa: E402
from build import Link, Scene, encode  # noqa: E402
from roce.headers import OPCODES, SEND, WRITE  # noqa: E402
from roce.pcap import records  # noqa: E402


def report_of(*paths):
    capture = cap.Capture(paths)
    joined, place, back = pairs.join(capture.flows)
    return page.Report(capture, msg.Story(capture, back), joined, place)


def block(order, kind, body):
    body += bytes(-len(body) % 4)
    size = struct.pack(order + "I", len(body) + 12)
    return struct.pack(order + "I", kind) + size + body + size


def pcapng(frames, order="<", options=b"", simple=False, link=1):
    """A pcapng file of (ticks, bytes)."""
    out = block(order, 0x0A0D0D0A, struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1))
    out += block(order, 1, struct.pack(order + "HHI", link, 0, 0) + options)
    for ticks, data in frames:
        if simple:
            out += block(order, 3, struct.pack(order + "I", len(data)) + data)
        else:
            out += block(
                order, 6,
                struct.pack(order + "IIIII", 0, ticks >> 32, ticks & 0xFFFFFFFF, len(data),
                            len(data)) + data)
    return out


class Directory(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.TemporaryDirectory()
        self.addCleanup(self.dir.cleanup)

    def path(self, name, data=None):
        path = os.path.join(self.dir.name, name)
        if data is not None:
            with open(path, "wb") as f:
                f.write(data)
        return path

    def story(self):
        path = self.path("story.pcap")
        if not os.path.exists(path):
            captures.story().write(path)
        return path

    def run_tool(self, *args):
        return subprocess.run(
            [sys.executable, os.path.join(TOOL, "tern-view"), *args], capture_output=True,
            text=True, check=False)


class Formats(Directory):
    FRAMES = [(1_500_000_000_123_456_000, b"\x01" * 60), (1_500_000_000_123_457_000, b"\x02" * 61)]

    def pcap(self, order, nano):
        unit = 1 if nano else 1000
        out = struct.pack(order + "IHHiIII", 0xA1B23C4D if nano else 0xA1B2C3D4, 2, 4, 0, 0, 65535,
                          1)
        for time, data in self.FRAMES:
            out += struct.pack(order + "IIII", time // 10**9, time % 10**9 // unit, len(data),
                               len(data)) + data
        return out

    def expect(self, data, times=True):
        found = list(records(self.path("x", data)))
        self.assertEqual([(n, d) for n, _, d, _ in found], [(1, self.FRAMES[0][1]),
                                                            (2, self.FRAMES[1][1])])
        self.assertTrue(all(whole for *_, whole in found))
        if times:
            self.assertEqual([t for _, t, _, _ in found], [t for t, _ in self.FRAMES])

    def test_pcap_in_both_byte_orders_and_resolutions(self):
        for order in "<>":
            for nano in (False, True):
                with self.subTest(order=order, nano=nano):
                    self.expect(self.pcap(order, nano))

    def test_pcapng_in_both_byte_orders(self):
        for order in "<>":
            with self.subTest(order=order):
                self.expect(pcapng([(t // 1000, d) for t, d in self.FRAMES], order))

    def test_pcapng_with_nanoseconds(self):
        self.expect(pcapng(self.FRAMES, options=struct.pack("<HHB3x", 9, 1, 9)))

    def test_pcapng_with_a_power_of_two_and_an_offset(self):
        options = struct.pack("<HHB3xHHq", 9, 1, 0x80 | 20, 14, 8, 1_500_000_000)
        found = list(records(self.path("x", pcapng([(1 << 19, b"a" * 60)], options=options))))
        self.assertEqual(found[0][1], 1_500_000_000_500_000_000)

    def test_pcapng_without_times(self):
        self.expect(pcapng(self.FRAMES, simple=True), times=False)

    def test_pcapng_with_two_sections_of_different_byte_order(self):
        a, b = self.FRAMES
        self.expect(pcapng([(a[0] // 1000, a[1])], "<") + pcapng([(b[0] // 1000, b[1])], ">"))

    def test_other_links_are_refused(self):
        for data in (pcapng(self.FRAMES, link=113), self.pcap("<", True)[:20] +
                     struct.pack("<I", 113) + self.pcap("<", True)[24:]):
            with self.assertRaises(ValueError):
                list(records(self.path("x", data)))

    def test_the_end_within_a_frame_is_reported(self):
        for data in (self.pcap("<", True)[:-3], pcapng(self.FRAMES)[:-8]):
            cut = []
            self.assertEqual(len(list(records(self.path("x", data), cut.append))), 1)
            self.assertEqual(cut, [2])

    def test_two_files_are_merged_by_time(self):
        scene = captures.story()
        odd, even = Scene(), Scene()
        odd.frames, even.frames = scene.frames[::2], scene.frames[1::2]
        odd.write(self.path("odd"))
        even.write(self.path("even"))
        one, two = report_of(self.story()), report_of(self.path("odd"), self.path("even"))
        self.assertEqual(list(one.c.time), list(two.c.time))
        self.assertEqual(list(one.c.flags), list(two.c.flags))

    def test_frames_out_of_order_are_sorted(self):
        scene = captures.story()
        scene.frames.reverse()
        scene.write(self.path("x"))
        self.assertEqual(list(report_of(self.path("x")).c.psn), list(report_of(self.story()).c.psn))


class Story(Directory):
    def setUp(self):
        super().setUp()
        self.report = report_of(self.story())
        self.meta = self.report.meta()

    def marked(self, bit):
        return [i for i, flags in enumerate(self.report.c.flags) if flags & bit]

    def test_marks(self):
        c = self.report.c
        self.assertEqual([c.psn[i] for i in self.marked(cap.GAP)], [5])
        self.assertEqual(self.meta["totals"]["missing"], 1)
        # The packets of the lost WRITE and the SEND that waited; the one with the wrong ICRC never
        # counted.
        self.assertEqual([c.psn[i] for i in self.marked(cap.RETRANSMITTED)], [4, 5, 6, 8])
        self.assertEqual([c.psn[i] for i in self.marked(cap.DUPLICATE)], [7])
        self.assertEqual(len(self.marked(cap.BAD_ICRC)), 1)
        self.assertEqual(len(self.marked(cap.CE)), 4)
        self.assertEqual([OPCODES[c.op[i]].kind for i in self.marked(cap.BECN)], ["CNP"])
        self.assertEqual([c.syndrome[i] for i in self.marked(cap.NEGATIVE)], [0x60, 0x2C, 0x62])

    def test_a_read_of_missing_responses_is_no_duplicate(self):
        scene = Scene()
        link = Link(scene, 0x11, 0x22, psn=0x100, mtu=1024)
        link.read(1024)
        psn = link.ask_read(5 * 1024)
        link.answer_read(5 * 1024, psn, parts=(0, 1, 3, 4))
        link.ask_read(5 * 1024, psn=psn, skip=2)
        link.answer_read(5 * 1024, psn, skip=2)
        # The answer is lost past the capture.
        link.ask_read(5 * 1024, psn=psn, skip=2)
        scene.write(self.path("x"))
        c = report_of(self.path("x")).c
        requests = [i for i, op in enumerate(c.op) if OPCODES[op].kind == "READ"]
        self.assertEqual([(c.psn[i], c.flags[i] & (cap.RETRANSMITTED | cap.DUPLICATE))
                          for i in requests], [(0x100, 0), (0x101, 0), (0x103, cap.RETRANSMITTED),
                                               (0x103, cap.DUPLICATE)])

    def test_a_duplicate_of_the_first_request_and_a_new_life(self):
        """The QP of the second starts again with the same PSN."""
        scene = Scene()
        link = Link(scene, 0x11, 0x22, psn=0x100)
        first = link.data(6, 512, key=0x1201)
        link.done()
        link.data(6, 512, first_psn=first, key=0x1201)
        link.done()
        link.write(512, key=0x1201)
        link.data(6, 700, first_psn=first, key=0x1301)
        link.done()
        scene.write(self.path("x"))
        report = report_of(self.path("x"))
        c, m = report.c, report.story.messages
        requests = [i for i, op in enumerate(c.op) if OPCODES[op].kind == "WRITE"]
        self.assertEqual([(c.psn[i], c.flags[i] & cap.DUPLICATE) for i in requests],
                         [(0x100, 0), (0x100, cap.DUPLICATE), (0x101, 0), (0x100, 0)])
        self.assertEqual((list(m.bytes), list(m.repeats), list(m.status)),
                         ([512, 512, 700], [1, 0, 0], [msg.DONE] * 3))

    def test_messages(self):
        m = self.report.story.messages
        kinds = [msg.KINDS[k] for k in m.kind]
        self.assertEqual(
            {k: kinds.count(k) for k in msg.KINDS},
            {"SEND": 6, "WRITE": 8, "READ": 2, "ATOMIC": 1, "FLUSH": 1, "ATOMIC_WRITE": 0})
        self.assertEqual([msg.STATUS[s] for s in m.status if s not in (msg.DONE, msg.SENT)],
                         ["NAK: remote access error", "no answer"])
        self.assertEqual(sum(m.repeats), 5)
        lost = next(i for i in range(len(m.first)) if m.repeats[i] == 3)
        self.assertEqual((m.bytes[lost], m.packets[lost]), (4096, 4))
        self.assertEqual(sum(m.waits), 1)

    def test_the_refused_request_is_found(self):
        (request, nak, message), = self.report.story.refusals
        c = self.report.c
        self.assertEqual((OPCODES[c.op[request]].kind, c.key[request], c.va[request]),
                         (WRITE, 0x1201, 0x7F0000001000))
        self.assertEqual(c.syndrome[nak], 0x62)
        self.assertEqual(c.flags[request] & cap.REFUSED, cap.REFUSED)
        self.assertEqual(self.report.story.messages.answer[message], nak)

    def test_pairs(self):
        ends = [(p["class"], p["a"]["qp"], p["b"]["qp"]) for p in self.meta["pairs"]]
        self.assertEqual(ends, [("RC", 0x11, 0x22), ("RC", 0x33, 0x44), ("UD", 0x50, 0x51)])

    def test_a_cnp_and_a_damaged_packet_belong_to_their_connections(self):
        cnp, broken = self.marked(cap.BECN)[0], self.marked(cap.BAD_ICRC)[0]
        self.assertEqual((self.report.pair[cnp], self.report.pair[broken]), (1, 0))

    def test_the_frame_that_a_late_capture_lacks(self):
        scene = Scene()
        link = Link(scene, psn=10)
        first = link.data(0, 2000)
        link.nak(first, 0x60)
        link.data(0, 2000, first_psn=first)
        link.done()
        scene.drop(scene.frames[0])
        scene.write(self.path("x"))
        m = report_of(self.path("x")).story.messages
        self.assertEqual((len(m.first), m.packets[0], m.status[0]), (1, 2, msg.DONE))


class Rules(unittest.TestCase):
    def test_each_final_nak_has_a_rule_for_each_request_that_it_can_answer(self):
        for op in OPCODES.values():
            if op.response or op.kind == "CNP" or op.name.startswith(("UC", "UD")):
                continue
            for code in (0x61, 0x62, 0x63):
                found = [
                    rule for syndrome, kinds, rule, _, _ in refusals.RULES
                    if syndrome == code and (kinds is None or op.kind in kinds)
                ]
                self.assertEqual(bool(found), code != 0x62 or op.kind != SEND, (op.name, code))

    def test_each_rule_is_where_it_says(self):
        documents = os.path.join(HERE, "../../Documentation")
        for _, _, rule, clause, place in refusals.RULES:
            name, _, title = place.partition(", ")
            with open(os.path.join(documents, name + ".rst"), encoding="utf-8") as f:
                text = f.read()
            self.assertRegex(text, rf"(?m)^{re.escape(title)}\n[=-]+$", rule)
            if re.match(r"[Co]\d+-", clause):
                with open(os.path.join(documents, "memory-windows.rst"), encoding="utf-8") as f:
                    self.assertIn(clause, f.read())

    def test_syndromes(self):
        table = refusals.syndromes()
        self.assertEqual(table[0x62], "NAK: remote access error")
        self.assertEqual(table[0x2C], "RNR NAK: wait 0.64 ms")
        self.assertEqual(sorted(table), list(range(0x20, 0x100)))


class Page(Directory):
    def text(self, report):
        out = io.StringIO()
        page.write(report, out)
        return out.getvalue()

    def test_columns_can_be_unpacked(self):
        report = report_of(self.story())
        text = self.text(report)
        kind, data = re.search(r'id="column-psn" data-type="(.)">([^<]*)<', text).groups()
        planes = zlib.decompress(base64.b64decode(data))
        n = len(planes) // 4
        self.assertEqual(kind, "I")
        self.assertEqual(
            [planes[i] | planes[n + i] << 8 | planes[2 * n + i] << 16 for i in range(n)],
            list(report.c.psn))

    def test_nothing_is_loaded(self):
        text = self.text(report_of(self.story()))
        self.assertIn("default-src 'none'", text)
        self.assertNotRegex(text, r"""(src|href)\s*=\s*["']?(https?:|//)""")
        self.assertNotRegex(text,
                            r"\beval\(|new Function|innerHTML|insertAdjacentHTML|document\.write")

    def test_names_are_text(self):
        name = '<img src=x onerror=alert(1)>&"\'<!--<script>.pcap'
        path = self.path(name)
        captures.story().write(path)
        text = self.text(report_of(path))
        self.assertNotIn("<img", text)
        self.assertEqual(text.count("<script>"), 1)
        meta = json.loads(re.search(r'id="meta">(.*?)</script>', text, re.S)[1])
        self.assertEqual(meta["files"][0]["name"], name)

    def test_many_pairs_are_folded(self):
        frames = [
            encode({"from": s.x, "to": s.y, "sport": 0xC000, "opcode": 4, "dqp": 1, "psn": 0})
            for s in [Scene()]
        ]
        out = [struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 65535, 1)]
        for qp in range(5000):
            raw = bytearray(frames[0])
            raw[47:50] = qp.to_bytes(3, "big")
            out.append(struct.pack("<IIII", 1, qp, len(raw), len(raw)) + raw)
        capture = cap.Capture([self.path("x", b"".join(out))], check=False)
        joined, place, back = pairs.join(capture.flows)
        report = page.Report(capture, msg.Story(capture, back), joined, place)
        meta = report.meta()
        self.assertEqual(len(meta["pairs"]), page.MOST_PAIRS)
        self.assertEqual(sum(p["packets"] for p in meta["pairs"]), 5000)


class Hostile(Directory):
    def quietly(self, data):
        """A page or a ValueError, and nothing else."""
        path = self.path("x", data)
        try:
            page.write(report_of(path), io.StringIO())
        except ValueError:
            pass

    def test_every_length(self):
        with open(self.story(), "rb") as f:
            data = f.read()
        ends = [*range(0, 200), *random.Random(1).sample(range(200, len(data)), 40)]
        for end in ends:
            self.quietly(data[:end])

    def test_changed_bytes(self):
        with open(self.story(), "rb") as f:
            classic = f.read()
        frames = [(f["time"] // 1000, encode(f)) for f in captures.story().frames[:12]]
        chance = random.Random(2)
        for data in (classic[:4000], pcapng(frames)):
            for _ in range(150):
                changed = bytearray(data)
                for _ in range(chance.randrange(1, 12)):
                    changed[chance.randrange(len(changed))] = chance.choice(
                        (0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)))
                self.quietly(bytes(changed))

    def test_changed_headers_with_a_correct_icrc(self):
        chance = random.Random(3)
        for _ in range(40):
            scene = captures.story()
            for frame in scene.frames:
                if chance.random() < 0.4:
                    frame[chance.choice(("psn", "dqp", "opcode", "syndrome", "dma", "sport",
                                         "time"))] = chance.choice(
                                             (0, 1, 17, 255, chance.randrange(256)))
            scene.frames = [f for f in scene.frames if f.get("dma", 1) is not None]
            with contextlib.suppress(struct.error, KeyError):
                scene.write(self.path("y"))
                with open(self.path("y"), "rb") as f:
                    self.quietly(f.read())

    def test_odd_frames(self):
        captures.odd().write(self.path("y"))
        with open(self.path("y"), "rb") as f:
            self.quietly(f.read())

    def test_random_bytes(self):
        chance = random.Random(4)
        for magic in (b"", b"\xd4\xc3\xb2\xa1\2\0\4\0" + bytes(12) + b"\1\0\0\0",
                      b"\n\r\r\n\x1c\0\0\0\x4d\x3c\x2b\x1a"):
            for _ in range(50):
                self.quietly(magic + chance.randbytes(600))


class Command(Directory):
    def test_a_page(self):
        out = self.path("page.html")
        done = self.run_tool(self.story(), "-o", out)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))
        with open(out, encoding="utf-8") as f:
            self.assertTrue(f.read().rstrip().endswith("</html>"))

    def test_a_capture_that_ends_within_a_frame(self):
        with open(self.story(), "rb") as f:
            data = f.read()
        out = self.path("page.html")
        done = self.run_tool(self.path("cut.pcap", data[:-5]), "-o", out)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(
            done.stderr,
            r"^tern-view: .*cut.pcap: ends within frame 52; the page has what is before it\n$")
        self.assertTrue(os.path.exists(out))

    def test_no_capture(self):
        out = self.path("page.html")
        for data, message in ((b"", "no pcap file"), (b"hello " * 20, "no pcap file"),
                              (struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1),
                               "no RoCEv2 frame"), (b"\n\r\r\n" + b"\0" * 60, "no pcapng section")):
            with self.subTest(message=message):
                done = self.run_tool(self.path("bad.pcap", data), "-o", out)
                self.assertEqual(done.returncode, 2)
                self.assertRegex(done.stderr, rf"^tern-view: .*{message}.*\n$")
                self.assertFalse(os.path.exists(out))

    def test_no_file(self):
        done = self.run_tool(self.path("none.pcap"), "-o", self.path("page.html"))
        self.assertEqual(done.returncode, 2)
        self.assertEqual(done.stderr.count("\n"), 1)

    def test_no_directory_to_write_to(self):
        done = self.run_tool(self.story(), "-o", self.path("none/page.html"))
        self.assertEqual(done.returncode, 2)
        self.assertEqual(done.stderr.count("\n"), 1)


if __name__ == "__main__":
    unittest.main()

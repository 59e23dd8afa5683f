# SPDX-License-Identifier: GPL-2.0-or-later
"""tern-view and event logs: the reader, damaged logs, the clocks, and what the page makes of logs that the engine's simulation wrote."""
import glob
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

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.realpath(__file__))
TOP = os.path.join(HERE, "../..")
sys.path[:0] = [HERE, os.path.join(TOP, "tools/tern-view"), os.path.join(TOP, "tests/judge"), os.path.join(TOP, "tools")]

import align  # noqa: E402
import capture as cap  # noqa: E402
import events as ev  # noqa: E402
import lognames  # noqa: E402
import logpage  # noqa: E402
import logs  # noqa: E402
import page  # noqa: E402
from test_tern_view import TOOL, Directory  # noqa: E402
from timeline import W_IMPLIED, W_RECV, WRONG  # noqa: E402

import importlib.machinery  # noqa: E402
import importlib.util  # noqa: E402


def command():
    """The tool itself, which has no .py in its name."""
    loader = importlib.machinery.SourceFileLoader("tern_view", os.path.join(TOOL, "tern-view"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("tern_view", loader))
    loader.exec_module(module)
    return module


tern_view = command()
ENGINE = os.path.join(TOP, "build/engine/engine_tests")
# Tests of the engine whose logs have every type of event that a simulation has.
FILTER = ("RcError.WriteWithUnknownKey*:Uc.BadWires*:RcRetry.AnyLost*:XrcTest.EverythingArrivesOnceOnABadWire")


class Logs(Directory):
    def log(self, data, name="x.events"):
        return ev.Log(self.path(name, data))

    def report(self, *paths):
        return tern_view.report_of(list(paths))


class Reader(Logs):
    def test_every_member_of_every_type(self):
        chance = random.Random(1)
        wanted = [[k * 10, k, chance.randrange(256), chance.randrange(1 << 10), chance.randrange(1 << 24), chance.randrange(1 << 64), chance.randrange(1 << 64),
                   *(chance.randrange(1 << 32) for _ in range(4))] for k in range(1, 20)]
        wanted[ev.EPOCH - 1][5] = 7
        log = self.log(logs.header(epoch=5) + b"".join(logs.event(*e) for e in wanted))
        found = list(zip(*(getattr(log, name) for name in ev.FIELDS)))
        self.assertEqual(found, [tuple(e[1:]) for e in wanted])
        self.assertEqual(list(log.time), [15] + [k * 10 + 7 for k in range(2, 20)])
        self.assertEqual((log.name, log.mac, log.count, log.troubles), ("tern0", logs.MAC, 19, []))

    def test_numbers_are_those_of_the_contract(self):
        with open(os.path.join(TOP, "firmware-if/tern_event_log.h"), encoding="utf-8") as f:
            header = f.read()
        types = re.findall(r"^#define TERN_LOG_([A-Z_]+)\t+(\d+)", header[header.index("tern_log_event.type"):header.index("tern_log_event.flags")], re.M)
        self.assertEqual({name: getattr(ev, name) for name, _ in types}, {name: int(n) for name, n in types})
        self.assertEqual(sorted(lognames.TYPES), [int(n) for _, n in types])
        for name, bit in re.findall(r"^#define TERN_LOG_(F_\w+)\s+BIT\((\d+)\)", header, re.M):
            self.assertEqual(getattr(ev, name), 1 << int(bit), name)
        for prefix, names in (("RULE", {n: rule[0] for n, rule in lognames.RULES.items()} | {0: "NONE"}), ("FAULT", dict(enumerate(lognames.FAULTS))),
                              ("PF", lognames.PAGE_FAULTS), ("KEY", lognames.CHANGES)):
            found = {int(n): name for name, n in re.findall(rf"^#define TERN_LOG_{prefix}_(\w+)\t+(\d+)", header, re.M)}
            self.assertEqual({n: name.upper().replace(" ", "_") for n, name in names.items()}, found, prefix)
        self.assertEqual(len(lognames.KINDS), len(re.findall(r"TERN_LOG_KIND_", header)))
        self.assertEqual(len(lognames.DROPS), len(re.findall(r"#define TERN_LOG_DROP_", header)))

    def test_names_are_those_of_the_contract(self):
        text = ""
        for name in ("tern_io.h", "tern_regs.h", "tern_admin.h"):
            with open(os.path.join(TOP, "firmware-if", name), encoding="utf-8") as f:
                text += f.read()
        for prefix, names in (("TERN_WR_", lognames.WORK), ("TERN_QPS_", lognames.STATES), ("TERN_EV_", lognames.EVENTS)):
            found = {int(n, 0): name for name, n in re.findall(rf"^#define {prefix}(\w+)\s+(0x\w+|\d+)\b", text, re.M) if name != "NUM"}
            self.assertEqual(dict(enumerate(names)), found, prefix)
        found = {int(n): name for name, n in re.findall(r"^#define TERN_CQE_([A-Z_]+)\t+(\d+)\b", text, re.M)}
        self.assertEqual(dict(enumerate(lognames.STATUS)), found)
        bits = {int(n): name for name, n in re.findall(r"^#define TERN_ACCESS_(\w+)\s+BIT\((\d+)\)", text, re.M)}
        self.assertEqual(dict(enumerate(lognames.ACCESS)), bits)

    def test_rules_are_those_of_the_book(self):
        with open(os.path.join(TOP, "Documentation/spec/event-log.rst"), encoding="utf-8") as f:
            text = f.read()
        text = re.sub(r":doc:`(\w+)`", r"Documentation/spec/\1", text.replace(":ref:`invalidation`", "Documentation/spec/windows, Invalidation"))
        for number, (name, rule, source) in lognames.RULES.items():
            self.assertRegex(text.replace("``", ""), rf"(?m)^{number} +TERN_LOG_RULE_{name} +{re.escape(rule)} +{re.escape(source)}(?: |$)")

    def test_larger_header_and_records_are_skipped(self):
        record = logs.event(3, ev.RESET) + b"new."  * 2
        log = self.log(logs.header(size=80, record=56) + bytes(16) + record * 3)
        self.assertEqual((list(log.type), list(log.time)), ([ev.RESET] * 3, [3] * 3))

    def test_lost_events_are_counted(self):
        log = self.log(logs.header() + logs.event(1, ev.LOST, length=5) + logs.event(2, ev.LOST, length=1 << 63))
        self.assertEqual(log.lost, 5 + (1 << 62))

    def test_an_epoch_moves_what_follows(self):
        log = self.log(logs.header(epoch=100) + logs.event(1, ev.RESET) + logs.event(1, ev.EPOCH, addr=1000) + logs.event(2, ev.RESET)
                       + logs.event(2, ev.EPOCH, addr=500) + logs.event(3, ev.RESET))
        self.assertEqual(list(log.time), [101, 1001, 1002, 1002, 1002])

    def test_a_name_of_any_bytes(self):
        self.assertEqual(self.log(logs.header(name=b"\xff<b>" * 8)).name[1:4], "<b>")


class Damaged(Logs):
    """A page, or one line that says what is wrong."""

    def quietly(self, data, *more):
        path = self.path("x.events", data)
        try:
            report = self.report(path, *more)
        except ValueError as e:
            self.assertIn("x.events", str(e))
            return None
        page.write(report, io.StringIO())
        return report

    def sample(self):
        capture = cap.Capture([self.story()])
        path = self.path("good.events")
        logs.write_for(capture, path)
        with open(path, "rb") as f:
            return f.read()

    def test_truncated_at_every_byte(self):
        data = self.sample()[:logs.HEADER.size + 6 * logs.EVENT.size]
        for end in range(1, len(data)):
            report = self.quietly(data[:end])
            whole, rest = divmod(end - logs.HEADER.size, logs.EVENT.size)
            if end < logs.HEADER.size or whole == 0:
                self.assertIsNone(report, end)
                continue
            self.assertEqual(len(report.log.events), whole)
            self.assertEqual(report.troubles, [f"{self.path('x.events')}: ends within record {whole + 1}"] if rest else [])

    def test_wrong_headers(self):
        for data, message in ((logs.header(version=2), "an event log of version 2, this tool reads version 1"),
                              (logs.header(magic=b"ternlog1"), "no pcap file"), (logs.header(size=63), "a header of 63 bytes"),
                              (logs.header(record=47), "records of 47"), (logs.header(size=65), "ends within the header"),
                              (logs.header(), "no RoCEv2 frame .* and no event"), (logs.header()[:10], "ends within the header"), (b"", "no pcap file")):
            with self.subTest(message=message), self.assertRaisesRegex(ValueError, message):
                self.report(self.path("x.events", data))

    def test_changed_bytes(self):
        data, chance = self.sample(), random.Random(2)
        for turn in range(120):
            changed = bytearray(data)
            for _ in range(chance.randrange(1, 60)):
                changed[chance.randrange(logs.HEADER.size if turn % 2 else 0, len(changed))] = chance.choice((0, 1, 0x7F, 0xFF, chance.randrange(256)))
            self.quietly(bytes(changed), *([self.story()] if turn % 4 < 2 else []))

    def test_random_records(self):
        chance = random.Random(3)
        for _ in range(60):
            n = chance.randrange(1, 60)
            records = [logs.event(chance.choice((0, 1, chance.randrange(1 << 64))), chance.randrange(20), chance.randrange(8), chance.randrange(1 << 16),
                                  *(chance.choice((0, 1, 17, 1 << 8, (1 << bits) - 1, chance.randrange(1 << bits))) for bits in (32, 64, 64, 32, 32, 32, 32)))
                       for _ in range(n)]
            self.quietly(logs.header(epoch=chance.choice((0, 1 << 63, (1 << 64) - 1))) + b"".join(records))

    def test_the_command_says_it_in_one_line(self):
        out = self.path("page.html")
        done = self.run_tool(self.path("v2.events", logs.header(version=2)), "-o", out)
        self.assertEqual((done.returncode, done.stderr.count("\n"), os.path.exists(out)), (2, 1, False))
        done = self.run_tool(self.path("cut.events", self.sample()[:-7]), "-o", out)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"cut.events: ends within record \d+; the page has what is before it\n$")
        self.assertTrue(os.path.exists(out))


class Clocks(unittest.TestCase):
    def test_a_clock_that_agrees_is_left_alone(self):
        self.assertEqual(align.shift([0, 5, 2000], [-3, 0, -9]), 0)

    def test_a_log_that_is_late_or_early_moves_as_little_as_it_must(self):
        self.assertEqual(align.shift([1050, 1080], [1000, 990]), 1000)
        self.assertEqual(align.shift([-950, -920], [-1000, -1010]), -950)

    def test_contradictions_are_halved(self):
        self.assertEqual(align.shift([100], [300]), 200)

    def test_one_direction(self):
        self.assertEqual(align.shift([50_000], []), 0)
        self.assertEqual(align.shift([3_600_000_000_000], []), 3_600_000_000_000)
        self.assertEqual(align.shift([-70], []), -70)
        self.assertEqual(align.shift([], []), 0)


if __name__ == "__main__":
    unittest.main()

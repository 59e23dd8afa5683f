# SPDX-License-Identifier: GPL-2.0-or-later
"""tern-view and event logs: the reader, damaged logs, the clocks, and what the page makes of logs
that the engine's simulation wrote."""
import glob
import importlib.machinery
import importlib.util
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
from unittest import mock

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.realpath(__file__))
TOP = os.path.join(HERE, "../..")
sys.path[:0] = [
    HERE,
    os.path.join(TOP, "tools/tern-view"),
    os.path.join(TOP, "tests/judge"),
    os.path.join(TOP, "tools")
]

import align  # noqa: E402
import capture as cap  # noqa: E402
import events as ev  # noqa: E402
import log_names  # noqa: E402
import log_columns  # noqa: E402
import logs  # noqa: E402
import page  # noqa: E402
import message_tracker as msg  # noqa: E402
from roce.headers import OPCODES  # noqa: E402
from test_tern_view import TOOL, Directory  # noqa: E402
from timeline import KIND_OF, W_IMPLIED, W_RECV, WRONG  # noqa: E402


def command():
    """The tool itself, which has no .py in its name."""
    loader = importlib.machinery.SourceFileLoader("tern_view", os.path.join(TOOL, "tern-view"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("tern_view", loader))
    loader.exec_module(module)
    return module


tern_view = command()


class Logs(Directory):
    def log(self, data, name="x.events"):
        return ev.Log(self.path(name, data))

    def report(self, *paths):
        return tern_view.report_of(list(paths))


class Reader(Logs):
    def test_every_member_of_every_type(self):
        chance = random.Random(1)
        wanted = [[
            k * 10, k,
            chance.randrange(256),
            chance.randrange(1 << 10),
            chance.randrange(1 << 24),
            chance.randrange(1 << 64),
            chance.randrange(1 << 64), *(chance.randrange(1 << 32) for _ in range(4))
        ] for k in range(1, 21)]
        wanted[ev.EPOCH - 1][5] = 7
        log = self.log(logs.header(epoch=5) + b"".join(logs.event(*e) for e in wanted))
        found = list(zip(*(getattr(log, name) for name in ev.FIELDS)))
        self.assertEqual(found, [tuple(e[1:]) for e in wanted])
        self.assertEqual(list(log.time), [15] + [k * 10 + 7 for k in range(2, 21)])
        self.assertEqual((log.name, log.mac, log.count, log.troubles), ("tern0", logs.MAC, 20, []))

    def test_numbers_are_those_of_the_contract(self):
        with open(os.path.join(TOP, "firmware-if/tern_event_log.h"), encoding="utf-8") as f:
            header = f.read()
        types = re.findall(
            r"^#define TERN_LOG_([A-Z_]+)\t+(\d+)",
            header[header.index("tern_log_event.type"):header.index("tern_log_event.flags")], re.M)
        self.assertEqual({name: getattr(ev, name) for name, _ in types},
                         {name: int(n) for name, n in types})
        self.assertEqual(sorted(log_names.TYPES), [int(n) for _, n in types])
        for name, bit in re.findall(r"^#define TERN_LOG_(F_\w+)\s+BIT\((\d+)\)", header, re.M):
            self.assertEqual(getattr(ev, name), 1 << int(bit), name)
        for prefix, names in (("RULE", {n: rule[0]
                                        for n, rule in log_names.RULES.items()} | {0: "NONE"}),
                              ("FAULT", dict(enumerate(log_names.FAULTS))),
                              ("PF", log_names.PAGE_FAULTS), ("KEY", log_names.CHANGES)):
            found = {
                int(n): name for name, n in re.findall(rf"^#define TERN_LOG_{prefix}_(\w+)\t+(\d+)",
                                                       header, re.M)
            }
            self.assertEqual({n: name.upper().replace(" ", "_") for n, name in names.items()},
                             found, prefix)
        self.assertEqual(len(log_names.KINDS), len(re.findall(r"TERN_LOG_KIND_", header)))
        self.assertEqual(len(log_names.DROPS), len(re.findall(r"#define TERN_LOG_DROP_", header)))

    def test_names_are_those_of_the_contract(self):
        text = ""
        for name in ("tern_cq.h", "tern_io.h", "tern_regs.h", "tern_admin.h", "tern_verbs.h"):
            with open(os.path.join(TOP, "firmware-if", name), encoding="utf-8") as f:
                text += f.read()
        for prefix, names in (("TERN_WR_", log_names.WORK), ("TERN_QPS_", log_names.STATES),
                              ("TERN_EV_", log_names.EVENTS)):
            found = {
                int(n, 0): name
                for name, n in re.findall(rf"^#define {prefix}(\w+)\s+(0x\w+|\d+)\b", text, re.M)
                if name != "NUM"
            }
            self.assertEqual(dict(enumerate(names)), found, prefix)
        found = {
            int(n): name
            for name, n in re.findall(r"^#define TERN_CQE_([A-Z_]+)\t+(\d+)\b", text, re.M)
        }
        self.assertEqual(dict(enumerate(log_names.STATUS)), found)
        bits = {
            int(n): name
            for name, n in re.findall(r"^#define TERN_ACCESS_(\w+)\s+BIT\((\d+)\)", text, re.M)
        }
        self.assertEqual(dict(enumerate(log_names.ACCESS)), bits)

    def test_rules_are_those_of_the_book(self):
        with open(os.path.join(TOP, "Documentation/spec/event-log.rst"), encoding="utf-8") as f:
            table = f.read().partition("\nRules\n=====\n")[2].partition("\nQPs\n===\n")[0]
        columns, rows = [], {}
        for line in table.splitlines():
            if re.fullmatch(r"=+( =+){3}", line):
                columns = [slice(m.start(), m.end()) for m in re.finditer("=+", line)]
            elif columns and line:
                cells = [line[column].strip() for column in columns]
                if cells[0]:
                    number = cells[0]
                    rows[number] = cells[1:]
                else:  # goes on
                    rows[number] = [" ".join(c).strip() for c in zip(rows[number], cells[1:])]
        for number, (name, rule, source) in log_names.RULES.items():
            found = [cell.replace("``", "") for cell in rows[str(number)]]
            found[2] = re.sub(
                r":doc:`(\w+)`", r"Documentation/spec/\1",
                found[2].replace(":ref:`invalidation`", "Documentation/spec/windows, Invalidation"))
            self.assertEqual(found, [f"TERN_LOG_RULE_{name}", rule, source])

    def test_larger_header_and_records_are_skipped(self):
        record = logs.event(3, ev.RESET) + b"new." * 2
        log = self.log(logs.header(size=80, record=56) + bytes(16) + record * 3)
        self.assertEqual((list(log.type), list(log.time)), ([ev.RESET] * 3, [3] * 3))

    def test_a_log_says_that_it_ended_at_its_limit(self):
        self.assertFalse(self.log(logs.header()).full)
        self.assertFalse(
            self.log(logs.header() + logs.event(1, ev.FULL) + logs.event(2, ev.RESET)).full)
        self.assertTrue(
            self.log(logs.header() + logs.event(1, ev.RESET) + logs.event(2, ev.FULL)).full)

    def test_lost_events_are_counted(self):
        log = self.log(logs.header() + logs.event(1, ev.LOST, length=5) +
                       logs.event(2, ev.LOST, length=1 << 63))
        self.assertEqual(log.lost, 5 + (1 << 62))

    def test_an_epoch_moves_what_follows(self):
        log = self.log(
            logs.header(epoch=100) + logs.event(1, ev.RESET) + logs.event(1, ev.EPOCH, addr=1000) +
            logs.event(2, ev.RESET) + logs.event(2, ev.EPOCH, addr=500) + logs.event(3, ev.RESET))
        self.assertEqual(list(log.time), [101, 1001, 1002, 1002, 1002])

    def test_times_far_apart(self):
        """The differences in the page and the list of the large ones give the times again."""
        with open(self.story(), "rb") as f:
            first = struct.unpack_from("<II", f.read(), 24)
        start = first[0] * 10**9 + first[1]
        wanted = [start + 10 * 10**9, start + 10 * 10**9 + 7, start + 3600 * 10**9]
        report = self.report(
            self.story(),
            self.path("x.events",
                      logs.header() + b"".join(logs.event(t, ev.RESET) for t in wanted)))
        large, now, found = dict(report.meta()["log"]["jumps"]), report.start, []
        for i, delta in enumerate(report.log.columns(report.start, page.deltas)["e-delta"]):
            now += large[i] if delta == cap.NONE else delta
            found.append(now)
        self.assertEqual(found, wanted)

    def test_adapters_of_one_name(self):
        report = self.report(self.path("vm1.events",
                                       logs.header() + logs.event(1, ev.RESET)),
                             self.path("vm2.events",
                                       logs.header() + logs.event(1, ev.RESET)))
        self.assertEqual([log["name"] for log in report.meta()["log"]["logs"]],
                         ["vm1 tern0", "vm2 tern0"])

    def test_a_cqe_of_ethernet_is_of_no_qp(self):
        state = logs.event(1, ev.QP_STATE, qpn=2, index=0xFF)
        cqe = logs.event(2, ev.CQE, qpn=2, value=0x50)
        report = self.report(self.path("x.events", logs.header() + state + cqe))
        self.assertEqual((len(report.log.timeline.work.log), list(report.log.timeline.lane)),
                         (0, [cap.NONE] * 2))

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
            self.assertEqual(
                report.troubles,
                [f"{self.path('x.events')}: ends within record {whole + 1}"] if rest else [])

    def test_wrong_headers(self):
        for data, message in ((logs.header(version=2),
                               "an event log of version 2, this tool reads version 1"),
                              (logs.header(magic=b"ternlog1"),
                               "no pcap file"), (logs.header(size=63), "a header of 63 bytes"),
                              (logs.header(record=47), "records of 47"), (logs.header(size=65),
                                                                          "ends within the header"),
                              (logs.header(), "no RoCEv2 frame .* and no event"),
                              (logs.header()[:10], "ends within the header"), (b"",
                                                                               "no pcap file")):
            with self.subTest(message=message), self.assertRaisesRegex(ValueError, message):
                self.report(self.path("x.events", data))

    def test_changed_bytes(self):
        data, chance = self.sample(), random.Random(2)
        for turn in range(120):
            changed = bytearray(data)
            for _ in range(chance.randrange(1, 60)):
                changed[chance.randrange(logs.HEADER.size if turn % 2 else 0,
                                         len(changed))] = chance.choice(
                                             (0, 1, 0x7F, 0xFF, chance.randrange(256)))
            self.quietly(bytes(changed), *([self.story()] if turn % 4 < 2 else []))

    def test_random_records(self):
        chance = random.Random(3)
        for _ in range(60):
            n = chance.randrange(1, 60)
            records = [
                logs.event(
                    chance.choice((0, 1, chance.randrange(1 << 64))), chance.randrange(21),
                    chance.randrange(8), chance.randrange(1 << 16),
                    *(chance.choice(
                        (0, 1, 17, 1 << 8, (1 << bits) - 1, chance.randrange(1 << bits)))
                      for bits in (32, 64, 64, 32, 32, 32, 32))) for _ in range(n)
            ]
            self.quietly(
                logs.header(epoch=chance.choice((0, 1 << 63, (1 << 64) - 1))) + b"".join(records))

    def test_the_command_says_it_in_one_line(self):
        out = self.path("page.html")
        done = self.run_tool(self.path("v2.events", logs.header(version=2)), "-o", out)
        self.assertEqual((done.returncode, done.stderr.count("\n"), os.path.exists(out)),
                         (2, 1, False))
        done = self.run_tool(self.path("cut.events", self.sample()[:-7]), "-o", out)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr,
                         r"cut.events: ends within record \d+; the page has what is before it\n$")
        self.assertTrue(os.path.exists(out))


class Rates(Logs):
    """Spans in which a QP has one rate."""
    def spans(self, *records):
        rates = self.report(self.path("x.events", logs.header() + b"".join(records))).log.rates
        return list(zip(rates.event, rates.next, rates.rate))

    def test_each_change_begins_one(self):
        self.assertEqual(
            self.spans(*(logs.event(k, ev.RATE, qpn=qpn, length=rate)
                         for k, (qpn, rate) in enumerate(((7, 5_000_000), (8, 9_000_000),
                                                          (7, 4_000_999), (7, 0), (7, 1 << 60))))),
            [(0, 2, 5000), (1, cap.NONE, 9000), (2, 3, 4000), (4, cap.NONE, 0xFFFFFFFF)])

    def test_what_else_ends_them(self):
        rate = logs.event(1, ev.RATE, qpn=7, length=5000)
        for end in (logs.event(2, ev.QP_STATE, 0, qpn=7,
                               index=3), logs.event(2, ev.QP_STATE, 0xFF, qpn=7, index=3),
                    logs.event(2, ev.RESET), logs.event(2, ev.LOST, length=1)):
            self.assertEqual(self.spans(rate, end), [(0, 1, 5)])
        for other in (logs.event(2, ev.QP_STATE, 6, qpn=7,
                                 index=3), logs.event(2, ev.QP_STATE, 0, qpn=8, index=3)):
            self.assertEqual(self.spans(rate, other), [(0, cap.NONE, 5)])

    def test_a_page_that_leaves_events_out(self):
        records = [
            logs.event(k, kind, qpn=7, length=5000 + k)
            for k, kind in enumerate((ev.POSTED, ev.RATE, ev.POSTED, ev.RATE))
        ]
        with mock.patch.object(log_columns, "MOST_EVENTS", 3):
            report = self.report(self.path("x.events", logs.header() + b"".join(records)))
        found = report.log.columns(report.start, page.deltas)
        self.assertEqual([list(found[f"r-{name}"]) for name in ("event", "next", "rate")],
                         [[0, 1], [1, cap.NONE], [5, 5]])


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


class Engine(Logs):
    """Logs and captures that simulated devices wrote. Between them they have every type of event
    but those of a stopped machine."""
    FILTER = (
        "All/WindowRule.Holds/*:RcFastReg.WriteUnderWayIsCutOff:Odp.UnreliableSenders:"
        "UcExact.AnyLost*:XrcTest.ResetOfTheDeviceEndsAllOfIt:XrcTest.EverythingArrivesOnceOnABadWire:RcError.WriteWithUnknownKey:"
        "AtomicWrite.DeviceMemory:SrqTest.*:Rate.IsExactForOddValues")

    @classmethod
    def setUpClass(cls):
        cls.engine = tempfile.TemporaryDirectory()
        env = {**os.environ, "TERN_CAPTURES": cls.engine.name, "TERN_EVENTS": cls.engine.name}
        subprocess.run([
            os.path.join(TOP, "build/engine/engine_tests"), f"--gtest_filter={cls.FILTER}",
            "--gtest_brief=1"
        ], env=env, check=True, stdout=subprocess.DEVNULL)

    @classmethod
    def tearDownClass(cls):
        cls.engine.cleanup()

    def files(self, test):
        """[capture, log of each node] of the first simulation of a test."""
        capture = min(glob.glob(os.path.join(self.engine.name, f"{test}.*.pcap")),
                      key=lambda path: int(path.split(".")[-2]))
        return [capture, *sorted(glob.glob(f"{capture[:-5]}.*.events"))]

    def of(self, test):
        return self.report(*self.files(test))

    def works(self, report):
        """{name: column} of each work request."""
        w = report.log.timeline.work
        return [{name: getattr(w, name)[i] for name in w.TYPES} for i in range(len(w.log))]

    def events(self, report, kind):
        return [e for e, found in enumerate(report.log.events.type) if found == kind]

    def test_each_type_of_event_is_in_some_log(self):
        seen = set()
        for path in glob.glob(os.path.join(self.engine.name, "*.events")):
            seen |= set(ev.Log(path).type)
        self.assertEqual(seen, set(log_names.TYPES) - {ev.LOST, ev.EPOCH, ev.FULL})

    def test_packets_are_found_in_the_capture(self):
        for test in ("RcFastReg.WriteUnderWayIsCutOff", "Odp.UnreliableSenders",
                     "XrcTest.EverythingArrivesOnceOnABadWire"):
            with self.subTest(test=test):
                report = self.of(test)
                events, c = report.log.events, report.c
                sent = self.events(report, ev.SENT)
                self.assertEqual(sorted(events.packet[e] for e in sent), list(range(len(c))))
                for e in sent + self.events(report, ev.RECEIVED):
                    p = events.packet[e]
                    if p == cap.NONE and "BadWire" in test:
                        continue  # the wire made a copy past the capture
                    self.assertEqual((c.op[p], c.psn[p], c.length[p]),
                                     (events.code[e], events.index[e], events.length[e]))
                self.assertTrue(all(events.time[e] == c.time[events.packet[e]] for e in sent))
                self.assertEqual([log.shift for log in events.logs], [0, 0])

    def test_a_request_from_doorbell_to_cqe(self):
        report = self.of("RcFastReg.WriteUnderWayIsCutOff")
        events, story = report.log.events, report.story
        write, reg, inv = sorted(self.works(report), key=lambda w: w["code"] != 4)
        self.assertEqual([log_names.WORK[w["code"]] for w in (write, reg, inv)],
                         ["RDMA_WRITE", "REG_MR", "LOCAL_INV"])
        self.assertEqual([log_names.STATUS[w["status"]] for w in (write, reg, inv)],
                         ["REM_ACCESS_ERR", "SUCCESS", "SUCCESS"])
        self.assertEqual((write["message"], write["length"], write["index"]), (0, 65536, 0))
        steps = [write[name] for name in ("doorbell", "posted", "wqe", "sent", "cqe")]
        self.assertEqual([events.type[e] for e in steps],
                         [ev.DOORBELL, ev.POSTED, ev.WQE, ev.SENT, ev.CQE])
        self.assertEqual(steps, sorted(steps))
        self.assertEqual(events.packet[write["sent"]], story.messages.first[0])
        self.assertEqual(events.packet[write["cqe"]], story.messages.answer[0])

    def test_every_message_has_its_wqe(self):
        for test in ("XrcTest.EverythingArrivesOnceOnABadWire",
                     "UcExact.AnyLostPacketTakesItsMessage", "Odp.UnreliableSenders"):
            with self.subTest(test=test):
                report = self.of(test)
                m = report.story.messages
                found = {
                    w["message"]: w for w in self.works(report)
                    if w["message"] != cap.NONE and not w["flags"] & W_RECV
                }
                self.assertEqual(sorted(found), list(range(len(m.first))))
                for which, w in found.items():
                    self.assertEqual(KIND_OF[w["code"]], msg.KINDS[m.kind[which]])
                    if m.status[which] in (msg.DONE, msg.SENT):
                        self.assertEqual(w["length"], m.bytes[which])

    def test_every_cqe_ends_a_request(self):
        report = self.of("XrcTest.EverythingArrivesOnceOnABadWire")
        works = self.works(report)
        ends = [w["cqe"] for w in works if w["cqe"] != cap.NONE and not w["flags"] & W_IMPLIED]
        self.assertEqual(sorted(ends), self.events(report, ev.CQE))
        self.assertTrue(all(w["wqe"] < w["cqe"] for w in works if w["cqe"] != cap.NONE))

    def test_a_qp_with_one_limit_after_the_other(self):
        """Its packets leave at the rates that the log has, headers included."""
        report = self.of("Rate.IsExactForOddValues")
        events, c, rates = report.log.events, report.c, report.log.rates
        self.assertEqual(list(rates.rate), [1_000, 33_333, 777_777, 9_999_999, 99_999_999])
        for kbit, begin, end in zip(rates.rate, rates.event, rates.next):
            self.assertEqual(report.log.timeline.lane[begin] >> 1, 0)
            t0, t1 = events.time[begin], events.time[end] if end != cap.NONE else c.time[-1] + 1
            sent = [
                i for i in range(len(c)) if t0 <= c.time[i] < t1 and not OPCODES[c.op[i]].response
            ]
            bits = 8 * sum(c.length[i] for i in sent[:-1])
            per_second = bits * 1e9 / (c.time[sent[-1]] - c.time[sent[0]])
            self.assertTrue(0.9 < per_second / (kbit * 1e3) < 1, (kbit, per_second))

    def denied(self, report, packet):
        """The rules that the checks of a packet broke."""
        events = report.log.events
        return [
            log_names.RULES[events.detail[e]][0] for e in self.events(report, ev.CHECK)
            if events.packet[e] == packet and events.index[e] == 2 and events.code[e] == 2
        ]

    RULES = {
        "QpOfAnotherPd": "MW_PD", "AnotherQpOfThePd": "MW_QP", "OneByteBelow": "MW_LOW",
        "OneByteAbove": "MW_HIGH", "AcrossTheLastAddress": "MW_WRAP", "NoRemoteRead": "MW_READ",
        "NoRemoteWrite": "MW_WRITE", "NoRemoteAtomic": "MW_ATOMIC", "Flush": "MW_FLUSH",
        "NeverBound": "MW_UNBOUND", "KeyBeforeTheNextBind": "MW_VARIANT",
        "RegionLostLocalWrite": "MW_MR_WRITE", "BindOneByteAbove": "BIND_RANGE",
        "BindWraps": "BIND_WRAP", "RegionOfAnotherPd": "BIND_MR_PD",
        "RegionWithoutMwBind": "BIND_MR_RIGHT", "WriteWithoutLocalWrite": "BIND_LOCAL_WRITE",
        "BoundAlready": "BIND_FREE", "StaleKey": "BIND_KEY", "LocalInvOfAFreeWindow": "INV_FREE",
        "LocalInvOfType1": "INV_TYPE", "LocalInvByAnotherQp": "INV_QP"
    }

    def test_the_rule_that_each_request_broke(self):
        """A refused packet has the check that refused it, and a WQE that failed here has its
        own."""
        for name, rule in self.RULES.items():
            with self.subTest(name=name):
                report = self.of(f"All_WindowRule.Holds_{name}")
                found = [
                    rule for request, nak, _ in report.story.refusals
                    for rule in self.denied(report, request)
                ]
                found += [
                    log_names.RULES[report.log.events.detail[w["check"]]][0]
                    for w in self.works(report) if w["check"] != cap.NONE
                ]
                self.assertEqual(set(found), {rule})

    def test_each_refusal_has_one_check(self):
        refused = 0
        for path in glob.glob(os.path.join(self.engine.name, "All_WindowRule.Holds_*.pcap")):
            report = self.report(path, *glob.glob(f"{path[:-5]}.*.events"))
            for request, nak, _ in report.story.refusals:
                if report.c.syndrome[nak] != 0x62:
                    continue
                refused += 1
                self.assertEqual(len(self.denied(report, request)), 1, path)
        self.assertGreater(refused, 30)

    def test_a_key_that_nothing_has(self):
        report = self.of("RcError.WriteWithUnknownKey")
        (request, _, _), = report.story.refusals
        self.assertEqual(self.denied(report, request), ["KEY"])
        # Only the variant is wrong: the page shows it with the region that has the index.
        region, = [life for life in report.log.keys.table()["lives"] if life["refused"]]
        self.assertEqual((region["kind"], region["key"] >> 8), (1, report.c.key[request] >> 8))
        self.assertNotEqual(region["key"], report.c.key[request])

    def test_the_life_of_a_window(self):
        report = self.of("All_WindowRule.Holds_KeyBeforeTheNextBind")
        window, = [life for life in report.log.keys.table()["lives"] if life["kind"] in (4, 5)]
        self.assertEqual([log_names.CHANGES[change] for _, change, *_ in window["steps"]],
                         ["created", "bound", "unbound", "bound"])
        self.assertEqual((window["refused"], window["end"]), (1, -1))
        self.assertEqual(window["steps"][3][2], window["steps"][1][2] + 1)

    def test_device_memory_lives_too(self):
        kinds = {
            life["kind"] for life in self.of("AtomicWrite.DeviceMemory").log.keys.table()["lives"]
        }
        self.assertLessEqual({3, 6}, kinds)

    def test_states_of_qps(self):
        states = self.of("RcError.WriteWithUnknownKey").log.states
        self.assertEqual([[log_names.STATES[new] for _, new, *_ in qp["steps"]]
                          for qp in states["qps"]], [["RESET", "INIT", "RTR", "RTS", "ERR"]] * 2)
        self.assertEqual([qp["lane"] for qp in states["qps"]], [0, 1])

    def test_a_reset_ends_lives_and_states(self):
        report = self.of("XrcTest.ResetOfTheDeviceEndsAllOfIt")
        reset = self.events(report, ev.RESET)[-1]
        log = report.log.events.log[reset]
        lives = [life for life in report.log.keys.kept if life.log == log and life.begin < reset]
        self.assertTrue(lives)
        self.assertTrue(all(0 <= life.end <= reset for life in lives))
        self.assertEqual(report.log.states["resets"][log][-1], reset)

    def test_injected_faults_and_page_faults(self):
        report = self.of("UcExact.AnyLostPacketTakesItsMessage")
        faults, events = self.events(report, ev.FAULT), report.log.events
        self.assertTrue(faults)
        for e in faults:
            p = events.packet[e]
            self.assertEqual((report.c.op[p], report.c.psn[p]), (events.value[e], events.index[e]))
        report = self.of("Odp.UnreliableSenders")
        pages = self.events(report, ev.PAGE_FAULT)
        self.assertEqual({report.log.events.code[e] for e in pages}, {1, 2, 3})
        self.assertTrue(all(report.log.timeline.lane[e] != cap.NONE for e in pages))

    def test_a_log_alone(self):
        for test in ("RcFastReg.WriteUnderWayIsCutOff", "Odp.UnreliableSenders",
                     "XrcTest.EverythingArrivesOnceOnABadWire"):
            with self.subTest(test=test):
                captured, logged = self.of(test), self.report(*self.files(test)[1:])

                def packets(report):
                    c = report.c
                    return sorted(
                        zip(c.time, c.op, c.psn, c.length, c.syndrome, c.key, c.va,
                            (report.capture.flows[f].key[3] for f in c.flow)))

                if "BadWire" not in test:  # where the wire makes copies past the capture
                    self.assertEqual(packets(logged), packets(captured))

                def messages(report):
                    m = report.story.messages
                    return sorted(zip(m.kind, m.status, m.bytes))

                self.assertEqual(messages(logged), messages(captured))
                ends = {(end["address"], end["qp"] is None) for pair in logged.meta()["pairs"]
                        for end in (pair["a"], pair["b"])}
                self.assertEqual(ends, {("tern0", False), ("tern1", False)})

    def test_one_log_of_two(self):
        """What the peer sent is in RECEIVED records."""
        logged = self.report(self.files("RcFastReg.WriteUnderWayIsCutOff")[1])
        self.assertEqual([(p["a"], p["b"]) for p in logged.meta()["pairs"]],
                         [({"address": "tern0", "qp": 2}, {"address": "peer of tern0", "qp": 2})])
        self.assertEqual([msg.STATUS[s] for s in logged.story.messages.status],
                         ["NAK: remote access error"])

    def damaged(self, test, which, change):
        """The report of a test with one of its logs changed."""
        files = self.files(test)
        with open(files[which], "rb") as f:
            data = f.read()
        records = [
            data[at:at + logs.EVENT.size]
            for at in range(logs.HEADER.size, len(data), logs.EVENT.size)
        ]
        header, records = change(data[:logs.HEADER.size], records)
        files[which] = self.path("changed.events", header + b"".join(records))
        return self.report(*files)

    def test_another_clock(self):
        for hours in (-3600, 3600):

            def late(header, records):
                return header[:16] + struct.pack("<Q", (hours * 10**9 + (1 << 42)) &
                                                 (1 << 64) - 1) + header[24:], records

            report = self.damaged("RcFastReg.WriteUnderWayIsCutOff", 2, late)
            # The capture has only what was sent, and that of the other log bounds it from below.
            self.assertAlmostEqual(report.log.events.logs[1].shift, -hours * 10**9 - (1 << 42),
                                   delta=10**6)
            self.assertEqual(len(report.story.refusals), 1)
            self.assertEqual(self.denied(report, report.story.refusals[0][0]), ["MR_CLOSED"])

    def test_lost_events_end_what_is_under_way(self):
        def lose(header, records):
            keep = len(records) // 2
            return header, records[:20] + [
                logs.event(struct.unpack_from("<Q", records[20])[0], ev.LOST, length=keep - 20)
            ] + records[keep:]

        report = self.damaged("XrcTest.EverythingArrivesOnceOnABadWire", 1, lose)
        entry = report.meta()["log"]["logs"][0]
        self.assertGreater(entry["lost"], 100)
        lost, = self.events(report, ev.LOST)
        self.assertEqual(report.log.timeline.shown[lost], WRONG)
        page.write(report, io.StringIO())

    def test_a_log_that_ends_early(self):
        report = self.damaged("XrcTest.EverythingArrivesOnceOnABadWire", 1, lambda header, records:
                              (header, records[:len(records) // 2]))
        ends = [entry["after"] for entry in report.meta()["log"]["logs"]]
        self.assertGreater(ends[0], 100)
        self.assertEqual(ends[1], 0)

    def test_a_page_with_too_many_events(self):
        files = self.files("XrcTest.EverythingArrivesOnceOnABadWire")
        self.addCleanup(setattr, log_columns, "MOST_EVENTS", log_columns.MOST_EVENTS)
        log_columns.MOST_EVENTS = 1000
        report = self.report(*files)
        meta, columns = report.meta()["log"], report.log.columns(report.start, page.deltas)
        self.assertLess(meta["events"], meta["all"])
        self.assertTrue(
            all(
                len(column) == meta["events"] for name, column in columns.items()
                if name.startswith("e-")))
        for name in ("doorbell", "wqe", "cqe", "sent"):
            self.assertTrue(all(e == cap.NONE or e < meta["events"] for e in columns[f"w-{name}"]))
        out = io.StringIO()
        page.write(report, out)
        self.assertEqual(
            json.loads(re.search(r'id="meta">(.*?)</script>', out.getvalue(),
                                 re.S)[1])["log"]["events"], meta["events"])


if __name__ == "__main__":
    unittest.main()

# SPDX-License-Identifier: GPL-2.0-or-later
"""What each lesson's page shows, as its text in Documentation/lessons says: read from the page's
data in build/lessons by tern-view's modules."""
import collections
import importlib.machinery
import importlib.util
import itertools
import os
import statistics
import sys
import unittest

sys.dont_write_bytecode = True
TOP = os.path.join(os.path.dirname(os.path.realpath(__file__)), "../..")
DIR = os.path.join(TOP, "build/lessons")
sys.path[:0] = [os.path.join(TOP, "tools/tern-view"), os.path.join(TOP, "tools")]

import events as ev  # noqa: E402
import log_names  # noqa: E402
from capture import BACKWARDS, BECN, CE, DUPLICATE, GAP, REFUSED, RETRANSMITTED  # noqa: E402
from lifetimes import BOUND, CREATED, DESTROYED, UNBOUND  # noqa: E402
from roce.headers import OPCODES  # noqa: E402
from message_tracker import ACCESS, DONE, OPEN  # noqa: E402
from timeline import DENIED, ETHERNET, REMOTE, W_RECV  # noqa: E402

FIRST = 0x100  # the client's first PSN
MARKS = RETRANSMITTED | DUPLICATE | GAP | REFUSED
ACCESS_NAK = 0x62
MS = 1_000_000


def command():
    """The tool itself, which has no .py in its name."""
    loader = importlib.machinery.SourceFileLoader("tern_view",
                                                  os.path.join(TOP, "tools/tern-view/tern-view"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("tern_view", loader))
    loader.exec_module(module)
    return module


class Packet:
    """A packet of the page, its PSN from the client's first one."""
    def __init__(self, c, i):
        op = OPCODES[c.op[i]]
        self.name = op.name.removeprefix("RC ")
        self.psn = c.psn[i] - FIRST
        self.length = c.length[i]
        self.asked = c.dma[i]
        self.key = c.key[i]
        self.time = c.time[i]
        self.syndrome = c.syndrome[i]
        self.marks, self.flags, self.index = c.flags[i] & MARKS, c.flags[i], i


class Lesson(unittest.TestCase):
    """The page of one lesson. `client`, `server`: numbers of their logs."""
    number, client, server = 0, 0, 1

    @classmethod
    def setUpClass(cls):
        name = os.path.join(DIR, str(cls.number))
        cls.report = command().report_of(
            [f"{name}/wire.pcap", f"{name}/vm1.events", f"{name}/vm2.events"])
        cls.packets = [Packet(cls.report.c, i) for i in range(len(cls.report.c))]
        cls.events = cls.report.log.events
        cls.messages = cls.report.story.messages
        cls.work = cls.report.log.timeline.work

    def setUp(self):
        self.assertEqual([], self.report.troubles)
        self.assertEqual([0, 0], [log.lost for log in self.events.logs])
        self.assertGreater(os.path.getsize(os.path.join(DIR, f"{self.number}.html")), 100_000)

    def named(self, *names):
        return [p for p in self.packets if p.name in names]

    def records(self, kind, log, **wanted):
        """The events of a type in a log, those of the lesson's QP if they have a QP."""
        e = self.events
        return [
            i for i in range(len(e))
            if e.type[i] == kind and e.log[i] == log and e.qpn[i] in (0, self.qp(log)) and all(
                getattr(e, name)[i] == value for name, value in wanted.items())
        ]

    def qp(self, log):
        """The QP that has packets; A is the client's end."""
        pair, = self.report.pairs
        return pair["a" if log == self.client else "b"]["qp"]

    def status(self, log):
        """Of the QP's CQEs. An Ethernet queue may have the QP's number."""
        return [
            self.events.code[i] for i in self.records(ev.CQE, log)
            if self.events.value[i] not in ETHERNET
        ]

    def denied(self):
        """(log, key, name of the rule) of each check that was refused."""
        e = self.events
        return [(e.log[i], e.key[i], log_names.RULES[e.detail[i]][0]) for i in range(len(e))
                if e.type[i] == ev.CHECK and e.index[i] == DENIED]

    def lives(self, log, **wanted):
        return [
            life for life in self.report.log.keys.kept if life.log == log and all(
                getattr(life, name) == value for name, value in wanted.items())
        ]

    def errors(self):
        """The logs whose QP went to ERR by itself."""
        e = self.events
        return sorted(e.log[i] for i in range(len(e))
                      if e.type[i] == ev.QP_STATE and (e.code[i], e.value[i]) == (6, 1))


class L1Write(Lesson):
    number = 1

    def test_packets(self):
        self.assertEqual([("WRITE_ONLY", 0, 13), ("ACKNOWLEDGE", 0, 0), ("WRITE_FIRST", 1, 1024),
                          ("WRITE_MIDDLE", 2, 1024), ("WRITE_LAST", 3, 952), ("ACKNOWLEDGE", 3, 0)],
                         [(p.name, p.psn, p.length) for p in self.packets])
        self.assertEqual([(13, 0), (3000, 0)], [(p.asked, p.marks) for p in self.packets if p.key])

    def test_work_requests_from_doorbell_to_completion(self):
        w = self.work
        mine = [
            i for i in range(len(w.log))
            if w.log[i] == self.client and w.qpn[i] == self.qp(self.client)
        ]
        self.assertEqual([(13, 0), (3000, 0)], [(w.length[i], w.status[i]) for i in mine])
        for i in mine:
            steps = [self.events.time[column[i]] for column in (w.doorbell, w.wqe, w.sent, w.cqe)]
            self.assertEqual(sorted(steps), steps)

    def test_the_server_has_checks_and_no_completion(self):
        self.assertEqual([], self.status(self.server))
        checks = [self.events.length[i] for i in self.records(ev.CHECK, self.server, code=REMOTE)]
        self.assertEqual([13, 13, 3000, 1024, 1024, 952], checks)
        self.assertEqual([], self.denied())


class L2Rnr(Lesson):
    number = 2

    def test_packets(self):
        self.assertEqual([("SEND_ONLY", 0, 0),
                          ("ACKNOWLEDGE", 0, 0), ("SEND_ONLY", 0, RETRANSMITTED),
                          ("ACKNOWLEDGE", 0, 0)], [(p.name, p.psn, p.marks) for p in self.packets])
        self.assertEqual((0x3E, 0x1F),
                         (self.packets[1].syndrome, self.packets[3].syndrome & 0xE0 | 0x1F))

    def test_the_client_waits_as_long_as_it_was_told(self):
        self.assertGreaterEqual(self.packets[2].time - self.packets[1].time, 327 * MS)
        self.assertEqual([(1, 1, DONE)],
                         list(zip(self.messages.waits, self.messages.repeats,
                                  self.messages.status)))

    def test_one_receive(self):
        w = self.work
        self.assertEqual([5], [
            self.events.length[w.cqe[i]]
            for i in range(len(w.log)) if w.log[i] == self.server and w.flags[i] & W_RECV
        ])


class L3Read(Lesson):
    number = 3

    def test_the_answer_lacks_a_packet_and_is_repeated_from_there(self):
        answers = [(p.psn, p.marks) for p in self.packets if p.name.startswith("READ_RESPONSE")]
        self.assertEqual([(0, 0), (1, 0), (2, 0), (4, GAP), (5, 0), (6, 0),
                          (7, 0)] + [(n, RETRANSMITTED) for n in range(3, 8)], answers)

    def test_the_second_request_asks_for_the_rest(self):
        first, second = self.named("READ_REQUEST")
        self.assertEqual([(0, 8192, 0), (3, 5120, 1)],
                         [(p.psn, p.asked, int(p.marks == RETRANSMITTED)) for p in (first, second)])
        self.assertEqual((first.key, [1]), (second.key, list(self.messages.repeats)))

    def test_fault_and_retry(self):
        e = self.events
        self.assertEqual([(0, 3)], [(e.code[i], e.index[i] - FIRST)
                                    for i in self.records(ev.FAULT, self.client)])
        self.assertEqual([3], [e.index[i] - FIRST for i in self.records(ev.RETRY, self.client)])
        self.assertEqual([0], self.status(self.client))


class L4Window(Lesson):
    number = 4

    def test_packets(self):
        self.assertEqual([("WRITE_ONLY", 0, 0), ("ACKNOWLEDGE", 0, 0), ("WRITE_ONLY", 1, REFUSED),
                          ("ACKNOWLEDGE", 1, 0)], [(p.name, p.psn, p.marks) for p in self.packets])
        self.assertEqual(([DONE, ACCESS], ACCESS_NAK),
                         (list(self.messages.status), self.packets[3].syndrome))
        self.assertEqual(self.packets[0].key, self.packets[2].key)

    def test_the_rule(self):
        self.assertEqual([(self.server, self.packets[0].key, "MW_UNBOUND")], self.denied())

    def test_the_life_of_the_window(self):
        window, = self.lives(self.server, kind=5)
        self.assertEqual([CREATED, BOUND, UNBOUND, DESTROYED],
                         [change for _, change in window.steps])
        self.assertEqual(1, window.refused)
        bound, unbound = (e for e, change in window.steps if change in (BOUND, UNBOUND))
        self.assertEqual((512, 0x2), (self.events.length[bound], self.events.value[bound]))
        writes = [self.events.time[i] for i in self.records(ev.RECEIVED, self.server, code=10)]
        self.assertTrue(self.events.time[bound] < writes[0] < self.events.time[unbound] < writes[1])

    def test_completions_and_states(self):
        self.assertEqual(([0, 9], [0, 0]), (self.status(self.client), self.status(self.server)))
        self.assertEqual([0, 1], self.errors())


class L5Stale(Lesson):
    number = 5

    def test_packets(self):
        requests = self.named("WRITE_ONLY")
        # The others may be flushed before they are sent.
        self.assertIn([p.psn for p in requests], ([0, 1], [0, 1, 2], [0, 1, 2, 3]))
        self.assertEqual([0, REFUSED], [p.marks for p in requests[:2]])
        self.assertEqual([(0, 0x00), (1, ACCESS_NAK)],
                         [(p.psn, p.syndrome if p.syndrome >> 5 else 0)
                          for p in self.named("ACKNOWLEDGE")])
        self.assertEqual([DONE, ACCESS, OPEN, OPEN][:len(requests)], list(self.messages.status))

    def test_the_rule_and_the_two_lives(self):
        old, new = self.lives(self.server, kind=1)
        self.assertEqual([(self.server, old.key, "KEY")], self.denied())
        self.assertEqual(
            (1, 0), (old.refused + sum(life.refused
                                       for life in self.lives(self.server, kind=0)), new.refused))
        address = {self.events.addr[life.begin] for life in (old, new)}
        self.assertEqual((1, True), (len(address), old.key != new.key))
        self.assertLess(self.events.time[old.end], self.events.time[new.begin])

    def test_completions_and_states(self):
        self.assertEqual([0, 9, 4, 4], self.status(self.client))
        self.assertEqual([0, 1], self.errors())


class L6Atomic(Lesson):
    number, client, server = 6, 1, 0

    def test_each_request_arrives_twice(self):
        found = collections.defaultdict(list)
        for p in self.named("FETCH_ADD"):
            found[p.psn].append(p.marks)
        self.assertEqual(list(range(1, 11)), sorted(found))
        for first, second in found.values():
            self.assertEqual((0, True), (first, second in (RETRANSMITTED, DUPLICATE)))
        self.assertEqual(10, len(self.records(ev.FAULT, self.client, code=1)))
        self.assertEqual([0] + [1] * 10, list(self.messages.repeats))

    def test_each_is_executed_once(self):
        e = self.events
        self.assertEqual(20, len(self.records(ev.RECEIVED, self.server, code=20)))
        checks = self.records(ev.CHECK, self.server, code=REMOTE)
        self.assertEqual([0, *range(11)], [self.report.c.psn[e.packet[i]] - FIRST
                                           for i in checks])  # the READ has two
        self.assertEqual([0] * 11, self.status(self.client))

    def test_nothing_is_sent_again(self):
        self.assertEqual([], self.records(ev.RETRY, self.client))
        self.assertEqual(10, len(self.records(ev.SENT, self.client, code=20)))


class L7Paging(Lesson):
    number = 7

    def test_packets(self):
        writes = self.named("WRITE_ONLY")
        waits = [p for p in self.named("ACKNOWLEDGE") if p.syndrome >> 5 == 1]
        self.assertGreater(len(waits), 0)
        self.assertEqual([(0, 0)] + [(0, RETRANSMITTED)] * len(waits) + [(1, 0)],
                         [(p.psn, p.marks) for p in writes])
        self.assertEqual({(0, 0x2C)}, {(p.psn, p.syndrome) for p in waits})
        self.assertEqual([len(waits), 0], list(self.messages.waits))

    def test_one_fault(self):
        e = self.events
        region, = self.lives(self.server, kind=1)
        faults = self.records(ev.PAGE_FAULT, self.server)
        self.assertEqual([1, 2], [e.code[i] for i in faults])
        self.assertEqual({(region.key, 5)}, {(e.key[i], e.length[i]) for i in faults})
        absent = [i for i in self.records(ev.CHECK, self.server, code=REMOTE) if e.index[i] == 1]
        self.assertEqual([0], [self.report.c.psn[e.packet[i]] - FIRST for i in absent])
        self.assertEqual([0, 0], self.status(self.client))


class L8Congestion(Lesson):
    number, client, server = 8, 1, 0

    def tenths(self, times):
        """How many of these times are in each tenth of the capture."""
        begin, end = self.packets[0].time, self.packets[-1].time + 1
        return [
            sum(begin + (end - begin) * n // 10 <= t < begin + (end - begin) * (n + 1) // 10
                for t in times) for n in range(10)
        ]

    def test_all_messages_arrive(self):
        self.assertEqual([DONE] * 200, list(self.messages.status))

    def test_marks_are_many_at_first(self):
        marked = self.tenths([p.time for p in self.packets if p.flags & CE])
        # A machine that stands still for a while, on a busy host, makes another peak.
        self.assertGreater(marked[0], 2 * statistics.median(marked[1:]))

    def test_notifications(self):
        e = self.events
        cnps = [p for p in self.packets if p.flags & BECN]
        self.assertGreater(len(cnps), 5)
        self.assertTrue(all(p.flags & BACKWARDS for p in cnps))
        self.assertEqual(len(cnps), len(self.records(ev.SENT, self.server, code=129)))
        self.assertEqual(
            len(cnps),
            sum(e.type[i] == ev.RECEIVED and e.code[i] == 129 and e.log[i] == self.client
                for i in range(len(e))))
        times = [e.time[i] for i in self.records(ev.SENT, self.server, code=129)]
        # The server decides to send one each 4 ms. The busy host may delay one, and so bring it
        # closer to the next.
        for first, later in itertools.combinations(range(len(times)), 2):
            self.assertGreaterEqual(times[later] - times[first], (later - first - 1) * 4 * MS)

    def test_notifications_lower_the_rate(self):
        rates = [self.events.length[i] for i in self.records(ev.RATE, self.client)]
        falls = sum(a == 0 or b < a for a, b in zip([0, *rates], rates) if b)
        self.assertGreater(falls, sum(p.flags & BECN > 0 for p in self.packets) // 2)
        self.assertLess(min(filter(None, rates)), 50_000_000)

    def test_a_marked_packet_comes_before_each_notification(self):
        marked = None
        for p in self.packets:
            if p.flags & CE:
                marked = p.time
            elif p.flags & BECN:
                self.assertIsNotNone(marked)
                marked = None

    def test_the_sender_ends_at_the_rate_of_the_port(self):
        data = [p for p in self.packets if p.length]
        begin, end = data[0].time, data[-1].time
        late = [p for p in data if p.time >= (begin + end) // 2]
        self.assertLess(sum(p.length for p in late) * 8e3 / (end - late[0].time), 55)  # Mbit/s


class L9Move(Lesson):
    number = 9

    def test_all_messages_arrive(self):
        self.assertGreater(len(self.messages.status), 20)
        self.assertEqual({DONE}, set(self.messages.status))
        self.assertEqual(([0] * len(self.messages.status), []),
                         (self.status(self.client), self.errors()))

    def test_the_pause_ends_with_a_repetition(self):
        acks = self.named("ACKNOWLEDGE")
        _, before, after = max((b.time - a.time, a, b) for a, b in zip(acks, acks[1:]))
        repeated = [
            p for p in self.named("WRITE_ONLY")
            if p.marks == RETRANSMITTED and before.time < p.time < after.time
        ]
        self.assertGreaterEqual(len(repeated), 1)
        self.assertEqual({after.psn}, {p.psn for p in repeated})
        self.assertGreaterEqual(after.time - before.time, 67 * MS)

    def test_the_timer_of_the_client(self):
        self.assertEqual(sum(self.messages.repeats), len(self.records(ev.RETRY, self.client)))

    def test_the_server_has_no_part(self):
        self.assertEqual([], self.status(self.server))
        self.assertEqual([], self.records(ev.RETRY, self.server))

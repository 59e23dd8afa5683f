# SPDX-License-Identifier: GPL-2.0-or-later
"""Packets from event logs, for a page without a capture: the data of SENT and RECEIVED records
in the columns of a capture."""
import collections
import os
from itertools import islice

import capture as cap
from events import CHECK, F_ACK_REQ, F_AETH, F_BECN, F_CE, F_LOOPBACK, F_RECV, F_SOLICITED, RECEIVED, SENT, WQE
from roce.flows import Connections, Flow
from roce.headers import ATOMIC, OPCODES, READ_RESPONSE, UD
from timeline import REMOTE

MARKS = ((F_CE, cap.CE), (F_BECN, cap.BECN), (F_ACK_REQ, cap.ACK_REQ), (F_SOLICITED, cap.SOLICITED))
WQES = 64  # WQEs of a QP that are remembered: their lengths are those of its requests


class Logged:
    """The same members as capture.Capture. Sets events.packet."""
    def __init__(self, events):
        self.columns = cap.Columns()
        self.events = events
        self.troubles = []
        self.links = Connections()
        self.names = names_of(events.logs)
        self.files = [{"name": name, "frames": log.count, "roce": 0, "others": 0, "cut": 0}
                      for name, log in zip(self.names, events.logs)]
        self.ends = [
        ]  # of each packet: [log, QP of the sender, log, QP of the receiver]; log None: unknown
        self.flying = collections.defaultdict(
            collections.deque)  # packets that no log has received yet
        self.wqes = collections.defaultdict(lambda: collections.deque(maxlen=WQES))
        self.asked = {}  # the last request to a QP, whose first check has its length
        for e, kind in enumerate(events.type):
            if kind == SENT:
                self.sent(e)
            elif kind == RECEIVED:
                self.received(e)
            elif kind == CHECK:
                self.check(e)
            elif kind == WQE and not events.flags[e] & F_RECV:
                self.wqes[events.log[e], events.qpn[e]].append(
                    (events.addr[e], events.length[e], events.key[e]))
        self.join()

    def sent(self, e):
        ev = self.events
        p = self.add(e, (ev.log[e], ev.qpn[e]), (None, ev.value[e]))
        c = self.columns
        if c.key[p] and not c.dma[p]:
            c.dma[p] = self.length(e)
        self.flying[ev.code[e], ev.index[e], ev.value[e], ev.length[e]].append(p)

    def length(self, e):
        """Returns the bytes from the address of a request to the end of its message."""
        ev = self.events
        for addr, length, key in reversed(self.wqes[ev.log[e], ev.qpn[e]]):
            if key == ev.key[e] and addr <= ev.addr[e] <= addr + length:
                return min(addr + length - ev.addr[e], cap.NONE)
        return 0

    def received(self, e):
        ev = self.events
        flying = self.flying.get((ev.code[e], ev.index[e], ev.qpn[e], ev.length[e]), ())
        loop = ev.flags[e] & F_LOOPBACK
        for at, p in enumerate(islice(flying, 64)):
            log, qpn = self.ends[p][0]
            if (log == ev.log[e]) == bool(loop) and ev.value[e] in (0, qpn):
                self.ends[p][1] = (ev.log[e], ev.qpn[e])
                del flying[at]
                break
        else:
            p = self.add(e, (None, ev.value[e]), (ev.log[e], ev.qpn[e]))
        ev.packet[e] = p
        self.asked[ev.log[e], ev.qpn[e]] = p

    def check(self, e):
        """Sets a request's length: its first check covers all its bytes."""
        ev, c = self.events, self.columns
        p = self.asked.pop((ev.log[e], ev.qpn[e]), None) if ev.code[e] == REMOTE else None
        if p is not None and not c.dma[p] and (c.key[p], c.va[p]) == (ev.key[e], ev.addr[e]):
            c.dma[p] = min(ev.length[e], cap.NONE)

    def add(self, e, source, dest):
        ev, c = self.events, self.columns
        op = OPCODES.get(ev.code[e])
        flags = 0 if op else cap.MALFORMED
        for mark, bit in MARKS:
            flags |= bit if ev.flags[e] & mark else 0
        self.files[ev.log[e]]["roce"] += 1
        for name, value in (("time", ev.time[e]), ("number", e + 1), ("file", ev.log[e]),
                            ("flow", 0), ("op", ev.code[e]), ("psn", ev.index[e] & 0xFFFFFF),
                            ("length", min(ev.length[e], 0xFFFF)), ("flags", flags),
                            ("syndrome",
                             ev.detail[e] >> 24 if ev.flags[e] & F_AETH else 0), ("key", ev.key[e]),
                            ("va", ev.addr[e]), ("dma", 8 if op and op.kind == ATOMIC else 0)):
            getattr(c, name).append(value)
        c.heads.append(b"")
        self.ends.append([source, dest])
        ev.packet[e] = len(c) - 1
        return len(c) - 1

    # ---- flows ----

    def join(self):
        """Assigns each packet to a flow. If no log shows the adapter at an end, other packets of
        these QPs show it."""
        met = {}
        for source, dest in self.ends:
            for (log, qpn), (other, peer) in ((source, dest), (dest, source)):
                if log is not None and other is not None:
                    met[log, qpn, peer] = other
        self.flows, ids, linked = [], {}, {}
        c = self.columns
        for p, ((a, qa), (b, qb)) in enumerate(self.ends):
            a = met.get((b, qb, qa)) if a is None else a
            b = met.get((a, qa, qb)) if b is None else b
            src, dst = self.address(a, b), self.address(b, a)
            op, cls = OPCODES.get(c.op[p]), c.op[p] & 0xE0
            key = (src, dst, cls, qb, None, qa)
            which = ids.get(key)
            if which is None:
                which = ids[key] = len(self.flows)
                link = None
                if op and op.kind != "CNP" and cls != UD:
                    link = linked[key] = Flow((src, dst, cls, qb, 0), b"", b"", p + 1)
                    link.peer = linked.get((dst, src, cls, qa, None, qb))
                    if link.peer is not None:
                        link.peer.peer = link
                self.flows.append(cap.Flow(link.key if link else key, (src, dst), link))
            c.flow[p] = which
            self.measure(p, op, self.flows[which].link)

    def address(self, log, other):
        return self.names[
            log] if log is not None else f"peer of {self.names[other]}" if other is not None else "?"

    def measure(self, p, op, link):
        """Collects the sizes that show the path MTU."""
        if link is None or not (op.data or op.kind == READ_RESPONSE):
            return
        length = self.columns.length[p]
        if not op.last:
            (link.response_sizes if op.response else link.sizes)[length] += 1
        link.longest = max(link.longest, length)


def names_of(logs):
    """Returns a name for each adapter: that of its log, with the file's name or the address if
    others have the same."""
    def stem(log):
        return os.path.splitext(os.path.basename(log.path))[0]

    count = collections.Counter(log.name for log in logs)
    files = collections.Counter(map(stem, logs))
    named = [
        log.name if log.name and count[log.name] == 1 else f"{stem(log)} {log.name}".rstrip()
        if files[stem(log)] == 1 else f"{log.name or 'adapter'} {log.mac.hex(':')}" for log in logs
    ]
    again = collections.Counter()
    for at, name in enumerate(named):
        again[name] += 1
        if again[name] > 1:
            named[at] = f"{name} ({again[name]})"
    return named

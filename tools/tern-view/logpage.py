# SPDX-License-Identifier: GPL-2.0-or-later
"""What a page holds of event logs: columns of events and work requests, the rest of each record in pieces, tables of keys and QPs."""
import base64
import collections
import zlib
from array import array

import lognames
from capture import CHUNK, NONE
from events import CHECK, FIELDS, LOST, POSTED, RECEIVED, SENT
from lives import Keys, states
from logged import names_of
from timeline import Timeline

# Columns that the page unpacks when it opens. The other members of a record are in the pieces.
COLUMNS = ("log", "type", "code", "qpn", "lane", "shown", "packet", "place", "life")
PIECE = ("flags", "addr", "length", "key", "index", "value", "detail")
# A page with more events leaves out those that repeat what other parts of it say.
MOST_EVENTS = 3_000_000


class LogPart:
    def __init__(self, events, report):
        self.events, self.report = events, report
        self.timeline = Timeline(events, report)
        self.keys = Keys(events)
        self.states = states(events, self.timeline)
        self.name_ends()
        self.kept = self.fewer()

    def name_ends(self):
        """The numbers of QPs that captures do not show."""
        for key, qp in self.timeline.qps.items():
            if qp.lane != NONE:
                end = self.report.pairs[qp.lane >> 1]["ab"[qp.lane & 1]]
                if end["qp"] is None and end["address"] != "others":
                    end["qp"] = key & 0xFFFFFFFF

    def fewer(self):
        """The indices of the events of the page, or None for all."""
        ev = self.events
        if len(ev) <= MOST_EVENTS:
            return None
        shown, packet = self.timeline.shown, ev.packet
        return [e for e, kind in enumerate(ev.type) if not (
            (kind == CHECK and not shown[e]) or kind == POSTED or (kind in (SENT, RECEIVED) and packet[e] != NONE))][:MOST_EVENTS]

    def column(self, name):
        ev, t = self.events, self.timeline
        made = {"lane": t.lane, "shown": t.shown, "place": t.place, "life": self.keys.life}
        return made[name] if name in made else getattr(ev, name)

    def columns(self, start, deltas):
        """{name: column}. deltas(times, start): differences between times."""
        keep = self.kept
        chosen = {name: self.column(name) for name in (*COLUMNS, "time")}
        work = {name: getattr(self.timeline.work, name) for name in self.timeline.work.TYPES}
        if keep is not None:
            chosen = {name: array(column.typecode, map(column.__getitem__, keep)) for name, column in chosen.items()}
            number = self.numbers()
            for name in ("doorbell", "posted", "wqe", "sent", "cqe", "interrupt", "check"):
                work[name] = array("I", (number[e] if e != NONE else NONE for e in work[name]))
        found = {"e-delta": deltas(chosen.pop("time"), start)}
        found.update((f"e-{name}", column) for name, column in chosen.items())
        found.update((f"w-{name}", column) for name, column in work.items())
        return found

    def numbers(self):
        """The number in the page of each event."""
        number = array("I", [NONE]) * len(self.events)
        for at, e in enumerate(self.kept):
            number[e] = at
        return number

    def pieces(self, planes):
        """The other members of the records, by the thousand. planes(column): its bytes, the first ones first."""
        ev = self.events
        columns = [getattr(ev, name) for name in PIECE]
        if self.kept is not None:
            columns = [array(column.typecode, map(column.__getitem__, self.kept)) for column in columns]
        for at in range(0, len(columns[0]), CHUNK):
            yield base64.b64encode(zlib.compress(b"".join(planes(column[at:at + CHUNK]) for column in columns), 6)).decode()

    def jumps(self):
        times = self.events.time if self.kept is None else [self.events.time[e] for e in self.kept]
        return [(i + 1, b - a) for i, (a, b) in enumerate(zip(times, times[1:])) if b - a >= NONE]

    def meta(self, start):
        ev, c = self.events, self.report.c
        keys, qps = self.keys.table(), self.states
        if self.kept is not None:
            number = self.numbers()
            for life in keys["lives"]:
                life["begin"], life["end"] = (number[e] if e >= 0 else -1 for e in (life["begin"], life["end"]))
                life["steps"] = [[number[step[0]], *step[1:]] for step in life["steps"] if number[step[0]] != NONE]
            for qp in qps["qps"]:
                qp["steps"] = [[number[step[0]], *step[1:]] for step in qp["steps"] if number[step[0]] != NONE]
            qps["resets"] = {log: [number[e] for e in found] for log, found in qps["resets"].items()}
        last = c.time[-1] if len(c) else 0
        logs = [{"name": name, "file": log.path.rsplit("/", 1)[-1], "mac": log.mac.hex(":"), "records": log.count, "lost": log.lost,
                 "virtual": log.clock == 1, "shift": log.shift, "begin": log.time[0] - start if log.count else None,
                 "end": log.time[-1] - start if log.count else None,
                 "after": self.after(which, log) if log.count and log.time[-1] < last else 0}
                for which, (name, log) in enumerate(zip(names_of(ev.logs), ev.logs))]
        losses = [(e, min(ev.length[e], 1 << 53)) for e, kind in enumerate(ev.type) if kind == LOST]
        return {"logs": logs, "events": len(ev) if self.kept is None else len(self.kept), "all": len(ev), "work": len(self.timeline.work.log),
                "jumps": self.jumps(), "piece": [(name, array(FIELDS[name]).itemsize) for name in PIECE],
                "totals": [[*key, n] for key, n in sorted(collections.Counter(zip(ev.type, ev.code)).items())],
                "refused": sum(kind == CHECK and shown & 2 > 0 for kind, shown in zip(ev.type, self.timeline.shown)),
                "lost": [[e, n] for e, n in losses[:100]], "keys": keys, "qps": qps,
                "names": {name.lower(): getattr(lognames, name) for name in ("TYPES", "DOORBELLS", "WORK", "STATUS", "DROPS", "CHECKS", "RESULTS",
                          "CHANGES", "KINDS", "PAGE_FAULTS", "FAULTS", "STATES", "EVENTS", "ACCESS", "RULES")}}

    def after(self, which, log):
        """Packets of the adapter's QPs that were captured after the log had ended."""
        lanes = {qp.lane >> 1 for key, qp in self.timeline.qps.items() if key >> 32 == which and qp.lane != NONE}
        return sum(t > log.time[-1] and pair in lanes for t, pair in zip(self.report.c.time, self.report.pair))


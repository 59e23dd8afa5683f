# SPDX-License-Identifier: GPL-2.0-or-later
"""The part of a page that comes from event logs: columns of events and work requests, the other
members of records in pieces, tables of keys and QPs."""
import base64
import collections
import zlib
from array import array
from itertools import pairwise

import log_names
from capture import CHUNK, NONE
from events import CHECK, FIELDS, POSTED, RECEIVED, SENT
from lifetimes import Keys, states
from log_packets import names_of
from rates import Rates
from timeline import WRONG, Timeline

# Columns that the page unpacks when it opens. The pieces have the other members of a record.
COLUMNS = ("log", "type", "code", "qpn", "lane", "shown", "packet", "place", "life")
PIECE = ("flags", "addr", "length", "key", "index", "value", "detail")
# A page with more events omits those that repeat information of other parts.
MOST_EVENTS = 3_000_000


def renumbered(column, number):
    """Returns a column of events, each as its number in the page."""
    return array("I", (number[e] if e != NONE else NONE for e in column))


class LogPart:
    def __init__(self, events, report):
        self.events, self.report = events, report
        self.timeline = Timeline(events, report)
        self.keys = Keys(events)
        self.states = states(events, self.timeline)
        self.rates = Rates(events)
        self.names = names_of(events.logs)
        self.name_ends()
        self.kept = self.fewer()

    def name_ends(self):
        """Returns the numbers of QPs that captures do not show."""
        for key, qp in self.timeline.qps.items():
            if qp.lane != NONE:
                end = self.report.pairs[qp.lane >> 1]["ab"[qp.lane & 1]]
                if end["qp"] is None and end["address"] != "others":
                    end["qp"] = key & 0xFFFFFFFF

    def fewer(self):
        """Returns the indices of the events of the page, or None for all."""
        ev = self.events
        if len(ev) <= MOST_EVENTS:
            return None
        shown, packet = self.timeline.shown, ev.packet
        return [
            e for e, kind in enumerate(ev.type)
            if not ((kind == CHECK and not shown[e]) or kind == POSTED or
                    (kind in (SENT, RECEIVED) and packet[e] != NONE))
        ][:MOST_EVENTS]

    def column(self, name):
        ev, t = self.events, self.timeline
        made = {"lane": t.lane, "shown": t.shown, "place": t.place, "life": self.keys.life}
        return made[name] if name in made else getattr(ev, name)

    def columns(self, start, deltas):
        """Returns {name: column}. deltas(times, start): differences between times."""
        keep = self.kept
        chosen = {name: self.column(name) for name in (*COLUMNS, "time")}
        work = {name: getattr(self.timeline.work, name) for name in self.timeline.work.TYPES}
        rates = {name: getattr(self.rates, name) for name in ("event", "next", "rate")}
        if keep is not None:
            chosen = {
                name: array(column.typecode, map(column.__getitem__, keep))
                for name, column in chosen.items()
            }
            number = self.numbers()
            for name in ("doorbell", "posted", "wqe", "sent", "cqe", "interrupt", "check"):
                work[name] = renumbered(work[name], number)
            for name in ("event", "next"):
                rates[name] = renumbered(rates[name], number)
        found = {"e-delta": deltas(chosen.pop("time"), start)}
        found.update((f"e-{name}", column) for name, column in chosen.items())
        found.update((f"w-{name}", column) for name, column in work.items())
        found.update((f"r-{name}", column) for name, column in rates.items())
        return found

    def numbers(self):
        """Returns the number in the page of each event."""
        number = array("I", [NONE]) * len(self.events)
        for at, e in enumerate(self.kept):
            number[e] = at
        return number

    def pieces(self, planes):
        """Returns the other members of the records, in pieces of a thousand. planes(column): its
        bytes, grouped by position."""
        ev = self.events
        columns = [getattr(ev, name) for name in PIECE]
        if self.kept is not None:
            columns = [
                array(column.typecode, map(column.__getitem__, self.kept)) for column in columns
            ]
        for at in range(0, len(columns[0]), CHUNK):
            yield base64.b64encode(
                zlib.compress(b"".join(planes(column[at:at + CHUNK]) for column in columns),
                              6)).decode()

    def jumps(self, start):
        """Returns the differences between times that do not fit the column."""
        times = self.events.time if self.kept is None else [self.events.time[e] for e in self.kept]
        return [(i, b - a) for i, (a, b) in enumerate(pairwise([start, *times])) if b - a >= NONE]

    def meta(self, start):
        ev = self.events
        keys, qps = self.tables()
        names = ("TYPES", "DOORBELLS", "WORK", "STATUS", "DROPS", "CHECKS", "RESULTS", "CHANGES",
                 "KINDS", "PAGE_FAULTS", "FAULTS", "STATES", "EVENTS", "ACCESS", "RULES")
        return {
            "logs": [self.about(which, log, start) for which, log in enumerate(ev.logs)
                     ], "events": len(ev) if self.kept is None else len(self.kept), "all": len(ev),
            "work": len(self.timeline.work.log), "rates": len(self.rates.event),
            "jumps": self.jumps(start), "piece": [
                (name, array(FIELDS[name]).itemsize) for name in PIECE
            ], "totals": [[*key, n]
                          for key, n in sorted(collections.Counter(zip(ev.type, ev.code)).items())],
            "refused": sum(kind == CHECK and shown & WRONG > 0
                           for kind, shown in zip(ev.type, self.timeline.shown)), "keys": keys,
            "qps": qps, "names": {name.lower(): getattr(log_names, name) for name in names},
        }

    def tables(self):
        """Returns lifetimes of keys and states of QPs, with the numbers that events have in the
        page."""
        keys, qps = self.keys.table(), self.states
        if self.kept is None:
            return keys, qps
        number = self.numbers()

        def steps(found):
            return [[number[step[0]], *step[1:]] for step in found if number[step[0]] != NONE]

        def event(e):
            return -1 if e < 0 or number[e] == NONE else number[e]

        lives = [{
            **life, "begin": event(life["begin"]), "end": event(life["end"]),
            "steps": steps(life["steps"])
        } for life in keys["lives"]]
        resets = {
            log: [number[e] for e in found if number[e] != NONE]
            for log, found in qps["resets"].items()
        }
        return {**keys, "lives": lives}, {
            **qps, "resets": resets,
            "qps": [{**qp, "steps": steps(qp["steps"])} for qp in qps["qps"] if steps(qp["steps"])]
        }

    def about(self, which, log, start):
        """Returns the data for the header and the notices of the page. `after`: packets after
        the end of the log."""
        last = self.report.c.time[-1] if len(self.report.c) else 0
        begin, end = (log.time[0] - start, log.time[-1] - start) if log.count else (None, None)
        return {
            "name": self.names[which], "mac": log.mac.hex(":"), "lost": log.lost, "full": log.full,
            "shift": log.shift, "begin": begin, "end": end,
            "after": self.after(which, log) if log.count and log.time[-1] < last else 0
        }

    def after(self, which, log):
        """Returns the packets of the adapter's QPs that were captured after the end of the log."""
        lanes = {
            qp.lane >> 1 for key, qp in self.timeline.qps.items()
            if key >> 32 == which and qp.lane != NONE
        }
        return sum(t > log.time[-1] and pair in lanes
                   for t, pair in zip(self.report.c.time, self.report.pair))

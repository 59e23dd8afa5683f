# SPDX-License-Identifier: GPL-2.0-or-later
"""Makes the page: one HTML file with the data, our scripts and the style. It loads no other
file."""
import base64
import collections
import datetime
import os
import sys
import zlib
from array import array
from itertools import pairwise

import capture as cap
import refusals
import message_tracker as msg
from log_packets import Logged
from log_columns import LogPart
from roce.headers import HEADER_SIZE, OPCODES, UC, UD
from webpage import Page, escape, safe_json

HERE = os.path.join(os.path.dirname(os.path.realpath(__file__)), "page")
SCRIPTS = ("format", "data", "events", "headers", "filter", "view_state", "overview", "ladder",
           "lane", "marks", "curves", "grid", "work", "details", "keys", "lifetimes", "qp_states",
           "summary", "main")
NAME = "@TITLE@ - tern-view"
# A capture may have a flow for each packet. The pairs with the fewest packets are merged into one.
MOST_PAIRS = 4096


def planes(column):
    """Returns a column's first bytes, then the second ones, ...: deflate compresses that better."""
    if sys.byteorder == "big":
        column = array(column.typecode, column)
        column.byteswap()
    raw, size = column.tobytes(), column.itemsize
    return raw if size == 1 else b"".join(raw[i::size] for i in range(size))


def packed(column):
    return base64.b64encode(zlib.compress(planes(column), 6)).decode()


def deltas(times, start):
    """Returns the differences between times, the first one from the start. Larger ones are in a
    list of their own."""
    return array("I", (min(b - a, cap.NONE) for a, b in pairwise([start, *times])))


class Report:
    """The data of the page."""
    def __init__(self, capture, story, pairs, place, events=None):
        self.capture, self.story = capture, story
        c = self.c = capture.columns
        self.pair = array("H", bytes(2 * len(c)))
        self.pairs = self.fewer(pairs, place)
        for i, flow in enumerate(c.flow):
            which, backwards = place[flow]
            self.pair[i] = self.fold[which]
            if backwards:
                c.flags[i] |= cap.BACKWARDS
        self.log = LogPart(events, self) if events is not None else None
        spans = [
            times for times in (c.time, events.time if events is not None else ()) if len(times)
        ]
        self.start = min((times[0] for times in spans), default=0)
        self.end = max((times[-1] for times in spans), default=0)

    def fewer(self, pairs, place):
        """Selects the pairs of the page, most packets first; self.fold maps each pair to its
        index there."""
        count = collections.Counter()
        for flow, n in collections.Counter(self.c.flow).items():
            count[place[flow][0]] += n
        order = self.ranked(count, pairs)
        self.fold = {which: min(at, MOST_PAIRS - 1) for at, which in enumerate(order)}
        kept = [pairs[which].text() for which in order[:MOST_PAIRS]]
        if len(order) > MOST_PAIRS:
            kept[-1] = {
                "class": "?", "a": {"address": "others", "qp": None},
                "b": {"address": f"{len(order) - MOST_PAIRS + 1} pairs", "qp": None}
            }
        return kept

    def ranked(self, count, _):
        """Returns the order of the pairs, given the packets of each."""
        return [which for which, _ in count.most_common()]

    @property
    def names(self):
        """Returns the metadata of all files."""
        logs = [os.path.basename(log.path) for log in self.log.events.logs] if self.log else []
        return logs if isinstance(self.capture,
                                  Logged) else [f["name"] for f in self.capture.files] + logs

    @property
    def troubles(self):
        return self.capture.troubles + [
            t for log in (self.log.events.logs if self.log else ()) for t in log.troubles
        ]

    def totals(self):
        """Returns counts for the summary, of all packets and by pair."""
        c, m = self.c, self.story.messages
        by_pair = collections.Counter(zip(self.pair, c.flags))
        for stats in self.pairs:
            stats.update(packets=0, messages=0, retransmitted=0, duplicates=0, gaps=0, negative=0,
                         refused=0)
        marks = collections.Counter()
        for (pair, flags), n in by_pair.items():
            stats = self.pairs[pair]
            stats["packets"] += n
            for name, bit in (("retransmitted", cap.RETRANSMITTED), ("duplicates", cap.DUPLICATE),
                              ("gaps", cap.GAP), ("negative", cap.NEGATIVE), ("refused",
                                                                              cap.REFUSED)):
                stats[name] += n if flags & bit else 0
            for bit in range(14):
                marks[bit] += n if flags >> bit & 1 else 0
        for first in m.first:
            self.pairs[self.pair[first]]["messages"] += 1
        answers = collections.Counter(s for s, f in zip(c.syndrome, c.flags) if f & cap.NEGATIVE)
        return {
            "packets": len(c), "bytes": sum(c.length), "messages": len(m.first),
            "missing": sum(self.story.gaps.values()), "marks": [marks[bit] for bit in range(14)],
            "operations": sorted(collections.Counter(c.op).items()),
            "kinds": sorted(collections.Counter(zip(m.kind, m.status)).items()),
            "negative": sorted(answers.items()), "message_bytes": sum(m.bytes)
        }

    def meta(self):
        c = self.c
        gaps = sorted(self.story.gaps.items())
        jumps = [(i, b - a) for i, (a, b) in enumerate(pairwise([self.start, *c.time]))
                 if b - a >= cap.NONE]
        return {
            "version": 1, "start": when(self.start), "duration": self.end - self.start,
            "chunk": cap.CHUNK, "files": self.capture.files, "troubles": self.troubles,
            "fromLogs": isinstance(self.capture, Logged), "pairs": self.pairs,
            "totals": self.totals(), "jumps": jumps, "gaps": [[i for i, _ in gaps],
                                                              [n for _, n in gaps]],
            "refusals": [list(r) for r in self.story.refusals[:1000]], "kinds": msg.KINDS,
            "status": msg.STATUS, "syndromes": refusals.syndromes(), "effects": refusals.EFFECTS,
            "rules": [{"code": code, "kinds": kinds, "rule": rule, "clause": clause, "page": page}
                      for code, kinds, rule, clause, page in refusals.RULES
                      ], "dropped": refusals.DROPPED, "rights": refusals.RIGHT,
            "sizes": HEADER_SIZE, "opcodes": {
                code: {
                    "name": op.name, "kind": op.kind, "headers": op.headers, "first": op.first,
                    "last": op.last, "response": op.response, "size": op.size, "unreliable": op.cls
                    in (UC, UD)
                } for code, op in OPCODES.items()
            }, "log": self.log.meta(self.start) if self.log else None,
        }

    def columns(self):
        """Returns {name: (type code, packed column)}."""
        c, m = self.c, self.story.messages
        found = {
            "delta": deltas(c.time, self.start), "pair": self.pair, "message": self.story.message
        }
        found.update(
            (name, getattr(c, name))
            for name in ("number", "file", "op", "psn", "length", "flags", "syndrome", "key"))
        found.update((f"m-{name}", getattr(m, name)) for name in m.TYPES)
        if self.log:
            found.update(self.log.columns(self.start, deltas))
        return {name: (column.typecode, packed(column)) for name, column in found.items()}

    def heads(self):
        """Returns the frames' first bytes, in pieces that the page unpacks on demand: the
        lengths, then the bytes."""
        heads = self.c.heads
        for at in range(0, len(heads), cap.CHUNK):
            part = heads[at:at + cap.CHUNK]
            yield base64.b64encode(zlib.compress(bytes(map(len, part)) + b"".join(part),
                                                 6)).decode()


def when(ns):
    """Returns UTC, to the nanosecond; a time beyond the calendar as plain seconds."""
    try:
        day = datetime.datetime(1970, 1, 1) + datetime.timedelta(seconds=ns // 10**9)
        return f"{day:%Y-%m-%d %H:%M:%S}.{ns % 10 ** 9:09} UTC"
    except OverflowError:
        return f"{ns / 1e9:.9f} s"


def elements(report):
    """(id, type of its items, text) of each part of the data."""
    for name, (code, data) in report.columns().items():
        yield f"column-{name}", code, data
    for at, data in enumerate(report.heads()):
        yield f"heads-{at}", "", data
    for at, data in enumerate(report.log.pieces(planes) if report.log else ()):
        yield f"events-{at}", "", data


def html_of(meta, parts):
    """The elements that hold the data."""
    yield f'<script type="application/json" id="meta">{safe_json(meta)}</script>\n'
    for name, code, data in parts:
        yield f'<script type="text/plain" id="{name}" data-type="{code}">{data}</script>\n'


def write(report, out):
    """Writes the page to the text file `out`."""
    Page(HERE, SCRIPTS, NAME).write(out, html_of(report.meta(), elements(report)), LIVE="",
                                    TITLE=escape(", ".join(report.names)))

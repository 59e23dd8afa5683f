# SPDX-License-Identifier: GPL-2.0-or-later
"""The lifetimes of keys and QPs in event logs: regions, windows and device memory as ranges of
time, and the states of each QP."""
from array import array

from capture import NONE
from events import CHECK, KEY, QP_STATE, RESET
from timeline import DENIED

CREATED, DESTROYED, CHANGED, OPENED, CLOSED, BOUND, UNBOUND = range(1, 8)
FAST, MW_1, DM, UNKNOWN = 2, 4, 6, 0
MOST, MOST_STEPS, MOST_RESETS = 400, 500, 1000
INDEX = 8  # TERN_KEY_INDEX_SHIFT: below are the bits of the variant


class Life:
    """A region, window or allocation from its creation to its end, or a key without an object.
    `steps`: [event, change], in order."""
    def __init__(self, log, kind, key, begin):
        self.log, self.kind, self.key, self.begin, self.end = log, kind, key, begin, -1
        self.steps, self.events, self.refused, self.left_out = [], 0, 0, 0

    def step(self, e, change):
        if len(self.steps) < MOST_STEPS:
            self.steps.append([e, change])
        else:
            self.left_out += 1


class Keys:
    """`life`: for each event about a key, the number of its lifetime in `kept`."""
    def __init__(self, events):
        self.events, self.lives, self.now = events, [], {}
        self.life = array("I", [NONE]) * len(events)
        for e, kind in enumerate(events.type):
            if kind == CHECK:
                self.check(e)
            elif kind == KEY:
                self.change(e)
            elif kind == RESET:
                self.reset(e)
        self.fewer()

    def place(self, e, memory=False):
        ev = self.events
        return ev.log[e], memory, ev.key[e] if memory else ev.key[e] >> INDEX

    def begin(self, e, place, kind, begin):
        self.now[place] = len(self.lives)
        self.lives.append(Life(self.events.log[e], kind, self.events.key[e], begin))
        return self.now[place]

    def check(self, e):
        ev = self.events
        if ev.key[e] >> INDEX < 3 and ev.index[e] != DENIED:
            return  # the keys for all memory
        place = self.place(e)
        which = self.now.get(place)
        if which is None:
            which = self.begin(e, place, UNKNOWN, -1)
        life = self.lives[which]
        life.events += 1
        life.refused += ev.index[e] == DENIED
        self.life[e] = which

    def change(self, e):
        ev = self.events
        code, kind = ev.code[e], ev.index[e]
        place = self.place(e, kind == DM)
        which = self.now.get(place)
        # A key that was refused before had no object until now.
        if which is None or code == CREATED:
            which = self.begin(e, place, kind, e if code == CREATED else -1)
        life = self.lives[which]
        life.kind = kind
        life.step(e, code)
        self.life[e] = which
        if code == DESTROYED:
            life.end = e
            del self.now[place]

    def reset(self, e):
        log = self.events.log[e]
        for place in [place for place in self.now if place[0] == log]:
            self.lives[self.now.pop(place)].end = e

    def fewer(self):
        """Returns the lifetimes that the page shows: refused ones, and those with most events."""
        order = sorted(
            range(len(self.lives)), key=lambda i:
            (-self.lives[i].refused, -(self.lives[i].events + 4 * len(self.lives[i].steps)), i))
        kept = sorted(order[:MOST])
        number = {which: at for at, which in enumerate(kept)}
        self.life = array("I", (number.get(which, NONE) for which in self.life))
        self.kept = [self.lives[which] for which in kept]

    def table(self):
        """For the page: {"total", "lives": [{log, kind, key, begin, end, uses, refused, steps}]}; a
        step with the range that it sets."""
        ev = self.events

        def step(e, change):
            return [
                e, change, ev.key[e], f"{ev.addr[e]:#x}", f"{ev.length[e]}", ev.value[e],
                ev.detail[e], ev.qpn[e]
            ]

        return {
            "total": len(self.lives), "lives": [{
                "log": life.log, "kind": life.kind, "key": life.key, "begin": life.begin,
                "end": life.end, "uses": life.events, "refused": life.refused,
                "left": life.left_out, "steps": [step(e, change) for e, change in life.steps]
            } for life in self.kept]
        }


def states(events, timeline):
    """Returns for the page: {"total", "qps": [{log, qpn, lane, steps: [[event, new, old, cause,
    reported event]]}]}, and the resets that ended them."""
    found, resets = {}, {}
    for e, kind in enumerate(events.type):
        if kind == QP_STATE:
            steps = found.setdefault((events.log[e], events.qpn[e]), [])
            if len(steps) < MOST_STEPS:
                steps.append([
                    e, events.code[e],
                    min(events.index[e], 0xFF), events.value[e], events.detail[e]
                ])
        elif kind == RESET and len(resets.setdefault(events.log[e], [])) < MOST_RESETS:
            resets[events.log[e]].append(e)
    lane = {key: timeline.qp(*key).lane for key in found}
    # QPs that have packets come first.
    order = sorted(found, key=lambda key: (lane[key] == NONE, key))[:MOST]
    return {
        "total": len(found), "resets": resets,
        "qps": [{"log": log, "qpn": qpn, "lane": lane[log, qpn], "steps": found[log, qpn]}
                for log, qpn in order]
    }

# SPDX-License-Identifier: GPL-2.0-or-later
"""The rates at which the pacer lets QPs send, from event logs."""
from array import array

from capture import NONE
from events import CLEARED, LOST, QP_STATE, RATE, RESET

MOST = 500_000  # changes in a page
LARGEST = 0xFFFFFFFF


class Rates:
    """Spans in which a QP has one rate. `event`: where each begins; `next`: the event that ends it,
    or NONE; `rate` in kbit/s."""
    def __init__(self, events):
        self.event, self.next, self.rate = array("I"), array("I"), array("I")
        self.now = {}  # (log, QP): its current span
        for e, kind in enumerate(events.type):
            if kind == RATE:
                self.change(e, events.log[e], events.qpn[e], events.length[e])
            elif kind == QP_STATE and events.code[e] in CLEARED:
                self.end(e, events.log[e], events.qpn[e])
            elif kind in (RESET, LOST):
                for key in [key for key in self.now if key[0] == events.log[e]]:
                    self.end(e, *key)

    def change(self, e, log, qpn, rate):
        self.end(e, log, qpn)
        if rate and len(self.event) < MOST:
            self.now[log, qpn] = len(self.event)
            self.event.append(e)
            self.next.append(NONE)
            self.rate.append(min(rate // 1000, LARGEST))

    def end(self, e, log, qpn):
        which = self.now.pop((log, qpn), None)
        if which is not None:
            self.next[which] = e

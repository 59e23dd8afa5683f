# SPDX-License-Identifier: GPL-2.0-or-later
"""Follows each QP in event logs: its WQEs from doorbell to CQE, the packet of an event, and the
place of the event in the ladder."""
from array import array
from bisect import bisect_left, bisect_right
from collections import Counter, deque
from itertools import islice

from capture import BACKWARDS, NONE
from events import (CHECK, CLEARED, CQE, DOORBELL, DROPPED, F_RECV, F_REFUSED, F_RESPONDER, F_WRITE,
                    FAULT, INTERRUPT, KEY, LOST, PAGE_FAULT, POSTED, QP_STATE, RATE, RECEIVED,
                    RESET, RETRY, SENT, WQE)
from roce.flows import signed
from roce.headers import ATOMIC, ATOMIC_WRITE, FLUSH, OPCODES, READ, SEND, WRITE

# The kind of message of a WQE, by TERN_WR_*.
KIND_OF = {
    1: SEND, 2: SEND, 3: SEND, 4: WRITE, 5: WRITE, 6: READ, 7: ATOMIC, 8: ATOMIC, 9: ATOMIC_WRITE,
    10: FLUSH
}
KEYED = (WRITE, READ, ATOMIC, ATOMIC_WRITE, FLUSH)
LOCAL, REMOTE, REMOTE_INV, DENIED, GRANTED = 1, 2, 6, 2, 0
DB_PAGE, DB_SQ = 0, 1
# Opcodes of a CQE with the number of an Ethernet queue, unless it is a raw QP's.
ETHERNET = (0x50, 0x51)
ERRORS, BY_DEVICE = (5, 6), 1
# How the ladder shows an event: a row of its own; as something wrong; as a mark without a row.
ROW, WRONG, MARK = 1, 2, 4
# Flags of Work: a receive; a later CQE of the queue implies that it is complete; no WQE was
# fetched.
W_RECV, W_IMPLIED, W_UNSEEN = 1, 2, 4
UNKNOWN = 0xFF


class Work:
    """Work requests. Members other than numbers of the log are indices of events; `message`: of a
    message."""
    TYPES = {
        "log": "B", "qpn": "I", "index": "I", "flags": "B", "code": "B", "status": "B",
        "length": "I", "doorbell": "I", "posted": "I", "wqe": "I", "sent": "I", "cqe": "I",
        "interrupt": "I", "check": "I", "message": "I", "lane": "I"
    }

    def __init__(self):
        for name, kind in self.TYPES.items():
            setattr(self, name, array(kind))

    def add(self, **known):
        for name in self.TYPES:
            getattr(self, name).append(
                known.get(
                    name, UNKNOWN if name == "status" else 0 if name in ("flags", "length",
                                                                         "code") else NONE))
        return len(self.log) - 1


class Qp:
    """The state of a QP of an adapter as its events are read."""
    def __init__(self):
        self.resets = 0  # of the device, or losses of events, until the last event
        self.lane = NONE  # of the ladder: pair * 2, and 1 for end B
        self.received = self.sent = NONE  # the last packet
        self.high = None  # PSN of the last message that began
        self.current = None  # the WQE that was fetched last
        self.doorbell, self.posts = None, deque(maxlen=4096)
        self.checks, self.waiting, self.open = [], deque(maxlen=1 << 16), deque()

    def forget(self):
        """Events were lost, or the QP was reset: nothing continues from before."""
        lane, resets = self.lane, self.resets
        self.__init__()
        self.lane, self.resets = lane, resets


class Timeline:
    """The result: events with their packets, lanes and places, and the work requests."""
    def __init__(self, events, report):
        self.events, self.report, self.c = events, report, report.c
        n = len(events)
        self.packet = events.packet
        self.lane = array("I", [NONE]) * n
        self.shown = array("B", bytes(n))
        self.place, self.work = array("I", bytes(4 * n)), Work()
        self.qps = {}
        self.recvs = {}
        self.last = {}
        self.page_doorbell = {}
        self.on_cq = {}
        self.resets = Counter()
        follow = {
            DOORBELL: self.doorbell, POSTED: self.posted, WQE: self.wqe, SENT: self.sent,
            RECEIVED: self.received, DROPPED: self.dropped, RETRY: self.retry, CHECK: self.check,
            KEY: self.key, PAGE_FAULT: self.page_fault, CQE: self.cqe, INTERRUPT: self.interrupt,
            FAULT: self.fault, QP_STATE: self.state, RATE: self.rate, RESET: self.reset,
            LOST: self.lost
        }
        seen = array("I", [0]) * len(
            events.logs)  # packets of the page up to here precede the event in the log
        times, logs = self.c.time, events.log
        for e, kind in enumerate(events.type):
            act = follow.get(kind)
            if act is not None:
                act(e, logs[e], self.qp(logs[e], events.qpn[e]))
            t = events.time[e]
            self.place[e] = max(bisect_left(times, t), min(bisect_right(times, t), seen[logs[e]]))
            if kind in (SENT, RECEIVED) and self.packet[e] != NONE:
                seen[logs[e]] = self.packet[e] + 1
        self.late_lanes()

    def qp(self, log, qpn):
        found = self.qps.get(log << 32 | qpn)
        if found is None:
            found = self.qps[log << 32 | qpn] = Qp()
        if found.resets != self.resets[log]:
            found.forget()
            found.resets = self.resets[log]
        return found

    def late_lanes(self):
        """Returns the lanes of events before the first packet."""
        logs, qpns = self.events.log, self.events.qpn
        for e, lane in enumerate(self.lane):
            if lane == NONE and qpns[e] and not self.of_ethernet(e):
                self.lane[e] = self.qp(logs[e], qpns[e]).lane
        w = self.work
        for i, lane in enumerate(w.lane):
            if lane == NONE:
                w.lane[i] = self.qp(w.log[i], w.qpn[i]).lane

    def of_ethernet(self, e):
        return self.events.type[e] == CQE and self.events.value[e] in ETHERNET

    # ---- work ----

    def doorbell(self, e, log, qp):
        ev = self.events
        if ev.flags[e] & F_REFUSED:
            self.shown[e] = ROW | WRONG
        elif ev.code[e] == DB_SQ:
            self.shown[e], self.lane[e] = ROW, qp.lane
            if qp.doorbell is None:
                qp.doorbell = e
        elif ev.code[e] == DB_PAGE:
            self.page_doorbell[log] = e

    def posted(self, e, log, qp):
        ev, doorbell = self.events, qp.doorbell
        if doorbell is None:
            before = qp.posts[-1][2] if qp.posts else -1
            doorbell = self.page_doorbell.get(log, -1)
            doorbell = doorbell if doorbell > before else NONE
        qp.posts.append((ev.value[e], ev.index[e], e, doorbell))
        qp.doorbell, self.lane[e] = None, qp.lane

    def wqe(self, e, log, qp):
        ev = self.events
        recv = ev.flags[e] & F_RECV
        index = ev.index[e]
        known = {
            "log": log, "qpn": ev.qpn[e], "index": index, "code": ev.code[e],
            "length": min(ev.length[e], NONE), "wqe": e, "lane": qp.lane
        }
        self.lane[e] = qp.lane
        if recv:
            message = self.message(qp.received)
            self.packet[e] = qp.received
            self.recvs[self.recv_key(e, log)] = self.work.add(flags=W_RECV, message=message,
                                                              **known)
            return
        while qp.posts and 0 <= distance(index, qp.posts[0][1]):
            qp.posts.popleft()
        posted, doorbell = qp.posts[0][2:] if qp.posts and distance(
            index, qp.posts[0][0]) >= 0 else (NONE, NONE)
        which = qp.current = self.work.add(posted=posted, doorbell=doorbell, **known)
        qp.open.append((index, which))
        if ev.code[e] in KIND_OF and not ev.value[e]:
            qp.waiting.append(which)

    def recv_key(self, e, log):
        ev = self.events
        return (log, "srq", ev.detail[e], ev.index[e]) if ev.detail[e] else (log, "qp", ev.qpn[e],
                                                                             ev.index[e])

    def cqe(self, e, log, qp):
        ev, w = self.events, self.work
        status = min(ev.code[e], UNKNOWN - 1)
        if self.of_ethernet(e) and self.recv_key(e, log) not in self.recvs:
            self.shown[e] = WRONG if status else 0
            return
        self.shown[e], self.lane[e] = ROW | (WRONG if status else 0), qp.lane
        self.packet[e] = qp.received if status != 4 else NONE
        if ev.flags[e] & F_RECV:
            which = self.recvs.pop(self.recv_key(e, log), None)
        else:
            which = None
            while qp.open and distance(ev.index[e], qp.open[0][0]) >= 0:
                index, done = qp.open.popleft()
                w.cqe[done] = e
                if index == ev.index[e]:
                    which = done
                else:
                    w.flags[done] |= W_IMPLIED
        if which is None:
            which = w.add(log=log, qpn=ev.qpn[e], index=ev.index[e],
                          flags=W_UNSEEN | (W_RECV if ev.flags[e] & F_RECV else 0), lane=qp.lane,
                          code=min(ev.value[e], UNKNOWN))
        w.cqe[which], w.status[which] = e, status
        self.on_cq[log << 32 | ev.key[e]] = (which, qp)

    def interrupt(self, e, log, _):
        ev = self.events
        self.shown[e] = MARK
        found = self.on_cq.get(log << 32 | ev.key[e]) if ev.value[e] == 0 else None
        if found is not None:
            self.work.interrupt[found[0]], self.lane[e] = e, found[1].lane

    # ---- packets ----

    def message(self, packet):
        return self.report.story.message[packet] if packet != NONE else NONE

    def set_lane(self, e, qp, packet, end):
        if packet != NONE:
            qp.lane = self.report.pair[packet] << 1 | end
        self.lane[e] = qp.lane

    def sent(self, e, log, qp):
        ev, p = self.events, self.packet[e]
        self.last[log] = (e, p)
        self.set_lane(e, qp, p, 1 if p != NONE and self.c.flags[p] & BACKWARDS else 0)
        qp.sent = p
        for check in qp.checks:
            self.packet[check] = p
        qp.checks.clear()
        op = OPCODES.get(ev.code[e])
        if op is None or op.response or not op.first or not qp.waiting or (
                qp.high is not None and signed(ev.index[e] - qp.high) <= 0):
            return
        at = next((k for k, which in enumerate(islice(qp.waiting, 64)) if self.fits(which, op, e)),
                  None)
        if at is None:
            return
        for _ in range(at + 1):
            which = qp.waiting.popleft()
        qp.high = ev.index[e]
        w = self.work
        w.sent[which], w.message[which], w.lane[which] = e, self.message(p), qp.lane

    def fits(self, which, op, e):
        """Returns whether a packet can begin the message of a WQE."""
        ev, w = self.events, self.work
        wqe = w.wqe[which]
        if KIND_OF.get(w.code[which]) != op.kind or (
                op.kind in KEYED and (ev.addr[wqe], ev.key[wqe]) != (ev.addr[e], ev.key[e])):
            return False
        return not op.last or not op.data or ev.length[wqe] == ev.length[e]

    def received(self, e, log, qp):
        p = self.packet[e]
        self.last[log] = (e, p)
        self.set_lane(e, qp, p, 0 if p != NONE and self.c.flags[p] & BACKWARDS else 1)
        qp.received = p

    def dropped(self, e, log, qp):
        """Returns the packet of the previous record, unless that could not be decoded."""
        ev = self.events
        self.shown[e] = ROW | WRONG
        before, p = self.last.get(log, (NONE, NONE))
        if ev.key[e] in (2, 3):
            p = self.recent(e)
        elif before == NONE or (ev.code[before], ev.index[before]) != (ev.code[e], ev.index[e]):
            p = NONE
        self.packet[e] = p
        self.set_lane(e,
                      Qp() if p != NONE else qp, p,
                      0 if p != NONE and self.c.flags[p] & BACKWARDS else 1)

    def recent(self, e, code=None):
        """Returns the latest packet before an event that has its opcode, QP and PSN."""
        ev, c = self.events, self.c
        code, at = ev.code[e] if code is None else code, bisect_right(c.time, ev.time[e])
        for p in range(at - 1, max(-1, at - 65), -1):
            if c.op[p] == code and c.psn[p] == ev.index[e] and self.report.capture.flows[
                    c.flow[p]].key[3] == ev.qpn[e]:
                return p
        return NONE

    def retry(self, e, _, qp):
        self.shown[e], self.lane[e] = ROW | WRONG, qp.lane

    def fault(self, e, _, qp):
        ev = self.events
        self.shown[e] = ROW | WRONG
        if ev.code[e] < 7:
            p = self.packet[e] = self.recent(e, ev.value[e])
            if p != NONE:
                self.lane[e] = self.report.pair[p] << 1 | (bool(self.c.flags[p] & BACKWARDS)
                                                           ^ bool(ev.flags[e] & F_RECV))

    # ---- keys and states ----

    def check(self, e, _, qp):
        ev = self.events
        self.lane[e] = qp.lane
        if ev.index[e] != GRANTED:
            self.shown[e] = ROW | (WRONG if ev.index[e] >= DENIED else 0)
        if ev.code[e] in (REMOTE, REMOTE_INV):
            self.packet[e] = qp.received
            return
        if ev.code[e] == LOCAL and ev.flags[e] & F_WRITE:
            self.packet[e] = qp.received
        elif ev.code[e] == LOCAL and len(qp.checks) < 256:
            qp.checks.append(e)
        if ev.index[e] == DENIED and qp.current is not None:
            self.work.check[qp.current] = e

    def key(self, e, _, qp):
        if self.events.qpn[e]:
            self.shown[e], self.lane[e] = ROW, qp.lane

    def page_fault(self, e, _, qp):
        ev = self.events
        self.shown[e], self.lane[e] = ROW | (WRONG if ev.code[e] >= 3 else 0), qp.lane
        self.packet[e] = qp.received if ev.flags[e] & F_RESPONDER else NONE

    def state(self, e, _, qp):
        ev = self.events
        wrong = ev.code[e] in ERRORS and ev.value[e] == BY_DEVICE
        self.shown[e], self.lane[e] = ROW | (WRONG if wrong else 0), qp.lane
        if wrong:
            self.packet[e] = qp.received
        if ev.code[e] in CLEARED:
            qp.forget()

    def rate(self, e, _, qp):
        self.lane[e] = qp.lane

    def reset(self, e, log, _):
        self.resets[log] += 1
        self.last.pop(log, None)

    def lost(self, e, log, qp):
        self.shown[e] = WRONG
        self.reset(e, log, qp)


def distance(a, b):
    """Returns a - b of 32-bit indices that wrap."""
    return ((a - b + (1 << 31)) & 0xFFFFFFFF) - (1 << 31)

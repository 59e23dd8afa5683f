# SPDX-License-Identifier: GPL-2.0-or-later
"""Finds messages, retransmissions, duplicates and gaps in the packets of a capture.

A requester's PSNs are followed as numbers that do not wrap. Questions that a capture does not
answer stay open: a message without an answer in it has no end."""
from array import array
from bisect import bisect_left, bisect_right
from heapq import heappop, heappush

from capture import BAD_ICRC, DUPLICATE, GAP, MALFORMED, NEGATIVE, NONE, REFUSED, RETRANSMITTED
from roce.flows import signed
from roce.headers import ACK, ATOMIC_ACK, FLUSH, NOTIFY, OPCODES, RC, READ, READ_RESPONSE, SEND, XRC

OPEN, DONE, SENT, INVALID, ACCESS, OPERATIONAL, OTHER = range(7)
STATUS = [
    "no answer", "acknowledged", "sent (unreliable)", "NAK: invalid request",
    "NAK: remote access error", "NAK: remote operational error", "NAK: other"
]
KINDS = ["SEND", "WRITE", "READ", "ATOMIC", "FLUSH", "ATOMIC_WRITE"]
# A request that is this far from the expected PSN belongs to a new connection of the QP.
FAR = 1 << 16
MOST_HOLES = 4096


class Messages:
    """The messages, in the order in which they begin."""
    TYPES = {
        "first": "I", "last": "I", "answer": "I", "bytes": "I", "packets": "I", "repeats": "I",
        "waits": "I", "kind": "B", "status": "B"
    }

    def __init__(self):
        for name, kind in self.TYPES.items():
            setattr(self, name, array(kind))

    def begin(self, packet, kind, size):
        for name, value in (("first", packet), ("last", packet), ("answer", NONE), ("bytes", size),
                            ("packets", 0), ("repeats", 0), ("waits", 0), ("kind", kind), ("status",
                                                                                           OPEN)):
            getattr(self, name).append(value)
        return len(self.first) - 1


class Requester:
    """The requests of one flow. starts, ends, ids: of the messages of this generation of the QP, by
    PSN.

    Acknowledgements have been applied to the first `settled` messages: only a response of its own
    changes one of them, or a repeated request that begins a message there, which is in `late`."""
    def __init__(self, mtu):
        self.mtu = mtu
        self.next = None  # the expected PSN
        self.origin = 0  # the first PSN of this generation
        self.begin = NONE  # the packet that began it
        self.acked = 0  # everything below was acknowledged
        self.open = None  # the message whose LAST has not come
        self.read_next = 0  # the next packet of READ responses
        self.read_high = 0
        self.read_whole = 0  # responses have come up to here, without a gap
        self.starts, self.ends, self.ids, self.settled = [], [], [], 0
        self.late = []  # heap: first PSNs
        self.holes = set()  # PSNs that were skipped, and have not arrived yet

    def restart(self, psn, packet):
        self.begin = packet
        self.next = self.origin = self.acked = self.read_next = self.read_high = self.read_whole = psn + (
            1 << 24)
        self.open = None
        self.starts, self.ends, self.ids, self.settled = [], [], [], 0
        self.late = []
        self.holes = set()

    def find(self, psn):
        """Returns the index of the message that has this PSN, or None."""
        at = bisect_right(self.starts, psn) - 1
        return at if at >= 0 and self.ends[at] >= psn else None


class Story:
    """The result: messages, each packet's message, gaps by packet, refusals."""
    def __init__(self, capture, back):
        self.columns, self.capture, self.back = capture.columns, capture, back
        self.messages = Messages()
        self.message = array("I", [NONE]) * len(self.columns)
        self.gaps, self.refusals = {}, []
        self.requesters = {}
        for i in range(len(self.columns)):
            if not self.columns.flags[i] & (BAD_ICRC | MALFORMED):
                self.packet(i)

    def requester(self, flow):
        found = self.requesters.get(flow)
        if found is None:
            link = self.capture.flows[flow].link
            mtu, least = self.capture.links.path_mtu(link) if link else (None, 4096)
            found = self.requesters[flow] = Requester(mtu or least)
        return found

    def packet(self, i):
        c = self.columns
        op, flow = OPCODES[c.op[i]], c.flow[i]
        if op.kind == NOTIFY:
            return
        if op.response:
            peer = self.back.get(flow)
            if peer is not None and peer in self.requesters:
                self.response(i, op, self.requesters[peer])
            elif op.kind == ACK and c.syndrome[i] >> 5:
                c.flags[i] |= NEGATIVE
        elif op.cls in (RC, XRC):
            self.reliable(i, op, self.requester(flow))
        else:
            self.unreliable(i, op, self.requester(flow))

    def unreliable(self, i, op, r):
        """Handles datagrams and UC: a message is complete with its LAST."""
        psn = self.columns.psn[i]
        if r.next is None:
            r.restart(psn, i)
        ahead = signed(psn - r.next)
        if ahead > 0 and ahead < FAR:
            self.gap(i, ahead)
            r.open = None
        elif ahead == -1:
            self.columns.flags[i] |= DUPLICATE
            return
        r.next = psn + 1
        self.place(i, op, r)
        if op.last and r.open is not None:
            self.messages.status[r.open] = SENT
            r.open = None

    def place(self, i, op, r):
        """Adds a request that arrives for the first time to its message; returns the message or
        None."""
        m = self.messages
        if op.first:
            r.open = m.begin(i, KINDS.index(op.kind), self.size(i, op))
        if r.open is None:
            return None
        self.add(i, op, r.open)
        m.last[r.open] = i
        return r.open

    def add(self, i, op, which):
        """Counts a packet that arrives for the first time."""
        m = self.messages
        self.message[i] = which
        m.packets[which] += 1
        if op.kind == SEND:
            m.bytes[which] = min(m.bytes[which] + self.columns.length[i], NONE)

    def gap(self, i, size):
        self.columns.flags[i] |= GAP
        self.gaps[i] = size

    def reliable(self, i, op, r):
        c = self.columns
        psn = c.psn[i]
        if r.next is None:
            r.restart(psn, i)
        ahead = signed(psn - r.next)
        at_origin = ahead and r.acked == r.next and (r.origin - psn) & 0xFFFFFF == 0
        if op.first and (abs(ahead) > FAR or (at_origin and not self.alike(i, r.begin))):
            r.restart(psn, i)
            ahead = 0
        at = r.next + ahead
        if ahead < 0:
            self.repeated(i, op, r, at)
            return
        if ahead:
            self.gap(i, ahead)
            if ahead <= MOST_HOLES - len(r.holes):
                r.holes.update(range(r.next, at))
            # Missing packets are assumed to belong to the message that continues.
            if r.open is not None and (not op.data
                                       or self.messages.kind[r.open] != KINDS.index(op.kind)):
                r.open = None
        count = self.psns(i, op, r)
        r.next = at + count
        which = self.place(i, op, r)
        if which is not None:
            if op.first:
                r.starts.append(at)
                r.ends.append(at + count - 1)
                r.ids.append(which)
            else:
                r.ends[-1] = at
            if op.last:
                r.open = None

    def alike(self, i, j):
        """Returns whether two requests have the same headers: the later one is taken for a
        duplicate, although a new connection of the QP may begin like that."""
        c = self.columns
        return c.heads[i] == c.heads[j] and all(column[i] == column[j]
                                                for column in (c.op, c.length, c.va, c.key))

    def repeated(self, i, op, r, at):
        """Handles a request whose PSN is before the expected one: the responder has it, or it
        was lost earlier."""
        place = r.find(at)
        # A READ whose responses are missing is no duplicate, although later ones have acknowledged
        # it.
        unanswered = op.kind == READ and at >= r.read_whole
        self.columns.flags[i] |= DUPLICATE if at < r.acked and not unanswered else RETRANSMITTED
        if place is None:
            self.late(i, op, r, at)
        else:
            which = self.message[i] = r.ids[place]
            self.messages.repeats[which] += 1
            if at in r.holes:
                r.holes.discard(at)
                self.add(i, op, which)
            if self.messages.status[which] == OPEN:
                self.messages.last[which] = max(self.messages.last[which], i)

    def size(self, i, op):
        return 0 if op.kind in (SEND, FLUSH) else self.columns.dma[i]

    def psns(self, i, op, r):
        return max(1, -(-self.columns.dma[i] // r.mtu)) if op.kind == READ else 1

    def late(self, i, op, r, at):
        """Handles a repeated request whose first transmission the capture does not have."""
        place = bisect_right(r.starts, at)
        if op.first:
            which = self.messages.begin(i, KINDS.index(op.kind), self.size(i, op))
            r.starts.insert(place, at)
            r.ends.insert(place, at + self.psns(i, op, r) - 1)
            r.ids.insert(place, which)
            if place < r.settled:
                r.settled += 1
                heappush(r.late, at)
        elif place and r.ends[place - 1] == at - 1:
            which = r.ids[place - 1]
            r.ends[place - 1] = at
        else:
            return
        self.messages.last[which] = i
        self.add(i, op, which)

    def response(self, i, op, r):
        if r.next is None:
            return
        c = self.columns
        at = r.next - 1 + signed(c.psn[i] - (r.next - 1))
        if op.kind == READ_RESPONSE:
            self.read_response(i, op, r, at)
        else:
            syndrome = c.syndrome[i]
            kind = syndrome >> 5 if op.kind == ACK else 0
            if kind:
                c.flags[i] |= NEGATIVE
                self.negative(i, r, at, syndrome)
                return
            if at < r.acked - 1 or (op.kind == ATOMIC_ACK and at == r.acked - 1):
                c.flags[i] |= DUPLICATE
        place = r.find(at)
        if place is not None:
            self.message[i] = r.ids[place]
        own = place if op.kind == ATOMIC_ACK or (op.kind == READ_RESPONSE and op.last) else None
        self.acknowledge(i, r, at, own)

    def read_response(self, i, op, r, at):
        c = self.columns
        if at < r.read_high:
            c.flags[i] |= RETRANSMITTED
        elif not op.first and at > r.read_next:
            self.gap(i, at - r.read_next)
        # The first response answers a request in the capture, so no earlier one was requested.
        if op.first or at <= r.read_whole:
            r.read_whole = max(r.read_whole, at + 1)
        r.read_next = at + 1
        r.read_high = max(r.read_high, at + 1)

    def acknowledge(self, i, r, at, own=None):
        """Marks everything up to `at` as arrived; READs and atomics are complete only with their
        own response (`own`)."""
        r.acked = min(max(r.acked, at + 1), r.next)
        m = self.messages
        whole = bisect_right(r.ends, at)
        for place in range(r.settled, whole):
            if m.kind[r.ids[place]] < 2:
                self.done(i, r.ids[place])
        r.settled = max(r.settled, whole)
        if own is not None and own < whole:
            self.done(i, r.ids[own])
        while r.late and r.late[0] <= at:
            place = r.find(r.late[0])
            if r.ends[place] > at:
                break
            if m.kind[r.ids[place]] < 2:
                self.done(i, r.ids[place])
            heappop(r.late)

    def done(self, i, which):
        if self.messages.status[which] == OPEN:
            self.messages.status[which], self.messages.answer[which] = DONE, i

    def negative(self, i, r, at, syndrome):
        m = self.messages
        before = bisect_left(r.starts, at)
        if before:
            self.acknowledge(i, r, at - 1)
        place = r.find(at)
        if place is None:
            return
        which = self.message[i] = r.ids[place]
        if syndrome >> 5 == 1:
            m.waits[which] += 1
        elif syndrome >> 5 == 3 and syndrome != 0x60:
            m.status[which] = {0x61: INVALID, 0x62: ACCESS, 0x63: OPERATIONAL}.get(syndrome, OTHER)
            m.answer[which] = i
            self.refuse(i, r, at, which)

    def refuse(self, i, r, at, which):
        """Marks the request that a NAK names: the last packet of this PSN before the NAK."""
        c, m = self.columns, self.messages
        psn = c.psn[i]
        flow = c.flow[m.first[which]]
        found = next((j for j in range(min(i, m.last[which]), m.first[which] - 1, -1)
                      if c.flow[j] == flow and c.psn[j] == psn and not OPCODES[c.op[j]].response),
                     m.first[which])
        c.flags[found] |= REFUSED
        self.refusals.append((found, i, which))

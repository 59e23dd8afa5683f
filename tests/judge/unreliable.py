# SPDX-License-Identifier: GPL-2.0-or-later
"""Unreliable connections and datagrams: without retransmissions and responses."""
from roce.flows import PSN_MASK, signed
from messages import Messages

# A longer step of the PSNs means another generation of the QP.
NEAR = 1024


class UcStream:
    """The packets of one unreliable connection in one direction."""
    def __init__(self, report, mtu, complete, orderly):
        self.report, self.complete, self.orderly = report, complete, orderly
        self.mtu = mtu
        self.next = None

    def begin(self, p, unknown):
        self.messages = Messages(self.report, *self.mtu)
        if unknown:
            self.messages.lost()
        self.base = self.next = p.psn

    def packet(self, p):
        step = 0 if self.next is None else signed(p.psn - self.next)
        if self.next is None:
            self.begin(p, not p.op.first)
        elif step and p.op.first and (abs(step) > NEAR or p.psn == self.base):
            self.begin(p, False)  # the QP was reconnected
        elif step and (self.complete or (self.orderly and step < 0)):
            self.report.complain("uc-psn", p, f"expected {self.next:#x}")
            self.messages.lost()
        elif step:
            self.messages.lost()
        self.report.checked["uc-psn"] += 1
        self.next = p.psn + 1 & PSN_MASK
        self.messages.packet(p)


class Datagrams:
    """PSNs of UD QPs. A QP counts all its datagrams, whatever their destination."""
    def __init__(self, report, complete):
        self.report = report
        self.complete = complete  # by MAC: whether the capture has everything that it sends
        self.last = {}  # (MAC, QP): (PSN, destination QP)

    def packet(self, p):
        if not self.complete(p.smac):
            return
        key = (p.smac, p.source_qp)
        last = self.last.get(key)
        self.last[key] = (p.psn, p.dest_qp)
        if last is None:
            return
        self.report.checked["ud-psn"] += 1
        step = signed(p.psn - last[0])
        # A datagram to a group is sent to the wire and looped back. A step back or a long step
        # means another generation of the QP.
        if step == 1 or (step == 0 and p.dest_qp == last[1] == 0xFFFFFF) or step < 0 or step > 64:
            return
        self.report.complain("ud-psn", p, f"the one before was {last[0]:#x}")

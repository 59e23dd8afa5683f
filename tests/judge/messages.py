# SPDX-License-Identifier: GPL-2.0-or-later
"""FIRST, MIDDLE, LAST, ONLY: how new packets of a sender form messages, in RC, XRC and UC."""
from roce.headers import MTUS, UC, WRITE, XRC

UNKNOWN = "unknown"


class Messages:
    """Follows the packets of one sender in the order of their PSNs."""
    def __init__(self, report, mtu, least_mtu):
        self.report = report
        self.mtu, self.least_mtu = mtu, least_mtu
        self.kind = None  # of the current message, or UNKNOWN
        self.left = None  # remaining bytes of a WRITE
        self.srq = None  # of an XRC message

    def lost(self):
        """Packets are missing from the capture, or it begins here."""
        self.kind = UNKNOWN

    def packet(self, p):
        """A packet sent for the first time."""
        op, checked, bad = p.op, self.report.checked, self.report.complain
        checked["opcode-order"] += 1
        begins = op.first or not op.data
        if self.kind is not UNKNOWN:
            # The sender of an unreliable connection may abandon a message that it cannot read from
            # memory.
            if begins and self.kind and op.cls != UC:
                bad("opcode-order", p, f"within a {self.kind}")
            if not begins and self.kind != op.kind:
                bad("opcode-order", p,
                    f"within a {self.kind}" if self.kind else "no message is under way")
                self.left = self.srq = None
        elif not begins:
            self.left = self.srq = None
        if op.data:
            self.size(p)
            if op.kind == WRITE:
                self.write(p)
        if op.cls == XRC:
            self.same_srq(p, begins)
        self.kind = None if op.last else op.kind

    def size(self, p):
        op, checked, bad = p.op, self.report.checked, self.report.complain
        if not op.last:
            checked["packet-full"] += 1
            if p.length not in MTUS or p.length != (self.mtu or p.length):
                bad("packet-full", p, f"{p.length} bytes, path MTU {self.mtu}")
            return
        checked["last-length"] += 1
        if p.length > (self.mtu or MTUS[-1]) or (not op.first and p.length == 0):
            bad("last-length", p, f"{p.length} bytes, path MTU {self.mtu}")

    def write(self, p):
        """The message must have the length in the RETH."""
        if p.op.first:
            self.left = p.dma_length
        if self.left is None:
            return
        self.report.checked["write-length"] += 1
        self.left -= p.length
        if self.left < 0 or (self.left == 0) != p.op.last:
            self.report.complain(
                "write-length", p,
                f"{abs(self.left)} bytes " + ("too many" if self.left < 0 else "still missing"))
            self.left = None

    def same_srq(self, p, begins):
        if begins:
            self.srq = p.srq
        elif self.srq is not None:
            self.report.checked["xrc-srq"] += 1
            if p.srq != self.srq:
                self.report.complain("xrc-srq", p, f"SRQ {p.srq:#x}, began with {self.srq:#x}")

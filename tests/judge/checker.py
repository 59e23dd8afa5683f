# SPDX-License-Identifier: GPL-2.0-or-later
"""Reads a capture twice: first to find the connections, then to check them."""
from frame import Decoder
from roce.flows import Connections
from roce.headers import OPCODES, RC, UC, UD, XRC
from roce.pcap import records
from reliable import Connection
from unreliable import Datagrams, UcStream


class Taps:
    """Conclusions from the place of the capture."""
    def __init__(self, kind="sender", devices=(), lossless=False, faults=False):
        self.kind = kind
        self.devices = frozenset(devices)
        self.lossless = lossless
        self.faults = faults

    def complete_from(self, mac):
        """Whether the capture has everything that this station sends to the wire, in this order."""
        return self.kind in ("sender", "both") or mac in self.devices

    def complete(self, flow):
        return self.lossless or self.complete_from(flow.smac)

    def exact(self, flow):
        """Whether a captured frame arrives at its destination at that moment."""
        if self.faults and (self.kind == "both" or flow.smac == flow.dmac):
            return False  # looped back: faults happen after the tap
        return self.kind in ("receiver", "both") or flow.dmac in self.devices

    def orderly(self, mac):
        """Whether the capture has the frames of this station as they were sent: once, in order,
        undamaged."""
        return not self.faults or self.complete_from(mac)


class Judge:
    def __init__(self, report, taps, from_start=False, pairs=(), timeout=20_000_000,
                 max_rd_atomic=None, window=None, limit=None):
        self.report, self.taps = report, taps
        self.from_start, self.pairs, self.limit = from_start, pairs, limit
        self.timeout, self.max_rd_atomic, self.window = timeout, max_rd_atomic, window
        self.opcodes = OPCODES

    def judge(self, path):
        connections = Connections(path, self.pairs, self.limit)
        decoder = Decoder(self.report, self.taps.orderly)
        datagrams = Datagrams(self.report, self.taps.complete_from)
        checkers = {}  # by flow: a Connection or a UcStream
        for number, time, data, whole in records(path):
            if self.limit and number > self.limit:
                break
            p = decoder.decode(number, time, data, whole)
            if p is None:
                continue
            cls = p.op.cls
            if cls == UD:
                datagrams.packet(p)
            elif cls in (RC, XRC, UC):
                flow = connections.flows[(p.src, p.dst, cls, p.dest_qp, p.sport)]
                checker = checkers.get(flow)
                if checker is None:
                    checker = self.open(flow, connections)
                    checkers[flow] = checker
                    if cls != UC and flow.peer:
                        checkers[flow.peer] = checker
                if cls == UC:
                    checker.packet(p)
                else:
                    checker.packet(p, flow)

    def open(self, flow, connections):
        if flow.key[2] == UC:
            # Frames sent while the port is down are not captured, and not repeated.
            complete = self.taps.complete(flow) and not self.taps.faults
            return UcStream(self.report, connections.path_mtu(flow), complete,
                            self.taps.orderly(flow.smac))
        return Connection(self, flow, connections)

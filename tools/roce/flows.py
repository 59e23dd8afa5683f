# SPDX-License-Identifier: GPL-2.0-or-later
"""Finds the connections in a capture.

A packet of a connection has the number of its destination QP, but not of its source QP. A flow is
the packets from one address to one QP of another; two flows in opposite directions are a
connection. They are matched over the whole capture before anything is judged: by the UDP source
port, which IBTA's convention (rdma_calc_flow_label) computes from both QP numbers, else by
responses with the PSNs of recent requests. A file given by the user overrides both.
"""
import collections
import ipaddress
from bisect import bisect_left
from itertools import islice

from roce.headers import ACK, ATOMIC_ACK, MTUS, OPCODES, RC, READ_RESPONSE, UC, XRC, find_udp
from roce.pcap import records

PSN_MASK = 0xFFFFFF
# Limit of requests that a flow remembers, and of flows that a response is compared with.
RECENT = 64


def signed(distance):
    """The distance between PSNs, -2^23 to 2^23 - 1."""
    return ((distance + 0x800000) & PSN_MASK) - 0x800000


def convention(a, b):
    """The UDP source port of a connection of QPs a and b without a flow label."""
    v = a * b
    v ^= v >> 20
    v ^= v >> 40
    v &= 0xFFFFF
    return 0xC000 | (v & 0x3FFF) ^ (v >> 14)


class Flow:
    """The packets to one QP from one address and UDP source port."""
    __slots__ = ("key", "smac", "dmac", "first", "recent", "sizes", "response_sizes", "longest",
                 "votes", "peer")

    def __init__(self, key, smac, dmac, number):
        self.key = key  # (src, dst, class, destination QP, source port)
        self.smac, self.dmac = smac, dmac
        self.first = number  # frame
        self.recent = collections.OrderedDict()  # last requests not yet answered: frame by PSN
        self.sizes = collections.Counter()  # payloads of FIRST and MIDDLE
        self.response_sizes = collections.Counter()  # the same of READ responses
        self.longest = 0  # payload of any packet
        self.votes = collections.Counter()  # flows whose responses have PSNs of our requests
        self.peer = None


def _mtu(sizes):
    """The size of most packets that must be full; None if there are none."""
    good = [(n, size) for size, n in sizes.items() if size in MTUS]
    return max(good)[1] if good else None


class Connections:
    """The flows of a capture, each with its reverse flow if that was found. Without a path the
    caller adds the frames and pairs."""
    def __init__(self, path=None, pairs=(), limit=None):
        self.flows = {}
        self.back = collections.defaultdict(list)  # (src, dst, class): flows
        self.port = collections.defaultdict(list)  # the same and the port
        self.asking = collections.defaultdict(
            collections.OrderedDict)  # the same: flows, the last one that requested last
        if path is None:
            return
        for number, _, data, whole in records(path):
            if limit and number > limit:
                break
            self.skim(number, data)
        self.pair({(ipaddress.ip_address(x).packed, int(a, 0), ipaddress.ip_address(y).packed,
                    int(b, 0)) for x, a, y, b in pairs})

    def skim(self, number, data):
        found = find_udp(data)
        if found:
            self.add(number, data, *found)

    def add(self, number, data, ip, udp, ip4):
        """Adds a frame; returns its flow, or None if it belongs to no connection."""
        bth = udp + 8
        if len(data) < bth + 16:
            return None
        op = OPCODES.get(data[bth])
        if op is None or op.cls not in (RC, UC, XRC):
            return None
        src, dst = (data[ip + 12:ip + 16],
                    data[ip + 16:ip + 20]) if ip4 else (data[ip + 8:ip + 24], data[ip + 24:ip + 40])
        key = (src, dst, op.cls, int.from_bytes(data[bth + 5:bth + 8],
                                                "big"), data[udp] << 8 | data[udp + 1])
        flow = self.flows.get(key)
        if flow is None:
            flow = self.flows[key] = Flow(key, data[6:12], data[0:6], number)
            self.back[key[:3]].append(flow)
            self.port[(*key[:3], key[4])].append(flow)
        psn = int.from_bytes(data[bth + 9:bth + 12], "big")
        length = (data[udp + 4] << 8 | data[udp + 5]) - 8 - op.size - 4 - (data[bth + 1] >> 4 & 3)
        if op.data or op.kind == READ_RESPONSE:
            if not op.last:
                (flow.response_sizes if op.response else flow.sizes)[length] += 1
            flow.longest = max(flow.longest, length)
        if not op.response:
            asking = self.asking[(*key[:3], key[4])]
            asking[key] = flow
            asking.move_to_end(key)
            flow.recent[psn] = number
            if len(flow.recent) > RECENT:
                flow.recent.popitem(last=False)
        elif op.kind in (ACK, ATOMIC_ACK) or op.first:
            self.vote(flow, psn)
        return flow

    def vote(self, flow, psn):
        """Votes for the flow that a response in `flow` answers: one in the opposite direction,
        most likely the first to request."""
        src, dst, cls, _, port = flow.key
        asking = self.asking.get((dst, src, cls, port))
        candidates = islice(reversed(asking.values()), RECENT) if asking else self.back.get(
            (dst, src, cls), ())[-RECENT:]
        asked = [other for other in candidates if psn in other.recent]
        if asked:
            other = min(asked, key=lambda f: f.recent[psn])
            del other.recent[psn]
            other.votes[flow.key] += 1

    def pair(self, given):
        """Pairs flows, the most certain ones first."""
        scores = []
        partners, named = self.partners(given)
        for flow in self.flows.values():
            src, dst, cls, qp, port = flow.key
            if cls == UC:
                continue
            likely = set(self.near(self.port.get((dst, src, cls, port),
                                                 ()), flow)) | set(flow.votes)
            for peer in partners.get((dst, qp, src), ()):
                likely.update(self.near(named.get((dst, src, cls, peer), ()), flow))
            for key in likely:
                other = self.flows[key]
                score = flow.votes[key] + other.votes[flow.key]
                if port == key[4] and port == convention(qp, key[3]):
                    score += 1 << 40
                elif flow is other:
                    continue
                if (dst, qp, src, key[3]) in given or (src, key[3], dst, qp) in given:
                    score += 1 << 50
                if score:
                    scores.append((score, flow.first, flow, other))
        for _, _, flow, other in sorted(scores, key=lambda s: (-s[0], s[1])):
            if flow.peer is None and other.peer is None:
                flow.peer, other.peer = other, flow

    @staticmethod
    def near(flows, flow):
        """Returns the keys of the flows that begin at about the same time. A capture may have
        any number of flows with one port."""
        if len(flows) > RECENT:
            at = max(0, bisect_left(flows, flow.first, key=lambda f: f.first) - RECENT // 2)
            flows = flows[at:at + RECENT]
        return [f.key for f in flows]

    def partners(self, given):
        """Parses the user's file: QPs that are peers of (address, QP, address), and the flows to
        a QP."""
        partners, named = collections.defaultdict(list), collections.defaultdict(list)
        for x, a, y, b in given:
            partners[x, a, y].append(b)
            partners[y, b, x].append(a)
        for key, flow in self.flows.items() if given else ():
            named[key[:4]].append(flow)
        return partners, named

    def path_mtu(self, flow):
        """Returns (path MTU or None, its minimum) of the requests in a flow."""
        mtu = _mtu(flow.sizes) or (flow.peer and _mtu(flow.peer.response_sizes))
        longest = max(flow.longest, flow.peer.longest if flow.peer else 0)
        return mtu, next((m for m in MTUS if m >= longest), MTUS[-1])

    def response_mtu(self, flow):
        """Returns the same for the READ responses in a flow."""
        return _mtu(flow.response_sizes) or _mtu(flow.sizes)

# SPDX-License-Identifier: GPL-2.0-or-later
"""Reads the RoCE packets of captures into columns, one array for each field, and finds the flows
that form a connection."""
import heapq
import os
from array import array
from operator import itemgetter

from roce.flows import Connections
from roce.headers import CNP, HEADER_SIZE, OPCODES, UD, find_udp, icrc
from roce.pcap import records

NONE = 0xFFFFFFFF
# Marks of a packet.
RETRANSMITTED, DUPLICATE, GAP, REFUSED, BAD_ICRC, MALFORMED, CE, FECN, BECN, ACK_REQ, SOLICITED, BACKWARDS, NEGATIVE, CUT = (
    1 << n for n in range(14))
KEYED = ("RETH", "AtomicETH")
AETH_AT, KEY_AT = ({
    code: 12 + sum(HEADER_SIZE[h]
                   for h in op.headers[:next(i for i, h in enumerate(op.headers) if h in names)])
    for code, op in OPCODES.items() if any(h in names for h in op.headers)
} for names in (("AETH", ), KEYED))
CHUNK = 4096


class Columns:
    """The packets. `heads` has their first bytes, up to the payload."""
    TYPES = {
        "time": "q", "number": "I", "file": "B", "flow": "I", "op": "B", "psn": "I", "length": "H",
        "flags": "H", "syndrome": "B", "key": "I", "va": "Q", "dma": "I"
    }

    def __init__(self):
        for name, kind in self.TYPES.items():
            setattr(self, name, array(kind))
        self.heads = []

    def __len__(self):
        return len(self.time)

    def order(self):
        """Sorts by time: captures of several interfaces are not always in order."""
        time = self.time
        if all(map(int.__le__, time, memoryview(time)[1:])):
            return
        order = sorted(range(len(time)), key=time.__getitem__)
        for name, kind in self.TYPES.items():
            column = getattr(self, name)
            setattr(self, name, array(kind, map(column.__getitem__, order)))
        self.heads = [self.heads[i] for i in order]


def examine(data, whole, ip, udp, ip4, op, check):
    """Returns (marks, payload length, end of the headers) of a frame; check: whether to compare
    its ICRC."""
    stop = udp + (data[udp + 4] << 8 | data[udp + 5])
    body = udp + 8 + (op.size if op else 12)
    length = stop - 4 - body - (data[udp + 9] >> 4 & 3)
    flags = 0
    if op is None or length < 0 or (length and not op.payload) or len(data) < body or (
            whole and stop > len(data)):
        flags = MALFORMED
        body, length = min(body, len(data)), min(max(length, 0), 0xFFFF)
    elif not whole or stop > len(data):
        flags = CUT
    elif check and icrc(data, ip, udp, ip4, stop) != int.from_bytes(data[stop - 4:stop], "little"):
        flags = BAD_ICRC
    return flags, length, body


class Flow:
    """The packets to one QP from one address. `link`: the flow of roce.flows, of connected QPs."""
    def __init__(self, key, ends, link):
        self.key, self.ends, self.link = key, ends, link


class Capture:
    """The contents of the files."""
    def __init__(self, paths, limit=None, check=True):
        self.columns = Columns()
        self.files = [{"name": os.path.basename(p), "frames": 0, "roce": 0, "others": 0, "cut": 0}
                      for p in paths]
        self.troubles = []
        self.check = check
        self.flows, self.index, self.ids = [], {}, {}
        self.links = Connections()
        for which, number, time, data, whole in self.frames(paths, limit):
            self.frame(which, number, time, data, whole)
        self.columns.order()
        self.links.pair(())

    def frames(self, paths, limit):
        """The frames of all files, merged by time."""
        def one(which, path):
            def cut(number):
                self.troubles.append(f"{path}: ends within frame {number}")

            for number, time, data, whole in records(path, cut):
                if limit and number > limit:
                    return
                yield time, which, number, data, whole

        streams = [one(which, path) for which, path in enumerate(paths)]
        for time, which, number, data, whole in streams[0] if len(streams) == 1 else heapq.merge(
                *streams, key=itemgetter(0)):
            yield which, number, time, data, whole

    def frame(self, which, number, time, data, whole):
        file = self.files[which]
        file["frames"] += 1
        found = find_udp(data)
        if found is None or len(data) < found[1] + 20:
            file["others"] += 1
            return
        file["roce"] += 1
        file["cut"] += not whole
        ip, udp, ip4 = found
        code, b = data[udp + 8], data[udp + 9:udp + 20]
        op = OPCODES.get(code)
        flags, length, end = self.examine(data, whole, ip, udp, ip4, op)
        flags |= (data[udp + 16] & 0x80 and ACK_REQ) | (b[0] & 0x80 and SOLICITED) | (
            b[3] & 0x80 and FECN) | (b[3] & 0x40 and BECN)
        if (data[ip + 1] if ip4 else data[ip + 1] >> 4) & 3 == 3:
            flags |= CE
        c = self.columns
        c.time.append(min(max(time, -1 << 62), 1 << 62))
        c.number.append(number & NONE)
        c.file.append(which)
        c.flow.append(self.flow(number, data, ip, udp, ip4, op, flags))
        c.op.append(code)
        c.psn.append(b[8] << 16 | b[9] << 8 | b[10])
        c.length.append(length)
        at = 0 if flags & MALFORMED else AETH_AT.get(code, 0)
        c.syndrome.append(data[udp + 8 + at] if at else 0)
        at = 0 if flags & MALFORMED else KEY_AT.get(code, 0)
        at = at and udp + 8 + at
        c.va.append(int.from_bytes(data[at:at + 8], "big") if at else 0)
        c.key.append(int.from_bytes(data[at + 8:at + 12], "big") if at else 0)
        c.dma.append(0 if not at else 8 if "AtomicETH" in
                     op.headers else int.from_bytes(data[at + 12:at + 16], "big"))
        c.heads.append(data[:min(end, 127)])
        c.flags.append(flags)

    def examine(self, data, whole, ip, udp, ip4, op):
        return examine(data, whole, ip, udp, ip4, op, self.check)

    def flow(self, number, data, ip, udp, ip4, op, flags):
        """Returns the index of the packet's flow."""
        link = None
        if not flags & (MALFORMED | BAD_ICRC):
            link = self.links.add(number, data, ip, udp, ip4)
        if link is not None:
            which = self.index.get(id(link))
            if which is None:
                which = self.index[id(link)] = self.begin(link.key, link)
            return which
        src, dst = (data[ip + 12:ip + 16],
                    data[ip + 16:ip + 20]) if ip4 else (data[ip + 8:ip + 24], data[ip + 24:ip + 40])
        qp = int.from_bytes(data[udp + 13:udp + 16], "big")
        cls, source, port = data[udp + 8] & 0xE0, None, data[udp] << 8 | data[udp + 1]
        if cls == UD and not flags & MALFORMED:
            source, port = int.from_bytes(data[udp + 25:udp + 28], "big"), None
        elif cls == CNP:
            port = None
        key = (src, dst, cls, qp, port, source)
        which = self.ids.get(key)
        if which is None:
            which = self.ids[key] = self.begin(key, None)
        return which

    def begin(self, key, link):
        self.flows.append(Flow(key, (key[0], key[1]), link))
        return len(self.flows) - 1

# SPDX-License-Identifier: GPL-2.0-or-later
"""Reads captures of Ethernet: pcap and pcapng, either byte order, any resolution of time. A capture
is not trusted."""
import os
import struct

ETHERNET = 1
SECTION, INTERFACE, SIMPLE, ENHANCED = 0x0A0D0D0A, 1, 3, 6
TSRESOL, TSOFFSET = 9, 14
SECOND = 1_000_000_000
SHORTEST = 24  # the header of a pcap file
PIECE = 16 << 20  # bytes that are read at once
LONGEST = 1 << 28  # bytes of a frame, or of a block of a pcapng file


def records(path, cut=None):
    """Yields (number, time in ns, bytes, whole) of each frame. cut(number) is called if the file
    ends within that frame.

    Raises ValueError for a file that is no capture of Ethernet. The file is not mapped: one that
    becomes shorter would end this process."""
    with open(path, "rb") as f:
        reader, size, ended = Reader(path), PIECE, []
        while True:
            at, ended = reader.at, []
            data = os.pread(f.fileno(), size, at)
            if not at and len(data) < SHORTEST:
                raise ValueError(f"{path}: no pcap file")
            yield from reader.frames(data, ended.append)
            if len(data) < size or (reader.at == at and size >= LONGEST):
                break
            size = PIECE if reader.at > at else 2 * size
        if ended and cut:
            cut(ended[-1])
        reader.check()


class _Interface:
    """Parses an interface description: link type, nanoseconds of a tick as a fraction, offset in
    seconds."""
    def __init__(self, body, order):
        self.ethernet = struct.unpack_from(order + "H", body)[0] == ETHERNET
        self.mul, self.div, self.offset = 1000, 1, 0
        at = 8
        while at + 4 <= len(body):
            code, size = struct.unpack_from(order + "HH", body, at)
            value = body[at + 4:at + 4 + size]
            if code == 0 or len(value) < size:
                break
            if code == TSRESOL and size == 1:
                power = value[0] & 0x7F
                self.mul, self.div = SECOND, 1 << power if value[0] & 0x80 else 10**power
            elif code == TSOFFSET and size == 8:
                self.offset = struct.unpack(order + "q", value)[0] * SECOND
            at += 4 + size + -size % 4

    def time(self, ticks):
        return ticks * self.mul // self.div + self.offset


class Reader:
    """Cuts a capture into frames, piece by piece if it grows. `at`: offset in the file of the
    next frame or block."""
    def __init__(self, path):
        self.path, self.at, self.number = path, 0, 0
        self.blocks, self.order, self.unit = False, "<", 1000
        self.interfaces, self.now, self.ethernet = [], 0, 0

    def frames(self, m, cut=None):
        """Yields (number, time in ns, bytes, whole) of each frame in `m`: the file's bytes from
        `at` on, from 0 on at least SHORTEST.

        cut(number) is called if `m` ends within that frame; a later call continues with it."""
        begin = 0
        if not self.at:
            self.blocks = m[:4] == b"\n\r\r\n"
            begin = 0 if self.blocks else self._begin(m)
        yield from (self._pcapng if self.blocks else self._pcap)(m, begin, cut
                                                                 or (lambda number: None))

    def check(self):
        """Raises ValueError if no frame was of Ethernet."""
        if self.blocks and self.number and not self.ethernet:
            raise ValueError(f"{self.path}: has no interface of type Ethernet")

    def _begin(self, m):
        for self.order in "<>":
            magic, _, _, _, _, _, link = struct.unpack_from(self.order + "IHHiIII", m)
            if magic in (0xA1B2C3D4, 0xA1B23C4D):
                break
        else:
            raise ValueError(f"{self.path}: no pcap file")
        if link & 0x0FFFFFFF != ETHERNET:
            raise ValueError(f"{self.path}: link type {link} is not Ethernet")
        self.unit = 1 if magic == 0xA1B23C4D else 1000
        return SHORTEST

    def _pcap(self, m, at, cut):
        header, end, base, unit = struct.Struct(self.order + "IIII"), len(m), self.at, self.unit
        self.at = base + at
        while at + 16 <= end:
            sec, frac, caplen, length = header.unpack_from(m, at)
            at += 16
            if at + caplen > end:
                cut(self.number + 1)
                return
            self.number += 1
            self.at = base + at + caplen
            yield self.number, sec * SECOND + frac * unit, m[at:at + caplen], caplen == length
            at += caplen
        if at < end:
            cut(self.number + 1)

    def _block(self, m, at, cut):
        """Returns (type, body) of the block at this offset, or None if it is incomplete."""
        end = len(m)
        if at + 12 > end:
            if at < end:
                cut(self.number + 1)
            return None
        kind = struct.unpack_from(self.order + "I", m, at)[0]
        if kind == SECTION:  # the same in either byte order
            self.order = "<" if m[at + 8:at + 12] == b"\x4d\x3c\x2b\x1a" else ">"
            if struct.unpack_from(self.order + "I", m, at + 8)[0] != 0x1A2B3C4D:
                raise ValueError(f"{self.path}: no pcapng section at byte {self.at}")
        size = struct.unpack_from(self.order + "I", m, at + 4)[0]
        if size < 12 or size % 4:
            raise ValueError(f"{self.path}: a block of {size} bytes at byte {self.at}")
        if at + size > end:
            cut(self.number + 1)
            return None
        return kind, m[at + 8:at + size - 4]

    def _pcapng(self, m, at, cut):
        while (block := self._block(m, at, cut)) is not None:
            kind, body = block
            at += 12 + len(body)
            self.at += 12 + len(body)
            if kind == SECTION:
                self.interfaces = []
            elif kind == INTERFACE and len(body) >= 8:
                self.interfaces.append(_Interface(body, self.order))
                self.ethernet += self.interfaces[-1].ethernet
            elif kind in (ENHANCED, SIMPLE):
                self.number += 1
                found = self._packet(kind, body)
                if found is not None:
                    yield self.number, *found

    def _packet(self, kind, body):
        """Returns (time, bytes, whole) of an Ethernet frame, else None."""
        if kind == SIMPLE:
            if len(body) < 4 or not self.interfaces or not self.interfaces[0].ethernet:
                return None
            length = struct.unpack_from(self.order + "I", body)[0]
            data = body[4:4 + length]
            return self.now, data, len(data) == length
        if len(body) < 20:
            return None
        which, high, low, caplen, length = struct.unpack_from(self.order + "IIIII", body)
        if which >= len(
                self.interfaces) or not self.interfaces[which].ethernet or caplen > len(body) - 20:
            return None
        self.now = self.interfaces[which].time(high << 32 | low)
        return self.now, body[20:20 + caplen], caplen == length


def header():
    """Returns the header of a capture of Ethernet in nanoseconds."""
    return struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 65535, 1)


def record(time, data):
    """Returns a whole frame of that capture; `time`: ns since 1970."""
    return struct.pack("<IIII", *divmod(time, SECOND), len(data), len(data)) + data

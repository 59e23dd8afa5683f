# SPDX-License-Identifier: GPL-2.0-or-later
"""Reads captures of Ethernet: pcap and pcapng, either byte order, any resolution of time. A capture is not trusted."""
import mmap
import os
import struct

ETHERNET = 1
SECTION, INTERFACE, SIMPLE, ENHANCED = 0x0A0D0D0A, 1, 3, 6
TSRESOL, TSOFFSET = 9, 14
SECOND = 1_000_000_000


def records(path, cut=None):
    """Yields (number, time in ns, bytes, whole) of each frame. cut(number) is called if the file ends within that frame.

    Raises ValueError for a file that is no capture of Ethernet."""
    with open(path, "rb") as f:
        if os.fstat(f.fileno()).st_size < 24:
            raise ValueError(f"{path}: no pcap file")
        with mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ) as m:
            blocks = m[:4] == b"\n\r\r\n"
            yield from (_pcapng if blocks else _pcap)(path, m, cut or (lambda number: None))


def _pcap(path, m, cut):
    for order in "<>":
        magic, _, _, _, _, _, link = struct.unpack_from(order + "IHHiIII", m)
        if magic in (0xA1B2C3D4, 0xA1B23C4D):
            break
    else:
        raise ValueError(f"{path}: no pcap file")
    if link & 0x0FFFFFFF != ETHERNET:
        raise ValueError(f"{path}: link type {link} is not Ethernet")
    unit = 1 if magic == 0xA1B23C4D else 1000
    header, at, end, number = struct.Struct(order + "IIII"), 24, len(m), 0
    while at + 16 <= end:
        sec, frac, caplen, length = header.unpack_from(m, at)
        at += 16
        number += 1
        if at + caplen > end:
            cut(number)
            return
        yield number, sec * SECOND + frac * unit, m[at:at + caplen], caplen == length
        at += caplen
    if at < end:
        cut(number + 1)


class _Interface:
    """What an interface description says: link type, nanoseconds of a tick as a fraction, offset in seconds."""

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
                self.mul, self.div = SECOND, 1 << power if value[0] & 0x80 else 10 ** power
            elif code == TSOFFSET and size == 8:
                self.offset = struct.unpack(order + "q", value)[0] * SECOND
            at += 4 + size + -size % 4

    def time(self, ticks):
        return ticks * self.mul // self.div + self.offset


def _blocks(path, m, cut):
    """Yields (byte order, type, body) of each block."""
    at, end, order, seen = 0, len(m), "<", 0
    while at + 12 <= end:
        kind = struct.unpack_from(order + "I", m, at)[0]
        if kind == SECTION:  # the same in either byte order
            order = "<" if m[at + 8:at + 12] == b"\x4d\x3c\x2b\x1a" else ">"
            if struct.unpack_from(order + "I", m, at + 8)[0] != 0x1A2B3C4D:
                raise ValueError(f"{path}: no pcapng section at byte {at}")
        size = struct.unpack_from(order + "I", m, at + 4)[0]
        if size < 12 or size % 4:
            raise ValueError(f"{path}: a block of {size} bytes at byte {at}")
        seen += kind in (SIMPLE, ENHANCED)
        if at + size > end:
            cut(seen + (kind not in (SIMPLE, ENHANCED)))
            return
        yield order, kind, m[at + 8:at + size - 4]
        at += size
    if at < end:
        cut(seen + 1)


def _pcapng(path, m, cut):
    interfaces, number, now, ethernet = [], 0, 0, 0
    for order, kind, body in _blocks(path, m, cut):
        if kind == SECTION:
            interfaces = []
        elif kind == INTERFACE and len(body) >= 8:
            interfaces.append(_Interface(body, order))
            ethernet += interfaces[-1].ethernet
        elif kind == ENHANCED and len(body) >= 20:
            number += 1
            which, high, low, caplen, length = struct.unpack_from(order + "IIIII", body)
            if which < len(interfaces) and interfaces[which].ethernet and caplen <= len(body) - 20:
                now = interfaces[which].time(high << 32 | low)
                yield number, now, body[20:20 + caplen], caplen == length
        elif kind == SIMPLE and len(body) >= 4:
            number += 1
            length = struct.unpack_from(order + "I", body)[0]
            if interfaces and interfaces[0].ethernet:
                data = body[4:4 + length]
                yield number, now, data, len(data) == length
    if number and not ethernet:
        raise ValueError(f"{path}: has no interface of type Ethernet")

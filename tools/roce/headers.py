# SPDX-License-Identifier: GPL-2.0-or-later
"""RoCEv2 on the wire: opcodes and their headers, offsets in a frame, the ICRC.

Written from the text of IBTA volume 1 (chapter 9, annexes A14, A17, A19), not from the engine's
source.
"""
import struct
import zlib

ROCE_PORT = 4791
MTUS = (256, 512, 1024, 2048, 4096)
RC, UC, UD, CNP, XRC = 0x00, 0x20, 0x60, 0x80, 0xA0
CLASS_NAMES = {RC: "RC", UC: "UC", UD: "UD", CNP: "CNP", XRC: "XRC"}

# The kinds of packets.
SEND = "SEND"
WRITE = "WRITE"
READ = "READ"
ATOMIC = "ATOMIC"
FLUSH = "FLUSH"
ATOMIC_WRITE = "ATOMIC_WRITE"
READ_RESPONSE, ACK, ATOMIC_ACK, NOTIFY = "READ_RESPONSE", "ACK", "ATOMIC_ACK", "CNP"

ICRC_SEED = zlib.crc32(b"\xff" * 8)


class Opcode:
    """The properties of an opcode of one class. `first` and `last`: in its message or response."""
    __slots__ = ("code", "cls", "name", "kind", "first", "last", "response", "headers", "payload",
                 "size", "data", "answered")

    def __init__(self, code, name, kind, first, last, headers, payload):
        self.code, self.cls = code, code & 0xE0
        self.name = f"{CLASS_NAMES[self.cls]} {name}"
        self.kind, self.first, self.last = kind, first, last
        self.response = kind in (READ_RESPONSE, ACK, ATOMIC_ACK)
        self.headers, self.payload = headers, payload
        self.size = 12 + sum(HEADER_SIZE[h] for h in headers)
        self.data = kind in (SEND, WRITE)
        # Requests with a response of their own.
        self.answered = kind in (READ, ATOMIC, FLUSH, ATOMIC_WRITE)


HEADER_SIZE = {
    "DETH": 8, "XRCETH": 4, "FETH": 4, "RETH": 16, "AtomicETH": 28, "AETH": 4, "AtomicAckETH": 8,
    "ImmDt": 4, "IETH": 4
}


def _opcodes():
    first, middle, last, only = (True, False), (False, False), (False, True), (True, True)
    connected = [  # code, name, kind, place, headers, payload
        (0x00, "SEND_FIRST", SEND, first, (), True), (0x01, "SEND_MIDDLE", SEND, middle, (), True),
        (0x02, "SEND_LAST", SEND, last, (), True),
        (0x03, "SEND_LAST_IMM", SEND, last, ("ImmDt", ), True),
        (0x04, "SEND_ONLY", SEND, only, (), True),
        (0x05, "SEND_ONLY_IMM", SEND, only, ("ImmDt", ), True),
        (0x06, "WRITE_FIRST", WRITE, first, ("RETH", ), True),
        (0x07, "WRITE_MIDDLE", WRITE, middle, (), True),
        (0x08, "WRITE_LAST", WRITE, last, (), True),
        (0x09, "WRITE_LAST_IMM", WRITE, last, ("ImmDt", ), True),
        (0x0A, "WRITE_ONLY", WRITE, only, ("RETH", ), True),
        (0x0B, "WRITE_ONLY_IMM", WRITE, only, ("RETH", "ImmDt"), True),
        (0x16, "SEND_LAST_INV", SEND, last, ("IETH", ), True),
        (0x17, "SEND_ONLY_INV", SEND, only, ("IETH", ), True),
    ]
    reliable = [(0x0C, "READ_REQUEST", READ, only, ("RETH", ), False),
                (0x13, "COMPARE_SWAP", ATOMIC, only, ("AtomicETH", ), False),
                (0x14, "FETCH_ADD", ATOMIC, only, ("AtomicETH", ), False),
                (0x1C, "FLUSH", FLUSH, only, ("FETH", "RETH"), False),
                (0x1D, "ATOMIC_WRITE", ATOMIC_WRITE, only, ("RETH", ), True), ]
    responses = [(0x0D, "READ_RESPONSE_FIRST", READ_RESPONSE, first, ("AETH", ), True),
                 (0x0E, "READ_RESPONSE_MIDDLE", READ_RESPONSE, middle, (), True),
                 (0x0F, "READ_RESPONSE_LAST", READ_RESPONSE, last, ("AETH", ), True),
                 (0x10, "READ_RESPONSE_ONLY", READ_RESPONSE, only, ("AETH", ), True),
                 (0x11, "ACKNOWLEDGE", ACK, only, ("AETH", ), False),
                 (0x12, "ATOMIC_ACKNOWLEDGE", ATOMIC_ACK, only, ("AETH", "AtomicAckETH"), False), ]
    table = {}

    def add(cls, rows, more=()):
        for code, name, kind, place, headers, payload in rows:
            table[cls | code] = Opcode(cls | code, name, kind, *place, (*more, *headers), payload)

    add(RC, connected + reliable + responses)
    add(UC, connected)  # 0x36 and 0x37 are tern's own
    add(XRC, connected + reliable, ("XRCETH", ))
    add(XRC, responses)
    add(UD, [r for r in connected if r[0] in (0x04, 0x05)], ("DETH", ))
    add(CNP, [(0x01, "CNP", NOTIFY, only, (), True)])
    return table


OPCODES = _opcodes()


def address_text(address):
    if len(address) == 4:
        return ".".join(map(str, address))
    import ipaddress
    return str(ipaddress.IPv6Address(address))


def find_udp(data):
    """(offset of the IP header, offset of the UDP header, whether it is IPv4) of a frame to RoCE's
    port, else None."""
    if len(data) < 42:
        return None
    at = 14
    kind = data[12:14]
    if kind == b"\x81\x00":
        at, kind = 18, data[16:18]
    if kind == b"\x08\x00":
        ip4, udp = True, at + (data[at] & 15) * 4
        if data[at] >> 4 != 4 or data[at + 9] != 17 or (data[at + 6]
                                                        & 0x1F) or data[at + 7] or udp < at + 20:
            return None
    elif kind == b"\x86\xdd":
        ip4, udp = False, at + 40
        if data[at] >> 4 != 6 or data[at + 6] != 17:
            return None
    else:
        return None
    if len(data) < udp + 8 or data[udp + 2] << 8 | data[udp + 3] != ROCE_PORT:
        return None
    return at, udp, ip4


def checksum(data):
    """The Internet checksum: 0 for data that contains a correct one."""
    if len(data) % 2:
        data += b"\0"
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total ^ 0xFFFF


def icrc(data, ip, udp, ip4, end):
    """The ICRC that belongs into the 4 bytes before `end`."""
    head = bytearray(data[ip:udp + 20])
    if ip4:
        head[1] = head[8] = head[10] = head[11] = 0xFF
    else:
        head[0] |= 0x0F
        head[1] = head[2] = head[3] = head[7] = 0xFF
    u = udp - ip
    head[u + 6] = head[u + 7] = head[u + 12] = 0xFF
    return zlib.crc32(memoryview(data)[udp + 20:end - 4], zlib.crc32(head, ICRC_SEED))

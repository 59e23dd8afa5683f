# SPDX-License-Identifier: GPL-2.0-or-later
"""Packets and conversations for the judge's test. Shares no code with the judge's decoder.

A frame is a dict of its fields; encode() packs it. A Scene is a list of frames with times, which a
test changes before it is written to a file.
"""
import struct
import zlib

MS = 1_000_000
RC, UC, UD, CNP, XRC = 0x00, 0x20, 0x60, 0x80, 0xA0


class Host:
    def __init__(self, n):
        self.mac = bytes([0x52, 0x54, 0, 0x77, 0, n])
        self.ip4 = bytes([10, 77, 0, n])
        self.ip6 = bytes.fromhex("fd77") + bytes(13) + bytes([n])


def u24(value):
    return (value & 0xFFFFFF).to_bytes(3, "big")


def sum16(data):
    total = sum(struct.unpack(f">{(len(data) + 1) // 2}H", data + b"\0" * (len(data) % 2)))
    while total > 0xFFFF:
        total = (total >> 16) + (total & 0xFFFF)
    return ~total & 0xFFFF


# The headers after the BTH, in order; a frame has those whose keys it has.
def headers(f):
    out = b""
    if "qkey" in f:
        out += struct.pack(">IB", f["qkey"], f.get("deth_reserved", 0)) + u24(f["src_qp"])
    if "srq" in f:
        out += bytes([f.get("xrc_reserved", 0)]) + u24(f["srq"])
    if "feth" in f:
        out += struct.pack(">I", f["feth"])
    if "dma" in f:
        out += struct.pack(">QII", f["va"], f["key"], f["dma"])
    if "swap" in f:
        out += struct.pack(">QIQQ", f["va"], f["key"], f["swap"], f["compare"])
    if "syndrome" in f:
        out += bytes([f["syndrome"]]) + u24(f["msn"])
    if "original" in f:
        out += struct.pack(">Q", f["original"])
    if "imm" in f:
        out += f["imm"]
    if "inv" in f:
        out += struct.pack(">I", f["inv"])
    return out


def encode(f):
    data = f.get("data", b"")
    pad = f.get("pad", -len(data) % 4)
    flags = f.get("se", 0) << 7 | f.get("mig", 1) << 6 | pad << 4 | f.get("version", 0)
    bth = struct.pack(">BBHB", f["opcode"], flags, f.get("pkey", 0xFFFF),
                      f.get("ecn", 0) << 6 | f.get("reserved", 0))
    bth += u24(f["dqp"]) + bytes([f.get("ack", 0) << 7]) + u24(f["psn"])
    body = bth + headers(f) + data + f.get("padding", bytes(-len(data) % 4))
    length = 8 + len(body) + 4 + f.get("udp_more", 0)
    udp = struct.pack(">HHHH", f["sport"], 4791, length, 0)
    six = f.get("ip6", False)
    src, dst = f["from"], f["to"]
    if six:
        a, b = src.ip6, f.get("group", dst.ip6)
        ip = struct.pack(">IHBB", 6 << 28 | f.get("tos", 0) << 20 | 0x12345, length, 17, 64) + a + b
        masked = b"\x6f\xff\xff\xff" + ip[4:7] + b"\xff" + ip[8:]
    else:
        a, b = src.ip4, f.get("group", dst.ip4)
        ip = struct.pack(">BBHHHBBH", 0x45, f.get("tos", 0), 20 + length, f.get("id", 7),
                         f.get("fragment", 0x4000), 64, 17, 0) + a + b
        ip = ip[:10] + struct.pack(">H", sum16(ip) ^ f.get("ip_xor", 0)) + ip[12:]
        masked = ip[:1] + b"\xff" + ip[2:8] + b"\xff" + ip[9:10] + b"\xff\xff" + ip[12:]
    crc = zlib.crc32(b"\xff" * 8 + masked + udp[:6] + b"\xff\xff" + body[:4] + b"\xff" +
                     body[5:]) ^ f.get("crc_xor", 0)
    if f.get("checksum"):
        pseudo = a + b + struct.pack(">HH", 17, length) + udp + body + struct.pack("<I", crc)
        udp = udp[:6] + struct.pack(">H", (sum16(pseudo) or 0xFFFF) ^ f.get("checksum_xor", 0))
    if "group" in f:
        dmac = b"\x33\x33" + b[12:] if six else b"\x01\x00\x5e" + bytes([b[1] & 0x7F]) + b[2:]
    else:
        dmac = dst.mac
    ether = f.get("dmac", dmac) + src.mac
    if "vlan" in f:
        ether += struct.pack(">HH", 0x8100, f["vlan"])
    frame = ether + (b"\x86\xdd" if six else b"\x08\x00") + ip + udp + body + struct.pack("<I", crc)
    return frame + f.get("fill", bytes(max(0, 60 - len(frame))))


def source_port(a, b):
    v = a * b
    v ^= v >> 20
    v ^= v >> 40
    v &= (1 << 20) - 1
    return 0xC000 + ((v & 0x3FFF) ^ (v >> 14))


def text(n, seed=1):
    return bytes((i * 7 + seed) & 0xFF for i in range(n))


class Scene:
    """The frames, ordered by time."""
    def __init__(self):
        self.now = 1_000_000_000
        self.frames = []
        self.x, self.y = Host(1), Host(2)

    def put(self, frame, tag=None, after=2000):
        self.now += after
        frame["time"], frame["tag"] = self.now, tag
        self.frames.append(frame)
        return frame

    def find(self, tag):
        return [f for f in self.frames if f["tag"] == tag]

    def drop(self, *frames):
        self.frames = [f for f in self.frames if not any(f is d for d in frames)]

    def insert(self, where, frame, after=100):
        """Inserts a copy of a frame after another."""
        frame = dict(frame, time=where["time"] + after, tag="planted")
        at = next(i for i, f in enumerate(self.frames) if f is where)
        self.frames.insert(at + 1, frame)
        return frame

    def write(self, path, nano=True, order="<"):
        with open(path, "wb") as f:
            f.write(
                struct.pack(order + "IHHiIII", 0xA1B23C4D if nano else 0xA1B2C3D4, 2, 4, 0, 0,
                            65535, 1))
            for frame in self.frames:
                raw = frame["raw"] if "raw" in frame else encode(frame)
                sec, ns = divmod(frame["time"], 1_000_000_000)
                keep = len(raw) - frame.get("cut", 0)
                f.write(
                    struct.pack(order + "IIII", sec, ns if nano else ns // 1000, keep, len(raw)) +
                    raw[:keep])


class Link:
    """One direction of a connection: x's requests and y's responses. `back` creates the other
    direction."""
    def __init__(self, scene, qx=0x11, qy=0x22, psn=0xFFFFF8, cls=RC, mtu=1024, msn=0, ip6=False,
                 srq=None, vlan=None, port=None):
        self.scene, self.cls, self.mtu = scene, cls, mtu
        self.x, self.y, self.qx, self.qy = scene.x, scene.y, qx, qy
        self.psn, self.msn, self.srq = psn, msn, srq
        self.common = {"sport": port or source_port(qx, qy), "ip6": ip6}
        if vlan is not None:
            self.common["vlan"] = vlan

    def back(self, psn=0x1000):
        link = Link(self.scene, self.qy, self.qx, psn, self.cls, self.mtu)
        link.x, link.y, link.common, link.srq = self.y, self.x, self.common, self.srq
        return link

    def request(self, op, psn, tag=None, after=2000, **fields):
        f = {
            **self.common, "from": self.x, "to": self.y, "opcode": self.cls | op, "dqp": self.qy,
            "psn": psn, **fields
        }
        if self.srq is not None:
            f.setdefault("srq", self.srq)
        return self.scene.put(f, tag, after)

    def respond(self, op, psn, tag=None, after=2000, **fields):
        f = {
            **self.common, "from": self.y, "to": self.x, "opcode": self.cls | op, "dqp": self.qx,
            "psn": psn, **fields
        }
        if op != 0x0E:
            f.setdefault("syndrome", 0x1F)
            f.setdefault("msn", self.msn)
        return self.scene.put(f, tag, after)

    def nak(self, psn, syndrome, tag=None, **more):
        return self.respond(0x11, psn, tag, syndrome=syndrome, **more)

    def data(self, kind, n, tag=None, imm=None, inv=None, se=0, va=0x10000, key=0x77, parts=None,
             seed=1, first_psn=None):
        """The request packets of a SEND (kind 0) or WRITE (kind 6); PSNs continue unless first_psn
        repeats a message."""
        repeat = first_psn is not None
        psn = first_psn if repeat else self.psn
        whole = text(n, seed)
        count = max(1, -(-n // self.mtu))
        for i in range(count):
            first, last = i == 0, i == count - 1
            fields = {"data": whole[i * self.mtu:(i + 1) * self.mtu]}
            if kind == 6 and first:
                fields.update(va=va, key=key, dma=n)
            op = kind + (4 if first and last else 0 if first else 2 if last else 1)
            if last:
                if imm is not None:
                    op, fields["imm"] = op + 1, imm
                if inv is not None:
                    op, fields["inv"] = 0x17 if first else 0x16, inv
                fields["se"] = se
                if self.cls in (RC, XRC):
                    fields["ack"] = 1
            if parts is None or i in parts:
                self.request(op, psn + i, tag, **fields)
        if not repeat:
            self.psn += count
        return psn

    def send(self, n, tag=None, **more):
        self.data(0, n, tag, **more)
        self.done(tag)

    def write(self, n, tag=None, **more):
        self.data(6, n, tag, **more)
        self.done(tag)

    def done(self, tag=None):
        if self.cls in (RC, XRC):
            self.msn += 1
            self.ack(tag)

    def ack(self, tag=None, psn=None):
        self.respond(0x11, self.psn - 1 if psn is None else psn, tag and tag + ".ack")

    def ask_read(self, n, tag=None, skip=0, psn=None, va=0x20000, key=0x99):
        """A READ request; a repeated one begins at packet `skip`."""
        new = psn is None
        psn = self.psn if new else psn
        self.request(0x0C, psn + skip, tag, va=va + skip * self.mtu, key=key,
                     dma=n - skip * self.mtu, ack=1)
        if new:
            self.psn += max(1, -(-n // self.mtu))
            self.msn += 1
        return psn

    def answer_read(self, n, psn, tag=None, skip=0, parts=None):
        whole, count = text(n, 5), max(1, -(-n // self.mtu))
        for i in range(skip, count):
            first, last = i == skip, i == count - 1
            op = 0x10 if first and last else 0x0D if first else 0x0F if last else 0x0E
            if parts is None or i in parts:
                self.respond(op, psn + i, tag and tag + ".ack",
                             data=whole[i * self.mtu:(i + 1) * self.mtu])

    def read(self, n, tag=None):
        self.answer_read(n, self.ask_read(n, tag), tag)

    def ask_atomic(self, tag=None, psn=None, op=0x14):
        new = psn is None
        psn = self.psn if new else psn
        self.request(op, psn, tag, va=0x30000, key=0x99, swap=1, compare=0, ack=1)
        if new:
            self.psn += 1
            self.msn += 1
        return psn

    def answer_atomic(self, psn, value=41, tag=None):
        self.respond(0x12, psn, tag and tag + ".ack", original=value)

    def atomic(self, tag=None, op=0x14):
        self.answer_atomic(self.ask_atomic(tag, op=op), tag=tag)

    def flush(self, tag=None, feth=0x03):
        self.request(0x1C, self.psn, tag, feth=feth, va=0x20000, key=0x99, dma=4096, ack=1)
        self.one(tag)

    def atomic_write(self, tag=None):
        self.request(0x1D, self.psn, tag, va=0x20008, key=0x99, dma=8, data=text(8), ack=1)
        self.one(tag)

    def one(self, tag):
        """The empty READ response that answers FLUSH and ATOMIC WRITE."""
        self.psn += 1
        self.msn += 1
        self.respond(0x10, self.psn - 1, tag and tag + ".ack")


def datagram(scene, tag=None, qp=0x40, dqp=0x41, psn=0, n=100, qkey=0x1234, imm=None, src=None,
             dst=None, **more):
    fields = {"data": text(n), "qkey": qkey, "src_qp": qp, **more}
    if imm is not None:
        fields["imm"] = imm
    scene.put(
        {
            "from": src or scene.x, "to": dst or scene.y, "sport": source_port(qp, dqp),
            "opcode": UD | (5 if imm else 4), "dqp": dqp, "psn": psn, **fields
        }, tag)

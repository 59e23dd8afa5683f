#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Captures for the tests of tern-view: one with a bit of everything, and large ones.

captures.py story|odd|N FILE [EVERY]: writes the one, one of damaged and forged packets, or one of N
packets, which lacks one in EVERY responses."""
import itertools
import os
import random
import sys

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.realpath(__file__))
sys.path[:0] = [os.path.join(HERE, "../judge"), os.path.join(HERE, "../../tools")]

from build import CNP, MS, Host, Link, Scene, datagram, encode, source_port  # noqa: E402
from roce import pcap  # noqa: E402
from roce.headers import OPCODES, icrc  # noqa: E402

START = 1_700_000_000_000_000_000
PATTERN = 8192


def story():
    """A connection that works, loses, waits, and is refused in the end; a second one; datagrams;
    congestion."""
    scene = Scene()
    scene.now = START
    a = Link(scene, 0x11, 0x22, psn=0xFFFFFA, mtu=1024)
    b = Link(scene, 0x33, 0x44, psn=0x500, mtu=4096)
    b.x, b.y = Host(3), scene.y
    a.send(64)
    a.write(3000, key=0x1201)
    a.read(2500)
    b.write(4096 * 3, key=0x4401)
    a.atomic()
    a.flush()
    datagram(scene, qp=0x50, dqp=0x51, n=200)
    lost(a)
    late(a)
    busy(a)
    congested(scene, b)
    a.back().send(900)
    broken(a)
    refused(a)
    return scene


def lost(link):
    """The second packet of a WRITE is lost before the capture, asked for, and sent again."""
    first = link.data(6, 4096, parts=(0, 2, 3), key=0x1201)
    link.nak(first + 1, 0x60)
    link.data(6, 4096, parts=(1, 2, 3), first_psn=first, key=0x1201)
    link.done()


def late(link):
    """An ACK is lost past the capture: the request comes again and is a duplicate."""
    first = link.data(0, 512)
    link.done()
    link.scene.now += 20 * MS
    link.data(0, 512, first_psn=first)
    link.ack()


def busy(link):
    """The receiver has no WQE for a while."""
    first = link.data(0, 100)
    link.nak(first, 0x20 | 12)
    link.scene.now += MS
    link.data(0, 100, first_psn=first)
    link.done()


def congested(scene, link):
    for _ in range(4):
        link.write(4096, key=0x4401)
    for frame in scene.frames[-8:]:
        if frame["opcode"] == 0x0A:
            frame["tos"] = 3
    scene.put({
        "from": link.y, "to": link.x, "sport": source_port(0x33, 0x44), "opcode": CNP | 1,
        "dqp": link.qx, "psn": 0, "ecn": 1, "mig": 0, "data": bytes(16)
    })


def broken(link):
    """A packet is damaged on its way, and sent again."""
    first = link.data(0, 256)
    link.scene.frames[-1]["crc_xor"] = 1
    link.scene.now += 20 * MS
    link.data(0, 256, first_psn=first)
    link.done()


def refused(link):
    """A WRITE with a key that worked before, and a READ after it that nobody answers."""
    first = link.data(6, 64, va=0x7F0000001000, key=0x1201)
    link.ask_read(4096)
    link.nak(first, 0x62)


def odd():
    """Stories with any field changed: some frames stay valid by their ICRC, others are malformed,
    cut or of unknown opcodes."""
    chance, scene = random.Random(5), Scene()
    for _ in range(12):
        for frame in story().frames:
            name = chance.choice(("psn", "dqp", "opcode", "syndrome", "dma", "va", "key", "sport",
                                  "tos", "ecn", "pad", "cut", "crc_xor", "udp_more", "msn"))
            if name in frame or name in ("tos", "ecn", "cut", "crc_xor", "udp_more"):
                small = {"ecn": 4, "pad": 4, "tos": 4, "cut": 41}.get(name)
                frame[name] = chance.randrange(small) if small else chance.choice(
                    (0, 1, 18, 40, 127, chance.randrange(200)))
            frame["time"] += chance.randrange(-10 * MS, 10 * MS)
            scene.frames.append(frame)
    return scene


def write_many(path, n, every=0):
    """n packets between 8 pairs of QPs: SENDs, WRITEs and READs, now and then a retransmission or
    an RNR NAK. One in `every` responses is missing."""
    scene, period, chance = Scene(), [], random.Random(1)
    scene.now = 0
    links = [Link(scene, 0x100 + k, 0x200 + k, psn=0, mtu=1024) for k in range(8)]
    count = itertools.count()
    while len(scene.frames) < PATTERN:
        message = next(count)
        link, choice = links[message % 8], message // 8 % 5
        link.send(64) if choice < 2 else link.write(3000) if choice < 4 else link.read(2048)
        if message % 97 == 0:
            first = link.data(0, 100)
            link.nak(first, 0x2C)
            link.data(0, 100, first_psn=first)
            link.done()
    for frame in scene.frames:
        raw = bytearray(encode(frame))
        period.append((frame["time"], raw, frame["psn"]))
    turn = {id(link): link.psn for link in links}
    advance = {link.qy: turn[id(link)]
               for link in links} | {link.qx: turn[id(link)] for link in links}
    with open(path, "wb") as f:
        f.write(pcap.header())
        written = lap = responses = 0
        while written < n:
            out = []
            for time, raw, psn in period[:n - written]:
                responses += OPCODES[raw[42]].response
                if every and OPCODES[raw[42]].response and responses % every == 0:
                    continue
                raw[51:54] = (psn + lap * advance[int.from_bytes(raw[47:50], "big")]
                              & 0xFFFFFF).to_bytes(3, "big")
                end = 34 + int.from_bytes(raw[38:40], "big")
                raw[end - 4:end] = icrc(raw, 14, 34, True, end).to_bytes(4, "little")
                out.append(
                    pcap.record(START + time + lap * (scene.now + 2000) + chance.randrange(1500),
                                raw))
            f.write(b"".join(out))
            written += len(out)
            lap += 1


if __name__ == "__main__":
    what, target = sys.argv[1:3]
    if what.isdecimal():
        write_many(target, int(what), int(sys.argv[3]) if len(sys.argv) > 3 else 0)
    else:
        {"story": story, "odd": odd}[what]().write(target)

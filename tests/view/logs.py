#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Event logs for the tests of tern-view that no device writes: damaged ones, and a large one for a
large capture.

logs.py CAPTURE FILE: writes a log with the events that the senders of a capture have had.
logs.py odd FILE: writes one of random records, with a name that is HTML."""
import os
import random
import struct
import sys

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.realpath(__file__))
sys.path[:0] = [os.path.join(HERE, "../../tools/tern-view"), os.path.join(HERE, "../../tools")]

from capture import Capture  # noqa: E402
from events import CHECK, CQE, DOORBELL, HEADER, INTERRUPT, MAGIC, POSTED, RECEIVED, SENT, VERSION, WQE  # noqa: E402
from roce.headers import OPCODES  # noqa: E402

EVENT = struct.Struct("<QBBHIQQIIII")
MAC = bytes.fromhex("020000000001")
WORK = {"SEND": 1, "WRITE": 4, "READ": 6, "ATOMIC": 7, "ATOMIC_WRITE": 9, "FLUSH": 10}


def header(version=VERSION, size=HEADER.size, record=EVENT.size, clock=0, epoch=0, mac=MAC,
           name=b"tern0", magic=MAGIC):
    return HEADER.pack(magic, version, size, record, clock, epoch, mac, name)


def event(time, kind, code=0, flags=0, qpn=0, addr=0, length=0, key=0, index=0, value=0, detail=0):
    return EVENT.pack(time, kind, code, flags, qpn, addr, length, key, index, value, detail)


def write_for(capture, path):
    """One log for all QPs of a capture of one address each way: who requests has the WQEs, and each
    packet is sent and received."""
    c, works = capture.columns, {}
    qps = [(flow.key[3], flow.link.peer.key[3] if flow.link and flow.link.peer else 0)
           for flow in capture.flows]
    with open(path, "wb") as f:
        f.write(header(mac=bytes(6)))
        out = []
        for i, time in enumerate(c.time):
            op, (dqp, sqp) = OPCODES[c.op[i]], qps[c.flow[i]]
            if op.kind in WORK and op.first:
                index = works[sqp] = works.get(sqp, -1) + 1
                out += [
                    event(time, DOORBELL, 1, qpn=sqp, index=sqp),
                    event(time, POSTED, qpn=sqp, index=index + 1, value=index),
                    event(time, WQE, WORK[op.kind], qpn=sqp, addr=c.va[i], length=c.dma[i]
                          or c.length[i], key=c.key[i], index=index)
                ]
            packet = {
                "code": c.op[i], "length": c.length[i], "index": c.psn[i], "addr": c.va[i],
                "key": c.key[i]
            }
            out += [
                event(time, SENT, qpn=sqp, value=dqp, **packet),
                event(time, RECEIVED, qpn=dqp, value=sqp, **packet)
            ]
            if c.key[i]:
                out.append(
                    event(time, CHECK, 2, qpn=dqp, addr=c.va[i], length=c.dma[i], key=c.key[i],
                          value=2))
            if op.response and op.last and dqp in works:
                out += [
                    event(time, CQE, qpn=dqp, key=9, index=works[dqp], value=1),
                    event(time, INTERRUPT, index=1, key=9)
                ]
            if len(out) > 10000:
                f.write(b"".join(out))
                out.clear()
        f.write(b"".join(out))


def odd(path):
    """Every type with any members, by adapters' rights or not; some of them about QPs and packets
    of captures.story()."""
    chance, time = random.Random(6), 1_700_000_000_000_000_000
    with open(path, "wb") as f:
        f.write(header(name=b"<img src=x onerror=alert(1)>"))
        for _ in range(3000):
            time += chance.choice((0, 0, 1000, chance.randrange(50_000)))
            members = [
                chance.choice((0, 1, 0x11, 0x22, (1 << bits) - 1, chance.randrange(1 << bits)))
                for bits in (32, 64, 64, 32, 32, 32, 32)
            ]
            f.write(
                event(time, chance.randrange(21), chance.choice((0, 1, 4, chance.randrange(256))),
                      chance.randrange(1 << 16), *members))


if __name__ == "__main__":
    if sys.argv[1] == "odd":
        odd(sys.argv[2])
    else:
        write_for(Capture([sys.argv[1]], check=False), sys.argv[2])

# SPDX-License-Identifier: GPL-2.0-or-later
"""Valid conversations, with tags where a test may plant an error."""
from build import MS, UC, XRC, Link, Scene, datagram

GROUP4, GROUP6 = bytes([239, 1, 2, 3]), bytes.fromhex("ff0e") + bytes(11) + b"\x01\x02\x03"


def calm():
    """Every opcode on one connection, from before the PSNs wrap; long and short, a solicited one,
    both directions."""
    s = Scene()
    link = Link(s)
    link.send(10, "send")
    link.send(4000, "long", se=1)
    link.write(2048, "write")
    link.write(1, "write1", imm=b"abcd")
    link.send(3000, "inv", inv=0x55)
    link.send(0, "empty", imm=b"efgh")
    link.read(2500, "read")
    link.read(0, "read0")
    link.atomic("atomic")
    link.atomic("swap", op=0x13)
    link.flush("flush")
    link.atomic_write("atomic-write")
    for i in range(3):
        link.write(5000, f"more{i}", imm=b"ijkl" if i == 1 else None)
        link.read(3000, f"reads{i}")
    back = link.back()
    back.send(1500, "back")
    back.read(1500, "back-read")
    link.send(10, "last")
    return s, link


def names_and_places():
    """IPv6, VLAN, UDP checksums, ECN marks of IP, XRC, UC, UD, groups, MADs, CNP, frames that are
    not RoCE."""
    s = Scene()
    six = Link(s, 0x31, 0x32, 5, ip6=True, vlan=77)
    six.send(3, "six")
    six.read(5000, "six-read")
    marked = Link(s, 0x33, 0x34, 9)
    marked.common.update(tos=3, checksum=1, id=99)
    marked.send(777, "marked")
    xrc = Link(s, 0x51, 0x52, 0x800000, cls=XRC, srq=0x61)
    xrc.send(2500, "xrc")
    xrc.read(2500, "xrc-read")
    xrc.atomic("xrc-atomic")
    xrc.send(5, "xrc-inv", inv=9)
    xrc.flush("xrc-flush")
    uc = Link(s, 0x71, 0x72, 0xFFFFFE, cls=UC)
    uc.data(0, 2500, "uc")
    uc.data(6, 2500, "uc-write")
    uc.data(6, 1000, "uc-imm", imm=b"1234")
    uc.data(0, 10, "uc-inv", inv=4)
    for i in range(4):
        datagram(s, f"ud{i}", psn=i, n=50 * i)
    datagram(s, "ud-imm", psn=4, imm=b"wxyz", ip6=True)
    datagram(s, "group", psn=5, dqp=0xFFFFFF, group=GROUP4)
    datagram(s, "group-again", psn=5, dqp=0xFFFFFF, group=GROUP4)
    datagram(s, "group6", psn=6, dqp=0xFFFFFF, group=GROUP6, ip6=True)
    datagram(s, "mad", qp=1, dqp=1, psn=0, n=256, qkey=0x80010000)
    s.frames[-1]["data"] = b"\x01\x07\x02" + bytes(253)
    s.put(
        {
            "from": s.y, "to": s.x, "sport": 0xC001, "opcode": 0x81, "dqp": 0x33, "psn": 0,
            "ecn": 1, "mig": 0, "data": bytes(16)
        }, "cnp")
    s.put({"raw": b"\xff" * 12 + b"\x08\x06" + bytes(46)}, "arp")
    return s, xrc


def repaired():
    """Losses past the tap: sequence NAK, timeout, lost ACK, READ from the middle, repeated
    atomic, RNR, coalesced ACK."""
    s = Scene()
    link = Link(s, psn=0x100)
    link.send(3000, "begin")
    # The first packet is lost, so the others are out of sequence.
    link.data(0, 3000, "seq")
    link.nak(link.psn - 3, 0x60, "nak")
    link.data(0, 3000, "seq-again", first_psn=link.psn - 3)
    link.done("seq-again")
    # The ACK is lost: after the timeout everything is repeated and acknowledged again.
    link.write(3000, "timeout")
    s.now += 25 * MS
    link.data(6, 3000, "timeout-again", first_psn=link.psn - 3)
    link.ack("timeout-again")
    # A response packet is lost; the requester requests the rest as soon as it receives the next
    # one.
    psn = link.ask_read(5000, "read")
    link.answer_read(5000, psn, "read")
    link.ask_read(5000, "restart", skip=2, psn=psn)
    link.answer_read(5000, psn, "restart", skip=2)
    # The response of an atomic is lost.
    psn = link.ask_atomic("atomic")
    link.answer_atomic(psn, 41, "atomic")
    s.now += 25 * MS
    link.ask_atomic("atomic-again", psn=psn)
    link.answer_atomic(psn, 41, "atomic-again")
    link.send(100, "between")
    # The receiver is not ready for 10.24 ms; packets after the first are silently dropped.
    link.data(0, 2000, "rnr")
    link.nak(link.psn - 2, 0x20 | 20, "rnr-nak")
    s.now += 11 * MS
    link.data(0, 2000, "rnr-again", first_psn=link.psn - 2)
    link.done("rnr-again")
    # One ACK for many requests.
    for i in range(5):
        link.data(0, 10, f"many{i}")
        link.msn += 1
    link.ack("many")
    # The first of three is lost, then the second: a NAK for each.
    for i in range(3):
        link.data(0, 10, f"three{i}")
    link.nak(link.psn - 3, 0x60, "nak1")
    for i in range(3):
        link.data(0, 10, f"three{i}-again", first_psn=link.psn - 3 + i)
    link.msn += 1
    link.nak(link.psn - 2, 0x60, "nak2")
    for i in range(1, 3):
        link.data(0, 10, f"three{i}-third", first_psn=link.psn - 3 + i)
        link.msn += 1
    link.ack("three")
    link.send(100, "end")
    return s, link


def refused():
    """A request is refused, then the QPs are reconnected with other PSNs. Also other operations
    that are abandoned."""
    s = Scene()
    link = Link(s, psn=0x500)
    link.send(100, "good")
    link.data(6, 100, "bad", key=0xBAD)
    link.nak(link.psn - 1, 0x62, "refusal")
    s.now += 50 * MS
    # A QP is reset while a request waits for a receiver, and begins at the same PSN with the same
    # message.
    for kind in (6, 0):
        reset = Link(s, 0x17, 0x18, 0x800)
        reset.send(3000, "same")
        reset.data(kind, 8, "differs")
        reset.nak(reset.psn - 1, 0x62 if kind else 0x2C)
        s.now += 30 * MS
    # A READ fails in the middle.
    other = Link(s, 0x13, 0x14, 0x600)
    psn = other.ask_read(5000, "half")
    other.answer_read(5000, psn, "half", parts=range(2))
    other.nak(psn + 2, 0x62)
    # An atomic's address is wrong.
    unaligned = Link(s, 0x15, 0x16, 0x700)
    unaligned.nak(unaligned.ask_atomic("unaligned"), 0x61, msn=0)
    s.find("unaligned")[0]["va"] = 0x30001
    # An unreliable message is abandoned.
    uc = Link(s, 0x71, 0x72, 3, cls=UC)
    uc.data(0, 3000, "given-up", parts=[0, 1])
    uc.psn -= 1
    uc.data(6, 3000, "next")
    again = Link(s, psn=0x500)
    again.write(2000, "again")
    again.back(0x900).send(10, "again-back")
    return s, link


def overtaken():
    """A capture at x; packets of y are lost and delayed before it: responses after a lost one are
    only an implied NAK."""
    s = Scene()
    link = Link(s, psn=0x100)
    link.send(100, "begin")
    # The READ's last response is late: it arrives after the rest was requested again, and is
    # accepted.
    psn = link.ask_read(3000, "read")
    link.data(0, 100, "behind")
    link.answer_read(3000, psn, "read", parts=[0, 1])
    link.msn += 1
    link.ack("behind")
    link.ask_read(3000, "rest", skip=2, psn=psn)
    link.data(0, 100, "behind-again", first_psn=link.psn - 1)
    link.answer_read(3000, psn, "late", parts=[2])
    link.ack("behind-again")
    # The atomic's response is lost: later requests are repeated at once, although the receiver was
    # not ready.
    atomic = link.ask_atomic("lost")
    link.data(0, 100, "rnr")
    link.nak(link.psn - 1, 0x20 | 20, "rnr-nak")
    link.ask_atomic("lost-again", psn=atomic)
    link.data(0, 100, "rnr-again", first_psn=link.psn - 1)
    link.answer_atomic(atomic, 41, "lost-again")
    link.done("rnr-again")
    # The last packet of y's message is lost before the tap, and counts when it is repeated.
    back = link.back(0x900)
    back.send(100, "back")
    back.data(0, 3000, "gap", parts=[0, 1])
    back.data(0, 100, "after-gap")
    back.nak(back.psn - 2, 0x60, "gap-nak")
    back.data(0, 3000, "gap-again", parts=[2], first_psn=back.psn - 4)
    back.msn += 1
    back.ack("gap-again", psn=back.psn - 2)
    back.data(0, 100, "after-gap-again", first_psn=back.psn - 1)
    back.done("after-gap-again")
    back.send(100, "end")
    # So does an atomic, without any earlier sign of a loss.
    psn = back.psn
    back.psn += 1
    back.data(0, 100, "behind-atomic")
    back.nak(psn, 0x60, "atomic-nak")
    back.ask_atomic("atomic-again", psn=psn)
    back.msn += 1
    back.answer_atomic(psn, 7, "atomic-again")
    back.data(0, 100, "behind-atomic-again", first_psn=back.psn - 1)
    back.done("behind-atomic-again")
    back.send(100, "last")
    return s, link


def twins():
    """Many simultaneous connections with the same PSNs, also within one host, and of one QP with
    itself."""
    s = Scene()
    links = [Link(s, 0x100 + i, 0x200 + i, 0xFFFFF0) for i in range(8)]
    inside = Link(s, 0x300, 0x301, 0xFFFFF0)
    alone = Link(s, 0x310, 0x310, 0xFFFFF0)
    inside.y, alone.y = inside.x, alone.x
    links += [inside, alone]
    for i in range(40):
        for k, link in enumerate(links):
            if (i + k) % 3 == 0:
                link.read(3000, f"r{k}.{i}")
            else:
                link.data(0, 2000, f"s{k}.{i}", seed=k)
        for k, link in enumerate(links):
            if (i + k) % 3:
                link.done(f"s{k}.{i}")
    return s, links


def strangers():
    """Without the convention for source ports only the PSNs show which flows belong together."""
    s = Scene()
    links = [Link(s, 0x100 + i, 0x200 + i, 0x1000 * i + 77, port=0xD000 + i) for i in range(4)]
    for i, link in enumerate(links):
        link.send(2000, f"s{i}")
    for i, link in enumerate(links):
        for f in s.find(f"s{i}.ack"):
            f["sport"] = 0xE000 + i
        back = link.back(0x700000 + 0x1000 * i)
        back.common = {**link.common, "sport": 0xE000 + i}
        back.send(10, f"b{i}")
        for f in s.find(f"b{i}.ack"):
            f["sport"] = 0xD000 + i
    # One after the other, with the same PSNs.
    for i in range(4):
        link = Link(s, 0x140 + i, 0x240 + i, 0x55, port=0xD100 + i)
        link.send(10, f"t{i}")
        link.write(2000, f"t{i}")
        for f in s.find(f"t{i}.ack"):
            f["sport"] = 0xE100 + i
    return s, links


def reader():
    """Several READs outstanding, answered one after the other; path MTU 256, so PSNs run fast."""
    s = Scene()
    link = Link(s, psn=0xFFFFC0, mtu=256)
    for r in range(4):
        asked = [(n, link.ask_read(n, f"ask{r}.{n}")) for n in (1000, 256, 3000, 1)]
        link.msn -= 4
        for n, psn in asked:
            link.msn += 1
            link.answer_read(n, psn, f"ask{r}.{n}")
        link.send(100, f"send{r}")
    return s, link


def middle():
    """The capture begins in the middle of everything."""
    s, link = calm()
    s.drop(*s.frames[:3])
    return s, link


VALID = {
    f.__name__.replace("_", "-"): f
    for f in (calm, names_and_places, repaired, refused, twins, strangers, reader, middle)
}

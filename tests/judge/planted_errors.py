# SPDX-License-Identifier: GPL-2.0-or-later
"""One planted error for each way to break a rule: the conversation, and the change."""
import collections

from build import MS, Link, datagram, text
from checker import Taps
from conversations import GROUP4, calm, names_and_places, reader, refused, repaired

ERRORS = []
AT_X = Taps("device", [bytes([0x52, 0x54, 0, 0x77, 0, 1])], True)

PlantedError = collections.namedtuple("PlantedError", "rule name scene change taps options")


def breaks(rule, scene, name="", taps=None, **options):
    """Registers change(scene, link)."""
    def add(change):
        ERRORS.append(PlantedError(rule, name, scene, change, taps, options))
        return change

    return add


def change(rule, scene, tag, name="", at=0, taps=None, options=None, **fields):
    """Changes fields of a frame."""
    def apply(s, _):
        s.find(tag)[at].update(fields)

    breaks(rule, scene, name, taps, **(options or {}))(apply)


def extra(rule, tag, name="", scene=calm, **fields):
    """Adds a copy of a frame with other fields: wrong by itself, it has no place in the stream."""
    def apply(s, _):
        s.insert(s.find(tag)[0], {**s.find(tag)[0], **fields})

    breaks(rule, scene, name)(apply)


# ---- frames ----

change("ip-header", calm, "send", "checksum", ip_xor=1)
change("ip-header", calm, "send", "fragmentable", fragment=0)
extra("ip-length", "send", udp_more=4)
change("udp-checksum", names_and_places, "marked", checksum_xor=1)
change("frame-fill", calm, "empty.ack", "not zero", fill=b"\0\1")
change("frame-fill", calm, "long", "long", fill=bytes(8))
extra("opcode", "send", "reserved", opcode=0x15)
extra("opcode", "send", "class", opcode=0x44)
extra("headers", "send", "too short for a RETH", opcode=0x0C, data=b"", imm=b"")
extra("headers", "last.ack", "payload behind an ACK", data=bytes(4))
extra("icrc", "send", crc_xor=0x100)
extra("icrc", "six", "of IPv6", scene=names_and_places, crc_xor=1)
change("bth-version", calm, "send", version=1)
change("bth-reserved", calm, "send", reserved=0x20)
change("mig-req", calm, "send", mig=0)
change("mig-req", calm, "last.ack", "of a response", mig=0)
change("ecn", calm, "send", ecn=1)
change("pad", calm, "send", "not zero", padding=b"\0\1")
extra("pad", "empty.ack", "more than there is", pad=1)
change("p-key", calm, "send", pkey=0x8000)
change("solicited", calm, "long", se=1)
change("solicited", calm, "read", "of a READ", se=1)
change("solicited", calm, "last.ack", "of a response", se=1)
change("ack-request", calm, "send", "missing", ack=0)
change("ack-request", calm, "read", "missing in a READ", ack=0)
change("ack-request", calm, "last.ack", "of a response", ack=1)
change("ack-request", names_and_places, "ud0", "of a datagram", ack=1)
change("ack-request", names_and_places, "uc", "of UC", ack=1)


@breaks("dest-qp", names_and_places, "zero")
def _(s, _link):
    datagram(s, psn=7, dqp=0)


@breaks("dest-qp", calm, "group")
def _(s, link):
    s.insert(s.frames[-1], {**s.find("send")[0], "dqp": 0xFFFFFF})


# ---- headers ----

change("reserved-fields", names_and_places, "ud0", "DETH", deth_reserved=1)
change("reserved-fields", names_and_places, "xrc", "XRCETH", xrc_reserved=1)
change("reserved-fields", calm, "flush", "FETH", feth=0x43)
change("syndrome", calm, "last.ack", "kind 2", syndrome=0x5F)
change("syndrome", calm, "last.ack", "NAK of no meaning", syndrome=0x65)
change("syndrome", calm, "last.ack", "NAK of RD", syndrome=0x64)
change("syndrome", calm, "atomic.ack", "NAK with data", syndrome=0x60)
change("credits", calm, "last.ack", syndrome=0x05)
change("dma-length", names_and_places, "xrc-flush", dma=(1 << 31) + 1)
change("atomic-address", calm, "atomic", va=0x30004)
change("atomic-address", calm, "atomic-write", "ATOMIC WRITE", va=0x30004)
change("atomic-write", calm, "atomic-write", "RETH", dma=16)
change("atomic-write", calm, "atomic-write", "payload", data=text(4))
change("flush", calm, "flush", "nowhere", feth=0x00)
change("flush", calm, "flush", "unknown placement", feth=0x04)
change("flush", calm, "flush", "unknown range", feth=0x23)
change("cnp", names_and_places, "cnp", "without BECN", ecn=0)
change("cnp", names_and_places, "cnp", "payload", data=bytes(15) + b"\1")
change("cnp", names_and_places, "cnp", "length", data=bytes(12))
change("payload", names_and_places, "ud3", data=text(4100))
change("multicast", names_and_places, "group", "MAC", dmac=bytes.fromhex("01005e000000"))
change("multicast", names_and_places, "ud3", "QP", dqp=0xFFFFFF)
change("multicast", names_and_places, "ud3", "address", group=GROUP4)
change("gsi", names_and_places, "mad", "length", data=b"\1" + bytes(251))
change("gsi", names_and_places, "mad", "Q_Key", qkey=1)
change("gsi", names_and_places, "mad", "version", data=bytes(256))
change("ud-psn", names_and_places, "ud3", "twice", psn=2)
change("ud-source", names_and_places, "ud0", src_qp=0)


@breaks("ud-psn", names_and_places, "gap")
def _(s, _link):
    s.drop(*s.find("ud1"))


# ---- messages ----

change("opcode-order", calm, "long", "MIDDLE is FIRST", at=1, opcode=0x00)
change("opcode-order", calm, "write", "LAST of another kind", at=1, opcode=0x02)
change("opcode-order", calm, "last", "LAST alone", opcode=0x02)
change("opcode-order", names_and_places, "uc", "of UC", at=1, opcode=0x27)
change("packet-full", calm, "long", "short", at=1, data=text(1020))
change("packet-full", calm, "long", "another MTU", at=1, data=text(512))
change("packet-full", calm, "reads1.ack", "of a READ response", data=text(1000))
change("last-length", calm, "long", "empty", at=3, data=b"")
change("last-length", calm, "long", "longer than the MTU", at=3, data=text(1028))
change("last-length", calm, "send", "ONLY longer than the MTU", data=text(2048))
change("write-length", calm, "write", "less", at=1, data=text(1020))
change("write-length", calm, "write1", "more", data=text(5))
change("write-length", names_and_places, "uc-write", "of UC", at=2, data=text(456))
change("xrc-srq", names_and_places, "xrc", at=1, srq=0x62)
change("uc-psn", names_and_places, "uc-imm", "twice", psn=3)


@breaks("uc-psn", names_and_places, "gap")
def _(s, _link):
    for tag in ("uc-write", "uc-imm", "uc-inv"):
        for f in s.find(tag):
            f["psn"] += 1


@breaks("opcode-order", calm, "READ in a message")
def _(s, link):
    psn = link.psn
    link.request(0x00, psn, data=text(1024))
    link.psn += 1
    link.read(10)


@breaks("xrc-direction", names_and_places)
def _(s, link):
    link.back().send(10)


# ---- requesters ----


@breaks("psn-order", calm, "gap")
def _(s, _link):
    s.drop(*s.find("write1"), *s.find("write1.ack"))


@breaks("psn-order", calm, "gap behind a READ")
def _(s, link):
    link.psn += 1
    link.send(10)


@breaks("retransmit-cause", calm)
def _(s, link):
    link.data(0, 10)
    link.data(0, 10, first_psn=link.psn - 1)


@breaks("retransmit-cause", calm, "too soon")
def _(s, link):
    link.data(0, 10)
    s.now += 15 * MS
    link.data(0, 10, first_psn=link.psn - 1)


@breaks("retransmit-cause", calm, "the NAK was used", taps=AT_X)
def _(s, link):
    link.data(0, 10)
    link.data(0, 10, seed=2)
    link.nak(link.psn - 2, 0x60)
    for _i in range(2):
        link.data(0, 10, first_psn=link.psn - 2)
        link.data(0, 10, seed=2, first_psn=link.psn - 1)


@breaks("retransmit-order", repaired)
def _(s, _link):
    s.drop(s.find("seq-again")[1])


@breaks("retransmit-order", repaired, "goes on too soon")
def _(s, link):
    s.drop(s.find("seq-again")[2], *s.find("seq-again.ack"))


@breaks("retransmit-acked", calm, taps=AT_X)
def _(s, link):
    link.send(10)
    link.data(0, 10)
    s.now += 25 * MS
    link.data(0, 10, first_psn=link.psn - 2)
    link.data(0, 10, first_psn=link.psn - 1)


change("retransmit-same", repaired, "seq-again", "opcode", at=2, opcode=0x03, imm=b"1234")
change("retransmit-same", repaired, "timeout-again", "RETH", key=0x78)
change("retransmit-same", repaired, "atomic-again", "atomic", swap=2)
change("retransmit-payload", repaired, "seq-again", data=text(1024, 9))
change("read-restart", repaired, "restart", "address", va=0x20000)
change("read-restart", repaired, "restart", "length", dma=5000)
change("read-restart", repaired, "restart", "key", key=1)


@breaks("rnr-wait", repaired)
def _(s, _link):
    for f in s.find("rnr-again"):
        f["time"] -= 3 * MS  # 8 ms instead of 11


@breaks("rnr-wait", calm, "at once")
def _(s, link):
    other = Link(s, 0x91, 0x92, 7)
    other.data(0, 10)
    other.nak(other.psn - 1, 0x21)
    other.data(0, 10, first_psn=other.psn - 1)


@breaks("rnr-wait", calm, "what is behind", taps=AT_X)
def _(s, link):
    link.data(0, 10)
    link.nak(link.psn - 1, 0x20)
    link.data(0, 10)


@breaks("after-nak", refused, "the responder answers")
def _(s, link):
    nak = s.find("refusal")[0]
    s.insert(nak, {**s.find("good.ack")[0]})


@breaks("after-nak", refused, "the requester goes on", taps=AT_X)
def _(s, link):
    bad = s.find("bad")[0]
    s.insert(s.find("refusal")[0], {**bad, "psn": bad["psn"] + 1})


@breaks("after-nak", refused, "the responder asks")
def _(s, link):
    # It has sent a request before, so this is not another generation of its QP.
    back = link.back()
    back.data(0, 10, "early")
    back.data(0, 10, "late")
    early, late = s.find("early")[0], s.find("late")[0]
    s.drop(early, late)
    s.insert(s.find("good")[0], early)
    s.insert(s.find("refusal")[0], late)


@breaks("outstanding-reads", reader, max_rd_atomic=4)
def _(s, link):
    for i in range(5):
        link.ask_read(10)


@breaks("window", calm, window=128)
def _(s, link):
    for i in range(129):
        link.data(0, 10)


# ---- responders ----


@breaks("response-unsent", calm)
def _(s, link):
    link.ack(psn=link.psn)


@breaks("response-unsent", calm, "NAK")
def _(s, link):
    link.nak(link.psn + 3, 0x60)


change("response-kind", calm, "last.ack", "READ response to a SEND", opcode=0x10)
change("response-kind", calm, "last.ack", "atomic's to a SEND", opcode=0x12, original=1)
change("response-kind", calm, "atomic.ack", "READ response to an atomic", opcode=0x10)


@breaks("response-kind", calm, "atomic's to a READ")
def _(s, link):
    f = s.find("read0.ack")[0]
    s.insert(s.find("read0")[0], {**f, "opcode": 0x12, "original": 1})


@breaks("response-order", calm, "ACK over a READ")
def _(s, link):
    link.ask_read(3000)
    link.ack()


@breaks("response-order", calm, "ACK behind an atomic")
def _(s, link):
    link.ask_atomic()
    link.send(10)


@breaks("response-order", calm, "the second READ first")
def _(s, link):
    psn = link.ask_read(10)
    link.read(10)
    link.answer_read(10, psn)


@breaks("response-order", calm, "half a READ")
def _(s, link):
    s.drop(*s.find("reads2.ack")[1:])


@breaks("read-order", reader, "one missing")
def _(s, _link):
    s.drop(s.find("ask1.3000.ack")[4])


@breaks("read-order", calm, "FIRST twice")
def _(s, _link):
    f = s.find("reads1.ack")
    f[1].update(opcode=0x0D, syndrome=0x1F, msn=f[0]["msn"])


@breaks("read-count", calm, "MIDDLE at the end")
def _(s, _link):
    f = s.find("reads1.ack")[2]
    del f["syndrome"], f["msn"]
    f.update(opcode=0x0E, data=text(1024))


change("read-length", calm, "read.ack", "less", at=2, data=text(448))
change("read-length", calm, "read0.ack", "of an empty one", data=text(8))
change("read-length", calm, "flush.ack", "FLUSH", data=text(8))
change("atomic-repeat", repaired, "atomic-again.ack", original=42)
change("msn", calm, "last.ack", "ahead", msn=0x100)
change("msn", calm, "long.ack", "behind", msn=1)
change("msn", calm, "read.ack", "of a READ", at=2, msn=3)
change("msn", repaired, "nak1", "of a NAK", msn=0x100)


@breaks("msn", calm, "does not begin at 0", from_start=True)
def _(s, _link):
    for f in s.frames:
        if "msn" in f:
            f["msn"] += 5


@breaks("read-count", calm, "LAST too soon")
def _(s, _link):
    s.drop(*s.find("reads2.ack")[2:])
    s.find("reads2.ack")[1].update(opcode=0x0F, syndrome=0x1F, msn=s.find("reads2.ack")[0]["msn"])


@breaks("msn-order", repaired)
def _(s, link):
    psn = link.ask_read(3000)
    link.answer_read(3000, psn)
    link.send(10)
    s.now += 25 * MS
    link.ask_read(3000, psn=psn)
    link.msn -= 1
    link.answer_read(3000, psn)


@breaks("nak-once", repaired)
def _(s, _link):
    s.insert(s.find("nak1")[0], s.find("nak1")[0])


@breaks("nak-once", repaired, "again later")
def _(s, _link):
    s.insert(
        s.find("three1-again")[0],
        {**s.find("nak1")[0], "psn": s.find("nak2")[0]["psn"], "msn": s.find("nak2")[0]["msn"]})


change("nak-psn", repaired, "nak1", psn=0x103, msn=1)


@breaks("nak-psn", calm, "RNR")
def _(s, link):
    link.data(0, 10)
    link.msn += 1
    link.send(10)
    link.nak(link.psn - 1, 0x20)


@breaks("rnr-place", calm)
def _(s, link):
    link.data(6, 10)
    link.nak(link.psn - 1, 0x21)


@breaks("rnr-place", calm, "in a message")
def _(s, link):
    link.data(0, 3000)
    link.nak(link.psn - 2, 0x21)


@breaks("nak-cause", repaired)
def _(s, link):
    link.data(0, 10)
    link.nak(link.psn - 1, 0x60)

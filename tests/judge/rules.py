# SPDX-License-Identifier: GPL-2.0-or-later
"""The rules by name, and counts of how often each was checked and broken."""

# Checked in every RoCE frame whose headers can be found.
FRAME = {
    "ip-header": "IPv4 without options, header checksum right, Don't Fragment set, no fragment",
    "ip-length": "IP length, UDP length and frame agree, with room for BTH and ICRC",
    "udp-checksum": "UDP checksum is 0 or right",
    "frame-fill": "bytes after the ICRC are zeros that fill up a short frame",
    "opcode": "the opcode exists",
    "headers": "length is a multiple of 4, holds the opcode's headers; payload only where it has one",
    "icrc": "the ICRC is right", "bth-version": "transport version is 0",
    "bth-reserved": "reserved bits of the BTH are 0", "mig-req": "MigReq is 1",
    "ecn": "FECN and BECN are 0, but in a CNP",
    "pad": "no more pad than there is payload, and zeros",
    "p-key": "P_Key is the default one, full or limited",
    "dest-qp": "destination QP is not 0, and 0xffffff in UD alone",
    "solicited": "the solicited bit is in no FIRST, MIDDLE, READ, atomic or response",
    "ack-request": "AckReq is in READs, atomics and the last packet of reliable messages; in no response, no UC, no UD",
}
HEADERS = {
    "reserved-fields": "reserved bytes of DETH, XRCETH and FETH are 0",
    "syndrome": "AETH is an ACK, an RNR NAK or a NAK of code 0 to 3; READ and atomic responses carry an ACK",
    "credits": "an ACK says that there are no end-to-end credits (0x1f)",
    "dma-length": "RETH asks for 2^31 bytes at most",
    "atomic-write": "an ATOMIC WRITE has 8 bytes, in RETH and payload",
    "flush": "FLUSH: placement global or persistent or both, selectivity range or region",
    "cnp": "a CNP has BECN, no AckReq, not the solicited bit, and 16 zero bytes",
    "payload": "no more payload than 4096 bytes",
    "multicast": "to 0xffffff means to an IP group and its MAC, and the other way round",
    "gsi": "to QP 1: 256 bytes of MAD, version 1, and its Q_Key",
    "ud-source": "the source QP of a datagram is not 0, and not 0xffffff",
    "ud-psn": "the datagrams of a QP have consecutive PSNs",
}
MESSAGES = {
    "opcode-order": "FIRST, MIDDLE, LAST and ONLY follow one another, and nothing comes in between",
    "packet-full": "every packet but the last has path MTU bytes, and a path MTU is 256, 512, ... 4096",
    "last-length": "LAST has 1 byte to path MTU, ONLY no more than path MTU",
    "write-length": "the packets of a WRITE carry what its RETH says",
    "xrc-srq": "all packets of an XRC message name one SRQ",
    "xrc-direction": "of the two QPs of an XRC connection one has all the requests",
    "uc-psn": "the packets of an unreliable connection have consecutive PSNs, none twice",
}
REQUESTER = {
    "psn-order": "requests have consecutive PSNs; a READ takes one for each packet of its response",
    "retransmit-cause": "the requester goes back after a NAK, an RNR NAK, an implied NAK or a timeout",
    "retransmit-order": "having gone back, it repeats everything that is not acknowledged",
    "retransmit-acked": "what is acknowledged is not sent again",
    "retransmit-same": "a repeated request is the one of before: opcode, headers, length",
    "retransmit-payload": "a repeated SEND or WRITE has the payload of before",
    "read-restart": "a READ asked for again from the middle asks for the rest: address, key, length",
    "rnr-wait": "after an RNR NAK its PSN is not sent before the time of the code is over",
    "after-nak": "a NAK that is an error is the last packet of both QPs",
    "outstanding-reads": "READs and atomics outstanding are no more than --max-rd-atomic",
    "window": "packets of SENDs and WRITEs outstanding are no more than --window",
}
RESPONDER = {
    "response-unsent": "only what was sent is answered",
    "response-kind": "a READ response answers a READ, a FLUSH or an ATOMIC WRITE; an atomic response an atomic",
    "response-order": "nothing is answered while a READ or an atomic before it is not",
    "read-order": "a READ response begins with FIRST or ONLY at the PSN of a request, goes on to LAST without a gap",
    "read-count": "LAST or ONLY is where the READ's length ends, and nowhere else",
    "read-length": "the packets of a READ response carry what was asked for; of FLUSH and ATOMIC WRITE nothing",
    "atomic-address": "an atomic or ATOMIC WRITE at an address that is no multiple of 8 is refused",
    "atomic-repeat": "an atomic answered again has the value of before",
    "msn": "MSN is the number of messages completed", "msn-order": "MSN does not go back",
    "nak-once": "a PSN sequence NAK names a PSN once",
    "nak-psn": "a NAK names a PSN that was not acknowledged",
    "nak-cause": "a PSN sequence NAK has a packet beyond the one it names",
    "rnr-place": "an RNR NAK answers a SEND's first packet or a WRITE's immediate data",
}
RULES = {**FRAME, **HEADERS, **MESSAGES, **REQUESTER, **RESPONDER}

# Habits of other implementations: rules that the packets of such a host need not keep.
PEERS = {
    "soft-roce": {
        "mig-req": "sends 0",
        "ack-request": "asks in UC and UD as well, and not at every message's end",
        "ip-header": "leaves fragments and DF to the stack",
        "udp-checksum": "leaves it to the network card", "pad": "may send what was in the buffer",
        "credits": "may give credits", "retransmit-cause": "has timers of its own",
        "retransmit-order": "skips what it holds to be acknowledged",
        "retransmit-acked": "goes back to a message's beginning",
        "rnr-place": "answers READs and atomics with it, too",
        "rnr-wait": "its timers have the resolution of jiffies",
        "window": "has a window of its own", "outstanding-reads": "has other limits",
        "after-nak": "sends what is queued",
    },
}


class Report:
    """Complaints, and how often each rule was checked."""
    def __init__(self, ignore=(), peers=None, show=20, out=print):
        self.ignore = frozenset(ignore)
        self.peers = peers or {}  # IP address or MAC: {rule: why}
        self.show = show
        self.out = out
        self.checked = dict.fromkeys(RULES, 0)
        self.wrong = dict.fromkeys(RULES, 0)
        self.allowed = dict.fromkeys(RULES, 0)
        self.frames = 0  # RoCE frames whose headers were found
        self.others = 0  # frames that are not RoCE
        self.cut = 0  # cut short in the capture
        self.damaged = 0  # by faults before the tap
        self.file = ""
        self.complaints = []  # (file, frame, rule, reason)

    def complain(self, rule, packet, reason):
        """Reports that a rule was broken. The callers count checks."""
        if rule in self.ignore or rule in self.peers.get(packet.src, ()) or rule in self.peers.get(
                packet.smac, ()):
            self.allowed[rule] += 1
            return
        self.wrong[rule] += 1
        self.complaints.append((self.file, packet.frame, rule, reason))
        if self.wrong[rule] <= self.show:
            self.out(f"{self.file}: frame {packet.frame}: {rule}: {reason} [{packet}]")
        elif self.wrong[rule] == self.show + 1:
            self.out(f"{self.file}: more of {rule} are counted, not shown")

    def finish(self):
        """Counts the rules that are checked in every frame."""
        for rule in FRAME:
            self.checked[rule] = self.frames

    def summary(self):
        width = max(map(len, RULES))
        yield f"{'rule':{width}}  {'checked':>9}  {'wrong':>6}"
        for rule, text in RULES.items():
            n = f"{self.checked[rule]:9}" if self.checked[rule] else "    never"
            allowed = f"  ({self.allowed[rule]} let pass)" if self.allowed[rule] else ""
            yield f"{rule:{width}}  {n}  {self.wrong[rule]:6}  {text}{allowed}"
        yield f"{self.frames} RoCE frames, {self.others} others, {self.cut} cut short, {self.damaged} damaged; {sum(self.wrong.values())} complaints"

# SPDX-License-Identifier: GPL-2.0-or-later
"""Reliable and extended reliable connections: what a requester repeats and when, what a responder
answers.

PSNs are integers that do not wrap: 24 captured bits stand for the nearest such number to the newest
one.
"""
import bisect
import collections
import zlib

from roce.flows import PSN_MASK, signed
from roce.headers import ACK, ATOMIC, ATOMIC_ACK, ATOMIC_WRITE, MTUS, READ, READ_RESPONSE, SEND, XRC
from messages import Messages

# A longer step of the PSNs means another generation of the QP.
NEAR = 4096
# A QP that was reset may begin at the same PSN again, but not sooner than this.
QUIET = 500_000
# Where responses may be lost, the requester may repeat its first request for this long.
REPEATING = 10_000_000_000
# The NAK that ends a connection takes no longer than this.
FLIGHT = 5_000
# Acknowledged requests are remembered for this many PSNs, and this many with responses of their
# own.
KEEP_PSNS = 1024
KEEP_READS = 128

# IBTA table 45: the RNR timer's codes, in units of 10 us.
RNR_TIMER = (65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768,
             1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152)
NAK_SEQUENCE, LAST_NAK = 0x60, 0x63


class Answered:
    """A request with a response of its own: READ, atomic, FLUSH, ATOMIC WRITE."""
    __slots__ = ("op", "first", "ends", "va", "key", "length", "time", "done", "starts", "original",
                 "wanted")

    def __init__(self, p, first, ends):
        self.op, self.first, self.ends = p.op, first, ends
        self.va, self.key = p.va, p.r_key
        self.length = p.dma_length if p.op.kind == READ else 0
        self.time, self.done, self.starts, self.original = p.time, False, {first}, None
        self.wanted = first  # PSN of the response that the requester accepts next


Sent = collections.namedtuple("Sent", "time code extended length solicited digest")


class Stream:
    """Requests in one direction and their responses in the other."""
    def __init__(self, judge, connection, requests, responses, mtu, response_mtu):
        self.judge, self.report, self.connection = judge, judge.report, connection
        self.mtu, self.least_mtu = mtu
        self.response_mtu = response_mtu
        taps = judge.taps
        self.paired = responses is not None
        self.complete = taps.complete(requests)
        self.answers_complete = self.paired and taps.complete(responses)
        self.answers_exact = self.paired and taps.exact(responses)
        self.orderly = taps.orderly(requests.smac)
        self.answers_orderly = self.paired and taps.orderly(responses.smac)
        self.base = self.head = None
        self.old = None

    # ---- generations of a QP ----

    def begin(self, p, unknown):
        """The first captured request of this generation."""
        if self.base is not None:
            self.old = (self.base, self.head)
        self.unknown = unknown
        self.base = self.cursor = self.acked = p.psn + (1 << 24)
        self.next = [self.base]  # more than one after a READ of unknown path MTU
        self.head = self.base
        self.sent = {}
        self.answered = collections.deque()  # the last ones, and all that are not complete
        self.open = collections.deque()  # those that are not complete
        self.ends = []  # last PSNs of messages; first PSNs of READs
        self.ends_gone = 0
        self.msn_base = None if unknown else 0
        self.msn_last = None
        self.messages = Messages(self.report, self.mtu, self.least_mtu)
        if unknown and not p.op.first:
            self.messages.lost()
        self.nak_time = self.gap_time = self.answer_time = self.went_back = -1
        self.naks = set()  # PSNs that a sequence NAK named
        self.rnr = None  # (PSN, until, time) of the RNR NAK in effect
        self.skipped = False  # a response before another was missing
        self.run = None  # (READ, next PSN) of the current READ response
        self.last_time = p.time
        self.connection.alive()

    def extend(self, psn):
        return self.head + signed(psn - self.head)

    def fresh(self, p, x):
        """Whether this request belongs to another generation of the QP: it was reset, or its number
        was reused."""
        dead = self.connection.dead
        if not p.op.first or (x in self.next and not (dead and x == self.base)):
            return False
        if x > self.head:
            return x - self.head > NEAR or bool(dead)
        if x < self.base:
            return self.base - x > NEAR or not self.unknown
        if x == self.base:
            known = self.sent.get(x)
            over = bool(dead) or self.acked > x
            if known is None:
                return over
            other, quiet = self.differs(p, known), p.time - self.last_time > QUIET
            # Captured requests may be delayed or lost after the tap: then the same request is soon
            # repeated.
            if dead:
                quiet = p.time - dead[3] > FLIGHT
            elif self.judge.taps.faults and not self.answers_exact:
                quiet = p.time - self.last_time > REPEATING
            return (self.answers_exact or other or quiet) if over else other and quiet
        return x not in self.sent and self.covering(x) is None and self.head - x > NEAR

    # ---- requests ----

    def request(self, p):
        if self.base is None:
            self.begin(p, not self.judge.from_start)
        x = self.extend(p.psn)
        if self.fresh(p, x):
            # This may also be the first request, repeated because its ACK was lost; counting from
            # there gives the same result.
            self.begin(p, self.unknown and x == self.base)
            x = self.base
        self.connection.speaks(p)
        self.rnr_wait(p, x)
        if x >= self.head or x in self.next:
            self.new(p, x)
        elif x >= self.base:
            self.again(p, x)
        self.last_time = p.time

    def new(self, p, x):
        report, op = self.report, p.op
        report.checked["psn-order"] += 1
        if x not in self.next:
            if self.complete:
                report.complain("psn-order", p, f"expected {self.next[0] & PSN_MASK:#x}")
            self.lost()
        elif len(self.next) > 1:
            self.answered[-1].ends = [x]
        self.in_order(p, min(x, self.head))
        self.messages.packet(p)
        self.remember(p, x)
        self.next = self.after(p, x)
        if op.answered:
            request = Answered(p, x, self.next)
            self.answered.append(request)
            self.open.append(request)
            self.outstanding(p, x)
        if op.data:
            self.window(p, x)
        if op.last:
            self.ends.append(x)
        self.head = self.cursor = self.next[-1]
        self.forget()

    def remember(self, p, x):
        self.sent[x] = Sent(p.time, p.op.code, p.extended, p.length, p.solicited,
                            zlib.crc32(p.payload) if p.length else 0)

    def after(self, p, x):
        """The possible next PSNs."""
        if p.op.kind != READ:
            return [x + 1]
        mtus = [self.mtu] if self.mtu else [m for m in MTUS if m >= self.least_mtu]
        return sorted({x + max(1, -(-p.dma_length // m)) for m in mtus})

    def lost(self):
        """Requests are missing from the capture: their number, and what depends on it, is
        unknown."""
        self.messages.lost()
        self.msn_base = None

    def forget(self):
        if len(self.sent) > 4 * KEEP_PSNS:
            for x in [x for x in self.sent if x < min(self.acked, self.head) - KEEP_PSNS]:
                del self.sent[x]
        while len(self.answered) > KEEP_READS and self.answered[0].done:
            self.answered.popleft()
        if len(self.ends) > 16 * KEEP_PSNS:
            n = bisect.bisect_left(self.ends, self.acked - KEEP_PSNS)
            del self.ends[:n]
            self.ends_gone += n

    def covering(self, x):
        for request in reversed(self.answered):
            if request.first <= x:
                return request if x < request.ends[-1] else None
        return None

    @staticmethod
    def differs(p, known):
        return (p.op.code, p.extended, p.length, p.solicited) != known[1:5]

    def again(self, p, x):
        """A request with a PSN that was used before."""
        checked, bad = self.report.checked, self.report.complain
        request, known = self.covering(x), self.sent.get(x)
        end = x + 1
        if request is None and known is None and x >= self.acked:
            self.first_seen_late(p, x)
            request = self.covering(x)
            end = request.ends[-1] if request else end
        if self.answers_exact and not self.skipped:
            checked["retransmit-acked"] += 1
            if x < self.acked:
                bad("retransmit-acked", p,
                    f"everything before {self.acked & PSN_MASK:#x} is acknowledged")
        if request is not None and x != request.first:
            end = request.ends[-1]
            self.restart(p, x, request)
        elif known is not None:
            checked["retransmit-same"] += 1
            if self.differs(p, known):
                bad("retransmit-same", p, f"was another packet with {known.length} bytes")
            elif p.op.data:
                checked["retransmit-payload"] += 1
                if p.length and zlib.crc32(p.payload) != known.digest:
                    bad("retransmit-payload", p, "differs")
            if request is not None:
                end = request.ends[-1]
        if x < self.cursor:
            self.cause(p, x, known or request)
            self.went_back = p.time
        else:
            self.in_order(p, x)
        self.cursor = end

    def first_seen_late(self, p, x):
        """A request lost before the tap is repeated: restart the count of messages."""
        self.msn_base = None
        self.remember(p, x)
        if p.op.last:
            bisect.insort(self.ends, x)
        if p.op.answered:
            request = Answered(p, x, self.after(p, x))
            for requests in (self.answered, self.open):
                requests.insert(sum(1 for r in requests if r.first < x), request)

    def restart(self, p, x, request):
        """A READ that continues where the response was interrupted."""
        checked, bad = self.report.checked, self.report.complain
        checked["read-restart"] += 1
        mtu = self.mtu or self.response_mtu
        if request.op.kind != READ or p.op.kind != READ:
            bad("read-restart", p, f"inside of a {request.op.kind}")
        elif mtu is not None:
            skip = (x - request.first) * mtu
            if (p.va, p.r_key, p.dma_length) != ((request.va + skip) & (1 << 64) - 1, request.key,
                                                 request.length - skip):
                bad("read-restart", p, f"not what is left {skip} bytes after the beginning")
        request.starts.add(x)

    def in_order(self, p, x):
        """A step forward among used PSNs may only skip acknowledged requests."""
        if not self.complete or not self.paired or self.cursor >= self.head:
            return
        self.report.checked["retransmit-order"] += 1
        if x > self.cursor and self.acked < x:
            self.report.complain("retransmit-order", p, f"{self.cursor & PSN_MASK:#x} was to come")

    def cause(self, p, x, before):
        """Going back needs a reason."""
        if not self.complete or not self.paired or before is None:
            return
        self.report.checked["retransmit-cause"] += 1
        since, timeout = before.time, self.judge.timeout
        if self.answers_exact and self.went_back > since:
            since, timeout = self.went_back, timeout / 2
        # Earlier packets may have arrived since, unless the capture shows arrivals.
        flying = 0 if self.answers_exact else QUIET
        if p.time - since >= timeout or max(self.nak_time, self.gap_time) >= since - flying:
            return
        # After the loss of a response past the tap, a later one is an implied NAK.
        if not self.answers_exact and self.answered and self.answered[-1].ends[
                -1] > x and self.answer_time >= since - flying:
            return
        self.report.complain(
            "retransmit-cause", p,
            f"{(p.time - before.time) / 1e6:.3f} ms after it was first sent, and no NAK")

    def outstanding(self, p, x):
        if not self.judge.max_rd_atomic or not self.paired:
            return
        self.report.checked["outstanding-reads"] += 1
        n = sum(1 for r in self.open if r.first <= x)
        if n > self.judge.max_rd_atomic:
            self.report.complain("outstanding-reads", p, f"{n} are outstanding")

    def window(self, p, x):
        if not self.judge.window or not self.paired:
            return
        self.report.checked["window"] += 1
        since = max(self.acked, self.answered[-1].ends[-1] if self.answered else 0)
        if x - since >= self.judge.window:
            self.report.complain("window", p, f"{x - since + 1} packets are not acknowledged")

    def rnr_wait(self, p, x):
        if self.rnr is None:
            return
        psn, until, told = self.rnr
        if self.acked > psn or not self.orderly:
            self.rnr = None
            return
        if x < psn or (x > psn and not self.answers_exact):
            return
        self.report.checked["rnr-wait"] += 1
        if p.time < until:
            first = self.sent.get(psn)
            # Unless the NAK is known to have arrived, a timeout or another NAK may have come first.
            other = x >= self.cursor or first is None or p.time - first.time >= self.judge.timeout or self.gap_time >= first.time
            if self.answers_exact or not other:
                self.report.complain(
                    "rnr-wait", p, f"{(p.time - told) / 1e6:.3f} ms after the NAK, which says "
                    f"{(until - told) / 1e6:.2f} ms")
        self.rnr = None

    # ---- responses ----

    def response(self, p):
        if self.base is None:
            return
        report = self.report
        self.connection.speaks(p)
        y = self.extend(p.psn)
        report.checked["response-unsent"] += 1
        if y >= self.head:
            if not self.complete or (
                    self.old and signed(p.psn - self.old[0]) >= 0 > signed(p.psn - self.old[1])):
                return
            report.complain("response-unsent", p,
                            f"the last PSN sent is {self.head - 1 & PSN_MASK:#x}")
            return
        if y < self.base:
            return
        if self.answers_exact and not self.answers_orderly and y < self.acked:
            return  # repeated or late: the requester is past it
        self.answer_time = p.time
        kind = p.op.kind
        if kind == READ_RESPONSE:
            good = self.read_response(p, y)
        elif kind == ATOMIC_ACK:
            good = self.atomic_response(p, y)
        elif p.syndrome >> 5 == 0:
            good = self.acknowledge(p, y)
        elif p.syndrome >> 5 == 1:
            good = self.not_ready(p, y)
        else:
            good = NAK_SEQUENCE <= p.syndrome <= LAST_NAK and self.nak(p, y)
        if good and (kind != READ_RESPONSE or p.op.first or p.op.last):
            self.msn(p, y)

    def behind_a_loss(self, limit):
        """Whether a response before `limit` was lost before the tap: then later responses are only
        an implied NAK."""
        return not self.answers_complete and bool(self.open) and self.open[0].first < limit

    def ordered(self, p, limit):
        """All requests before `limit` that need a response of their own have it."""
        missing = self.open and self.open[0].first < limit
        if not self.answers_complete:
            if missing:
                self.gap_time, self.skipped = p.time, True
            return True
        self.report.checked["response-order"] += 1
        if not missing:
            return True
        self.gap_time, self.skipped = p.time, True
        self.report.complain(
            "response-order", p,
            f"the {self.open[0].op.kind} of PSN {self.open[0].first & PSN_MASK:#x} has no response")
        while self.open and self.open[0].first < limit:
            self.finish(self.open[0])
        return False

    def finish(self, request):
        if not request.done:
            request.done = True
            self.open.remove(request)

    def interrupted(self, p):
        """Something other than the rest of a READ response. An error NAK may end it."""
        run, self.run = self.run, None
        failed = p.op.kind == ACK and NAK_SEQUENCE < p.syndrome <= LAST_NAK
        if run and self.answers_complete and not run[0].done and not failed:
            self.report.complain("read-order", p,
                                 f"the READ response of PSN {run[1] & PSN_MASK:#x} was to come")

    def acknowledge(self, p, y):
        lost = self.behind_a_loss(y + 1)
        if self.ordered(p, y + 1):
            self.interrupted(p)
        if not lost:
            self.acked = max(self.acked, y + 1)
        return True

    def wrong_kind(self, p, y, request):
        if self.complete and (y in self.sent or request is not None):
            self.report.complain("response-kind", p,
                                 f"to a {request.op.kind}" if request else "to a SEND or WRITE")
            if request is not None:
                self.finish(request)
        return False

    def atomic_response(self, p, y):
        checked, bad = self.report.checked, self.report.complain
        checked["response-kind"] += 1
        request = self.covering(y)
        if request is None or request.op.kind != ATOMIC:
            return self.wrong_kind(p, y, request)
        lost = self.behind_a_loss(y)
        if self.ordered(p, y):
            self.interrupted(p)
        if not lost:
            self.finish(request)
        self.aligned(p, request)
        if request.original is not None:
            checked["atomic-repeat"] += 1
            if request.original != p.original:
                bad("atomic-repeat", p, f"{p.original:#x}, was {request.original:#x}")
        else:
            request.original = p.original
        if not lost:
            self.acked = max(self.acked, y + 1)
        return True

    def aligned(self, p, request):
        self.report.checked["atomic-address"] += 1
        if request.va % 8:
            self.report.complain("atomic-address", p, f"executed at {request.va:#x}")

    def read_response(self, p, y):
        checked, bad, op = self.report.checked, self.report.complain, p.op
        checked["response-kind"] += 1
        request = self.covering(y)
        if request is None or request.op.kind == ATOMIC:
            return self.wrong_kind(p, y, request)
        lost = self.behind_a_loss(request.first)
        self.ordered(p, request.first)
        checked["read-order"] += 1
        if op.first:
            if self.run and self.run[0] is not request:
                self.interrupted(p)
            if self.complete and y not in request.starts:
                bad("read-order", p, "no request has this PSN")
        elif self.answers_complete and (self.run is None or self.run[1] != y):
            bad("read-order", p,
                f"expected {self.run[1] & PSN_MASK:#x}" if self.run else "no response is under way")
        if not self.answers_complete and not lost:
            if y != request.wanted and (self.answers_exact or not op.first):
                self.gap_time, self.skipped, lost = p.time, True, True
            else:
                request.wanted = y + 1
        if lost:
            self.run = None
            self.read_size(p, y, request)
            return True
        self.run = None if op.last else (request, y + 1)
        self.acked = max(self.acked, y + 1)
        self.read_size(p, y, request)
        if request.op.kind == ATOMIC_WRITE:
            self.aligned(p, request)
        if op.last or y + 1 == request.ends[0]:
            self.finish(request)
        return True

    def read_size(self, p, y, request):
        checked, bad, op = self.report.checked, self.report.complain, p.op
        mtu = self.response_mtu
        if not op.last:
            checked["packet-full"] += 1
            if p.length not in MTUS or p.length != mtu:
                bad("packet-full", p, f"{p.length} bytes, path MTU {mtu}")
                return
        if len(request.ends) > 1:
            return
        checked["read-count"] += 1
        if op.last != (y + 1 == request.ends[0]):
            bad("read-count", p, f"the READ's last PSN is {request.ends[0] - 1 & PSN_MASK:#x}")
            return
        if not op.last:
            return
        checked["read-length"] += 1
        want = request.length if y == request.first else mtu and request.length - (
            y - request.first) * mtu
        if want is not None and p.length != want:
            bad("read-length", p, f"{p.length} bytes, not {want}")

    def not_acknowledged(self, p, y):
        """A NAK carries the PSN that the responder expects."""
        self.report.checked["nak-psn"] += 1
        if y < self.acked and not self.answers_orderly:
            return False
        if y < self.acked:
            self.report.complain("nak-psn", p,
                                 f"everything before {self.acked & PSN_MASK:#x} is acknowledged")
            return False
        self.acked = y
        return True

    def not_ready(self, p, y):
        self.nak_time = p.time
        lost = self.behind_a_loss(y)
        if self.ordered(p, y):
            self.interrupted(p)
        if lost or not self.not_acknowledged(p, y):
            return lost
        known = self.sent.get(y)
        if known is not None:
            self.report.checked["rnr-place"] += 1
            op = self.judge.opcodes[known.code]
            if not (op.data and ("ImmDt" in op.headers or (op.kind == SEND and op.first))):
                self.report.complain("rnr-place", p, f"of a {op.name}")
        if self.rnr is None or self.rnr[0] != y:
            self.rnr = (y, p.time + RNR_TIMER[p.syndrome & 31] * 10_000, p.time)
        return True

    def nak(self, p, y):
        request = self.covering(y)
        before = request.first if request else y
        lost = self.behind_a_loss(before)
        if self.ordered(p, before):
            self.interrupted(p)
        if p.syndrome != NAK_SEQUENCE:
            # A READ may fail in the middle, or when it is repeated.
            good = request is not None or lost or self.not_acknowledged(p, y)
            self.connection.killed(
                p, self.answers_exact and not lost and not (request and request.done))
            return good
        self.nak_time = self.gap_time = p.time
        if not lost and not self.not_acknowledged(p, y):
            return False
        report = self.report
        if self.complete:
            report.checked["nak-cause"] += 1
            if (request.ends[-1] if request else y + 1) >= self.head:
                report.complain("nak-cause", p, "nothing was sent beyond it")
        if self.answers_complete:
            report.checked["nak-once"] += 1
            if y in self.naks:
                report.complain("nak-once", p, "named before")
            self.naks.add(y)
            if len(self.naks) > KEEP_PSNS:
                self.naks = {x for x in self.naks if x >= y - KEEP_PSNS}
        return True

    # ---- MSN ----

    def messages_to(self, x):
        return self.ends_gone + bisect.bisect_right(self.ends, x)

    def msn(self, p, y):
        """The least and most that the responder may have completed when it sends this."""
        request, total = self.covering(y), self.ends_gone + len(self.ends)
        if p.op.kind != ACK or p.syndrome >> 5 == 0:
            least = self.messages_to(y)
            later = self.answered and self.answered[-1].first > y
            most = total if later or p.op.kind != ACK else least
        else:
            least = self.messages_to(y - 1)
            most = total if request is not None and p.syndrome != NAK_SEQUENCE else least
        if self.msn_base is None:
            if least == most:
                self.msn_base = (p.msn - least) & PSN_MASK
                self.msn_last = p.msn
            return
        self.report.checked["msn"] += 1
        count = (p.msn - self.msn_base) & PSN_MASK
        low, high = signed(count - least), signed(count - most)
        if low < 0 or high > 0:
            self.report.complain(
                "msn", p, f"{p.msn:#x}, can be {self.msn_base + least & PSN_MASK:#x}" +
                (f" to {self.msn_base + most & PSN_MASK:#x}" if most != least else ""))
            return
        if self.answers_complete:
            self.report.checked["msn-order"] += 1
            if self.msn_last is not None and signed(p.msn - self.msn_last) < 0:
                self.report.complain("msn-order", p, f"{p.msn:#x}, was {self.msn_last:#x}")
        self.msn_last = p.msn


class Connection:
    """A flow and its reverse flow."""
    def __init__(self, judge, flow, connections):
        self.judge, self.report = judge, judge.report
        self.dead = None  # the NAK that ended it: (frame, flow it came in, whether it arrived right then, when)
        self.asks = set()  # flows with requests, of XRC
        self.streams = {}  # by flow of the requests
        self.answers = {}  # by flow of the responses
        for there, back in {(flow, flow.peer), *([(flow.peer, flow)] if flow.peer else [])}:
            stream = Stream(judge, self, there, back, connections.path_mtu(there),
                            connections.response_mtu(back) if back else None)
            self.streams[there] = stream
            if back:
                self.answers[back] = stream
        self.speaker = None

    def packet(self, p, flow):
        self.speaker = flow
        if p.op.response:
            stream = self.answers.get(flow)
            if stream is not None:
                stream.response(p)
            return
        if p.op.cls == XRC:
            self.asks.add(flow)
            self.report.checked["xrc-direction"] += 1
            if len(self.asks) == 2:
                self.report.complain("xrc-direction", p, "requests in both directions")
                self.asks.clear()
        self.streams[flow].request(p)

    def alive(self):
        self.dead = None
        self.asks.clear()

    def killed(self, p, arrived):
        """Both QPs go to the error state, the NAK's receiver when the NAK arrives."""
        self.report.checked["after-nak"] += 1
        self.dead = (p.frame, self.speaker, arrived, p.time)

    def speaks(self, p):
        if self.dead is None:
            return
        frame, flow, arrived, _ = self.dead
        if self.speaker is flow or arrived:
            self.report.complain("after-nak", p, f"frame {frame} was the last of this connection")

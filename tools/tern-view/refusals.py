# SPDX-License-Identifier: GPL-2.0-or-later
"""The meaning of NAKs, the rules that can have refused a request, and their sources.

A page is one of Documentation/spec or Documentation; a clause is IBTA's, as those pages cite it.
The order is that of the responder's checks. On the wire, a responder does not report which rule
of a syndrome was violated."""
from roce.headers import ATOMIC, ATOMIC_WRITE, FLUSH, READ, SEND, WRITE

RNR_MS = (655.36, .01, .02, .03, .04, .06, .08, .12, .16, .24, .32, .48, .64, .96, 1.28, 1.92, 2.56,
          3.84, 5.12, 7.68, 10.24, 15.36, 20.48, 30.72, 40.96, 61.44, 81.92, 122.88, 163.84, 245.76,
          327.68, 491.52)
NAKS = {
    0x60: "PSN sequence error", 0x61: "invalid request", 0x62: "remote access error",
    0x63: "remote operational error", 0x64: "invalid RD request"
}
EFFECTS = {
    0x60: "The requester repeats everything from this PSN on. Data book: wire, Effect of a response.",
    0x61: "The request fails with IBV_WC_REM_INV_REQ_ERR; both QPs go to ERR.",
    0x62: "The request fails with IBV_WC_REM_ACCESS_ERR, the responder has the event IBV_EVENT_QP_ACCESS_ERR; both QPs go to ERR.",
    0x63: "The request fails with IBV_WC_REM_OP_ERR; both QPs go to ERR.",
}
REMOTE = (WRITE, READ, ATOMIC, ATOMIC_WRITE, FLUSH)
CHECKS = "spec/wire, Checks of an expected request"
ACCESS = "spec/memory, The check of an access"
WINDOWS = "memory-windows, An access through a window"
RIGHT = {
    WRITE: "IBV_ACCESS_REMOTE_WRITE", READ: "IBV_ACCESS_REMOTE_READ",
    ATOMIC: "IBV_ACCESS_REMOTE_ATOMIC", ATOMIC_WRITE: "IBV_ACCESS_REMOTE_WRITE",
    FLUSH: "IBV_ACCESS_FLUSH_GLOBAL or IBV_ACCESS_FLUSH_PERSISTENT"
}
# (syndrome, kinds of requests, rule, clause, page). The page fills in {right} and {range}.
RULES = (
    (0x61, None, "XRC: the packet's SRQ is one of the XRCD, and the message's SRQ still exists.",
     "annex A14", CHECKS),
    (0x61, None,
     "FIRST, MIDDLE, LAST and ONLY come in order; a packet that is not the last has path MTU bytes, none has more; the device "
     "executes the opcode.", "", CHECKS),
    (0x61, REMOTE, "The QP's access flags allow the operation ({right}).", "",
     CHECKS), (0x61, REMOTE, "The length is at most 2^31 bytes; of an ATOMIC WRITE it is 8.", "",
               CHECKS), (0x61, (ATOMIC, ATOMIC_WRITE), "The address is a multiple of 8.", "",
                         CHECKS),
    (0x61, (READ, ATOMIC, ATOMIC_WRITE, FLUSH),
     "A responder resource is free: no more are outstanding than max_dest_rd_atomic.", "",
     "spec/wire, Responder resources"),
    (0x61, (WRITE, ), "The payload agrees with the length in the RETH.", "",
     CHECKS), (0x61, (SEND, ), "The receive WQE has room for the message.", "",
               CHECKS),
    (0x62, REMOTE,
     "The key exists, and is the current one: a key from before a bind, an invalidation or a deregistration is not.",
     "ibv_bind_mw(3)",
     ACCESS), (0x62, REMOTE,
               "Key and QP are in the same protection domain (regions; windows of type 1 and 2B).",
               "C10-76.2.1", ACCESS),
    (0x62, REMOTE, "Window of type 2: the QP is the one that bound it.", "o10-37.2.43",
     WINDOWS), (0x62, REMOTE, "The key has the right that the operation needs: {right}.", "C10-77",
                WINDOWS),
    (0x62, REMOTE,
     "The access lies in the range of the region or window, to the byte, without wrap at 2^64: {range}.",
     "C10-77", WINDOWS), (0x62, (WRITE, ATOMIC, ATOMIC_WRITE),
                          "Window: its region still has IBV_ACCESS_LOCAL_WRITE.", "C10-74",
                          WINDOWS), (0x62, (FLUSH, ), "A window has no right for FLUSH.",
                                     "ibv_bind_mw(3)", WINDOWS),
    (0x63, None, "The receive WQE can be read, its SGEs are allowed, and the memory is reachable.",
     "", CHECKS),
)


def syndromes():
    """Returns {syndrome: text} of everything that an AETH can report except credits."""
    table = {n: "reserved syndrome" for n in range(0x20, 0x100)}
    table.update({
        0x60 + n: f"NAK: {NAKS[0x60 + n]}" if 0x60 + n in NAKS else "NAK: reserved code"
        for n in range(32)
    })
    table.update({0x20 + n: f"RNR NAK: wait {RNR_MS[n]:g} ms" for n in range(32)})
    return table


# Frames that no receiver processes, by the mark of the packet (capture.py).
DROPPED = {
    "icrc": {
        "rule": "The ICRC is right.", "clause": "annex A17",
        "page": "spec/wire, Checks of a claimed frame",
        "effect": "The receiver drops the frame and counts it (RX_ICRC_ERRORS); the requester sends again after a NAK or its timeout."
    }, "malformed": {
        "rule": "UDP length, opcode, headers, pad and payload fit one another.", "clause": "",
        "page": "spec/wire, Checks of a claimed frame",
        "effect": "The receiver drops the frame and counts it (RX_MALFORMED)."
    },
}

# SPDX-License-Identifier: GPL-2.0-or-later
"""Finds the packets of captures in event logs, and with them how much a log's clock differs from that of the captures.

A record SENT or RECEIVED has the opcode, PSN, destination QP and payload length of its packet; the adapter's address says whose it is."""
from array import array
from bisect import bisect_left

from capture import NONE
from events import LATEST, RECEIVED, SENT, Events


class Packets:
    """The packets of the captures by what a record knows of them."""

    def __init__(self, capture):
        c = self.columns = capture.columns
        self.found, self.macs = {}, set()
        qps = [flow.key[3] for flow in capture.flows]
        for i, (op, psn, flow) in enumerate(zip(c.op, c.psn, c.flow)):
            self.found.setdefault(op << 48 | psn << 24 | qps[flow], []).append(i)
        for head in {bytes(h[:12]) for h in c.heads}:
            self.macs |= {head[:6], head[6:]}

    def like(self, log, i, known):
        """The packets that a record can be about, in order of time."""
        sent = log.type[i] == SENT
        found = self.found.get(log.code[i] << 48 | log.index[i] << 24 | (log.value[i] if sent else log.qpn[i]), ())
        length, c = log.length[i], self.columns
        mac = slice(6, 12) if sent else slice(0, 6)
        return [p for p in found if c.length[p] == length and (not known or c.heads[p][mac] == log.mac or (not sent and c.heads[p][0] & 1))]


def events_of(logs, capture=None):
    """The events of all logs, with the packets of a capture that they are about."""
    packets = Packets(capture) if capture is not None else None
    for log in logs:
        log.packet, log.shift = array("I", [NONE]) * log.count, 0
        if packets is not None:
            match(log, packets)
    return Events(logs)


def match(log, packets):
    """Sets log.packet, and log.shift: the ns that its times were moved by."""
    known = log.mac in packets.macs
    times, several, ahead = packets.columns.time, {}, {SENT: [], RECEIVED: []}
    for i, kind in enumerate(log.type):
        if kind != SENT and kind != RECEIVED:
            continue
        found = packets.like(log, i, known)
        if len(found) == 1:
            log.packet[i] = found[0]
            ahead[kind].append(times[found[0]] - log.time[i])
        elif found:
            several.setdefault((kind, found[0]), (found, []))[1].append(i)
    log.shift = shift(ahead[SENT], ahead[RECEIVED])
    if log.shift:
        log.time = array("q", (max(-LATEST, min(t + log.shift, LATEST)) for t in log.time))
    for found, records in several.values():
        nearest(log, found, records, times)


def shift(sent, received):
    """The least that makes packets leave before they are captured, and arrive after; a few may be matched wrongly."""
    most = sorted(sent)[len(sent) // 20] if sent else LATEST
    least = sorted(received)[len(received) - 1 - len(received) // 20] if received else -LATEST
    if least > most:
        return (least + most) // 2
    near = max(least, min(most, 0))
    # With one direction only nothing bounds the other side: more than 100 ms between device and capture is a wrong clock.
    if not near and sent and not received and most > 100_000_000:
        return most
    if not near and received and not sent and least < -100_000_000:
        return least
    return near


def nearest(log, found, records, times):
    """Packets that look alike, retransmissions for the most part: one after the other, each record the nearest that is left."""
    if len(found) == len(records):
        for i, p in zip(records, found):
            log.packet[i] = p
        return
    when, next_free = [times[p] for p in found], 0
    for i in records:
        if next_free == len(found):
            return
        at = bisect_left(when, log.time[i], next_free)
        if at == len(found) or (at > next_free and log.time[i] - when[at - 1] <= when[at] - log.time[i]):
            at -= 1
        log.packet[i] = found[at]
        next_free = at + 1

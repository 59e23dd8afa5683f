# SPDX-License-Identifier: GPL-2.0-or-later
"""Finds the packets of captures in event logs, and from them the difference between the clocks
of a log and of the captures.

A record SENT or RECEIVED has the opcode, PSN, destination QP and payload length of its packet;
the adapter's address identifies its owner."""
from array import array
from bisect import bisect_left

from capture import NONE
from events import LATEST, RECEIVED, SENT, Events

SOURCE, DESTINATION, ANY = slice(6, 12), slice(0, 6), slice(0, 0)


class Packets:
    """The packets of the captures by the fields that a record has."""
    def __init__(self, capture):
        self.columns, self.by = capture.columns, {}
        self.qps = [flow.key[3] for flow in capture.flows]
        self.macs = {
            head[part] for head in {bytes(h[:12]) for h in capture.columns.heads}
            for part in (SOURCE, DESTINATION)
        }

    def index(self, part):
        """Returns {fields of a record: its packets in order of time}; `part`: the address in the
        frame that also counts."""
        found = self.by.get(part.stop)
        if found is None:
            c = self.columns
            found = self.by[part.stop] = {}
            for i, (op, psn, flow, length,
                    head) in enumerate(zip(c.op, c.psn, c.flow, c.length, c.heads)):
                mac = head[part]
                found.setdefault(
                    known(op, psn, self.qps[flow], length,
                          mac if not mac or not mac[0] & 1 else GROUP), []).append(i)
        return found

    def like(self, log, i, mac):
        """Returns the packets that a record can be about, in order of time. `mac`: the adapter's
        address, empty if the captures do not have it."""
        sent = log.type[i] == SENT
        by = self.index((SOURCE if sent else DESTINATION) if mac else ANY)
        what = log.code[i], log.index[i], log.value[i] if sent else log.qpn[i], log.length[i]
        return by.get(known(
            *what, mac)) or (by.get(known(*what, GROUP)) if mac and not sent else None) or ()


GROUP = b"\1"  # any multicast address


def known(op, psn, qp, length, mac):
    """Returns a number that similar packets share."""
    return (((op << 24 | psn & 0xFFFFFF) << 24 | qp & 0xFFFFFF) << 16
            | min(length, 0xFFFF)) << 48 | int.from_bytes(mac, "big")


def events_of(logs, capture=None):
    """Returns the events of all logs, with their packets in the capture."""
    packets = Packets(capture) if capture is not None else None
    for log in logs:
        log.packet, log.shift = array("I", [NONE]) * log.count, 0
        if packets is not None:
            match(log, packets)
    return Events(logs)


def match(log, packets):
    """Sets log.packet, and log.shift: the ns by which its times were moved."""
    mac = log.mac if log.mac in packets.macs else b""
    times, several, ahead = packets.columns.time, {}, {SENT: [], RECEIVED: []}
    for i, kind in enumerate(log.type):
        if kind != SENT and kind != RECEIVED:
            continue
        found = packets.like(log, i, mac)
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
    """Returns the smallest shift with which packets leave before they are captured, and arrive
    after that; a few may be matched wrongly."""
    most = sorted(sent)[len(sent) // 20] if sent else LATEST
    least = sorted(received)[len(received) - 1 - len(received) // 20] if received else -LATEST
    if least > most:
        return (least + most) // 2
    near = max(least, min(most, 0))
    # With one direction only, nothing bounds the other side: more than 100 ms between device and
    # capture means a wrong clock.
    if not near and sent and not received and most > 100_000_000:
        return most
    if not near and received and not sent and least < -100_000_000:
        return least
    return near


def nearest(log, found, records, times):
    """Matches packets that look alike, mostly retransmissions: one after the other, each record
    takes the nearest packet left."""
    if len(found) == len(records):
        for i, p in zip(records, found):
            log.packet[i] = p
        return
    when, next_free = [times[p] for p in found], 0
    for i in records:
        if next_free == len(found):
            return
        at = bisect_left(when, log.time[i], next_free)
        if at == len(found) or (at > next_free
                                and log.time[i] - when[at - 1] <= when[at] - log.time[i]):
            at -= 1
        log.packet[i] = found[at]
        next_free = at + 1

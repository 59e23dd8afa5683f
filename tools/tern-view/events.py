# SPDX-License-Identifier: GPL-2.0-or-later
"""Reads event logs of tern devices (Documentation/spec/event-log.rst) into columns. A log is not
trusted."""
import os
import struct
import sys
from array import array
from itertools import accumulate

MAGIC = b"ternlog\0"
VERSION = 1
HEADER = struct.Struct("<8sHHHBxQ6s2x32s")
RECORD = 48
(LOST, EPOCH, RESET, DOORBELL, POSTED, WQE, SENT, RECEIVED, DROPPED, RETRY, CHECK, KEY, PAGE_FAULT,
 CQE, INTERRUPT, FAULT, QP_STATE, FULL, RATE) = range(1, 20)
F_RECV, F_LOOPBACK, F_ACK_REQ, F_SOLICITED, F_CE, F_BECN, F_AETH, F_WRITE, F_RESPONDER, F_REFUSED = (
    1 << n for n in range(10))
# QP_STATE: code of a destroyed QP, and the codes after which no earlier state holds.
NO_QP = 0xFF
CLEARED = (0, NO_QP)
# The members of a record, besides its time.
FIELDS = {
    "type": "B", "code": "B", "flags": "H", "qpn": "I", "addr": "Q", "length": "Q", "key": "I",
    "index": "I", "value": "I", "detail": "I"
}
LATEST = 1 << 62
PIECE = 1 << 16  # records that are read at once


def is_log(path):
    """Returns whether a file begins like an event log."""
    with open(path, "rb") as f:
        head = f.read(len(MAGIC))
    return bool(head) and MAGIC.startswith(head)


def plain(data, record_size):
    """Returns whole records, each with the members that this tool knows."""
    if record_size == RECORD:
        return data[:len(data) // RECORD * RECORD]
    return b"".join(data[at:at + RECORD]
                    for at in range(0,
                                    len(data) // record_size * record_size, record_size))


class Log:
    """One adapter's log. `time`: ns since 1970 by the log's own epochs. `packet`: indices in the
    capture, set later."""
    def __init__(self, path, limit=None):
        self.path, self.troubles = path, []
        with open(path, "rb") as f:
            header_size, record_size = self.head(f.read(HEADER.size))
            if os.fstat(f.fileno()).st_size < header_size:
                raise ValueError(f"{path}: ends within the header of an event log")
            f.seek(header_size)
            self.empty()
            while not limit or self.count < limit:
                data = f.read(min(PIECE, limit - self.count if limit else PIECE) * record_size)
                self.add(plain(data, record_size))
                if len(data) % record_size:
                    self.troubles.append(f"{path}: ends within record {self.count + 1}")
                if len(data) < record_size * PIECE:
                    break
        self.packet = None

    def head(self, data):
        """Parses the header; returns the sizes of the header and of a record."""
        path = self.path
        if len(data) < HEADER.size:
            raise ValueError(f"{path}: ends within the header of an event log")
        magic, version, header_size, record_size, self.clock, self.epoch, self.mac, name = HEADER.unpack(
            data)
        if magic != MAGIC:
            raise ValueError(f"{path}: no event log")
        if version != VERSION:
            raise ValueError(
                f"{path}: an event log of version {version}, this tool reads version {VERSION}")
        if header_size < HEADER.size or record_size < RECORD:
            raise ValueError(
                f"{path}: an event log with a header of {header_size} bytes and records of {record_size}"
            )
        self.name = name.partition(b"\0")[0].decode("utf-8", "replace")
        return header_size, record_size

    def empty(self):
        self.count, self.time = 0, array("q")
        for name, kind in FIELDS.items():
            setattr(self, name, array(kind))

    def add(self, data):
        """Converts records to a column for each member."""
        before = self.count
        self.count += len(data) // RECORD
        pieces = {
            size: array(kind, data) for size, kind in ((1, "B"), (2, "H"), (4, "I"), (8, "Q"))
        }
        if sys.byteorder == "big":
            for piece in pieces.values():
                piece.byteswap()
        at = 8
        for name, kind in FIELDS.items():
            size = array(kind).itemsize
            getattr(self, name).extend(pieces[size][at // size::RECORD // size])
            at += size
        self.time.extend(self.wall(pieces[8][0::RECORD // 8], before))

    def wall(self, clock, before):
        """Returns the time of day of each record from index `before` on. It does not run
        backwards, although a host's clock may be set back."""
        found, begin, kinds = array("q", self.time[-1:]), 0, self.type[before:]
        ends = [i for i, kind in enumerate(kinds) if kind == EPOCH]
        for end in [*ends, len(clock)]:
            found.extend(min(t + self.epoch, LATEST) for t in clock[begin:end])
            begin = end
            if end < len(clock):
                self.epoch = self.addr[before + end]
        found = array("q", accumulate(found, max))
        return found[1:] if before else found

    @property
    def full(self):
        """Returns whether the log ended at its limit."""
        return bool(self.type) and self.type[-1] == FULL

    @property
    def lost(self):
        return sum(min(n, LATEST) for n, kind in zip(self.length, self.type) if kind == LOST)


class Events:
    """The records of all logs in order of time. `log`: its index; `packet`: the packet of the
    page that it is about."""
    def __init__(self, logs):
        self.logs = logs
        if len(logs) == 1:
            self.log = array("B", bytes(logs[0].count))
            for name in ("time", "packet", *FIELDS):
                setattr(self, name, getattr(logs[0], name))
            return
        columns = {
            "log": array("B"), "time": array("q"), "packet": array("I"),
            **{name: array(kind) for name, kind in FIELDS.items()}
        }
        for which, log in enumerate(logs):
            columns["log"].extend(array("B", [which]) * log.count)
            for name, column in columns.items():
                if name != "log":
                    column.extend(getattr(log, name))
        order = array("I", sorted(range(len(columns["time"])), key=columns["time"].__getitem__))
        for name, column in columns.items():
            setattr(self, name, array(column.typecode, map(column.__getitem__, order)))

    def __len__(self):
        return len(self.time)

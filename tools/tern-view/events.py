# SPDX-License-Identifier: GPL-2.0-or-later
"""Reads event logs of tern devices (Documentation/spec/event-log.rst) into columns. A log is not trusted."""
import os
import struct
import sys
from array import array
from itertools import accumulate

MAGIC = b"ternlog\0"
VERSION = 1
HEADER = struct.Struct("<8sHHHBxQ6s2x32s")
RECORD = 48
(LOST, EPOCH, RESET, DOORBELL, POSTED, WQE, SENT, RECEIVED, DROPPED, RETRY, CHECK, KEY, PAGE_FAULT, CQE, INTERRUPT, FAULT, QP_STATE, FULL, RATE) = range(1, 20)
F_RECV, F_LOOPBACK, F_ACK_REQ, F_SOLICITED, F_CE, F_BECN, F_AETH, F_WRITE, F_RESPONDER, F_REFUSED = (1 << n for n in range(10))
# QP_STATE: code of a QP that is gone, and the codes after which nothing of before holds.
NO_QP = 0xFF
CLEARED = (0, NO_QP)
# What the members of a record are, besides its time.
FIELDS = {"type": "B", "code": "B", "flags": "H", "qpn": "I", "addr": "Q", "length": "Q", "key": "I", "index": "I", "value": "I", "detail": "I"}
LATEST = 1 << 62


def is_log(path):
    """Whether a file begins as an event log does."""
    with open(path, "rb") as f:
        head = f.read(len(MAGIC))
    return bool(head) and MAGIC.startswith(head)


def plain(data, record_size):
    """Whole records, each with the members that this tool knows."""
    if record_size == RECORD:
        return data[:len(data) // RECORD * RECORD]
    return b"".join(data[at:at + RECORD] for at in range(0, len(data) // record_size * record_size, record_size))


class Log:
    """One adapter's log. `time`: ns since 1970 by the log's own epochs. `packet`: indices in the capture, set later."""

    def __init__(self, path, limit=None):
        self.path, self.troubles = path, []
        with open(path, "rb") as f:
            header_size, record_size = self.head(f.read(HEADER.size))
            if os.fstat(f.fileno()).st_size < header_size:
                raise ValueError(f"{path}: ends within the header of an event log")
            f.seek(header_size)
            data = f.read(limit * record_size if limit else -1)
        self.count, rest = divmod(len(data), record_size)
        if rest:
            self.troubles.append(f"{path}: ends within record {self.count + 1}")
        self.columns(plain(data, record_size))
        self.packet = None

    def head(self, data):
        """Takes what the header says; returns the sizes of the header and of a record."""
        path = self.path
        if len(data) < HEADER.size:
            raise ValueError(f"{path}: ends within the header of an event log")
        magic, version, header_size, record_size, self.clock, self.epoch, self.mac, name = HEADER.unpack(data)
        if magic != MAGIC:
            raise ValueError(f"{path}: no event log")
        if version != VERSION:
            raise ValueError(f"{path}: an event log of version {version}, this tool reads version {VERSION}")
        if header_size < HEADER.size or record_size < RECORD:
            raise ValueError(f"{path}: an event log with a header of {header_size} bytes and records of {record_size}")
        self.name = name.partition(b"\0")[0].decode("utf-8", "replace")
        return header_size, record_size

    def columns(self, data):
        """Cuts the records into a column for each member."""
        pieces = {size: array(kind, data) for size, kind in ((1, "B"), (2, "H"), (4, "I"), (8, "Q"))}
        if sys.byteorder == "big":
            for piece in pieces.values():
                piece.byteswap()
        at = 8
        for name, kind in FIELDS.items():
            size = array(kind).itemsize
            setattr(self, name, pieces[size][at // size::RECORD // size])
            at += size
        self.time = self.wall(pieces[8][0::RECORD // 8])

    def wall(self, clock):
        """The time of day of each record. It does not run backwards, although a host's clock may be set back."""
        found, epoch, begin = array("q"), self.epoch, 0
        ends = [i for i, kind in enumerate(self.type) if kind == EPOCH]
        for end in [*ends, len(clock)]:
            found.extend(min(t + epoch, LATEST) for t in clock[begin:end])
            begin = end
            if end < len(clock):
                epoch = self.addr[end]
        return found if all(map(int.__le__, found, found[1:])) else array("q", accumulate(found, max))

    @property
    def full(self):
        """The log ended at its limit."""
        return bool(self.type) and self.type[-1] == FULL

    @property
    def lost(self):
        return sum(min(n, LATEST) for n, kind in zip(self.length, self.type) if kind == LOST)


class Events:
    """The records of all logs in order of time. `log`: which one; `packet`: the packet of the page that it is about."""

    def __init__(self, logs):
        self.logs = logs
        columns = {"log": array("B"), "time": array("q"), "packet": array("I"), **{name: array(kind) for name, kind in FIELDS.items()}}
        for which, log in enumerate(logs):
            columns["log"].extend(array("B", [which]) * log.count)
            for name, column in columns.items():
                if name != "log":
                    column.extend(getattr(log, name))
        if len(logs) > 1:
            order = sorted(range(len(columns["time"])), key=columns["time"].__getitem__)
            columns = {name: array(column.typecode, map(column.__getitem__, order)) for name, column in columns.items()}
        for name, column in columns.items():
            setattr(self, name, column)

    def __len__(self):
        return len(self.time)

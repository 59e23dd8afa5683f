# SPDX-License-Identifier: GPL-2.0-or-later
"""Reads files that another program writes: the data appended since the last poll, and whether a
file was removed, truncated or replaced.

A file is read in pieces and never mapped: truncation would end this process."""
import collections
import os
import stat
import struct
import time

from capture import examine
from events import CLEARED, EPOCH, HEADER, KEY, MAGIC, NO_QP, QP_STATE, RATE, RECORD, RESET, Log, plain
from lifetimes import CREATED, DESTROYED, DM, INDEX
from roce.headers import OPCODES, find_udp
from roce.pcap import SHORTEST, Reader

PIECE = 16 << 20  # bytes that are read at once; no frame is longer
BEHIND = 64 << 20  # frames this far from the end of a capture are counted, but not examined
HEAD = 160  # bytes of a frame that are kept, enough for all headers
MARK = 64  # bytes before the current offset, which show whether the file is still the same
PASS = 1.0  # seconds that a poll may take
MOST_PLACES = 4096  # keys and QPs whose last records are kept

WAITING, READING, GONE, BROKEN = "waiting", "reading", "gone", "broken"


class Frames:
    """The RoCE packets of a capture: the last `keep`, and counts of all its frames."""
    least = SHORTEST

    def __init__(self, path, keep, check):
        self.reader, self.check = Reader(path), check
        self.rows = collections.deque(
            maxlen=keep)  # (time, number, first bytes, whole, what examine() said)
        self.counts = {"frames": 0, "roce": 0, "others": 0, "cut": 0}
        self.before = self.skipped = 0  # frames of earlier files; frames not examined

    @property
    def at(self):
        return self.reader.at

    def take(self, data, skip):
        """Processes the file's bytes from `at` on."""
        for number, when, frame, whole in self.reader.frames(data):
            self.counts["frames"] += 1
            if skip:
                self.skipped += 1
                continue
            found = find_udp(frame)
            if found is None or len(frame) < found[1] + 20:
                self.counts["others"] += 1
                continue
            self.counts["roce"] += 1
            self.counts["cut"] += not whole
            known = examine(frame, whole, *found, OPCODES.get(frame[found[1] + 8]), self.check)
            self.rows.append((when, self.before + number, frame[:HEAD], whole, known))
        self.reader.check()

    def follow(self, path):
        """Continues with another file, as if it were the rest of this one."""
        self.before += self.reader.number
        self.reader = Reader(path)


class LatestLog(Log):
    """An event log that has only its latest records."""
    def __init__(self, path, header):
        self.path, self.troubles, self.packet = path, [], None
        self.sizes = self.head(header)

    def fill(self, epoch, data):
        self.epoch = epoch
        self.empty()
        self.add(data)
        return self


class Records:
    """The last `keep` records of an event log, and those older ones that define the present keys
    and QPs."""
    least = HEADER.size

    def __init__(self, path, keep, _):
        self.path = path
        self.keep = keep
        self.header = b""
        self.at = 0
        self.count = 0
        self.data = b""
        self.places = collections.OrderedDict(
        )  # key or QP: its first and last record before `data`

    def take(self, data, _):
        """Processes the file's bytes from `at` on."""
        start = 0
        if not self.header:
            log = LatestLog(self.path, data[:HEADER.size])
            self.header, self.epoch = data[:HEADER.size], log.epoch
            self.size, self.record = log.sizes
        if self.at < self.size:
            start = min(self.size - self.at, len(data))
        whole = (len(data) - start) // self.record * self.record
        self.at += start + whole
        self.count += whole // self.record
        self.data += plain(data[start:start + whole], self.record)
        old = len(self.data) - self.keep * RECORD
        if old > 0:
            self.forget(self.data[:old])
            self.data = self.data[old:]

    def forget(self, data):
        for i, kind in enumerate(data[8::RECORD]):
            if kind in (EPOCH, RESET, KEY, QP_STATE, RATE):
                record = data[i * RECORD:(i + 1) * RECORD]
                self.remember(kind, *struct.unpack_from("<9xBxxIQ8xII", record), record)

    def remember(self, kind, code, qpn, addr, key, index, record):
        if kind == EPOCH:
            self.epoch = addr
            return
        if kind == RESET:
            self.places.clear()
            return
        place = (KEY, index == DM, key if index == DM else key >> INDEX) if kind == KEY else (kind,
                                                                                              qpn)
        known = self.places.pop(place, None)
        if kind == QP_STATE and code in CLEARED:
            self.places.pop((RATE, qpn), None)
        if (kind, code) in ((QP_STATE, NO_QP), (KEY, DESTROYED)):
            return
        first = known[0] if known and kind == KEY and code != CREATED else record
        self.places[place] = (first, record)
        if len(self.places) > MOST_PLACES:
            self.places.popitem(last=False)

    def log(self):
        """Returns the records as a Log. Older ones than the latest have the time of the first of
        these."""
        begin = self.data[:8]
        older = b"".join(begin + record[8:] for first, last in self.places.values()
                         for record in ((first, ) if first is last else (first, last)))
        return LatestLog(self.path, self.header).fill(self.epoch, older + self.data)


class Tail:
    """A capture or an event log that grows. `content`: Frames or Records, None until the file
    shows which."""
    def __init__(self, path, frames, records, check=True, name=None):
        self.path, self.name = path, name or os.path.basename(path)
        self.keep, self.check = {Frames: frames, Records: records}, check
        self.file, self.content, self.begun, self.behind = None, None, 0, 0
        self.state, self.trouble = WAITING, ""

    def close(self):
        if self.file is not None:
            os.close(self.file)
            self.file = None

    def look(self):
        """Reads new data, for at most PASS seconds. Returns whether anything changed; `behind`:
        bytes that are left."""
        before = self.state, self.begun, self.content.at if self.content else 0
        try:
            now = os.stat(self.path)
            if self.file is None or not self.same(now):
                self.begin()
            if self.state != BROKEN:
                self.state = READING
                self.read(now.st_size)
        except FileNotFoundError:
            self.state = WAITING if self.content is None else GONE
        except (OSError, ValueError, struct.error) as e:
            self.state, self.trouble, self.behind = BROKEN, str(e), 0
        return before != (self.state, self.begun, self.content.at if self.content else 0)

    def same(self, now):
        """Returns whether the path still leads to the file that was read."""
        if (now.st_dev, now.st_ino) != self.id or (self.content and now.st_size < self.content.at):
            return False
        return os.pread(self.file, len(self.mark[1]), self.mark[0]) == self.mark[1]

    def begin(self):
        self.close()
        self.content, self.trouble, self.state, self.mark = None, "", READING, (0, b"")
        self.begun += 1
        self.file = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        found = os.fstat(self.file)
        self.id = found.st_dev, found.st_ino
        if not stat.S_ISREG(found.st_mode):
            raise ValueError(f"{self.path}: no file that grows")

    def kind(self, size):
        """Returns Frames or Records; None until the file is long enough to tell."""
        head = os.pread(self.file, len(MAGIC), 0)
        kind = Records if head == MAGIC else Frames
        return kind if size >= kind.least and len(head) == len(MAGIC) else None

    def read(self, size):
        if self.content is None:
            kind = self.kind(size)
            if kind is None:
                return
            self.content = kind(self.path, self.keep[kind], self.check)
        end, content = time.monotonic() + PASS, self.content
        while content.at < size and time.monotonic() < end:
            at = content.at
            data = os.pread(self.file, min(PIECE, size - at), at)
            content.take(data, size - at - len(data) > BEHIND)
            if content.at == at:
                if len(data) == PIECE:
                    raise ValueError(
                        f"{self.path}: a frame of more than {PIECE} bytes at byte {at}")
                break
            self.behind = size - content.at
        else:
            self.behind = max(0, size - content.at)
        if content.at:
            start = max(0, content.at - MARK)
            self.mark = start, os.pread(self.file, content.at - start, start)

    def follow(self, path):
        """Continues with another file, as if it were the rest of this one."""
        self.look()
        self.close()
        self.path = path
        self.file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        found = os.fstat(self.file)
        self.id, self.mark, self.state = (found.st_dev, found.st_ino), (0, b""), READING
        if self.content:
            self.content.follow(path)

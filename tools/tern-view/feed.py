# SPDX-License-Identifier: GPL-2.0-or-later
"""Follows the sources in a thread, and makes the data of the live page while a page is open."""
import json
import sys
import threading
import time
import traceback

import page
import window

LOOK = 0.25  # seconds between two polls of the files
EVERY = 1.0  # seconds between two sets of data; longer if it takes long to make them
WATCHED = 10.0  # seconds after its last request that a page counts as open


class Snapshot:
    """One set of data."""
    def __init__(self, version, report):
        self.version, self.meta, self.parts = version, report.meta(), list(page.elements(report))
        # JSON numbers cannot hold nanoseconds.
        self.live = {
            "version": version, "origin": str(report.start), "title": ", ".join(report.names)
            or "nothing yet"
        }
        self.bytes = json.dumps({**self.live, "meta": self.meta, "parts": self.parts},
                                separators=(",", ":")).encode()


class Feed(threading.Thread):
    """`snapshot`: the newest one."""
    def __init__(self, source, keep):
        super().__init__(daemon=True)
        self.source, self.keep, self.places = source, keep, {}
        self.lock, self.stopped = threading.Lock(), threading.Event()
        self.files, self.say, self.trouble = [], "", ""
        self.seen, self.changed, self.due = 0.0, True, 0.0
        self.look()
        self.snapshot = self.make(1)

    def look(self):
        """Reads new data. Returns whether there is more already."""
        tails = self.source.tails()
        for tail in tails:
            self.changed |= tail.look()
        files, say = [window.state_of(tail) for tail in tails], self.source.say()
        with self.lock:
            self.files, self.say, self.here = files, say, tails
        return any(tail.behind > 1 << 20 for tail in tails)

    def make(self, version):
        begin = time.monotonic()
        self.changed = False
        made = Snapshot(version, window.report_of(self.here, self.keep, self.places))
        # Use half of one processor at most.
        self.due = time.monotonic() + max(EVERY - (time.monotonic() - begin),
                                          time.monotonic() - begin)
        return made

    def run(self):
        more = False
        while not self.stopped.wait(0 if more else LOOK):
            try:
                more = self.look()
                now = time.monotonic()
                if self.changed and now >= self.due and now - self.seen < WATCHED:
                    self.snapshot = self.make(self.snapshot.version + 1)
                self.trouble = ""
            except Exception as e:  # the page shows it, and the next poll may succeed
                if not self.trouble:
                    traceback.print_exc(file=sys.stderr)
                more = False
                self.trouble = f"The data cannot be read: {e}"
                self.due = time.monotonic() + 5

    def state(self, looks):
        """Returns the state that the page polls. `looks`: whether it takes new data."""
        if looks:
            self.seen = time.monotonic()
        with self.lock:
            return {
                "version": self.snapshot.version, "files": self.files,
                "say": [text for text in (self.say, self.trouble) if text]
            }

    def stop(self):
        self.stopped.set()
        self.join(10)

# SPDX-License-Identifier: GPL-2.0-or-later
"""The contents of the live page: the latest packets and events of files that grow, read as if a
capture began with the first of them."""
import heapq
import itertools
from operator import itemgetter

import align
import page
import pairs
from capture import Capture
from file_follower import BROKEN, GONE, WAITING, Frames, Records
from log_packets import Logged
from message_tracker import Story


class LatestCapture(Capture):
    """The last packets of the tails, at most `keep` of them."""
    def __init__(self, tails, keep):
        self.tails, self.keep = tails, keep
        super().__init__([tail.path for tail in tails])
        for file, tail in zip(self.files, tails):
            file.update(tail.content.counts, name=tail.name)

    def frames(self, _, __):
        def one(which, tail):
            for when, number, head, whole, known in tail.content.rows:
                yield when, which, number, head, whole, known

        merged = heapq.merge(*(one(*pair) for pair in enumerate(self.tails)), key=itemgetter(0))
        surplus = sum(len(tail.content.rows) for tail in self.tails) - self.keep
        for when, which, number, head, whole, self.known in itertools.islice(
                merged, max(0, surplus), None):
            yield which, number, when, head, whole

    def examine(self, *_):
        """Returns the results from when all bytes of the frame were available."""
        return self.known


class LatestReport(page.Report):
    """Keeps the sides and places of QP pairs, so that the ladder does not change. `known`: those
    places."""
    def __init__(self, known, *parts):
        self.known = known
        super().__init__(*parts)

    def ranked(self, count, found):
        def name(which):
            pair = found[which]
            return pair.cls, *sorted(str(end) for end in (pair.a, pair.b))

        order = sorted(super().ranked(count, found),
                       key=lambda which: self.known.get(name(which), len(self.known)))
        places = {name(which): at for at, which in enumerate(order[:page.MOST_PAIRS])}
        self.known.clear()
        self.known.update(places)
        return order


def report_of(tails, keep, known):
    """The data of the page. `known`: a dictionary that keeps the places of QP pairs."""
    captures = [tail for tail in tails if isinstance(tail.content, Frames)]
    logs = [
        tail.content.log() for tail in tails
        if isinstance(tail.content, Records) and tail.content.count
    ]
    if logs and not captures:
        events = align.events_of(logs)
        capture = Logged(events)
    else:
        capture = LatestCapture(captures, keep)
        events = align.events_of(logs, capture) if logs else None
    joined, place, back = pairs.join(capture.flows)
    return LatestReport(known, capture, Story(capture, back), joined, place, events)


def state_of(tail):
    """Returns the state of a file, for the page."""
    content, say = tail.content, ""
    if tail.state == WAITING:
        say = "is not there yet"
    elif tail.state == GONE:
        say = "is gone; what was read of it stays"
    elif tail.state == BROKEN:
        say = f"cannot be read on: {tail.trouble}"
    elif content is None:
        say = "is still empty"
    elif tail.behind > 1 << 20:
        say = f"has {tail.behind >> 20} MiB that are still to be read"
    skipped = getattr(content, "skipped", 0)
    if skipped and not say:
        say = f"came faster than it could be read: {skipped} frames were only counted"
    return {
        "name": tail.name, "state": tail.state,
        "say": say, "begun": tail.begun, "count": content.counts["frames"] if isinstance(
            content, Frames) else content.count if content else 0,
        "log": isinstance(content, Records)
    }

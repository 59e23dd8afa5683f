# SPDX-License-Identifier: GPL-2.0-or-later
"""The live view's readers: a file that grows gives at every cut what the tool finds in a file that
ends there, and bounds hold."""
import fcntl
import os
import random
import struct
import sys
import unittest
from unittest import mock

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.realpath(__file__))
TOP = os.path.join(HERE, "../..")
sys.path[:0] = [
    HERE,
    os.path.join(TOP, "tools/tern-view"),
    os.path.join(TOP, "tests/judge"),
    os.path.join(TOP, "tools")
]

import capture as cap  # noqa: E402
import events as ev  # noqa: E402
import file_follower  # noqa: E402
import logs  # noqa: E402
import page  # noqa: E402
import pairs  # noqa: E402
import sources  # noqa: E402
import message_tracker as msg  # noqa: E402
import window  # noqa: E402
from fakes import FakeTernd  # noqa: E402
from roce.pcap import records  # noqa: E402
from test_tern_view import Directory, pcapng  # noqa: E402

KEEP = 20_000


def one_shot(path):
    """What the tool makes of a file as it is."""
    capture = cap.Capture([path])
    joined, place, back = pairs.join(capture.flows)
    return page.Report(capture, msg.Story(capture, back), joined, place)


def meta_of(report):
    """What the page gets, but for complaints about the end of the file."""
    return {**report.meta(), "troubles": None}


class Live(Directory):
    def tail(self, path, frames=KEEP, events=4 * KEEP, name=None):
        tail = file_follower.Tail(path, frames, events, name=name)
        self.addCleanup(tail.close)
        return tail

    def append(self, path, data):
        with open(path, "ab") as f:
            f.write(data)

    def frames(self, path):
        """The bytes of a capture's header and of each frame."""
        with open(path, "rb") as f:
            data = f.read()
        at, found = 24, [data[:24]]
        while at < len(data):
            size = 16 + struct.unpack_from("<I", data, at + 8)[0]
            found.append(data[at:at + size])
            at += size
        return found


class Growing(Live):
    def every_cut(self, data, step=1):
        """At each cut the tail has the frames that the reader finds in the file that ends there."""
        path = self.path("grows", b"")
        whole = list(records(self.path("whole", data)))
        tail, found = self.tail(path), []
        with mock.patch.object(file_follower, "find_udp", lambda frame:
                               (0, 0, True)), mock.patch.object(file_follower, "examine",
                                                                lambda *_: None):
            for cut in range(0, len(data), step):
                self.append(path, data[cut:cut + step])
                tail.look()
                count = len(tail.content.rows) if tail.content else 0
                if count > len(found):
                    cut_path = self.path("cut", data[:cut + step])
                    found = [(number, when, frame[:file_follower.HEAD], whole)
                             for number, when, frame, whole in records(cut_path)]
                    self.assertEqual([(n, t, d, w) for t, n, d, w, _ in tail.content.rows], found)
        self.assertEqual(len(found), len(whole))
        self.assertGreater(len(whole), 1)

    def test_pcap_at_every_byte(self):
        frames = self.frames(self.story())
        self.every_cut(b"".join(frames[:12]))

    def test_big_endian_pcap_at_every_byte(self):
        data = struct.pack(">IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)
        for k in range(5):
            data += struct.pack(">IIII", 5, k, 60 + k, 70) + bytes([k]) * (60 + k)
        self.every_cut(data)

    def test_pcapng_at_every_byte(self):
        frames = [(k * 1000, bytes([k]) * (60 + k)) for k in range(6)]
        for order in "<>":
            for simple in (False, True):
                with self.subTest(order=order, simple=simple):
                    os.path.exists(self.path("grows")) and os.unlink(self.path("grows"))
                    self.every_cut(pcapng(frames, order, simple=simple))

    def test_report_at_every_frame(self):
        path, pieces = self.path("grows.pcap", b""), self.frames(self.story())
        tail = self.tail(path)
        for piece in pieces:
            # The first half of a frame changes nothing.
            for part in (piece[:9], piece[9:]):
                self.append(path, part)
                tail.look()
            if tail.content and tail.content.rows:
                expected, got = one_shot(path), window.report_of([tail], KEEP, {})
                self.assertEqual(dict(got.columns()), dict(expected.columns()))
                self.assertEqual(list(got.heads()), list(expected.heads()))
                # Pairs keep their places here, and are sorted by packets there; both have one each.
                self.assertEqual({**meta_of(got), "files": None},
                                 {**meta_of(expected), "files": None})
                self.assertEqual(got.capture.files[0],
                                 {**expected.capture.files[0], "name": "grows.pcap"})
        self.assertEqual(len(tail.content.rows), len(pieces) - 1)

    def test_two_captures_merge_by_time(self):
        first, second = self.frames(self.story()), self.frames(self.story())
        a = self.path("a.pcap", b"".join(first[:30]))
        b = self.path("b.pcap", second[0] + b"".join(second[30:]))
        tails = [self.tail(a), self.tail(b)]
        for tail in tails:
            tail.look()
        got = window.report_of(tails, KEEP, {})
        capture = cap.Capture([a, b])
        for name in ("time", "number", "file", "op", "psn"):
            self.assertEqual(getattr(got.c, name), getattr(capture.columns, name), name)

    def test_only_the_last_packets_stay(self):
        pieces = self.frames(self.story())
        path = self.path("grows.pcap", pieces[0])
        tail = self.tail(path, frames=20)
        for piece in pieces[1:]:
            self.append(path, piece)
            tail.look()
            self.assertLessEqual(len(tail.content.rows), 20)
        got = window.report_of([tail], 20, {})
        expected = one_shot(self.path("rest.pcap", pieces[0] + b"".join(pieces[-20:])))
        self.assertEqual(list(got.c.number), [n + len(pieces) - 21 for n in expected.c.number])
        columns, wanted = dict(got.columns()), dict(expected.columns())
        self.assertEqual({k: v for k, v in columns.items() if k != "number"},
                         {k: v for k, v in wanted.items() if k != "number"})
        self.assertEqual(tail.content.counts["frames"], len(pieces) - 1)

    def test_the_last_packets_of_several_captures(self):
        tails = [self.tail(self.story()), self.tail(self.story())]
        for tail in tails:
            tail.look()
        got = window.report_of(tails, 30, {})
        self.assertEqual(len(got.c), 30)
        both = cap.Capture([self.story()] * 2).columns
        self.assertEqual(list(got.c.time), list(both.time)[-30:])

    def test_frames_far_from_the_end_are_counted_only(self):
        tail = self.tail(self.story())
        with mock.patch.object(file_follower, "PIECE",
                               8192), mock.patch.object(file_follower, "BEHIND", 10_000):
            tail.look()
        total = len(self.frames(self.story())) - 1
        self.assertEqual(tail.content.counts["frames"], total)
        self.assertEqual(tail.content.skipped + len(tail.content.rows), total)
        self.assertGreater(tail.content.skipped, 5)
        self.assertIn("only counted", window.state_of(tail)["say"])
        self.assertEqual(tail.content.rows[-1][1], total)

    def test_a_frame_larger_than_a_piece_ends_the_reading(self):
        tail = self.tail(
            self.path(
                "x",
                struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1) +
                struct.pack("<IIII", 0, 0, 1 << 31, 0) + bytes(9000)))
        with mock.patch.object(file_follower, "PIECE", 4096):
            tail.look()
        self.assertEqual(tail.state, file_follower.BROKEN)
        self.assertIn("a frame of more than", tail.trouble)

    def test_pairs_keep_their_places(self):
        pieces, known = self.frames(self.story()), {}
        path = self.path("grows.pcap", b"".join(pieces[:6]))
        tail, seen = self.tail(path), []
        for piece in pieces[6:]:
            self.append(path, piece)
            tail.look()
            now = [(p["class"], p["a"]["address"], p["b"]["qp"])
                   for p in window.report_of([tail], KEEP, known).pairs]
            self.assertEqual(now[:len(seen)], seen)
            seen = now
        self.assertEqual(len(seen), 3)


class Ends(Live):
    """Files that come, go, shrink and change."""
    def test_a_file_that_is_not_there_yet(self):
        path = self.path("later.pcap")
        tail = self.tail(path)
        self.assertFalse(tail.look())
        self.assertEqual((tail.state, window.state_of(tail)["say"]),
                         (file_follower.WAITING, "is not there yet"))
        self.path("later.pcap", b"")
        self.assertTrue(tail.look())
        self.assertEqual(window.state_of(tail)["say"], "is still empty")
        self.append(path, b"".join(self.frames(self.story())))
        self.assertTrue(tail.look())
        self.assertEqual(len(tail.content.rows), 52)
        self.assertFalse(tail.look())

    def test_a_file_that_is_removed_and_comes_again(self):
        pieces = self.frames(self.story())
        path = self.path("x.pcap", b"".join(pieces))
        tail = self.tail(path)
        tail.look()
        os.unlink(path)
        self.assertTrue(tail.look())
        self.assertEqual((tail.state, len(tail.content.rows)), (file_follower.GONE, 52))
        self.assertFalse(tail.look())
        self.path("x.pcap", b"".join(pieces[:5]))
        self.assertTrue(tail.look())
        self.assertEqual((tail.state, len(tail.content.rows), tail.begun),
                         (file_follower.READING, 4, 2))

    def test_a_file_that_is_replaced(self):
        pieces = self.frames(self.story())
        path = self.path("x.pcap", b"".join(pieces))
        tail = self.tail(path)
        tail.look()
        os.rename(self.path("y.pcap", b"".join(pieces + pieces[1:])), path)
        tail.look()
        self.assertEqual((len(tail.content.rows), tail.begun), (104, 2))

    def test_a_file_that_is_truncated(self):
        pieces = self.frames(self.story())
        path = self.path("x.pcap", b"".join(pieces))
        tail = self.tail(path)
        tail.look()
        os.truncate(path, 0)
        tail.look()
        self.assertEqual((tail.content, tail.begun), (None, 2))
        self.append(path, b"".join(pieces[:3]))
        tail.look()
        self.assertEqual(len(tail.content.rows), 2)

    def test_a_file_that_is_written_anew_and_longer(self):
        pieces = self.frames(self.story())
        path = self.path("x.pcap", b"".join(pieces[:10]))
        tail = self.tail(path)
        tail.look()
        self.path("x.pcap", pieces[0] + b"".join(pieces[20:]))
        tail.look()
        self.assertEqual((len(tail.content.rows), tail.begun), (len(pieces) - 20, 2))

    def test_a_file_that_is_no_capture(self):
        path = self.path("x.pcap", b"this is text, and long enough to be a header")
        tail = self.tail(path)
        tail.look()
        self.assertEqual(tail.state, file_follower.BROKEN)
        self.assertIn("no pcap file", window.state_of(tail)["say"])
        self.append(path, b"more")
        self.assertFalse(tail.look())
        os.unlink(path)
        self.path("x.pcap", b"".join(self.frames(self.story())))
        tail.look()
        self.assertEqual((tail.state, len(tail.content.rows)), (file_follower.READING, 52))

    def test_a_capture_that_turns_into_noise_keeps_its_packets(self):
        path = self.path("x", pcapng([(1, b"a" * 60), (2, b"b" * 60)]))
        tail = self.tail(path)
        tail.look()
        self.append(path, b"\xff" * 64)
        tail.look()
        self.assertEqual((tail.state, tail.content.counts["frames"]), (file_follower.BROKEN, 2))

    def test_what_is_no_file(self):
        os.mkfifo(self.path("fifo"))
        for path in (self.path("fifo"), self.dir.name, "/dev/zero"):
            with self.subTest(path=path):
                tail = self.tail(path)
                tail.look()
                self.assertEqual(tail.state, file_follower.BROKEN)

    def test_capture_that_nobody_may_read(self):
        with mock.patch("os.open", side_effect=PermissionError(13, "Permission denied")):
            tail = self.tail(self.story())
            tail.look()
        self.assertEqual(tail.state, file_follower.BROKEN)

    def test_files_of_noise_never_raise(self):
        chance, good = random.Random(3), b"".join(self.frames(self.story()))
        for turn in range(120):
            data = bytearray(
                chance.choice(
                    (good, pcapng([(k, b"a" * 60)
                                   for k in range(9)]), logs.header() + logs.event(1, 6) * 20)))
            for _ in range(chance.randrange(1, 30)):
                data[chance.randrange(min(len(data), 300))] = chance.randrange(256)
            path = self.path(f"noise{turn}", bytes(data[:len(data) // 2]))
            tail = self.tail(path)
            tail.look()
            self.append(path, bytes(data[len(data) // 2:]))
            tail.look()
            window.report_of([tail], KEEP, {}).meta()


class Events(Live):
    def test_log_at_every_byte(self):
        logs.odd(self.path("odd.events"))
        with open(self.path("odd.events"), "rb") as f:
            data = f.read(ev.HEADER.size + 40 * ev.RECORD)
        path, last = self.path("grows.events", b""), 0
        tail = self.tail(path)
        for cut in range(len(data)):
            self.append(path, data[cut:cut + 1])
            tail.look()
            count = tail.content.count if tail.content else 0
            if count > last:
                expected, got = ev.Log(self.path("cut.events", data[:cut + 1])), tail.content.log()
                for name in (*ev.FIELDS, "time", "name", "mac", "count"):
                    self.assertEqual(getattr(got, name), getattr(expected, name), name)
                last = count
        self.assertEqual(last, 40)

    def test_longer_headers_and_records(self):
        path = self.path("x.events", logs.header(size=96, record=64) + bytes(32))
        tail = self.tail(path)
        for k in range(5):
            self.append(path, (logs.event(k, 6, index=k) + b"newer members   ")[:30])
            tail.look()
            self.append(path, (logs.event(k, 6, index=k) + b"newer members   ")[30:])
            tail.look()
        self.assertEqual(list(tail.content.log().index), [0, 1, 2, 3, 4])

    def long_log(self, *early, keep=50):
        """A log whose first records are older than what is kept."""
        path = self.path("x.events", logs.header(epoch=1000) + b"".join(early))
        tail = self.tail(path, events=keep)
        tail.look()
        for k in range(200):
            self.append(path, logs.event(1000 + k, ev.DOORBELL, qpn=7, index=k))
            if k % 7 == 0:
                tail.look()
        tail.look()
        return tail.content

    def test_only_the_last_records_stay(self):
        content = self.long_log()
        self.assertEqual((len(content.data), content.count), (50 * ev.RECORD, 200))
        log = content.log()
        self.assertEqual([log.count, list(log.index)[0], list(log.time)[0]], [50, 150, 2150])

    def test_keys_and_states_of_before_stay(self):
        key = logs.event(1, ev.KEY, 1, addr=0x1000, length=64, key=0x700, index=1)
        again = logs.event(2, ev.KEY, 3, addr=0x2000, length=64, key=0x700, index=1)
        gone = logs.event(3, ev.KEY, 1, key=0x800, index=1) + logs.event(
            4, ev.KEY, 2, key=0x800, index=1)
        states = logs.event(5, ev.QP_STATE, 1, qpn=9, index=0) + logs.event(6, ev.QP_STATE, 2, qpn=9, index=1) + logs.event(7, ev.QP_STATE, 3, qpn=10, index=1) \
            + logs.event(8, ev.QP_STATE, 0xFF, qpn=10, index=3)
        log = self.long_log(key, again, gone, states).log()
        self.assertEqual(
            list(zip(log.type, log.code, log.key, log.qpn))[:3], [(ev.KEY, 1, 0x700, 0),
                                                                  (ev.KEY, 3, 0x700, 0),
                                                                  (ev.QP_STATE, 2, 0, 9)])
        self.assertEqual([log.count, set(log.time[:4])], [53, {2150}])

    def test_rates_of_before_stay(self):
        log = self.long_log(logs.event(1, ev.RATE, qpn=9, length=5),
                            logs.event(2, ev.RATE, qpn=9, length=6),
                            logs.event(3, ev.RATE, qpn=10, length=7),
                            logs.event(4, ev.QP_STATE, 0, qpn=10, index=3)).log()
        self.assertEqual(
            list(zip(log.type, log.qpn, log.length))[:3], [(ev.RATE, 9, 6), (ev.QP_STATE, 10, 0),
                                                           (ev.DOORBELL, 7, 0)])

    def test_a_reset_forgets_keys_and_states(self):
        log = self.long_log(logs.event(1, ev.KEY, 1, key=0x700, index=1),
                            logs.event(2, ev.QP_STATE, 1, qpn=9), logs.event(3, ev.RESET)).log()
        self.assertEqual(set(log.type), {ev.DOORBELL})

    def test_epochs_of_before_hold(self):
        log = self.long_log(logs.event(1, ev.EPOCH, addr=5_000_000)).log()
        self.assertEqual(list(log.time)[0], 5_001_150)

    def test_kept_places_are_bounded(self):
        with mock.patch.object(file_follower, "MOST_PLACES", 10):
            content = self.long_log(*(logs.event(1, ev.KEY, 1, key=k << 8, index=1)
                                      for k in range(100)))
        self.assertEqual(len(content.places), 10)
        self.assertIn(99 << 8, content.log().key)

    def test_window_with_a_log_shows_keys_of_before(self):
        content = self.long_log(logs.event(1, ev.KEY, 1, addr=0x1000, length=64, key=0x700,
                                           index=1))
        tail = mock.Mock(content=content)
        meta = window.report_of([tail], KEEP, {}).meta()
        self.assertEqual([life["key"] for life in meta["log"]["keys"]["lives"]], [0x700])

    def test_capture_and_log(self):
        logs.write_for(cap.Capture([self.story()]), self.path("story.events"))
        tails = [self.tail(self.story()), self.tail(self.path("story.events"))]
        for tail in tails:
            tail.look()
        report = window.report_of(tails, KEEP, {})
        self.assertEqual((len(report.c), report.meta()["log"]["events"]),
                         (52, tails[1].content.count))
        self.assertTrue(window.state_of(tails[1])["log"])

    def test_nothing_at_all(self):
        report = window.report_of([self.tail(self.path("none"))], KEEP, {})
        self.assertEqual((report.meta()["totals"]["packets"], report.names), (0, []))


class Lab(Live):
    def lab(self):
        os.mkdir(self.path("sockets"))
        self.path("sockets/lock", b"")
        os.symlink(self.path("sockets"), self.path("qmp"))
        return sources.Lab(self.dir.name, self.tail)

    def test_says_whether_a_lab_runs(self):
        lab = self.lab()
        self.assertFalse(lab.running())
        self.assertIn("The page waits for one", lab.say())
        with open(self.path("sockets/lock"), "rb") as f:
            fcntl.flock(f, fcntl.LOCK_EX)
            self.assertTrue(lab.running())
            self.assertIn("start it with --pcap", lab.say())
            self.path("wire.pcap", b"")
            self.assertEqual(lab.say(), "")
        lab.tails()
        self.assertIn("What the last one captured stays", lab.say())
        self.assertEqual(lab.adapters(), [])

    def test_finds_new_files(self):
        lab = self.lab()
        self.assertEqual(lab.tails(), [])
        for name in ("wire.pcap", "wire1.pcap", "vm2.events", "vm1.log", "other.pcap"):
            self.path(name, b"")
        self.assertEqual([tail.name for tail in lab.tails()],
                         ["vm2.events", "wire.pcap", "wire1.pcap"])
        self.assertEqual(len(lab.tails()), 3)

    def test_no_directory(self):
        lab = sources.Lab(self.path("none"), self.tail)
        self.assertEqual((lab.tails(), lab.running(), lab.adapters()), ([], False, []))


class OfTernd(Live):
    def source(self, fake, port=None):
        source = sources.Ternd(
            fake.path, port,
            lambda path, name=None: file_follower.Tail(path, KEEP, KEEP, name=name))
        self.addCleanup(source.close)
        return source

    def test_captures_the_first_port(self):
        with FakeTernd(self.path("control")) as fake:
            source = self.source(fake)
            tail, = source.tails()
            fake.capture(b"".join(self.frames(self.story())))
            tail.look()
            self.assertEqual((tail.name, len(tail.content.rows), source.say()), ("vm1", 52, ""))
            source.close()
            self.assertEqual(fake.requests[-1], {"command": "capture", "port": "vm1"})

    def test_next_file_goes_on(self):
        pieces = self.frames(self.story())
        with FakeTernd(self.path("control")) as fake, mock.patch.object(sources, "TURN",
                                                                        1000), mock.patch.object(
                                                                            sources, "ASK", 5):
            source = self.source(fake, "vm2")
            source.tails()
            fake.capture(b"".join(pieces[:21]))
            source.due = 0
            tail, = source.tails()
            fake.capture(b"".join(pieces[:1] + pieces[21:]))
            tail.look()
        self.assertEqual([number for _, number, *_ in tail.content.rows], list(range(1, 53)))
        self.assertEqual(tail.begun, 1)

    def test_ternd_that_ends_and_comes_again(self):
        source = sources.Ternd(self.path("control"), None, self.tail)
        self.addCleanup(source.close)
        self.assertEqual(source.tails(), [])
        self.assertIn("No such file", source.say())
        for turn in (1, 2):
            with FakeTernd(self.path("control")) as fake:
                source.due = 0
                tail, = source.tails()
                self.assertEqual(source.say(), "")
                fake.capture(b"".join(self.frames(self.story())))
                tail.look()
                self.assertEqual(len(tail.content.rows), 52 * turn)
            source.due = 0
            source.tails()
            self.assertIn("The page waits for it", source.say())

    def test_a_port_that_is_not_there(self):
        with FakeTernd(self.path("control")) as fake:
            source = self.source(fake, "vm9")
            self.assertEqual(
                (source.tails(), source.say()),
                ([], "ternd does not capture: it has no port 'vm9'. The page waits for it."))


if __name__ == "__main__":
    unittest.main()

# SPDX-License-Identifier: GPL-2.0-or-later
"""A wire in memory shared by two processes, with another QEMU or a malicious peer at its end."""

import fcntl
import mmap
import os
import socket
import struct
import time
import unittest

import tern_hw as hw
from qtest import Qemu
from test_wire import MAC, PEER, Port, frame, index_of

F_ADD_SEALS, SEAL_SHRINK, SEAL_GROW = 1033, 2, 4
RING = 4 << 20
HEAD, TAIL, WAKE_HEAD, WAKE_TAIL, DATA = 0, 64, 128, 136, 192
SIZE = DATA + RING
HELLO, OFFER, BYE = 1, 2, 3
MAGIC, VERSION = 0x65726977, 2
WRAP = 0xffffffff
FRAME_MAX = 10240


def end_of_wire(mac, chardev, fds=()):
    return Qemu("-chardev", f"socket,id=w,{chardev}", "-device",
                f"tern,id=tern,addr=4,wire=w,mac={mac.hex(':')}", fds=fds)


def link(port):
    return port.run(hw.CMD_QUERY_PORT, b"\1" + bytes(7), 24)[1][0]


class TwoMachines(unittest.TestCase):
    def setUp(self):
        pair = socket.socketpair()
        self.a, self.b = (self.enterContext(end_of_wire(mac, f"fd={s.fileno()}", [s.fileno()]))
                          for mac, s in zip((MAC, PEER), pair))
        for s in pair:
            s.close()
        self.pa, self.pb = Port(self.a).open(), Port(self.b).open()
        for qemu, port in ((self.a, self.pa), (self.b, self.pb)):
            qemu.wait(lambda: link(port) == 1, "the link")

    def test_frames_go_both_ways(self):
        for i, size in enumerate((60, 61, 1000, 1514)):
            self.pb.post()
            self.pa.send(frame(i, size))
            self.assertEqual(self.pb.receive(), frame(i, size))
            self.pa.post()
            self.pb.send(frame(i, size, MAC))
            self.assertEqual(self.pa.receive(), frame(i, size, MAC))

    def test_more_than_the_ring_holds(self):
        def lost():
            counters = self.pb.run(hw.CMD_QUERY_COUNTERS,
                                   bytes((hw.COUNTERS_ETH, 0, 0, 0, 1, 0, 0, 0)), 1024)[1]
            return int.from_bytes(counters[8 * hw.ETH_CNT_RX_NO_BUFFER:][:8], "little")

        before, rest = 2600, 400
        self.assertLess(before * 1536, RING)
        self.assertGreater((before + rest) * 1536, RING)
        for _ in range(before // 200):
            self.pa.send(*(frame(0, 1514) for _ in range(200)))
        self.b.wait(lambda: lost() == before, "the frames that nobody wants")
        for _ in range(rest):
            self.pb.post()
        self.pa.send(*(frame(i, 1514) for i in range(rest)))
        self.assertEqual([index_of(self.pb.receive()) for _ in range(rest)], list(range(rest)))

    def test_a_machine_that_stands_still(self):
        for _ in range(1000):
            self.pb.post()
        self.b.qmp("stop")
        for start in range(0, 4500, 500):
            self.pa.send(*(frame(start + i, 1514) for i in range(500)))
        # The ring is full, and the device holds some frames back; it drops the newest ones.
        self.assertEqual(self.pa.run(hw.CMD_NOP)[0], hw.ST_OK)
        for _ in range(30):
            self.a.clock_step(50_000_000)
            time.sleep(0.002)
        self.a.wait(lambda: self.pa.completed() == 4500, "the completions")
        self.b.qmp("cont")
        self.assertEqual([index_of(self.pb.receive()) for _ in range(1000)], list(range(1000)))
        # The wire works again once there is room.
        self.pb.post()
        self.a.wait(lambda: (self.pa.send(frame(9999)), self.pb.cqe(1, self.pb.taken))[1],
                    "a frame")

    def test_the_link_follows_the_other_machine(self):
        self.b.process.kill()
        self.b.process.wait()
        self.a.wait(lambda: link(self.pa) == 0, "the link to go down")
        self.pa.send(frame(1))
        self.a.wait(lambda: self.pa.completed() == 1, "the frame to be lost")

    def test_the_link_can_be_cut(self):
        self.a.qmp("set_link", name="tern", up=False)
        self.assertEqual(link(self.pa), 0)
        self.assertEqual(link(self.pb), 1)
        self.a.qmp("set_link", name="tern", up=True)
        self.assertEqual(link(self.pa), 1)
        self.pb.post()
        self.pa.send(frame(1))
        self.assertEqual(index_of(self.pb.receive()), 1)


class Properties(unittest.TestCase):
    def test_one_wire_is_enough(self):
        qemu = Qemu("-netdev", "hubport,id=n,hubid=0", "-chardev", "null,id=w", "-device",
                    "tern,netdev=n,wire=w")
        try:
            with qemu:
                qemu.process.wait(timeout=20)
                self.assertIn("exclude each other", qemu.output())
        except RuntimeError as e:
            self.assertIn("exclude each other", str(e))

    def test_a_wire_to_nowhere(self):
        with Qemu("-chardev", "null,id=w", "-device", "tern,id=tern,addr=4,wire=w") as qemu:
            port = Port(qemu).open()
            self.assertEqual(link(port), 0)
            port.send(frame(1))
            qemu.wait(lambda: port.completed() == 1, "the frame to be lost")


class Liar:
    """The other end, played by the test, which can offer anything."""
    def __init__(self, cable):
        self.cable = cable
        cable.settimeout(5)
        self.peer = None
        self.sockets = []

    def close(self):
        for end in self.sockets:
            end.close()

    def say(self, kind, fds=(), magic=MAGIC, version=VERSION, size=RING):
        socket.send_fds(self.cable, [struct.pack("=IHHII", magic, version, kind, size, 0)],
                        list(fds))

    def hear(self):
        data, fds, _, _ = socket.recv_fds(self.cable, 16, 2)
        kind = struct.unpack("=IHHII", data)[2] if data else None
        if kind == OFFER:
            self.peer = mmap.mmap(fds[0], SIZE, prot=mmap.PROT_READ)
            self.peer_notify = socket.socket(fileno=fds[1])
            self.sockets.append(self.peer_notify)
            os.close(fds[0])
        return kind

    def memory(self, size=SIZE, seals=SEAL_SHRINK | SEAL_GROW, flags=0):
        fd = os.memfd_create("liar", os.MFD_ALLOW_SEALING | flags)
        os.ftruncate(fd, size)
        fcntl.fcntl(fd, F_ADD_SEALS, seals)
        return fd

    def meet(self):
        """Starts a session correctly."""
        assert self.hear() == HELLO
        self.say(HELLO)
        assert self.hear() == OFFER
        self.offer()

    def offer(self):
        """Offers a new ring and a new notification socket."""
        memory = self.memory()
        self.notify, self.notify_given = socket.socketpair()
        self.sockets += self.notify, self.notify_given
        self.notify.setblocking(False)
        self.own = mmap.mmap(memory, SIZE)
        self.put(WAKE_HEAD, 1)
        self.say(OFFER, (memory, self.notify_given.fileno()))
        os.close(memory)
        self.head = self.tail = 0

    def put(self, at, value):
        self.own[at:at + 8] = struct.pack("=Q", value % (1 << 64))

    def get(self, at):
        return struct.unpack_from("=Q", self.peer, at)[0]

    def ring(self):
        try:
            self.peer_notify.send(b"\0", socket.MSG_DONTWAIT)
        except BlockingIOError:
            pass  # earlier notifications are still unread

    def rung(self):
        """Returns how often the device has notified us since the last call."""
        return len(self.notify.recv(1 << 16))

    def send(self, data, length=None, step=None):
        """Sends a frame, whose length and step may be wrong."""
        need = (4 + len(data) + 63) // 64 * 64
        at = self.head % RING
        if at + need > RING:
            self.own[DATA + at:DATA + at + 4] = struct.pack("=I", WRAP)
            self.head += RING - at
            at = 0
        self.own[DATA + at:DATA + at + 4 +
                 len(data)] = struct.pack("=I",
                                          len(data) if length is None else length) + data
        self.head += need if step is None else step
        self.put(HEAD, self.head)
        self.ring()

    def fill(self, length):
        """Fills the ring with frames of the smallest size."""
        word = struct.pack("=I", length)
        self.own[DATA:] = (word + bytes(60)) * (RING // 64)
        self.put(HEAD, self.head + RING)
        self.ring()

    def skip(self):
        """Puts valid frames up to the middle of the ring, and an end-of-ring mark there."""
        while self.head < RING // 2:
            at = DATA + self.head
            self.own[at:at + 4] = struct.pack("=I", 60)
            self.head += 64
        self.own[DATA + self.head:DATA + self.head + 4] = struct.pack("=I", WRAP)
        self.put(HEAD, RING + 64)
        self.ring()

    def take(self):
        """Takes the next frame from the device."""
        end = time.monotonic() + 5
        while self.get(HEAD) == self.tail:
            assert time.monotonic() < end, "waited in vain for a frame"
            time.sleep(0.001)
        at = self.tail % RING
        size, = struct.unpack_from("=I", self.peer, DATA + at)
        if size == WRAP:
            self.tail += RING - at
            at = 0
            size, = struct.unpack_from("=I", self.peer, DATA)
        data = self.peer[DATA + at + 4:DATA + at + 4 + size]
        self.tail += (4 + size + 63) // 64 * 64
        self.put(TAIL, self.tail)
        if self.get(WAKE_TAIL) and self.get(WAKE_TAIL) <= self.tail:
            self.ring()
        return data


class AgainstLies(unittest.TestCase):
    def setUp(self):
        mine, theirs = socket.socketpair()
        self.addCleanup(mine.close)
        self.qemu = self.enterContext(end_of_wire(MAC, f"fd={theirs.fileno()}", [theirs.fileno()]))
        theirs.close()
        self.port = Port(self.qemu).open()
        self.liar = Liar(mine)
        self.addCleanup(self.liar.close)

    def up(self):
        self.liar.meet()
        self.qemu.wait(lambda: link(self.port) == 1, "the link")

    def assert_responsive(self):
        self.assertEqual(self.qemu.qmp("query-status")["status"], "running")
        self.assertEqual(self.port.run(hw.CMD_NOP)[0], hw.ST_OK)

    def expect_cut(self):
        self.assert_responsive()
        self.qemu.wait(lambda: link(self.port) == 0, "the link to go down")
        self.assertEqual(self.port.run(hw.CMD_NOP)[0], hw.ST_OK)
        self.port.send(frame(1))
        self.qemu.wait(lambda: self.port.completed() == self.port.sent, "the frame to be lost")

    def test_the_truth(self):
        self.up()
        for i in range(50):
            self.port.post()
            self.liar.send(frame(i, 60 + i * 20, MAC))
            self.assertEqual(self.port.receive(), frame(i, 60 + i * 20, MAC))
            self.port.send(frame(i, 60 + i * 20))
            self.assertEqual(self.liar.take(), frame(i, 60 + i * 20))

    def test_an_end_that_sleeps_is_notified(self):
        self.up()
        self.port.send(frame(1))
        self.liar.take()
        self.assertEqual(self.liar.rung(), 1)
        self.port.send(frame(2))
        self.liar.take()
        self.liar.put(WAKE_HEAD, self.liar.tail + 1)
        with self.assertRaises(BlockingIOError):
            self.liar.rung()
        self.port.send(frame(3))
        self.liar.take()
        self.assertEqual(self.liar.rung(), 1)

    def test_a_full_ring_goes_on_when_there_is_room(self):
        self.up()
        count = 3500
        for start in range(0, count, 500):
            self.port.send(*(frame(start + i, 1514) for i in range(500)))
        self.assertGreater(count * 1600, RING)
        self.assertEqual([index_of(self.liar.take()) for _ in range(count)], list(range(count)))
        self.qemu.wait(lambda: self.port.completed() == count, "the completions")

    def test_a_new_session(self):
        self.up()
        for _ in range(3):
            self.liar.say(HELLO)
            self.assertEqual(self.liar.hear(), OFFER)
            self.liar.offer()
            self.qemu.wait(lambda: link(self.port) == 1, "the link")
            self.port.post()
            self.liar.send(frame(7, 100, MAC))
            self.assertEqual(index_of(self.port.receive()), 7)
            self.port.send(frame(8))
            self.assertEqual(index_of(self.liar.take()), 8)

    def test_goodbye(self):
        self.up()
        self.liar.say(BYE)
        self.expect_cut()

    def test_another_protocol(self):
        for wrong in ({"magic": MAGIC + 1}, {"version": VERSION + 1}, {"size": RING // 2}):
            with self.subTest(**wrong):
                mine, theirs = socket.socketpair()
                with mine, end_of_wire(MAC, f"fd={theirs.fileno()}", [theirs.fileno()]) as qemu:
                    theirs.close()
                    port = Port(qemu).open()
                    liar = Liar(mine)
                    self.assertEqual(liar.hear(), HELLO)
                    liar.say(HELLO, **wrong)
                    self.assertIsNone(liar.hear())
                    self.assertEqual(link(port), 0)
                    self.assertIn("another protocol", qemu.output())

    def test_memory_that_is_none(self):
        self.assertEqual(self.liar.hear(), HELLO)
        self.liar.say(HELLO)
        self.assertEqual(self.liar.hear(), OFFER)
        end, _ = pair = [s.detach() for s in socket.socketpair()]
        for fd in pair:
            self.addCleanup(os.close, fd)
        offers = [(), (end, ), (self.liar.memory(4096), end), (self.liar.memory(seals=0), end),
                  (end, end), (os.open("/dev/null", os.O_RDWR), end)]
        try:
            offers.append((self.liar.memory(8 << 20, flags=os.MFD_HUGETLB), end))
        except OSError:
            pass  # the kernel has no huge pages
        for fds in offers:
            self.liar.say(OFFER, fds)
            for _ in range(20):
                self.assertEqual(link(self.port), 0)
        self.expect_cut()

    def test_a_notification_socket_that_may_block(self):
        self.assertEqual(self.liar.hear(), HELLO)
        self.liar.say(HELLO)
        self.assertEqual(self.liar.hear(), OFFER)
        # Descriptors on which write() or send() can block.
        udp = self.enterContext(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        for end in (os.eventfd(0), os.pipe()[1], udp.fileno(), os.memfd_create("tern")):
            self.liar.say(OFFER, (self.liar.memory(), end))
            for _ in range(20):
                self.assertEqual(link(self.port), 0)
        self.assertIn("no notification socket", self.qemu.output())
        self.expect_cut()

    def test_a_notification_socket_that_is_full(self):
        self.up()
        for end in self.liar.notify, self.liar.notify_given, self.liar.peer_notify:
            end.setblocking(True)
        try:
            while True:
                self.liar.notify_given.send(bytes(4096), socket.MSG_DONTWAIT)
        except BlockingIOError:
            pass
        for i in range(2000):
            self.liar.put(WAKE_HEAD, self.liar.tail + 1)
            self.port.send(frame(i))
            self.assertEqual(index_of(self.liar.take()), i)
        # In the other direction: the device's socket is full, or emptied before it reads.
        try:
            while True:
                self.liar.peer_notify.send(bytes(4096), socket.MSG_DONTWAIT)
        except BlockingIOError:
            pass
        self.assert_responsive()
        self.assertEqual(link(self.port), 1)

    def test_a_notification_socket_that_is_shut_down(self):
        self.up()
        self.liar.peer_notify.shutdown(socket.SHUT_RDWR)
        self.expect_cut()

    def test_endless_greetings(self):
        self.cable_full(lambda: self.liar.say(HELLO))

    def test_endless_goodbyes_and_offers(self):
        memory = self.liar.memory()

        def say():
            self.liar.say(BYE)
            self.liar.say(OFFER, (memory, self.liar.notify_given.fileno()))

        self.cable_full(say)

    def cable_full(self, say):
        """Repeats what begins a session until the cable is full. The device takes its time."""
        start = time.monotonic()
        self.up()
        self.liar.cable.setblocking(False)
        with self.assertRaises(BlockingIOError):
            for _ in range(1_000_000):
                say()
        self.assert_responsive()
        self.liar.cable.settimeout(5)
        for _ in range(4):
            self.assertEqual(self.liar.hear(), OFFER)
        self.assertGreater(time.monotonic() - start, 0.39)
        self.expect_cut()

    def test_messages_in_pieces(self):
        self.up()
        message = struct.pack("=IHHII", MAGIC, VERSION, OFFER, RING, 0)
        for _ in range(200):
            for piece in (message[:1], message[1:7], message[7:]):
                socket.send_fds(self.liar.cable, [piece], [self.liar.notify_given.fileno()] * 3)
        self.expect_cut()

    def test_lies_about_frames(self):
        big = bytes(200)
        for name, lie in (("frames of length 0",
                           lambda l: l.fill(0)), ("a frame shorter than a header",
                                                  lambda l: l.send(big, length=13, step=64)),
                          ("a ring of nothing but its end",
                           lambda l: l.send(big, length=WRAP, step=RING)),
                          ("an end of the ring in its middle", lambda l: l.skip()),
                          ("an index in the middle of a frame",
                           lambda l: l.send(big, step=64)), ("an index that is no multiple of 64",
                                                             lambda l: l.send(bytes(30), step=32)),
                          ("a frame too long",
                           lambda l: l.send(big, length=FRAME_MAX + 1, step=16384)),
                          ("a frame longer than what is there", lambda l: l.send(big, length=9000)),
                          ("an index far ahead", lambda l: l.send(big, step=RING + 64)),
                          ("an index behind", lambda l: l.send(big, step=-64)),
                          ("a wrap that is not there",
                           lambda l: l.send(big, length=WRAP)), ("room that was never taken",
                                                                 lambda l: l.put(TAIL, 1 << 40))):
            with self.subTest(name):
                mine, theirs = socket.socketpair()
                with mine, end_of_wire(MAC, f"fd={theirs.fileno()}", [theirs.fileno()]) as qemu:
                    theirs.close()
                    self.qemu, self.port, self.liar = qemu, Port(qemu).open(), Liar(mine)
                    self.addCleanup(self.liar.close)
                    self.up()
                    lie(self.liar)
                    if name.startswith("room"):
                        for start in range(0, 3500, 500):
                            self.port.send(*(frame(start + i, 1514) for i in range(500)))
                    self.expect_cut()
                    self.assertIn("breaks its rules", qemu.output())


if __name__ == "__main__":
    unittest.main()

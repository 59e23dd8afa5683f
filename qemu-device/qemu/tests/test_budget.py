# SPDX-License-Identifier: GPL-2.0-or-later
"""Limits of what a hostile driver can make QEMU spend: memory for its objects, time for one
command."""

import re
import struct
import unittest

import tern_hw as hw
from qtest import RAM_SIZE, Qemu

PAGE = 4096


class Driver(hw.Tern):
    """Creates objects with page lists whose chunks and pages are all the same."""

    CHUNKS, CHUNK, RING, RECORD = (hw.Tern.FREE + n * 0x10000 for n in range(4))

    direct = False  # page lists with a single address

    def begin(self):
        self.start()
        self.direct = False
        self.qemu.write(self.CHUNK, struct.pack("<Q", self.RING) * hw.PAGES_CHUNK)
        self.qemu.write(self.CHUNKS, struct.pack("<Q", self.CHUNK) * 1024)
        caps = self.run(hw.CMD_QUERY_CAPS, out_len=216)[1]
        self.max_pages, self.max_cmd_pages = struct.unpack_from("<QI", caps, 0xb0)
        self.pd = self.make(hw.CMD_ALLOC_PD, bytes(8))[1]
        return self

    def make(self, command, data, out_len=8):
        """Runs a command that creates an object; returns (status, number)."""
        status, out = self.run(command, data, out_len)
        return status, int.from_bytes(out[:4], "little")

    def pages(self, num):
        if self.direct:
            return struct.pack("<QIBBH", self.RING, num, 12, hw.PAGES_DIRECT, 0)
        return struct.pack("<QIBBH", self.CHUNKS, num, 12, hw.PAGES_INDIRECT, 0)

    def create_cq(self, log_size, record=RECORD):
        return self.make(
            hw.CMD_CREATE_CQ,
            self.pages(max(1, 64 << log_size >> 12)) +
            struct.pack("<QIIBB6x", record, hw.NO_EQ, hw.UAR_KERNEL, log_size, 0))

    def create_eq(self, log_size):
        return self.make(
            hw.CMD_CREATE_EQ,
            self.pages(max(1, 16 << log_size >> 12)) +
            struct.pack("<QHBB4x", self.RECORD, 1, log_size, hw.EQ_COMPLETION))

    def create_qp(self, cq, num, log_size, rq_offset):
        return self.make(
            hw.CMD_CREATE_QP,
            self.pages(num) +
            struct.pack("<Q8I6B2x", self.RECORD, 0, rq_offset, self.pd, hw.UAR_KERNEL, cq, cq, 0, 0,
                        hw.QPT_RC, 0, log_size, 6, 0, 6))

    def create_srq(self, log_size):
        return self.make(
            hw.CMD_CREATE_SRQ,
            self.pages(max(1, 64 << log_size >> 12)) +
            struct.pack("<QIIIBBBx24x", self.RECORD, self.pd, 0, 0, log_size, 6, 0))

    def create_mr(self, num, flags=0):
        return self.make(hw.CMD_CREATE_MR, self.mr(num, flags))

    def mr(self, num, flags=0):
        pages = struct.pack("<QIBBH", 0, num, 12, hw.PAGES_LIST,
                            0) if flags & hw.MR_F_INCOMPLETE else self.pages(num)
        return pages + struct.pack("<QQQIIIBBH", 0, num * PAGE, 0, self.pd, hw.ACCESS_LOCAL_WRITE,
                                   0, hw.MR_MEMORY, flags, 0)

    def held(self):
        """Returns the number of page list entries that the device reports."""
        return int.from_bytes(self.run(hw.CMD_QUERY_OBJECTS, out_len=72)[1][64:72], "little")


def resident(qemu):
    """Returns the resident memory of QEMU without the guest's RAM."""
    total, counts = 0, True
    with open(f"/proc/{qemu.process.pid}/smaps", encoding="ascii", errors="replace") as smaps:
        for line in smaps:
            if m := re.match(r"([0-9a-f]+)-([0-9a-f]+) ", line):
                counts = int(m[2], 16) - int(m[1], 16) != RAM_SIZE
            elif counts and line.startswith("Rss:"):
                total += int(line.split()[1]) << 10
    return total


class Memory(unittest.TestCase):
    def setup(self, properties):
        self.qemu = self.enterContext(
            Qemu("-device", "tern,addr=4,dm-size=0,poll=off," + properties))
        self.driver = Driver(self.qemu, 0, 4).begin()

    def exhaust(self, create):
        """Creates objects until a limit is reached, and returns their number."""
        count = 0
        while (status := create()[0]) == hw.ST_OK:
            count += 1
        self.assertIn(status, (hw.ST_NO_MEMORY, hw.ST_NO_RESOURCE))
        return count

    def all_it_can(self):
        d = self.driver
        cq = d.create_cq(4)[1]
        largest = [
            lambda: d.create_cq(22), lambda: d.create_qp(cq, 513, 15, 64 << 15),
            lambda: d.create_srq(15), lambda: d.create_eq(16), lambda: d.create_mr(512),
            lambda: d.create_mr(8), lambda: d.create_mr(1)
        ]
        smallest = [
            lambda: d.create_cq(4), lambda: d.create_qp(cq, 1, 4, 1024), lambda: d.create_srq(4),
            lambda: d.create_eq(4), lambda: d.create_mr(1),
            lambda: d.make(hw.CMD_ALLOC_MW, struct.pack("<IB3x", d.pd, 1))
        ]
        count = sum(self.exhaust(create) for create in largest)
        # The entries are used up; objects without a list can still be created.
        self.assertEqual(d.held(), d.max_pages)
        d.direct = True
        count += sum(self.exhaust(create) for create in smallest)
        self.assertEqual(d.held(), d.max_pages)
        return count

    # Bytes allowed per object besides its list: the object itself and its slots in tables.
    OBJECT = 4096

    def check(self, properties):
        self.setup(properties)
        before = resident(self.qemu)
        count = self.all_it_can()
        grown = resident(self.qemu) - before
        self.assertLess(grown, 8 * self.driver.max_pages + self.OBJECT * count + (8 << 20),
                        (count, self.driver.max_pages))
        self.assertEqual(self.driver.run(hw.CMD_NOP)[0], hw.ST_OK)
        # A reset frees everything.
        self.driver.begin()
        self.assertEqual(self.driver.held(), 0)

    def test_is_bounded_by_max_pages(self):
        self.check("max-pages=262144,max-qp=512,max-cq=512,max-mr=1024,max-mw=16")

    def test_the_default(self):
        self.check("max-qp=512,max-cq=2048,max-mr=1024,max-mw=16")

    def test_a_smaller_limit(self):
        self.check("max-pages=1024,max-qp=512,max-cq=512,max-mr=1024,max-mw=16")

    def test_offsets_end_with_the_entries(self):
        self.setup("max-pages=65536")
        d = self.driver
        cq = d.create_cq(4)[1]
        held = d.held()
        for offset in (0xffffffc0, 0x80000000, 1 << 22, 64 << 4 << 6):
            self.assertEqual(d.create_qp(cq, 1, 4, offset)[0], hw.ST_BAD_PARAM, hex(offset))
        self.assertEqual(d.held(), held)

    def test_one_command_reads_no_more_than_it_may(self):
        self.setup("max-pages=1000000")
        d = self.driver
        self.assertEqual(d.create_mr(d.max_cmd_pages + 1)[0], hw.ST_BAD_PARAM)
        self.assertEqual(d.create_mr(d.max_cmd_pages)[0], hw.ST_OK)
        self.assertEqual(d.held(), d.max_cmd_pages)
        # Longer lists are registered in pieces, up to the device's limit.
        self.assertEqual(
            d.create_mr(1_000_000 - d.max_cmd_pages + 1, hw.MR_F_INCOMPLETE)[0], hw.ST_NO_MEMORY)
        status, key = d.create_mr(200_000, hw.MR_F_INCOMPLETE)
        self.assertEqual(status, hw.ST_OK)
        update = struct.pack("<QII", 0, key, 0)
        self.assertEqual(
            d.run(hw.CMD_UPDATE_PAGES,
                  d.pages(d.max_cmd_pages + 1) + update)[0], hw.ST_BAD_PARAM)
        self.assertEqual(d.run(hw.CMD_UPDATE_PAGES, d.pages(d.max_cmd_pages) + update)[0], hw.ST_OK)


class Time(unittest.TestCase):
    def slices(self, qemu):
        return len(re.findall(r"tern_worker_slice .* more 1", qemu.output()))

    def test_device_memory_is_zeroed_in_pieces(self):
        size = 256 << 20
        with Qemu("-device", f"tern,addr=4,dm-size={size}", "-trace", "tern_worker_slice") as qemu:
            tern = hw.Tern(qemu).start()
            self.assertEqual(self.slices(qemu), 0)
            tern.post(hw.CMD_ALLOC_DM, struct.pack("<QII", size, 0, 0), 24)
            # Other requests are served while the device zeroes the memory.
            self.assertEqual(qemu.qmp("query-status")["status"], "running")
            tern.post(hw.CMD_NOP)
            answers = sorted(tern.answer()[:2] for _ in range(2))
            self.assertEqual(answers, [(1, hw.ST_OK), (2, hw.ST_OK)])
            # The lock is released between slices.
            self.assertGreaterEqual(self.slices(qemu), 16)

    def test_a_reset_in_the_middle_of_it(self):
        size = 256 << 20
        with Qemu("-device", f"tern,addr=4,dm-size={size}") as qemu:
            tern = hw.Tern(qemu).start()
            for _ in range(3):
                tern.post(hw.CMD_ALLOC_DM, struct.pack("<QII", size, 0, 0), 24)
                tern.reset()
                tern.enable()
                self.assertEqual(tern.run(hw.CMD_NOP)[0], hw.ST_OK)
            self.assertEqual(
                tern.run(hw.CMD_ALLOC_DM, struct.pack("<QII", size, 0, 0), 24)[0], hw.ST_OK)

    def test_the_longest_list(self):
        with Qemu("-device", "tern,addr=4", "-trace", "tern_worker_slice") as qemu:
            driver = Driver(qemu, 0, 4).begin()
            for _ in range(8):
                driver.post(hw.CMD_CREATE_MR, driver.mr(driver.max_cmd_pages), 8, ring=False)
            driver.ring()
            self.assertEqual(qemu.qmp("query-status")["status"], "running")
            for _ in range(8):
                self.assertEqual(driver.answer()[1], hw.ST_OK)
            # The first slice runs in the doorbell store. A slice has one or two such commands.
            self.assertGreaterEqual(self.slices(qemu), 2)


if __name__ == "__main__":
    unittest.main()

# SPDX-License-Identifier: GPL-2.0-or-later
"""Device memory: BAR4 as the CPU sees it, and the device's commands on it."""

import unittest

import tern_hw as hw
from qtest import Qemu

SIZE = 320 << 10
PAGE = 4096


class DeviceMemory(unittest.TestCase):
    def setUp(self):
        self.qemu = self.enterContext(
            Qemu("-device", f"tern,addr=4,dm-size={SIZE}", "-trace", "tern_dm_written"))
        self.tern = hw.Tern(self.qemu).start()

    def alloc(self, length, log_align=0):
        """Returns (status, offset, size, number)."""
        status, answer = self.tern.run(
            hw.CMD_ALLOC_DM,
            length.to_bytes(8, "little") + log_align.to_bytes(8, "little"), 24)
        number = (lambda a, b: int.from_bytes(answer[a:b], "little"))
        return status, number(0, 8), number(8, 16), number(16, 20)

    def free(self, number):
        return self.tern.run(hw.CMD_FREE_DM, number.to_bytes(8, "little"))[0]

    def read(self, offset, size):
        return self.qemu.read(self.tern.DM + offset, size)

    def test_capabilities_tell_of_it(self):
        caps = self.tern.run(hw.CMD_QUERY_CAPS, out_len=1024)[1]
        self.assertTrue(int.from_bytes(caps[0:8], "little") & hw.CAP_DM)
        self.assertEqual(int.from_bytes(caps[0x18:0x20], "little"), SIZE)
        self.assertGreater(int.from_bytes(caps[0x38:0x3c], "little"), 0)

    def test_the_next_owner_sees_zeros_and_nobody_loses_a_byte(self):
        self.assertEqual(self.alloc(PAGE)[:2], (hw.ST_OK, 0))
        self.qemu.write(self.tern.DM, b"\xee" * SIZE)
        status, offset, size, number = self.alloc(5 * PAGE - 1, 14)
        self.assertEqual((status, offset % (1 << 14), size), (hw.ST_OK, 0, 5 * PAGE))
        self.assertEqual(self.read(offset, size), bytes(size))
        self.assertEqual(self.read(0, offset), b"\xee" * offset)
        rest = SIZE - offset - size
        self.assertEqual(self.read(offset + size, rest), b"\xee" * rest)
        self.qemu.write(self.tern.DM + offset, b"secret")
        self.assertEqual(self.free(number), hw.ST_OK)
        self.assertEqual(self.alloc(PAGE, 14)[:2], (hw.ST_OK, offset))
        self.assertEqual(self.read(offset, 6), bytes(6))

    def test_all_of_it_and_no_more(self):
        # The BAR's size is a power of two; the part beyond dm-size is never allocated.
        self.assertEqual(self.tern.bar_size(hw.BAR_DM), 512 << 10)
        self.assertEqual(self.alloc(SIZE + 1)[0], hw.ST_BAD_PARAM)
        status, offset, size, number = self.alloc(SIZE)
        self.assertEqual((status, offset, size), (hw.ST_OK, 0, SIZE))
        self.assertEqual(self.alloc(1)[0], hw.ST_NO_MEMORY)
        self.assertEqual(self.free(number), hw.ST_OK)
        self.assertEqual(self.free(number), hw.ST_BAD_HANDLE)
        for n in range(SIZE // PAGE):
            self.assertEqual(self.alloc(1)[:3], (hw.ST_OK, n * PAGE, PAGE))
        self.assertEqual(self.alloc(1)[0], hw.ST_NO_MEMORY)

    def test_resets_give_it_back(self):
        for reset in (self.by_register, self.of_the_function):
            self.assertEqual(self.alloc(SIZE)[0], hw.ST_OK)
            self.assertEqual(self.alloc(1)[0], hw.ST_NO_MEMORY)
            reset()
            self.assertEqual(self.alloc(SIZE)[0], hw.ST_OK)
            self.tern.reset()
            self.tern.enable()

    def by_register(self):
        self.tern.reset()
        self.tern.enable()

    def of_the_function(self):
        self.tern.config_write(self.tern.capability(0x10) + 8, 2, 0x8000)
        self.tern.tail = self.tern.seen = 0
        self.tern.start()

    def test_dirty_logs_see_stores_of_the_device(self):
        self.assertNotIn("tern_dm_written", self.qemu.output())
        _, offset, size, _ = self.alloc(3 * PAGE)
        self.assertRegex(self.qemu.output(),
                         rf"tern_dm_written .* offset {offset:#x} len {size:#x}\b")


class NoDeviceMemory(unittest.TestCase):
    def test_commands_are_not_supported(self):
        with Qemu("-device", "tern,addr=4,dm-size=0") as qemu:
            tern = hw.Tern(qemu).start()
            self.assertFalse(tern.run(hw.CMD_QUERY_CAPS, out_len=8)[1][1] & hw.CAP_DM >> 8)
            self.assertEqual(tern.run(hw.CMD_ALLOC_DM, bytes(16), 24)[0], hw.ST_NOT_SUPPORTED)
            self.assertEqual(tern.run(hw.CMD_FREE_DM, bytes(8))[0], hw.ST_NOT_SUPPORTED)


if __name__ == "__main__":
    unittest.main()

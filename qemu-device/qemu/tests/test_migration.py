# SPDX-License-Identifier: GPL-2.0-or-later
"""Migration: a device goes on in another QEMU, and a state that does not fit is refused."""

import time
import unittest

import tern_hw as hw
from qtest import Qemu

DEVICE = "tern,addr=4,mac=52:54:00:11:22:33"


def migrate(qemu, path):
    """Saves a machine to a file; the machine is stopped then."""
    qemu.qmp("migrate", uri="file:" + path)
    end = time.monotonic() + 60
    while (status := qemu.qmp("query-migrate"))["status"] != "completed":
        if status["status"] == "failed" or time.monotonic() > end:
            raise RuntimeError(f"the migration is {status}")
        time.sleep(0.02)


def arrived(qemu):
    """Waits until a machine has been loaded; returns whether it was."""
    end = time.monotonic() + 60
    while qemu.alive() and time.monotonic() < end:
        try:
            if qemu.qmp("query-status")["status"] in ("running", "paused"):
                return True
        except (OSError, ValueError):  # it ends
            pass
        time.sleep(0.02)
    return False


class Migration(unittest.TestCase):
    def move(self, tern, to):
        """The same driver for the function in another QEMU."""
        moved = hw.Tern(to)
        moved.tail, moved.seen = tern.tail, tern.seen
        return moved

    def test_a_device_goes_on(self):
        with Qemu("-device", DEVICE) as source:
            tern = hw.Tern(source).start()
            tern.set_vector(0, tern.MSI, 0x1234)
            pds = [
                int.from_bytes(tern.run(hw.CMD_ALLOC_PD, bytes(8), 8)[1][:4], "little")
                for _ in range(3)
            ]
            status, part = tern.run(hw.CMD_ALLOC_DM, (0x1000).to_bytes(8, "little") + bytes(8), 24)
            self.assertEqual(status, hw.ST_OK)
            offset = int.from_bytes(part[:8], "little")
            source.write(tern.DM + offset, b"on-device memory")
            self.assertEqual(tern.run(hw.CMD_FREE_PD, pds[1].to_bytes(8, "little"))[0], hw.ST_OK)
            objects = tern.run(hw.CMD_QUERY_OBJECTS, out_len=512)[1]
            migrate(source, source.path("state"))
            with Qemu("-device", DEVICE, "-incoming", "file:" + source.path("state")) as to:
                self.assertTrue(arrived(to), to.output())
                moved = self.move(tern, to)
                self.assertEqual(moved.reg(hw.REG_STATUS), tern.reg(hw.REG_STATUS))
                self.assertEqual(to.read(moved.DM + offset, 16), b"on-device memory")
                self.assertEqual(moved.run(hw.CMD_QUERY_OBJECTS, out_len=512), (hw.ST_OK, objects))
                to.write(moved.MSI, bytes(4))
                self.assertEqual(
                    moved.run(hw.CMD_FREE_PD, pds[0].to_bytes(8, "little"))[0], hw.ST_OK)
                self.assertEqual(
                    moved.run(hw.CMD_FREE_PD, pds[1].to_bytes(8, "little"))[0], hw.ST_BAD_HANDLE)
                self.assertEqual(to.readl(moved.MSI), 0x1234, "no interrupt")
            # The source was not destroyed: it goes on as well.
            source.qmp("cont")
            self.assertEqual(tern.run(hw.CMD_FREE_PD, pds[2].to_bytes(8, "little"))[0], hw.ST_OK)

    def test_what_was_set_at_run_time_moves(self):
        def tern0(qemu, verb, prop, **value):
            return qemu.qmp(verb, path="/machine/peripheral/tern0", property=prop, **value)

        device = DEVICE + ",id=tern0"
        with Qemu("-device", device) as source:
            hw.Tern(source).start()
            tern0(source, "qom-set", "port-speed", value=25000)
            tern0(source, "qom-set", "icrc", value="warn")
            migrate(source, source.path("state"))
            with Qemu("-device", device, "-incoming", "file:" + source.path("state")) as to:
                self.assertTrue(arrived(to), to.output())
                self.assertEqual(tern0(to, "qom-get", "port-speed"), 25000)
                self.assertEqual(tern0(to, "qom-get", "icrc"), "warn")

    def test_another_property_is_refused_with_its_name(self):
        with Qemu("-device", DEVICE) as source:
            hw.Tern(source).start()
            migrate(source, source.path("state"))
            for prop, why in (("max-qp=100", "property 'max-qp' is 100, and was 16384"),
                              ("odp=off", "property 'odp' is 0, and was 1"),
                              ("vectors=5", "tern|msix|config|Unknown|load")):
                with Qemu("-device", f"{DEVICE},{prop}", "-incoming",
                          "file:" + source.path("state")) as to:
                    self.assertFalse(arrived(to), prop)
                    self.assertRegex(to.output(), why)

    def test_a_removed_device_stays(self):
        with Qemu("-device", DEVICE + ",id=tern0") as source:
            hw.Tern(source).start()
            source.qmp("qom-set", path="/machine/peripheral/tern0", property="removed", value=True)
            with self.assertRaises(RuntimeError):
                migrate(source, source.path("state"))
            self.assertTrue(source.alive())


if __name__ == "__main__":
    unittest.main()

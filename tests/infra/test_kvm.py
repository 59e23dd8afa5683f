# SPDX-License-Identifier: GPL-2.0-or-later
"""Whether KVM works, found out by trial boots of a shell script in the place of QEMU."""
import os
import sys
import time
import unittest
import unittest.mock

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
os.environ.setdefault("TERN_TOP", os.path.dirname(TESTS))
os.environ.setdefault("TERN_CACHE", "/nonexistent")
sys.path.append(os.path.join(os.path.dirname(TESTS), "lab/machines"))
import kvm  # noqa: E402
import places  # noqa: E402

PANIC = "echo 'Kernel panic - not syncing: VFS: no root'"


class Kvm(unittest.TestCase):
    def setUp(self):
        for patch in (unittest.mock.patch("os.access", return_value=True),
                      unittest.mock.patch.object(places, "CACHE", None)):
            patch.start()
            self.addCleanup(patch.stop)

    def works(self, script, insist=False):
        return kvm.kvm_works(["sh", "-c", script], "vmlinuz", insist)

    def test_a_kernel_that_finds_no_root(self):
        self.assertTrue(self.works(PANIC))
        self.assertTrue(self.works(f"for i in 1 2 3; do echo line; sleep 0.4; done; {PANIC}"))

    def test_silence_costs_a_second(self):
        began = time.monotonic()
        self.assertFalse(self.works(f"echo line; exec sleep 10; {PANIC}"))
        self.assertLess(time.monotonic() - began, 5)
        self.assertLessEqual(kvm.SILENT, 1)

    def test_what_qemu_reports(self):
        self.assertFalse(self.works(f"echo 'KVM internal error'; {PANIC}"))
        self.assertFalse(self.works("exit 1"))
        self.assertFalse(kvm.kvm_works(["/nonexistent"], "vmlinuz"))

    def test_lines_without_end(self):
        with unittest.mock.patch.object(kvm, "LIMIT", 0.5):
            self.assertFalse(self.works("while sleep 0.1; do echo line; done"))

    def test_who_insists_waits_and_is_told(self):
        self.assertTrue(self.works(f"sleep 2; {PANIC}", True))
        with self.assertRaisesRegex(OSError, "--kvm on: a trial boot"):
            self.works("exit 1", True)
        with unittest.mock.patch("os.access", return_value=False):
            self.assertFalse(self.works(PANIC))
            with self.assertRaisesRegex(OSError, "cannot open /dev/kvm"):
                self.works(PANIC, True)


if __name__ == "__main__":
    unittest.main()

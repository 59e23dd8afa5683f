# SPDX-License-Identifier: GPL-2.0-or-later
"""The layer of run-vm --package: what it brings to the guests' image, what it hides, and which
packages it thinks of."""
import io
import os
import shutil
import sys
import tarfile
import tempfile
import unittest

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.append(os.path.join(os.path.dirname(TESTS), "lab/image"))
import layer  # noqa: E402

STATUS = """Package: compiler
Status: install ok installed
Depends: headers (>= 2), linker | other-linker

Package: headers
Status: install ok installed
Provides: c-headers (= 1)

Package: linker
Status: install ok installed

Package: tool
Status: install ok installed
Depends: c-headers, gone

Package: gone
Status: deinstall ok config-files
"""


class Tree(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="tern-infra-")
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)
        for tree in ("base", "merged"):
            for path in ("etc/passwd", "usr/bin/old", "usr/include/stdio.h", "usr/include/other.h",
                         "usr/lib/gcc/14/cc1", "var/cache/x/y"):
                self.put(f"{tree}/{path}", "as before")
            self.put(f"{tree}/var/lib/dpkg/status", STATUS)
            self.put(f"{tree}/var/lib/dpkg/info/headers.list",
                     "/.\n/usr\n/usr/include\n/usr/include/stdio.h\n")
            self.put(f"{tree}/var/lib/dpkg/info/compiler:amd64.list", "/lib/gcc/14/cc1\n")
            os.symlink("old", f"{self.dir}/{tree}/usr/bin/link")
            os.utime(f"{self.dir}/{tree}/etc/passwd", (1, 1))

    def put(self, path, text):
        path = f"{self.dir}/{path}"
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as f:
            f.write(text)
        os.utime(path, (7, 7))

    def difference(self, *names):
        merged = f"{self.dir}/merged"
        needed = layer.files_of(merged, layer.closure(merged, names))
        paths, gone = layer.difference(f"{self.dir}/base", merged, layer.read_excludes(), needed)
        return {p for p in paths if not os.path.isdir(f"{merged}/{p}")}, paths, gone

    def test_nothing(self):
        self.assertEqual((set(), set(), set()), self.difference())

    def test_new_and_changed(self):
        self.put("merged/usr/bin/new", "")
        self.put("merged/etc/passwd", "as before and more")
        os.unlink(f"{self.dir}/merged/usr/bin/link")
        os.symlink("new", f"{self.dir}/merged/usr/bin/link")
        files, paths, gone = self.difference()
        self.assertEqual({"usr/bin/new", "etc/passwd", "usr/bin/link"}, files)
        self.assertEqual({"usr", "usr/bin", "etc"}, paths - files)

    def test_same_size_later(self):
        os.utime(f"{self.dir}/merged/etc/passwd", (2, 2))
        self.assertEqual({"etc/passwd"}, self.difference()[0])

    def test_scratch_stays_out(self):
        self.put("merged/var/cache/apt/a.deb", "")
        self.put("merged/tmp/x", "")
        self.assertEqual(set(), self.difference()[0])

    def test_scratch_of_a_package(self):
        self.put("merged/var/cache/tool/x", "")
        self.put("merged/var/lib/dpkg/info/tool.list", "/var/cache/tool/x\n")
        self.assertIn("var/cache/tool/x", self.difference("tool")[0])

    def test_what_the_image_left_out(self):
        files = self.difference("compiler")[0]
        self.assertEqual({"usr/include/stdio.h", "usr/lib/gcc/14/cc1"}, files)
        self.assertEqual({"usr/include/stdio.h"}, self.difference("tool")[0])

    def test_new_in_a_directory_that_was_left_out(self):
        os.symlink("x", f"{self.dir}/merged/usr/include/mpi")
        self.assertEqual({"usr/include/mpi"}, self.difference()[0])

    def test_whiteouts(self):
        os.unlink(f"{self.dir}/merged/usr/bin/old")
        self.put("base/opt/a/b", "")
        self.put("base/srv/c", "")
        self.put("merged/srv", "a file now")
        os.unlink(f"{self.dir}/merged/usr/include/other.h")
        files, paths, gone = self.difference()
        self.assertEqual({"usr/bin/old", "opt"}, gone)
        self.assertIn("srv", files)
        self.assertIn("usr/bin", paths)

    def test_archive(self):
        os.link(f"{self.dir}/merged/usr/bin/old", f"{self.dir}/merged/usr/bin/second")
        os.chmod(f"{self.dir}/merged/usr/bin", 0o711)
        out = io.BytesIO()
        layer.write(f"{self.dir}/merged", {"usr", "usr/bin", "usr/bin/old", "usr/bin/second"},
                    {"usr/bin/x"}, out)
        with tarfile.open(fileobj=io.BytesIO(out.getvalue())) as tar:
            members = {os.path.normpath(m.name): m for m in tar}
        self.assertEqual({".", "usr", "usr/bin", "usr/bin/old", "usr/bin/second", "usr/bin/x"},
                         set(members))
        self.assertEqual(0o711, members["usr/bin"].mode)
        self.assertTrue(members["usr/bin/second"].islnk())
        white = members["usr/bin/x"]
        self.assertEqual((True, 0, 0), (white.ischr(), white.devmajor, white.devminor))

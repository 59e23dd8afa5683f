# SPDX-License-Identifier: GPL-2.0-or-later
"""Versions of packages rise from build to build, as dpkg compares them."""
import os
import shutil
import subprocess
import tempfile
import unittest

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
WHO = {
    f"GIT_{who}_{what}": f"{what}@example.org".lower() for who in ("AUTHOR", "COMMITTER")
    for what in ("NAME", "EMAIL")
}
DATE = "2026-11-30T12:00:00+05:00"


class Versions(unittest.TestCase):
    def setUp(self):
        self.top = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.top)
        os.mkdir(f"{self.top}/packaging")
        shutil.copy(f"{TOP}/packaging/version", f"{self.top}/packaging/")
        self.git("init", "-q")
        self.git("add", ".")

    def git(self, *command):
        dates = {"GIT_AUTHOR_DATE": DATE, "GIT_COMMITTER_DATE": DATE}
        subprocess.run(["git", *command], cwd=self.top, check=True,
                       env={**os.environ, **WHO, **dates})

    def version(self):
        return subprocess.run([f"{self.top}/packaging/version"], check=True, stdout=subprocess.PIPE,
                              text=True).stdout.strip()

    def test_rise(self):
        versions = []
        for n in range(12):
            self.git("commit", "-q", "--allow-empty", "-m", f"commit {n}")
            versions.append(self.version())
        self.assertEqual(versions[-1], self.version())
        with open(f"{self.top}/change", "w"):
            versions.append(self.version())
        for one, two in zip(versions, versions[1:]):
            self.assertEqual(
                subprocess.run(["dpkg", "--compare-versions", one, "lt", two]).returncode, 0,
                f"{two} is not newer than {one}")


if __name__ == "__main__":
    unittest.main()

# SPDX-License-Identifier: GPL-2.0-or-later
"""The parts of the lab that only a bundle uses, without machines."""
import contextlib
import io
import os
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TOP = os.path.dirname(TESTS)
os.environ.setdefault("TERN_TOP", TOP)
os.environ.setdefault("TERN_CACHE", "/nonexistent")
sys.path.append(f"{TOP}/lab/machines")
import machine  # noqa: E402
import options  # noqa: E402
import packages  # noqa: E402
import places  # noqa: E402


class Temporary(unittest.TestCase):
    def place(self, writable, **env):
        with unittest.mock.patch.dict(os.environ, env, clear=True), \
                unittest.mock.patch("os.access", lambda path, mode: path in writable):
            return places.temporary()

    def test_the_first_that_is_writable_and_short(self):
        every = ("/a", "/tmp", "/dev/shm", "/run/1", "/" + "l" * 80)
        self.assertEqual(self.place(every, TMPDIR="/a"), "/a")
        self.assertEqual(self.place(every), "/tmp")
        self.assertEqual(self.place(every, TMPDIR="/" + "l" * 80), "/tmp")
        self.assertEqual(self.place(("/run/1", ), XDG_RUNTIME_DIR="/run/1"), "/run/1")
        self.assertEqual(self.place(("/dev/shm", ), TMPDIR="/a"), "/dev/shm")

    def test_none(self):
        with self.assertRaisesRegex(OSError, "set TMPDIR"):
            self.place(())


class RunDir(unittest.TestCase):
    def test_where_the_current_directory_is_not_writable(self):
        with tempfile.TemporaryDirectory() as top, \
                unittest.mock.patch.object(places, "BUNDLE", True), \
                unittest.mock.patch.object(places, "temporary", return_value=top), \
                unittest.mock.patch("os.access", return_value=False):
            path = places.run_dir()
            self.assertEqual(path, places.run_dir())
            os.rmdir(path)
            os.symlink("/", path)
            with self.assertRaisesRegex(OSError, "belongs to another user"):
                places.run_dir()


class Options(unittest.TestCase):
    def parse(self, *args):
        with unittest.mock.patch.object(places, "BUNDLE", True), \
                contextlib.redirect_stderr(io.StringIO()) as errors:
            try:
                return options.arguments([*args, "--", "true"])
            except SystemExit:
                return errors.getvalue()

    def test_what_needs_a_checkout(self):
        for args in (["--lane", "debug"], ["--front",
                                           "vfio-user"], ["--mutate"], ["--kernel",
                                                                        "/"], ["--two-hosts"]):
            self.assertIn(f"{args[0]} needs a checkout", self.parse(*args))

    def test_what_a_bundle_has(self):
        self.assertEqual(
            self.parse("--front", "qemu", "--no-build", "--adapters", "2").front, "qemu")

    def test_a_share_of_the_environment(self):
        with unittest.mock.patch.dict(os.environ, {"TERN_SHARE": "/"}):
            self.assertEqual(self.parse().share, "/")
            self.assertEqual(self.parse("--share", "/usr").share, "/usr")


class Fetch(unittest.TestCase):
    def setUp(self):
        self.top = tempfile.TemporaryDirectory()
        self.addCleanup(self.top.cleanup)
        os.mkdir(f"{self.top.name}/image")
        with open(f"{self.top.name}/image/mirrors", "w") as f:
            f.write("http://mirror.invalid/debian\n")
        patch = unittest.mock.patch.object(places, "TOP", self.top.name)
        patch.start()
        self.addCleanup(patch.stop)

    def fetch(self, uri):
        with unittest.mock.patch("urllib.request.urlopen",
                                 return_value=io.BytesIO(b"data")) as self.opened:
            return packages.fetch(uri, self.top.name)

    def test_from_the_mirror(self):
        name = self.fetch("http://mirror.invalid/debian/dists/x")
        with open(f"{self.top.name}/{name}") as f:
            self.assertEqual(f.read(), "data")

    def test_nothing_else(self):
        for uri in ("http://mirror.invalid/other", "http://mirror.invalid/debianx/y",
                    "http://host.invalid/http://mirror.invalid/debian/x", "file:///etc/passwd"):
            with self.assertRaisesRegex(OSError, "is not on a mirror"):
                self.fetch(uri)
            self.opened.assert_not_called()

    def test_what_is_too_large(self):
        with unittest.mock.patch.object(packages, "FILE", 1), \
                self.assertRaisesRegex(OSError, "too large"):
            self.fetch("http://mirror.invalid/debian/x")


class Paths(unittest.TestCase):
    def test_commas(self):
        self.assertIn("path=/a,,b", machine.share("tag", "/a,b", "")[1])


class Script(unittest.TestCase):
    """packaging/ci/run, with an archive whose tern prints its arguments."""
    def setUp(self):
        top = tempfile.TemporaryDirectory()
        self.addCleanup(top.cleanup)
        self.top = top.name
        os.makedirs(f"{self.top}/tmp")
        os.makedirs(f"{self.top}/bundle")
        with open(f"{self.top}/bundle/tern", "w") as f:
            f.write("#!/bin/sh\nif [ $1 = view ]; then echo page >page.out; exit 1; fi\n"
                    "printf '%s\\n' \"$@\" '<b>' >args; echo '`<b>'; exit 7\n")
        os.chmod(f"{self.top}/bundle/tern", 0o755)
        subprocess.run(["tar", "-cJf", "b.tar.xz", "bundle"], cwd=self.top, check=True)

    def script(self, *args):
        return subprocess.run(
            [f"{TOP}/packaging/ci/run", *args], cwd=self.top, text=True, capture_output=True,
            env={**os.environ, "TMPDIR": f"{self.top}/tmp", "GITHUB_OUTPUT": f"{self.top}/outputs"})

    def read(self, name):
        with open(f"{self.top}/{name}") as f:
            return f.read()

    def test_an_archive(self):
        r = self.script("--bundle", "b.tar.xz", "--machines", "3", "--packages", "a,b c",
                        "--faults", "drop tx; mark rx", "--", "make check; true")
        self.assertEqual(r.returncode, 7, r.stderr)
        args = self.read("args").splitlines()
        self.assertEqual(args[-4:-1], ["sh", "-c", "make check; true"])
        for words in (["--vms", "3"], ["--package", "a", "--package", "b", "--package",
                                       "c"], ["--device-prop", "faults=drop tx; mark rx"],
                      ["--pcap", "--events"], ["--share", os.path.realpath(self.top)]):
            self.assertIn("\n".join(words), "\n".join(args))
        self.assertIn("failed with status 7", self.read("tern-ci/summary.md"))
        self.assertIn("\n    `<b>", self.read("tern-ci/summary.md"))
        self.assertIn("status=7\n", self.read("outputs"))
        self.assertEqual(os.listdir(f"{self.top}/tmp"), [])

    def test_what_is_no_bundle(self):
        for place, text in (("nowhere", "is no bundle"), ("none.tar.xz", "cannot unpack")):
            r = self.script("--bundle", place, "--", "true")
            self.assertEqual(r.returncode, 125)
            self.assertIn(text, r.stderr)
        self.assertEqual(os.listdir(f"{self.top}/tmp"), [])

    def test_wrong_options(self):
        for args, text in ((["--captures", "yes", "--",
                             "a"], "takes on or off"), (["--", "a", "b"], "one argument"),
                           (["--fault", "x"], "unknown"), (["--machines"], "lacks its value")):
            self.assertIn(text, self.script(*args).stderr)


class Composite(unittest.TestCase):
    """The interpreter of composite actions refuses what it, or a careful runner, does not run."""
    def script(self, step, **inputs):
        action = "inputs: {a: {default: 'x'}}\nruns:\n  using: composite\n  steps: [" + step + \
            "]\noutputs: {}\n"
        with tempfile.NamedTemporaryFile("w", suffix=".yml") as f:
            f.write(action)
            f.flush()
            r = subprocess.run(
                [f"{TESTS}/infra/composite", f.name, *(f"{k}={v}" for k, v in inputs.items())],
                capture_output=True, text=True)
        return r.stdout if not r.returncode else r.stderr

    def test_inputs_are_data(self):
        try:
            import yaml  # noqa: F401
        except ImportError:
            self.skipTest("no yaml outside the sysroot")
        good = "{id: s, shell: bash, env: {A: '${{ inputs.a }}'}, run: 'echo \"$A\"'}"
        self.assertIn("A='$(false)'", self.script(good, a="$(false)"))
        self.assertIn("expression in shell code",
                      self.script("{shell: bash, run: 'echo ${{ inputs.a }}'}"))
        self.assertIn("unknown action", self.script("{uses: other/action@v1}"))
        self.assertIn("unknown condition", self.script("{if: failure(), shell: bash, run: 'a'}"))
        self.assertIn("has no inputs", self.script(good, b="y"))


if __name__ == "__main__":
    unittest.main()

# SPDX-License-Identifier: GPL-2.0-or-later
"""The messages of host-setup, sysroot and run-vm on machines that cannot run the lab, with
stand-ins for those machines."""
import os
import shutil
import subprocess
import tempfile
import unittest

LAB = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))),
                   "lab")
DEBIAN = 'ID=debian\nPRETTY_NAME="Debian GNU/Linux 13 (trixie)"\n'
UBUNTU = 'ID=ubuntu\nID_LIKE=debian\nPRETTY_NAME="Ubuntu 24.04.1 LTS"\n'
MIRROR = "deb http://mirror.example/debian trixie main\n"


class Host(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="tern-infra-")
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)
        self.env = {
            **os.environ, "PATH": f"{self.dir}/bin:{os.environ['PATH']}",
            "TERN_CACHE": f"{self.dir}/cache", "TERN_TEST_ETC": f"{self.dir}/etc",
            "TERN_TEST_MEMINFO": f"{self.dir}/meminfo"
        }
        self.env.pop("TERN_MIRROR", None)
        for program in ("apt-get", "mmdebstrap", "newuidmap", "unshare"):
            self.fake(program, "exit 0")
        self.machine()

    def fake(self, program, text):
        self.file(f"bin/{program}", f"#!/bin/sh\n{text}\n")
        os.chmod(f"{self.dir}/bin/{program}", 0o755)

    def file(self, path, text):
        path = f"{self.dir}/{path}"
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as f:
            f.write(text)

    def machine(self, release=DEBIAN, free=20, memory=16, uid=0, sources=MIRROR):
        self.file("etc/os-release", release)
        self.file("etc/apt/sources.list", sources)
        self.file("meminfo", f"MemTotal: {memory * 1048576 - 200000} kB\n")
        self.fake("df", f"echo Avail; echo {free * 1048576}")
        self.fake("id", f"case $1 in -un) echo tester ;; *) echo {uid} ;; esac")

    def warm(self):
        for path in ("sysroot/.complete", "image-1/root.erofs", "qemu-1/build/qemu-system-x86_64"):
            self.file(f"cache/{path}", "")

    def run_it(self, *command):
        p = subprocess.run([f"{LAB}/{command[0]}", *command[1:]], env=self.env,
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                           stdin=subprocess.DEVNULL, text=True)
        return p.returncode, p.stdout

    def setup_says(self, *words):
        status, out = self.run_it("host-setup")
        self.assertEqual(1, status, out)
        self.assertEqual(1, len(out.splitlines()), out)
        for word in words:
            self.assertIn(word, out)

    def test_good(self):
        self.assertEqual((0, ""), self.run_it("host-setup"))

    def test_disk_with_an_empty_cache(self):
        self.machine(free=5)
        self.setup_says("only 5 GiB free", "6 are needed", "TERN_CACHE")
        self.machine(free=6)
        self.assertEqual((0, ""), self.run_it("host-setup"))

    def test_disk_with_a_warm_cache(self):
        self.warm()
        self.machine(free=1)
        self.assertEqual((0, ""), self.run_it("host-setup"))
        self.machine(free=0)
        self.setup_says("only 0 GiB free", "1 are needed")

    def test_disk_for_the_tests(self):
        self.env["TERN_TESTS"] = "1"
        self.machine(free=9)
        self.setup_says("only 9 GiB free", "10 are needed")
        self.warm()
        self.machine(free=4)
        self.setup_says("only 4 GiB free", "5 are needed")
        os.makedirs(f"{self.dir}/cache/linux-kunit-0")
        self.machine(free=1)
        self.assertEqual((0, ""), self.run_it("host-setup"))

    def test_full_disk_names_the_same_number(self):
        for needed in (6, 1):
            self.file("log", "write error: No space left on device\n")
            p = subprocess.run(
                ["bash", "-c", f'. {LAB}/lib.sh; explain "$1"', f"{LAB}/x", f"{self.dir}/log"],
                env=self.env, stderr=subprocess.PIPE, text=True)
            self.assertIn(f"({needed} GiB are needed)", p.stderr)
            self.warm()

    def test_memory(self):
        self.machine(memory=4)
        status, out = self.run_it("host-setup")
        self.assertEqual(0, status)
        self.assertIn("4 GiB of memory", out)
        self.assertIn("--mem 1G", out)
        self.machine(memory=6)
        self.assertEqual((0, ""), self.run_it("host-setup"))

    def test_root_in_a_container(self):
        self.fake("unshare", "echo 'unshare: unshare failed: Operation not permitted' >&2; exit 1")
        self.setup_says("root may not create a mount namespace", "Operation not permitted",
                        "CAP_SYS_ADMIN")
        self.assertNotIn("run as root", self.run_it("host-setup")[1])

    def test_user_without_namespaces(self):
        self.machine(uid=1000)
        self.fake("unshare", "echo 'unshare: No space left on device' >&2; exit 1")
        self.setup_says("user namespaces do not work (unshare: No space left on device)",
                        "run as root", "tester", "/etc/subuid")

    def test_missing_program_of_a_user(self):
        self.machine(uid=1000)
        os.unlink(f"{self.dir}/bin/mmdebstrap")
        self.env["PATH"] = f"{self.dir}/bin:{self.tools()}"
        self.setup_says("mmdebstrap missing, and this user is not root",
                        "sudo apt-get install mmdebstrap")

    def tools(self):
        """A directory with the programs that the script needs, but without mmdebstrap."""
        for program in ("bash", "sh", "mkdir", "uname", "tail", "awk", "date", "python3", "cat",
                        "sha256sum", "cut"):
            os.makedirs(f"{self.dir}/tools", exist_ok=True)
            if not os.path.exists(f"{self.dir}/tools/{program}"):
                os.symlink(shutil.which(program), f"{self.dir}/tools/{program}")
        return f"{self.dir}/tools"

    def test_ubuntu(self):
        self.machine(release=UBUNTU, sources="deb http://archive.ubuntu.com/ubuntu noble main\n")
        self.setup_says("Ubuntu 24.04.1 LTS", "TERN_MIRROR=", "leave /etc/apt alone",
                        "Debian 12 and 13")
        # sysroot prints the same message if it gets that far.
        self.env["PATH"] = f"{self.dir}/bin:{os.environ['PATH']}"
        out = self.run_it("build/sysroot")[1]
        self.assertNotIn("sources.list", out)

    def test_ubuntu_with_a_mirror(self):
        self.machine(release=UBUNTU, sources="deb http://archive.ubuntu.com/ubuntu noble main\n")
        self.env["TERN_MIRROR"] = "http://mirror.example/debian"
        self.assertEqual(0, self.run_it("host-setup")[0])
        out = self.run_it("build/apt-sources", "trixie")[1]
        self.assertEqual(2, out.count(" http://mirror.example/debian trixie main\n"))
        self.assertEqual(2, out.count("[signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]"))
        self.assertNotIn("ubuntu", out)

    def test_mirrors_of_ubuntu_are_not_taken(self):
        self.machine(sources="deb http://archive.ubuntu.com/ubuntu noble main\n")
        self.assertEqual("", self.run_it("build/apt-sources", "trixie")[1])

    def test_debian_without_a_mirror(self):
        self.machine(sources="")
        status, out = self.run_it("build/sysroot")
        self.assertEqual(1, status)
        self.assertIn("/etc/apt has no Debian mirror", out)

    def test_another_processor(self):
        self.fake("uname", "echo aarch64")
        self.setup_says("aarch64", "amd64")


class Arguments(unittest.TestCase):
    """run-vm checks its arguments before it builds anything: the cache stays empty."""
    def setUp(self):
        self.cache = tempfile.mkdtemp(prefix="tern-infra-")
        self.addCleanup(shutil.rmtree, self.cache, ignore_errors=True)

    def run_vm(self, *args):
        p = subprocess.run([f"{LAB}/run-vm", *args], env={**os.environ, "TERN_CACHE": self.cache},
                           stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT, text=True)
        self.assertEqual([], os.listdir(self.cache))
        return p.returncode, p.stdout

    def test_help(self):
        for option in ("--help", "-h"):
            status, out = self.run_vm("--vms", "3", option)
            self.assertEqual(0, status)
            self.assertIn("--device-prop", out)

    def test_wrong(self):
        for args, word in (([], "no CMD"), (["--vms", "17", "--",
                                             "true"], "--vms"), (["--nope", "--",
                                                                  "true"], "--nope"),
                           (["--lane", "sid", "--",
                             "true"], "sid"), (["--timeout", "0", "--", "true"], "--timeout"),
                           (["--mem", "lots", "--",
                             "true"], "lots"), (["--soft-roce", "vm9", "--", "true"],
                                                "--soft-roce"), (["--adapters", "0", "--",
                                                                  "true"], "--adapters"),
                           (["--adapters", "9", "--",
                             "true"], "--adapters"), (["--loop", "--", "true"], "--adapters"), ([
                                 "--loop", "--vms", "1", "--adapters", "2", "--front", "vfio-user",
                                 "--", "true"
                             ], "--loop"), (["--adapters", "2", "--no-tern", "--",
                                             "true"], "--no-tern"),
                           (["--adapters", "2", "--soft-roce", "vm2", "--", "true"],
                            "--soft-roce"), (["--two-hosts", "--front", "qemu", "--",
                                              "true"], "--front"),
                           (["--front", "vfio-user", "--soft-roce", "vm2", "--",
                             "true"], "--two-hosts"), (["--device-prop", "vm3:a=b", "--",
                                                        "true"], "machine"),
                           (["--device-prop", "1:a=b", "--",
                             "true"], "adapter"), (["--package", "a b", "--", "true"], "a b"),
                           (["--package", "gcc,foo-", "--",
                             "true"], "foo-"), (["--package", "./none.deb", "--", "true"],
                                                "./none.deb"), (["--modules", "/tmp", "--",
                                                                 "true"], "--kernel"),
                           (["--kernel", "/etc/passwd", "--", "true"],
                            "bzImage"), (["--kernel", "/nonexistent", "--", "true"],
                                         "vmlinuz"), (["--overlay", "/nonexistent", "--",
                                                       "true"], "/nonexistent"),
                           (["--share", "/etc/passwd", "--",
                             "true"], "/etc/passwd"), (["--tty", "--", "true"],
                                                       "terminal"), (["--no-buil", "--",
                                                                      "true"], "--no-buil")):
            status, out = self.run_vm(*args)
            self.assertEqual(2, status, args)
            self.assertIn(word, out.splitlines()[-1], args)

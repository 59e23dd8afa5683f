# SPDX-License-Identifier: GPL-2.0-or-later
#
# Test: infra
# Tier: quick, 600 s
# Boot: none
# Run: tests/tap/pytest tests/infra
# Proves: Tests/run, the judgement of results, the lab's own code and messages, and that the pages
#   name what exists.
"""tests/run as a whole, in a tree of its own with stand-ins for the lab: its output, exit status
and files."""
import glob
import json
import os
import pty
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import unittest.mock
import xml.etree.ElementTree

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# Does without a guest what run-tests does in one.
RUN_VM = r"""#!/bin/bash
while [ "$1" != -- ]; do [ "$1" != --share ] || share=$2; shift; done
echo boots
while IFS=$'\t' read -r name limit command; do
	echo "%%tern begin $name"
	bash -c "$command" </dev/null
	echo "%%tern end $name $?"
done <"$share/plan"
"""
SUITE = """
host
quick 60 one   printf 'ok one/a\\nok one/b\\n'
quick 60 two   true
boot --vms 1
quick 60 three echo ok three/a
full  60 four  sh tests/four
"""
RESULTS = "one 2\ntwo none\nthree 1\nfour 1\n"
SKIPS = "four * four/a there is no moon in the lab\n"


class Run(unittest.TestCase):
    def setUp(self):
        self.enterContext(unittest.mock.patch.dict(os.environ))
        os.environ.pop("TERN_STRICT", None)
        self.top = tempfile.mkdtemp(prefix="tern-infra-")
        self.addCleanup(shutil.rmtree, self.top, ignore_errors=True)
        os.makedirs(f"{self.top}/lab/machines")
        os.makedirs(f"{self.top}/lab/build")
        os.makedirs(f"{self.top}/tests")
        for name in ("tests/run", "tests/headers.py", "tests/outcome.py", "lab/lanes",
                     "lab/machines/lanes.py"):
            shutil.copy(f"{os.path.dirname(TESTS)}/{name}", f"{self.top}/{name}")
        self.script("lab/build/all", "#!/bin/sh\n")
        self.script("lab/sysroot-run", '#!/bin/sh\nexec "$@"\n')
        self.script("lab/run-vm", RUN_VM)
        self.script("tests/four", "echo 'ok four/a # SKIP no moon'\n")
        self.put(SUITE, RESULTS, SKIPS)

    def script(self, path, text):
        with open(f"{self.top}/{path}", "w") as f:
            f.write(text)
        os.chmod(f"{self.top}/{path}", 0o755)

    def put(self, suite, results="", skips=""):
        """Writes a file for each test. suite has 'TIER SECONDS NAME COMMAND' below 'host',
        'outside' or 'boot OPTIONS'; the boots are named by their numbers. results has 'NAME N' or
        'NAME none', skips 'NAME LANE RESULT REASON'."""
        for path in glob.glob(f"{self.top}/tests/*.test"):
            os.unlink(path)
        results = dict(line.split() for line in results.splitlines())
        boots, boot = {"none": "-"}, ""
        for line in suite.split("\n"):
            words = line.split(None, 3)
            if words and words[0] in ("host", "outside"):
                boot = "none" if words[0] == "host" else "none, outside"
            elif words and words[0] == "boot":
                boot = str(len(boots) - ("host" not in suite))
                boots[boot] = line[5:]
            elif words:
                tier, limit, name, command = words
                head = [
                    f"Test: {name}", f"Tier: {tier.replace(',', ', ')}, {limit} s", f"Boot: {boot}",
                    f"Run: {command}", f"Proves: what {name} does"
                ]
                head += [f"Order: {int(name == 'four')}"]
                head += [f"Results: {results[name]}"] if name in results else []
                head += [
                    f"Skip: {skip.split(None, 1)[1]}" for skip in skips.splitlines()
                    if skip.split()[0] == name
                ]
                with open(f"{self.top}/tests/{name}.test", "w") as f:
                    f.writelines(f"# {line}\n" for line in head)
        with open(f"{self.top}/tests/boots", "w") as f:
            f.writelines(f"{name} {options}\n" for name, options in boots.items())

    def start(self, *args, **more):
        return subprocess.Popen([sys.executable, "-B", f"{self.top}/tests/run", *args],
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                start_new_session=True, **more)

    def run_it(self, *args):
        p = self.start(*args)
        out = p.communicate()[0]
        return p.returncode, out

    def test_good(self):
        status, out = self.run_it()
        self.assertEqual((0, "5 passed, 0 failed, 1 skipped"), (status, out.splitlines()[-1]), out)

    def result(self, test):
        with open(f"{self.top}/build/test/result.json") as f:
            return json.load(f)["tests"][test]

    def test_a_boot_that_ends_badly_after_its_tests(self):
        """A QEMU that crashes in its teardown, a lab that fails, the limit of run-vm: each fails
        the boot, also without a lost test."""
        for how, why in ((125, "exit status 125"), (124, "exit status 124"),
                         (99, "a kernel complained"), ("SEGV", "exit status -11")):
            self.script("lab/run-vm",
                        RUN_VM + (f"exit {how}\n" if isinstance(how, int) else f"kill -{how} $$\n"))
            status, out = self.run_it()
            self.assertEqual((1, "4 passed, 1 failed, 1 skipped"), (status, out.splitlines()[-1]),
                             out)
            self.assertIn(f"not ok kernel-1 - {why}", out)
            result = self.result("kernel-1")
            self.assertEqual((0, 1, 0), (result["pass"], result["fail"], result["skip"]), how)

    def test_a_boot_that_loses_tests(self):
        """Those that did not run fail, and so does the boot: once."""
        for how in ("exit 0", "exit 125"):
            self.script(
                "lab/run-vm",
                f"#!/bin/bash\necho '%%tern begin three'\necho ok three/a\necho '%%tern end three 0'\n{how}\n"
            )
            status, out = self.run_it()
            self.assertEqual((1, "4 passed, 2 failed, 0 skipped"), (status, out.splitlines()[-1]),
                             out)
            self.assertEqual(
                (0, 1), (self.result("kernel-1")["pass"], self.result("kernel-1")["fail"]), how)

    # Stalls in the second test that it runs until it has done so `times` times.
    STALLS = """#!/bin/bash
while [ "$1" != -- ]; do [ "$1" != --share ] || share=$2; shift; done
echo boot >>{top}/boots
while IFS=$'\t' read -r name limit command; do
	echo "%%tern begin $name"
	if [ $name = four ] && [ $(wc -l <{top}/boots) -le {times} ]; then
		echo ok four/b
		exit 98
	fi
	bash -c "$command" </dev/null
	echo "%%tern end $name $?"
done <"$share/plan"
"""

    def test_a_boot_that_stalls(self):
        """The tests without a result run in a second boot; a second stall fails them."""
        for times, wanted in ((1, (0, "5 passed, 0 failed, 1 skipped")),
                              (2, (1, "5 passed, 2 failed, 0 skipped"))):
            self.script("lab/run-vm",
                        self.STALLS.replace("{top}", self.top).replace("{times}", str(times)))
            status, out = self.run_it()
            self.assertEqual(wanted, (status, out.splitlines()[-1]), out)
            self.assertEqual("1 retried (kernel-1 1)", out.splitlines()[-2])
            with open(f"{self.top}/boots") as f:
                self.assertEqual(2, len(f.readlines()))
            os.unlink(f"{self.top}/boots")

    def test_result_lines_outside_of_tests(self):
        """What a machine prints beside its tests is no result: the boot has one."""
        self.script("lab/run-vm", RUN_VM.replace("echo boots", "echo ok boots; echo not ok at all"))
        status, out = self.run_it()
        self.assertEqual((0, "5 passed, 0 failed, 1 skipped"), (status, out.splitlines()[-1]), out)

    def test_a_judge_without_a_result(self):
        """The judge of a boot that never started has neither a capture nor a console to read."""
        self.put(SUITE.replace("boot --vms 1", "boot --vms 1 --pcap"), RESULTS, SKIPS)
        os.makedirs(f"{self.top}/tests/judge")
        for text, failed in (("exit 0", 0), ("echo ok judge-1", 0),
                             ("echo ok judge-1; echo ok judge-1", 1), ("exit 3", 1)):
            self.script("tests/judge/judge", f"#!/bin/sh\n{text}\n")
            status, out = self.run_it()
            self.assertIn(f" {failed} failed", out.splitlines()[-1], out)
            self.assertEqual(failed, self.result("judge-1")["fail"], text)
            self.assertNotIn("Traceback", out)

    def test_retries_are_counted(self):
        self.script("lab/run-vm",
                    RUN_VM.replace("echo boots", "echo '# retried: vm1 stalled while booting' >&2"))
        self.script(
            "tests/four",
            "echo '# retried: four/a (why)'; echo '# retried: four/a (why)'; echo 'ok four/a # SKIP no moon'\n"
        )
        status, out = self.run_it()
        self.assertEqual((0, ["3 retried (four 2, kernel-1 1)", "5 passed, 0 failed, 1 skipped"]),
                         (status, out.splitlines()[-2:]), out)
        self.assertEqual(
            (0, 1, 2),
            tuple(self.result(name)["retried"] for name in ("three", "kernel-1", "four")))
        with open(f"{self.top}/build/test/result.json") as f:
            self.assertEqual(3, json.load(f)["retried"])

    def test_no_retries(self):
        self.assertEqual("0 retried", self.run_it()[1].splitlines()[-2])

    def test_more_results_than_expected(self):
        """A failure, because what is lost of them later would not be missed."""
        self.put(SUITE, RESULTS.replace("one 2", "one 1"), SKIPS)
        status, out = self.run_it()
        self.assertEqual((1, "5 passed, 1 failed, 1 skipped"), (status, out.splitlines()[-1]), out)
        self.assertIn("2 results, but its header says 1", out)

    def test_a_plan(self):
        """A test that prints a plan needs no number in its header; without both it fails."""
        self.script("tests/four", "echo 1..1; echo 'ok four/a # SKIP no moon'")
        self.put(SUITE, RESULTS.replace("four 1\n", ""), SKIPS)
        self.assertEqual(0, self.run_it()[0])
        self.script("tests/four", "echo 'ok four/a # SKIP no moon'")
        status, out = self.run_it()
        self.assertEqual((1, "5 passed, 1 failed, 1 skipped"), (status, out.splitlines()[-1]), out)
        self.assertIn("1 results and no plan", out)

    def test_a_test_that_runs_in_another_lane_too(self):
        """make test alone does that, and it is no complete run of that lane."""
        with open(f"{self.top}/tests/three.test", "a") as f:
            f.write("# Also: testing\n")
        for option, ran in (("--no-build", "7 passed, 0 failed, 1 skipped"),
                            ("--quick", "5 passed, 0 failed, 0 skipped"),
                            ("three", "2 passed, 0 failed, 0 skipped")):
            status, out = self.run_it(option)
            self.assertEqual((0, ran), (status, out.splitlines()[-1]), out)
        self.assertFalse(os.path.exists(f"{self.top}/build/test/testing/result.json"))

    def test_a_list_of_what_tests_prove(self):
        out = self.run_it("--list", "three")[1]
        self.assertEqual("three  (quick, trixie, 1, tests/three.test)\n    what three does\n", out)

    def test_junit(self):
        self.run_it()
        cases = xml.etree.ElementTree.parse(f"{self.top}/build/test/junit.xml").findall("testcase")
        self.assertEqual({"kernel-1", "one", "two", "three", "four"},
                         {case.get("name") for case in cases})
        self.assertFalse([case for case in cases if case.find("failure") is not None])

    def test_skip_that_is_not_listed(self):
        self.put(SUITE, RESULTS, "")
        status, out = self.run_it()
        self.assertEqual((1, "5 passed, 1 failed, 1 skipped"), (status, out.splitlines()[-1]), out)
        self.assertIn("four/a is skipped (no moon), and the header of the test does not allow that",
                      out)

    def test_listed_skip_that_does_not_happen(self):
        self.put(SUITE, RESULTS, SKIPS + "one * one/c it was hard\n")
        status, out = self.run_it()
        self.assertEqual(0, status)
        self.assertIn("tests/one.test: one/c of one is no longer skipped", out)
        with unittest.mock.patch.dict(os.environ, TERN_STRICT="1"):
            status, out = self.run_it()
            self.assertEqual((1, "5 passed, 1 failed, 1 skipped"), (status, out.splitlines()[-1]),
                             out)

    def test_missing_results(self):
        self.put(SUITE, "one 3\ntwo none\nthree 2\nfour 1\n", SKIPS)
        status, out = self.run_it()
        self.assertEqual((1, "5 passed, 2 failed, 1 skipped"), (status, out.splitlines()[-1]), out)

    def test_no_result_lines(self):
        self.put(SUITE, "one 2\nthree 1\nfour 1\n", SKIPS)
        status, out = self.run_it("two")
        self.assertEqual((1, "0 passed, 1 failed, 0 skipped"), (status, out.splitlines()[-1]), out)

    # The test of the first boot waits for that of the second, so they must run at the same time.
    BESIDE = """
boot --vms 1
quick 60 one   echo ok one/a; for i in $(seq 300); do [ ! -e {top}/two ] || exit 0; sleep 0.1; done; exit 1
boot {word} --vms 2
quick 60 two   touch {top}/two
boot --vms 3
quick 60 three test -e {top}/two && echo ok three/a
"""
    NEEDED = "one 1\ntwo none\nthree 1\n"

    def test_two_boots_at_a_time(self):
        self.put(self.BESIDE.format(top=self.top, word="beside"), self.NEEDED)
        status, out = self.run_it("--boots", "2")
        self.assertEqual((0, "6 passed, 0 failed, 0 skipped"), (status, out.splitlines()[-1]), out)
        for number, test in ((0, "one"), (1, "two"), (2, "three")):
            with open(f"{self.top}/build/test/kernel-{number}/share/plan") as f:
                self.assertEqual(test, f.read().split("\t")[0])

    # The boot waits for the test on the host. The boot marked alone must find that both have ended.
    MARKED = """
boot alone --vms 2
quick 60 three test -e {top}/one -a -e {top}/two && echo ok three/a
outside
quick 60 two   touch {top}/two
boot --vms 1
quick 60 one   echo ok one/a; touch {top}/one; for i in $(seq {tries}); do [ ! -e {top}/two ] || exit 0; sleep 0.1; done; exit 1
"""

    def test_host_tests_beside_boots(self):
        self.put(self.MARKED.format(top=self.top, tries=300), self.NEEDED)
        status, out = self.run_it("--boots", "2")
        self.assertEqual((0, "5 passed, 0 failed, 0 skipped"), (status, out.splitlines()[-1]), out)
        self.assertLess(out.index("pass  one:"), out.index("--vms 2"))

    def test_one_boot_at_a_time(self):
        for args, word in ((["--boots", "1"], "beside"), (["--boots",
                                                           "2"], ""), (["--lane",
                                                                        "debug"], "beside")):
            self.put(
                self.BESIDE.format(top=self.top, word=word).replace("seq 300", "seq 3"),
                self.NEEDED)
            status, out = self.run_it(*args)
            self.assertEqual((1, "6 passed, 1 failed, 0 skipped"), (status, out.splitlines()[-1]),
                             out)
            os.unlink(f"{self.top}/two")

    def test_clients(self):
        """A test may belong to the clients and to another tier; a run of the clients writes no
        result of a complete run."""
        self.put(SUITE + "clients 60 five echo ok five/a\nfull,clients 60 six echo ok six/a\n",
                 RESULTS + "five 1\nsix 1\n", SKIPS)
        for option, ran in (("--clients", "3 passed, 0 failed, 0 skipped"),
                            ("--long", "6 passed, 0 failed, 1 skipped"),
                            ("--quick", "5 passed, 0 failed, 0 skipped")):
            status, out = self.run_it(option)
            self.assertEqual((0, ran), (status, out.splitlines()[-1]), out)
            self.assertEqual(option != "--clients",
                             os.path.exists(f"{self.top}/build/test/result.json"))

    def test_stages(self):
        out = self.run_it("--boots", "1")[1]
        stages = out[out.index("seconds, processor seconds:"):]
        self.assertRegex(stages, r"(?m)^ +\d+ +build$")
        self.assertRegex(stages, r"(?m)^ +\d+ +host tests$")
        self.assertRegex(stages, r"(?m)^ +\d+ +\d+  boot 1 --vms 1$")
        with open(f"{self.top}/build/test/result.json") as f:
            self.assertEqual(["build", "host tests", "boot 1"],
                             [stage["name"] for stage in json.load(f)["stages"]])

    def test_progress_in_lines(self):
        out = self.run_it("--boots", "1")[1]
        for n, name in ((3, "three"), (4, "four")):
            self.assertIn(f"      {n} of 4: {name}\n", out)
        self.assertNotIn("\r", out)

    def test_progress_on_a_terminal(self):
        master, slave = pty.openpty()
        p = subprocess.Popen([sys.executable, "-B", f"{self.top}/tests/run", "--boots", "1"],
                             stdout=slave, stderr=slave, start_new_session=True)
        os.close(slave)
        out = b""
        try:
            while chunk := os.read(master, 4096):
                out += chunk
        except OSError:  # the end of a terminal
            pass
        self.assertEqual(0, p.wait())
        os.close(master)
        self.assertIn(b"\r\033[K3 of 4: three 0 s", out)
        self.assertIn(b"\r\033[Kpass  three: 1 passed, 0 failed (0 s)\r\n", out)

    def test_resume(self):
        self.put(SUITE, "one 3\ntwo none\nthree 1\nfour 1\n", SKIPS)
        self.assertEqual(1, self.run_it()[0])
        self.put(SUITE, RESULTS, SKIPS)
        status, out = self.run_it("--resume")
        self.assertEqual(0, status)
        self.assertIn("4 of 4: one", out)
        self.assertNotIn(": three\n", out)
        self.assertIn("4 of 5 had passed in an earlier run", out)

    def wait_for(self, path, p):
        while not os.path.exists(f"{self.top}/{path}"):
            self.assertIsNone(p.poll())
            time.sleep(0.02)

    def interrupt(self, suite, how):
        self.put(suite, RESULTS, SKIPS)
        p = self.start()
        self.wait_for("begun", p)
        time.sleep(0.5)  # timeout does not pass on a signal that arrives right after its fork
        p.send_signal(how)
        out = p.communicate()[0]
        # The command is gone: it held the lock of this file.
        subprocess.run(["flock", f"{self.top}/begun", "true"], check=True)
        self.assertNotIn("Traceback", out)
        self.assertNotIn("two", out)
        self.assertNotIn("FAIL", out)
        return p.returncode, out

    HANGS = "exec 7>{top}/begun; flock 7; sleep 100000"

    def test_interrupt_on_the_host(self):
        # Both threads are busy, so the third test does not start.
        hang = self.HANGS.format(top=self.top)
        suite = f"host\nquick 99999 one {hang}\nquick 99999 three sleep 100000\nquick 60 two true\n"
        status, out = self.interrupt(suite, signal.SIGINT)
        self.assertEqual(130, status)
        self.assertIn("tests/run: interrupted.", out)

    def test_interrupt_in_a_guest(self):
        hang = self.HANGS.format(top=self.top)
        self.script(
            "lab/run-vm",
            f"#!/bin/bash\necho '%%tern begin one'\ntrap 'kill $!; exit' TERM; {hang} & wait\n")
        status, out = self.interrupt("boot --vms 1\nquick 60 one true\nquick 60 two true\n",
                                     signal.SIGINT)
        self.assertEqual(130, status)

    def test_terminated(self):
        hang = self.HANGS.format(top=self.top)
        status, out = self.interrupt(f"host\nquick 99999 one {hang}\n", signal.SIGTERM)
        self.assertEqual(143, status)
        self.assertIn("stopped by SIGTERM", out)

    def assert_full_disk_is_reported(self, *tests):
        """The log of the first test is a full disk."""
        os.makedirs(f"{self.top}/build/test")
        os.symlink("/dev/full", f"{self.top}/build/test/{tests[0]}.log")
        status, out = self.run_it(*tests)
        self.assertEqual(1, status)
        self.assertNotIn("Traceback", out)
        self.assertIn("tests/run: the disk is full", out)

    def test_full_disk(self):
        self.assert_full_disk_is_reported("one", "two")

    def test_full_disk_in_a_guest(self):
        self.assert_full_disk_is_reported("three", "four")

    def test_header_that_cannot_be_read(self):
        self.put(SUITE, RESULTS, "four * four/a\n")
        status, out = self.run_it()
        self.assertEqual(1, status)
        self.assertIn("tests/four.test: four: a skip is LANE RESULT REASON", out)
        self.assertNotIn("Traceback", out)

    def test_machines_with_two_marks(self):
        self.put(SUITE +
                 "boot --vms 2\nquick 60 five true\nboot beside --vms 2\nquick 60 six true\n")
        status, out = self.run_it()
        self.assertEqual(1, status)
        self.assertIn("another test boots '--vms 2' with another mark", out)

    def test_result_file(self):
        self.run_it()
        with open(f"{self.top}/build/test/result.json") as f:
            result = json.load(f)
        self.assertEqual({"pass": 5, "fail": 0, "skip": 1}, result["total"])

# SPDX-License-Identifier: GPL-2.0-or-later
"""tests/tap/gtest, with programs that speak as GoogleTest does: no test is lost, whatever ends a
process."""
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# Runs every GTEST_TOTAL_SHARDS-th of the tests in $tests; those in $lines instead of "OK".
PROGRAM = r"""#!/bin/bash
if [ "${*: -1}" = --gtest_list_tests ]; then
	echo 'Suite.'
	for t in $tests; do echo "  $t  # GetParam() = 7"; done
	exit
fi
n=0 status=0
for t in $tests; do
	[[ $t != DISABLED_* ]] || continue
	[ $((n++ % GTEST_TOTAL_SHARDS)) = "$GTEST_SHARD_INDEX" ] || continue
	echo "[ RUN      ] Suite.$t"
	case $t in
	bad) echo why && echo "[  FAILED  ] Suite.$t, where GetParam() = 7 (1 ms)" && status=1 ;;
	skipped) echo 'file.cc:3: Skipped' && echo 'not today' && echo && echo "[  SKIPPED ] Suite.$t (0 ms)" ;;
	crash) echo last words && kill -SEGV $$ ;;
	hang) sleep 1000 ;;
	*) echo "some text[       OK ] Suite.$t (0 ms)" ;;
	esac
done
[ $status = 0 ] || echo "[  FAILED  ] Suite.bad, where GetParam() = 7"
exit ${leak:-$status}
"""


class Lines(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="tern-infra-")
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)
        self.program = f"{self.dir}/program"
        with open(self.program, "w") as f:
            f.write(PROGRAM)
        os.chmod(self.program, 0o755)

    def start(self, *jobs, **env):
        return subprocess.Popen([sys.executable, f"{TOP}/tests/tap/gtest", *jobs],
                                env={**os.environ, **env}, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True)

    def run_it(self, *jobs, **env):
        p = self.start(*(jobs or [self.program]), **env)
        out = p.communicate()[0].splitlines()
        self.assertTrue(out[0].startswith("1.."), out)
        return p.returncode, out[0], sorted(line for line in out
                                            if line.startswith(("ok", "not ok"))), out

    def test_all_pass(self):
        names = [f"t{i}" for i in range(20)]
        status, plan, lines, _ = self.run_it(tests=" ".join(names))
        self.assertEqual((0, "1..20", sorted(f"ok Suite.{n}" for n in names)),
                         (status, plan, lines))

    def test_a_failure(self):
        status, plan, lines, out = self.run_it(tests="a bad b")
        self.assertEqual((1, "1..3", ["not ok Suite.bad - FAILED", "ok Suite.a", "ok Suite.b"]),
                         (status, plan, lines))
        self.assertIn("why", out)

    def test_skips(self):
        status, plan, lines, _ = self.run_it(tests="a skipped DISABLED_b")
        self.assertEqual((0, "1..3", [
            "ok Suite.DISABLED_b # SKIP disabled", "ok Suite.a", "ok Suite.skipped # SKIP not today"
        ]), (status, plan, lines))

    def test_a_crash(self):
        """The tests after it in that process are missing, which the plan shows."""
        status, plan, lines, out = self.run_it(tests="crash")
        self.assertEqual((1, "1..1", ["not ok Suite.crash - ended by SIGSEGV"]),
                         (status, plan, lines))
        self.assertIn("last words", out)

    def test_a_report_after_the_last_test(self):
        status, plan, lines, _ = self.run_it(tests="a", leak="23")
        self.assertEqual(
            (1, "1..1", ["not ok program - exit status 23 after its tests", "ok Suite.a"]),
            (status, plan, lines))

    def test_several_programs(self):
        status, plan, lines, _ = self.run_it(self.program, "--", "--as", "Again.", self.program,
                                             "-x", "--", "--whole", "All", "true", "--", "--whole",
                                             "None", "false", tests="a")
        self.assertEqual(
            (1, "1..4", ["not ok None - exit status 1", "ok Again.Suite.a", "ok All", "ok Suite.a"
                         ]), (status, plan, lines))

    def test_stopped(self):
        p = self.start(self.program, tests="hang")
        self.addCleanup(p.stdout.close)
        self.assertEqual("1..1\n", p.stdout.readline())
        time.sleep(1)
        p.send_signal(signal.SIGTERM)
        self.assertEqual("not ok Suite.hang - was running when the tests were stopped\n",
                         p.stdout.readline())
        self.assertEqual(1, p.wait())

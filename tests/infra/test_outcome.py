# SPDX-License-Identifier: GPL-2.0-or-later
"""The judgement of results: lines, plans, numbers, skips; and the headers of tests."""
import os
import sys
import unittest

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, TESTS)
from headers import parse, read_boots, read_tests  # noqa: E402
from outcome import Judgement  # noqa: E402

HEADER = """#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# alpha.sh: does what a new test does, in
# two lines.
#
# More of it.
#
# Test: alpha
# Tier: quick, clients, 60 s
# Boot: pair
# Skip: * alpha/gpu* no GPU
#   here
# Skip: debug slow a debug kernel

# Proves: nothing, because it is no longer the header
"""
BOOTS = {"pair": "--vms 2", "lonely": "beside --vms 1"}


def header(more="", text=HEADER, path="tests/guest/alpha.sh"):
    test, = parse(path, text.replace("# Boot: pair\n", "# Boot: pair\n" + more))
    test.find_boot(BOOTS)
    return test


def judged(lines, status=0, results="1", lane="trixie", name="alpha"):
    j = Judgement(name, lane, header(f"# Results: {results}\n" if results else ""))
    for line in lines:
        j.line(line)
    j.end(status)
    return j


class Results(unittest.TestCase):
    def counts(self, *args, **more):
        j = judged(*args, **more)
        return j.counts["pass"], j.counts["fail"], j.counts["skip"]

    def test_lines(self):
        lines = ["ok a", "noise", "ok 2 - b", "not ok c - why", "not okay", "# ok d"]
        self.assertEqual((2, 1, 0), self.counts(lines, 1, "3"))

    def test_a_dash_is_not_a_name(self):
        self.assertEqual((1, 0, 0), self.counts(["ok a", "ok - b"]))

    def test_status_without_a_failure(self):
        self.assertEqual((1, 1, 0), self.counts(["ok a"], 3))

    def test_status_judges_alone_where_the_header_says_so(self):
        self.assertEqual((1, 0, 0), self.counts([], 0, "none"))
        self.assertEqual((0, 1, 0), self.counts([], 1, "none"))

    def test_no_result_lines(self):
        self.assertEqual((0, 1, 0), self.counts(["I am fine"]))
        self.assertEqual((0, 1, 0), self.counts([], 0, ""))

    def test_another_number_than_the_header_says(self):
        self.assertEqual((2, 1, 0), self.counts(["ok a", "ok b"], 0, "3"))
        self.assertEqual((3, 0, 0), self.counts(["ok a", "ok b", "ok c"], 0, "3"))
        self.assertEqual((4, 1, 0), self.counts(["ok a", "ok b", "ok c", "ok d"], 0, "3"))

    def test_skips_count_as_results(self):
        self.assertEqual((1, 0, 1), self.counts(["ok a", "ok alpha/gpu-1 # SKIP no GPU"], 0, "2"))

    def test_plan(self):
        self.assertEqual((2, 0, 0), self.counts(["1..2", "ok a", "ok b"], 0, ""))
        self.assertEqual((2, 0, 0), self.counts(["ok a", "ok b", "1..2"], 0, ""))
        self.assertEqual((1, 1, 0), self.counts(["1..2", "ok a"], 0, ""))
        self.assertEqual((2, 1, 0), self.counts(["1..1", "ok a", "ok b"], 0, ""))
        self.assertEqual((0, 1, 0), self.counts(["1..2"], 0, ""))

    def test_neither_a_plan_nor_a_number(self):
        self.assertEqual((1, 1, 0), self.counts(["ok a"], 0, ""))

    def test_two_plans_are_summed(self):
        self.assertEqual((2, 0, 0), self.counts(["1..1", "ok a", "1..1", "ok b"], 0, ""))


class Skips(unittest.TestCase):
    def test_allowed(self):
        lines = ["ok a", "ok alpha/gpu-2 # SKIP no GPU"]
        self.assertEqual(0, judged(lines, results="2").counts["fail"])

    def test_not_allowed(self):
        j = judged(["ok a", "ok alpha/cpu # SKIP I like it"], results="2")
        self.assertEqual({"pass": 1, "fail": 1, "skip": 1}, j.counts)
        self.assertIn("I like it", j.complaints[0])

    def test_of_another_lane(self):
        line = ["ok slow # SKIP debug"]
        self.assertEqual(1, judged(line).counts["fail"])
        self.assertEqual(0, judged(line, lane="debug").counts["fail"])

    def test_by_status(self):
        j = judged([], 77)
        self.assertEqual({"pass": 0, "fail": 1, "skip": 1}, j.counts)
        j = judged([], 77, name="alpha/gpu")
        self.assertEqual({"pass": 0, "fail": 0, "skip": 1}, j.counts)

    def test_status_77_after_results_is_a_failure(self):
        self.assertEqual(1, judged(["ok a"], 77).counts["fail"])

    def test_stale(self):
        stale = "tests/guest/alpha.sh: alpha/gpu* of alpha is no longer skipped"
        self.assertEqual([stale], judged(["ok a"]).stale())
        self.assertEqual([stale], judged(["ok slow # SKIP debug"], lane="debug").stale())
        self.assertEqual([], judged(["ok alpha/gpu # SKIP no GPU"]).stale())


class Headers(unittest.TestCase):
    def test_fields(self):
        t = header()
        self.assertEqual((["quick", "clients"], 60, "guest", "--vms 2", "pair", None, "alpha.sh"),
                         (t.tiers, t.limit, t.place, t.boot, t.machines, t.mark, t.command))
        self.assertEqual([["*", "alpha/gpu*", "no GPU here"], ["debug", "slow", "a debug kernel"]],
                         t.skips)

    def test_the_first_paragraph_is_what_a_test_proves(self):
        self.assertEqual("alpha.sh: does what a new test does, in two lines.", header().proves)
        self.assertEqual("All.", header("# Proves: All.\n").proves)

    def test_boots(self):
        for where, boot, machines, mark in (("lonely", "--vms 1", "lonely", "beside"),
                                            ("alone --vms 9", "--vms 9", "alpha",
                                             "alone"), ("--vms 3", "--vms 3", "alpha", None)):
            t = header(text=HEADER.replace("pair", where))
            self.assertEqual((boot, machines, mark), (t.boot, t.machines, t.mark))
        self.assertEqual("outside", header(text=HEADER.replace("pair", "none, outside")).place)
        self.assertEqual("host", header(text=HEADER.replace("pair", "none")).place)

    def test_programs(self):
        for path, command in (("tests/guest/alpha.cc", "alpha"), ("tests/guest/a/main.cc", "a"),
                              ("tests/guest/clients/a.sh", "a.sh")):
            self.assertEqual(command, header(path=path).command)

    def test_cxx_and_several_tests(self):
        first, second = parse(
            "a/main.cc", "// Test: a\n// Tier: full, 1 s\n//\n"
            "// Test: b\n// Tier: long, 2 s\n// Run: a -b\n#include <x>\n")
        self.assertEqual(("a", "a", "b", "a -b"),
                         (first.name, first.command, second.name, second.command))

    def test_what_is_wrong(self):
        for text in (HEADER.replace("60 s", "60"), HEADER.replace("quick", "fast"),
                     HEADER.replace("slow a debug kernel", "slow"), HEADER.replace("pair", "pear"),
                     HEADER.replace("# Boot: pair\n", "")):
            with self.assertRaisesRegex(ValueError, "alpha"):
                header(text=text)

    def test_list_of_boots(self):
        self.assertEqual(BOOTS, read_boots("# some\n\npair  --vms 2\nlonely beside --vms 1 # x\n"))

    def test_the_repository(self):
        tests = read_tests(os.path.dirname(TESTS))
        self.assertGreater(len(tests), 100)
        self.assertFalse([t.name for t in tests if not t.proves])

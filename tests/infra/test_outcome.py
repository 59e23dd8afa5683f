# SPDX-License-Identifier: GPL-2.0-or-later
"""The judgement of results: lines, plans, counts, skips; and that the lists match tests/suite."""
import os
import re
import sys
import unittest

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, TESTS)
from outcome import Expected, Judgement, Skips  # noqa: E402

SKIPS = "alpha * alpha/gpu* no GPU here\nalpha debug slow a debug kernel\nbeta testing * anything"


def judged(lines, status=0, expected=1, test="alpha", lane="trixie", skips=SKIPS):
    j = Judgement(test, lane, Skips("tests/skips", skips), expected)
    for line in lines:
        j.line(line)
    j.end(status)
    return j


class Results(unittest.TestCase):
    def counts(self, *args, **more):
        j = judged(*args, **more)
        return j.counts["pass"], j.counts["fail"], j.counts["skip"]

    def test_lines(self):
        self.assertEqual(
            (2, 1, 0),
            self.counts(["ok a", "noise", "ok 2 - b", "not ok c - why", "not okay", "# ok d"], 1))

    def test_a_dash_is_not_a_name(self):
        self.assertEqual((1, 0, 0), self.counts(["ok a", "ok - b"]))

    def test_status_without_a_failure(self):
        self.assertEqual((1, 1, 0), self.counts(["ok a"], 3))

    def test_status_judges_alone_where_the_list_says_so(self):
        self.assertEqual((1, 0, 0), self.counts([], 0, 0))
        self.assertEqual((0, 1, 0), self.counts([], 1, 0))

    def test_no_result_lines(self):
        self.assertEqual((0, 1, 0), self.counts(["I am fine"]))
        self.assertEqual((0, 1, 0), self.counts([], 0, None))

    def test_one_line_is_enough_for_a_new_test(self):
        self.assertEqual((1, 0, 0), self.counts(["ok a"], 0, None))

    def test_fewer_than_expected(self):
        self.assertEqual((2, 1, 0), self.counts(["ok a", "ok b"], 0, 3))
        self.assertEqual((3, 0, 0), self.counts(["ok a", "ok b", "ok c"], 0, 3))
        self.assertEqual((4, 0, 0), self.counts(["ok a", "ok b", "ok c", "ok d"], 0, 3))

    def test_skips_count_as_results(self):
        self.assertEqual((1, 0, 1), self.counts(["ok a", "ok alpha/gpu-1 # SKIP no GPU"], 0, 2))

    def test_plan(self):
        self.assertEqual((2, 0, 0), self.counts(["1..2", "ok a", "ok b"]))
        self.assertEqual((2, 0, 0), self.counts(["ok a", "ok b", "1..2"]))
        self.assertEqual((1, 1, 0), self.counts(["1..2", "ok a"]))
        self.assertEqual((2, 1, 0), self.counts(["1..1", "ok a", "ok b"]))
        self.assertEqual((0, 2, 0), self.counts(["1..2"]))

    def test_two_plans_are_summed(self):
        self.assertEqual((2, 0, 0), self.counts(["1..1", "ok a", "1..1", "ok b"]))


class SkipList(unittest.TestCase):
    def test_allowed(self):
        self.assertEqual(0, judged(["ok a", "ok alpha/gpu-2 # SKIP no GPU"]).counts["fail"])

    def test_not_allowed(self):
        j = judged(["ok a", "ok alpha/cpu # SKIP I like it"])
        self.assertEqual({"pass": 1, "fail": 1, "skip": 1}, j.counts)
        self.assertIn("I like it", j.complaints[0])

    def test_of_another_test(self):
        self.assertEqual(1, judged(["ok alpha/gpu # SKIP no GPU"], test="gamma").counts["fail"])

    def test_of_another_lane(self):
        line = ["ok slow # SKIP debug"]
        self.assertEqual(1, judged(line).counts["fail"])
        self.assertEqual(0, judged(line, lane="debug").counts["fail"])

    def test_by_status(self):
        j = judged([], 77)
        self.assertEqual({"pass": 0, "fail": 1, "skip": 1}, j.counts)
        j = judged([], 77, test="beta", lane="testing")
        self.assertEqual({"pass": 0, "fail": 0, "skip": 1}, j.counts)

    def test_status_77_behind_results_is_a_failure(self):
        self.assertEqual(1, judged(["ok a"], 77).counts["fail"])

    def test_stale(self):
        skips = Skips("S", SKIPS)
        self.assertTrue(skips.allows("alpha", "trixie", "alpha/gpu"))
        ran = {("alpha", "trixie"), ("alpha", "debug")}
        self.assertEqual(["S:2: slow of alpha is no longer skipped"], skips.stale(ran))
        # One of the tests did not run in that lane, the other one not at all.
        self.assertEqual([], skips.stale({("alpha", "trixie")}))

    def test_a_reason_is_demanded(self):
        with self.assertRaisesRegex(ValueError, "S:1"):
            Skips("S", "alpha * alpha/gpu")


class ExpectedList(unittest.TestCase):
    def test_lanes(self):
        e = Expected("E", "a 3\na@debug 2\nb -")
        self.assertEqual((3, 3, 2, 0, None), (e.of("a", "trixie"), e.of(
            "a", "testing"), e.of("a", "debug"), e.of("b", "debug"), e.of("c", "trixie")))

    def test_nonsense(self):
        for text in ("a", "a 0", "a b", "a 1 2", "a -1"):
            with self.assertRaises(ValueError, msg=text):
                Expected("E", text)

    def test_record(self):
        e = Expected("E", "a 3")
        e.record("a", "trixie", 4)
        e.record("a", "debug", 2)
        e.record("b", "debug", 7)
        self.assertEqual({"a": 4, "a@debug": 2, "b": 7}, e.counts)

    def test_more_lines_than_expected(self):
        e = Expected("E", "a 3\na@debug 2\nb -")
        self.assertEqual([],
                         e.surplus("a", "trixie", 3) + e.surplus("a", "trixie", 2) +
                         e.surplus("b", "trixie", 0) + e.surplus("c", "trixie", 9))
        self.assertEqual(["tests/expected: a has 3 results, not 2: run `tests/run --record a`"],
                         e.surplus("a", "debug", 3))
        self.assertEqual(["tests/expected: b has 1 results, not -: run `tests/run --record b`"],
                         e.surplus("b", "debug", 1))


class Repository(unittest.TestCase):
    """The lists match tests/suite."""
    def setUp(self):
        self.suite = set()
        with open(f"{TESTS}/suite") as f:
            for line in f:
                m = re.match(r"(?:quick|full|long|clients)(?:,clients)?(?:@\w+)?\s+\d+\s+(\S+)",
                             line)
                if m:
                    self.suite.add(m[1])

    def test_expected_names_every_test_and_no_other(self):
        named = {name.partition("@")[0] for name in Expected(f"{TESTS}/expected").counts}
        self.assertEqual(self.suite, named)

    def test_skips_name_tests(self):
        for number, test, *_ in Skips(f"{TESTS}/skips").entries:
            self.assertIn(test, self.suite, f"tests/skips:{number}")

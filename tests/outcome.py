# SPDX-License-Identifier: GPL-2.0-or-later
"""Judges the output of a test: result lines, plans, and the skips that its header allows."""
import fnmatch
import re

RESULT = re.compile(r"(not )?ok\s+(?:\d+\s+-\s+)?([^\s#-]\S*)(.*)$")
SKIP = re.compile(r"#\s*SKIP\b\s*(.*)")
PLAN = re.compile(r"1\.\.(\d+)\s*$")
SKIPPED = 77  # exit status of a skipped program that prints no result lines


def read_line(text):
    """(name, "pass", "fail" or "skip", reason of a skip) of a result line; None for any other
    line."""
    m = RESULT.match(text)
    if not m:
        return None
    skip = SKIP.search(m[3])
    return m[
        2], "fail" if m[1] else "skip" if skip else "pass", skip[1] if skip and not m[1] else ""


class Judgement:
    """Judges one test: call line() for each line, then end() once. Without a header, for the tests
    of a boot itself, neither a plan nor result lines are demanded."""
    def __init__(self, test, lane, header=None):
        self.test, self.lane, self.header = test, lane, header
        self.skips = header.skips if header else []
        self.used = set()
        self.counts = {"pass": 0, "fail": 0, "skip": 0}
        self.complaints = []
        self.lines = 0
        self.plan = None

    def complain(self, why):
        self.counts["fail"] += 1
        self.complaints.append(f"not ok {self.test} - {why}")

    def line(self, text):
        plan = PLAN.match(text)
        if plan:
            self.plan = (self.plan or 0) + int(plan[1])
        result = read_line(text)
        if not result:
            return
        self.lines += 1
        name, outcome, reason = result
        if outcome == "skip":
            self.skip(name, reason)
        else:
            self.counts[outcome] += 1
            if outcome == "fail":
                self.complaints.append(text)

    def skip(self, result, why):
        self.counts["skip"] += 1
        allowed = {
            i for i, (lane, pattern, _) in enumerate(self.skips)
            if fnmatch.fnmatchcase(self.lane, lane) and fnmatch.fnmatchcase(result, pattern)
        }
        self.used |= allowed
        if not allowed:
            self.complain(f"{result} is skipped ({why or 'no reason given'}), and the header of "
                          "the test does not allow that")

    def stale(self):
        """Complaints about allowed skips that did not happen."""
        return [
            f"{self.header.path}: {pattern} of {self.test} is no longer skipped"
            for i, (lane, pattern, _) in enumerate(self.skips)
            if i not in self.used and fnmatch.fnmatchcase(self.lane, lane)
        ]

    def end(self, status):
        """status: the exit status of the command, which decides if there are no result lines."""
        failed = self.counts["fail"]
        if status == SKIPPED and not self.lines:
            self.skip(self.test, f"exit status {SKIPPED}")
            return
        if status and not failed:
            self.complain(f"exit status {status}")
        if self.plan is not None and self.plan != self.lines:
            self.complain(f"{self.lines} results, but its plan says {self.plan}")
        if self.header and self.header.results not in (None, self.lines):
            self.complain(f"{self.lines} results, but its header says {self.header.results}")
        elif self.header and self.header.results is None and self.plan is None:
            self.complain(f"{self.lines} results and no plan: it prints a plan, or its header says "
                          f"'Results: {self.lines or 'none'}'")
        if not self.lines and not self.counts["fail"]:
            self.counts["pass"] = 1

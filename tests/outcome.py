# SPDX-License-Identifier: GPL-2.0-or-later
"""Judges the output of a test: result lines, plans, the counts of tests/expected, the skips of
tests/skips."""
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


class Skips:
    """The list of allowed skips. A line is `TEST LANE RESULT REASON`; the first three are shell
    patterns."""
    def __init__(self, path, text=None):
        self.path, self.entries, self.used = path, [], set()
        for number, line in enumerate((open(path).read() if text is None else text).splitlines(),
                                      1):
            words = line.split(None, 3)
            if not words or words[0].startswith("#"):
                continue
            if len(words) != 4:
                raise ValueError(f"{path}:{number}: a skip is TEST LANE RESULT REASON")
            self.entries.append((number, *words))

    def allows(self, test, lane, result):
        """Whether any line allows the skip. Remembers all that do."""
        found = [
            e for e in self.entries if all(map(fnmatch.fnmatchcase, (test, lane, result), e[1:4]))
        ]
        self.used.update(e[0] for e in found)
        return bool(found)

    def stale(self, ran):
        """Lines whose tests ran, as (test, lane) in `ran`, without skipping anything that the line
        names."""
        return [
            f"{self.path}:{number}: {result} of {test} is no longer skipped"
            for number, test, lane, result, _ in self.entries if number not in self.used and any(
                fnmatch.fnmatchcase(t, test) and fnmatch.fnmatchcase(l, lane) for t, l in ran)
        ]


class Expected:
    """The number of result lines of each test: `NAME[@LANE] COUNT`, or `-` if the exit status is
    enough. Fewer are a failure."""
    def __init__(self, path, text=None):
        self.path, self.counts = path, {}
        for number, line in enumerate((open(path).read() if text is None else text).splitlines(),
                                      1):
            words = line.split("#")[0].split()
            if not words:
                continue
            if len(words) != 2 or not (words[1] == "-" or words[1].isdecimal() and int(words[1])):
                raise ValueError(
                    f"{path}:{number}: expected NAME[@LANE] COUNT, or - for a test without result lines"
                )
            self.counts[words[0]] = 0 if words[1] == "-" else int(words[1])

    def of(self, test, lane):
        """The count, or None if the list does not have the test."""
        return self.counts.get(f"{test}@{lane}", self.counts.get(test))

    def surplus(self, test, lane, lines):
        """A complaint if the test printed more lines than the list says: nobody would miss them."""
        count = self.of(test, lane)
        if count is None or lines <= count:
            return []
        return [
            f"tests/expected: {test} has {lines} results, not {count or '-'}: run `tests/run --record {test}`"
        ]

    def record(self, test, lane, lines):
        """Records a run. The count of the lane trixie applies to all lanes without a count of their
        own."""
        if lane == "trixie" or test not in self.counts:
            self.counts[test] = lines
        elif self.of(test, lane) != lines:
            self.counts[f"{test}@{lane}"] = lines

    def write(self):
        with open(self.path) as f:
            head = [line for line in f if line.startswith("#")]
        with open(self.path, "w") as f:
            f.writelines(head)
            f.writelines(f"{name} {count or '-'}\n" for name, count in sorted(self.counts.items()))


class Judgement:
    """Judges one test: call line() for each line, then end() once."""
    def __init__(self, test, lane, skips, expected):
        """expected: the least number of result lines, 0 if the exit status is enough, None if the
        list does not have the test."""
        self.test, self.lane, self.skips, self.expected = test, lane, skips, expected
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
        if not self.skips.allows(self.test, self.lane, result):
            self.complain(
                f"{result} is skipped ({why or 'no reason given'}), and {self.skips.path} does not allow that"
            )

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
        if self.lines < (self.expected or 0):
            self.complain(
                f"{self.lines} results, but tests/expected says {self.expected}: some are missing, or run `tests/run --record {self.test}`"
            )
        elif self.expected is None and not self.lines:
            self.complain(
                "no results, and tests/expected does not say that the exit status is enough")
        if not self.lines and not self.counts["fail"]:
            self.counts["pass"] = 1

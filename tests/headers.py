# SPDX-License-Identifier: GPL-2.0-or-later
"""Reads the headers of tests: comments at the head of a file that say how its tests run.

    # Test: NAME               the lines below belong to it, until the next Test
    # Tier: TIER[, TIER], N s  quick, full, long or clients; N bounds a hang
    # Lane: LANE               only in guests of this lane
    # Also: LANE               make test runs it in guests of that lane, too
    # Boot: WHERE              none: here, in the sysroot; none, outside: here, without it; the name
    #                          of machines in tests/boots; or [beside|alone] OPTIONS of lab/run-vm
    # Run: COMMAND             default: the file
    # Order: N                 of the tests of a boot, those with lower numbers run first (0);
    #                          equal ones by name
    # Results: N               the number of results, for a test that prints no plan; none: the
    #                          exit status is the only result
    # Needs: WHAT              what lab/build/all builds with the option --WHAT
    # Skip: LANE RESULT REASON an allowed skip; LANE and RESULT are shell patterns
    # Proves: TEXT             default: the first paragraph of the comment

Lines that are indented by two more spaces continue the one above.
"""
import os
import re
import subprocess

TIERS = ("quick", "full", "long", "clients")
ROOMS = ("kernel", "lab", "packaging", "provider", "qemu-device", "tests", "tools")
KEYS = ("Tier", "Lane", "Also", "Boot", "Run", "Order", "Results", "Needs", "Skip", "Proves")
HEAD = 16384  # bytes of a file in which a header may be
COMMENT = re.compile(r"(?://|#) ?(.*)")


class Test:
    """What a header says. place: 'host' (in the sysroot), 'outside' or 'guest'; boot: the options
    of its machines; mark: 'beside', 'alone' or None."""
    def __init__(self, path, name, fields):
        self.path, self.name = path, name
        one = {key: values[0] for key, values in fields.items()}
        tier = re.fullmatch(r"(\w+(?:, \w+)*), (\d+) s", one.get("Tier", ""))
        if not tier or not set(tier[1].split(", ")) <= set(TIERS):
            raise ValueError(f"{path}: {name}: 'Tier: TIER, N s' is missing or wrong")
        self.tiers, self.limit = tier[1].split(", "), int(tier[2])
        self.lane, self.also, self.needs = one.get("Lane", ""), one.get("Also"), one.get("Needs")
        self.where = one.get("Boot", "")
        self.order = int(one.get("Order", 0))
        results = one.get("Results")
        self.results = 0 if results == "none" else int(results) if results else None
        self.skips = [skip.split(None, 2) for skip in fields.get("Skip", [])]
        if not all(len(skip) == 3 for skip in self.skips):
            raise ValueError(f"{path}: {name}: a skip is LANE RESULT REASON")
        self.proves = one.get("Proves")
        self.command = one.get("Run") or (path if self.where.startswith("none") else program(path))
        self.place, self.boot, self.mark, self.machines = "host", "", None, None

    def find_boot(self, boots):
        """Sets place, boot, mark and machines (the name of the boot)."""
        if self.where in ("none", "none, outside"):
            self.place = "outside" if self.where != "none" else "host"
            return
        self.place = "guest"
        self.machines = self.where if self.where in boots else self.name
        options = boots.get(self.where, self.where)
        first, _, rest = options.partition(" ")
        self.mark, self.boot = (first, rest) if first in ("beside", "alone") else (None, options)
        if not self.boot.startswith("-"):
            raise ValueError(f"{self.path}: {self.name}: tests/boots has no {self.where}")


def program(path):
    """What runs a file of tests/guest in a guest: a script by its name, a program by its own."""
    directory, base = os.path.split(path)
    return os.path.basename(directory) if base == "main.cc" else base.removesuffix(".cc")


def parse(path, text):
    """[Test] of a file."""
    tests, name, fields, values, about = [], None, {}, None, []

    def end():
        if name:
            fields.setdefault("Proves", [" ".join(about).strip()])
            tests.append(Test(path, name, fields))

    for line in text.splitlines():
        comment = COMMENT.match(line)
        if not comment and (line.strip() or name):
            break
        body = comment[1] if comment else ""
        key, colon, value = body.partition(": ")
        if comment and key == "Test":
            end()
            name, fields, values = value.strip(), {}, None
        elif name and colon and key in KEYS:
            values = fields.setdefault(key, [])
            values.append(value.strip())
        elif values and body.startswith("  "):
            values[-1] += " " + body.strip()
        else:
            values = None
            if not name and (about or ":" in body) and "" not in about and "SPDX" not in body:
                about.append(body.strip())
    end()
    return tests


def read_boots(text):
    """{name: options} of tests/boots."""
    lines = (line.split("#")[0].split(None, 1) for line in text.splitlines())
    return {words[0]: words[1].strip() for words in lines if words}


def read_tests(top):
    """[Test] of a checkout, in the order in which they run."""
    with open(os.path.join(top, "tests/boots")) as f:
        boots = read_boots(f.read())
    tests = []
    for path in files(top):
        try:
            with open(os.path.join(top, path), "rb") as f:
                text = f.read(HEAD)
        except FileNotFoundError:  # deleted, not yet committed
            continue
        if b" Test: " in text and not path.startswith("lab/templates/"):
            tests += parse(path, text.decode(errors="replace"))
    names = [test.name for test in tests]
    for test in tests:
        if names.count(test.name) > 1:
            raise ValueError(f"{test.path}: there is another test {test.name}")
        test.find_boot(boots)
    marks = {test.boot: test.mark for test in tests}
    for test in tests:
        if marks[test.boot] != test.mark:
            raise ValueError(f"{test.path}: another test boots '{test.boot}' with another mark")
    shared = list(boots)

    def key(test):
        if test.place != "guest":
            return 0, -test.limit, "", 0, test.name  # what takes long comes first
        number = shared.index(test.machines) if test.machines in boots else len(shared)
        return 1, number, test.boot, test.order, test.name

    return sorted(tests, key=key)


def files(top):
    """The files of the checkout, also those that are not committed yet."""
    git = subprocess.run(["git", "-C", top, "ls-files", "-co", "--exclude-standard", *ROOMS],
                         capture_output=True, text=True)
    if not git.returncode:
        return git.stdout.splitlines()
    return [
        os.path.relpath(os.path.join(at, name), top) for room in ROOMS
        for at, _, names in os.walk(os.path.join(top, room)) for name in names
    ]

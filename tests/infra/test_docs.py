# SPDX-License-Identifier: GPL-2.0-or-later
"""What the documents name exists: functions and files. Each example has a marker, and
tests/docs-examples finds them all."""
import contextlib
import glob
import importlib.machinery
import importlib.util
import io
import os
import re
import shutil
import sys
import tempfile
import unittest

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TOP = os.path.dirname(TESTS)
sys.path.append(TESTS)
from headers import read_tests  # noqa: E402

LOADER = importlib.machinery.SourceFileLoader("docs_examples", f"{TESTS}/docs-examples")
examples = importlib.util.module_from_spec(importlib.util.spec_from_loader("docs_examples", LOADER))
sys.modules["docs_examples"] = examples
LOADER.exec_module(examples)

FUNCTION = re.compile(r"(?:(\w+)::)?(\w+)\(\)$")
LITERAL = re.compile(r"``([^`\n]+)``")
# Where the paths of a page may begin.
ROOMS = ("", "kernel", "provider", "qemu-device/engine")
# A row of a table, an item of a list, or a paragraph.
CHUNK = re.compile(r"\n(?=\s*(?:\* |\d+\. ))|\n\s*\n(?=\S)")


def text_of(page):
    with open(os.path.join(TOP, page)) as f:
        return f.read()


def file_of(name):
    """The path of a file that a page names, from the top or from a room; None if there is none."""
    paths = (os.path.join(room, name) for room in ROOMS)
    return next((path for path in paths if os.path.isfile(os.path.join(TOP, path))), None)


def exists(function, files):
    """Whether some of the files has it: Class::name( in a source, name( in a header or in C."""
    owner, name = FUNCTION.match(function).groups()
    for path in files:
        pattern = rf"\b{owner}::{name}\(" if owner and path.endswith(".cc") else rf"\b{name}\("
        if re.search(pattern, text_of(path)):
            return True
    return False


def missing_functions(text):
    """What ``name()`` in a row or paragraph names and no file that is named there has."""
    found = []
    for chunk in CHUNK.split(text):
        literals = LITERAL.findall(chunk)
        files = [path for path in map(file_of, literals) if path]
        found += [name for name in literals if FUNCTION.match(name) and not exists(name, files)]
    return found


def missing_files(text, literal=LITERAL):
    """Literals that are paths below a directory of the repository or of a room, without what is
    built."""
    tops = {
        name for room in ROOMS for name in os.listdir(os.path.join(TOP, room))
        if os.path.isdir(os.path.join(TOP, room, name))
    } - {"build"}
    names = {word.rstrip(".,:") for name in literal.findall(text) for word in name.split()[:1]}

    def there(name):
        name = re.sub(r"\b[A-Z]+\b", "*", name)
        return any(glob.glob(os.path.join(TOP, room, name)) for room in ROOMS)

    return sorted(name for name in names
                  if name.partition("/")[0] in tops and "/" in name and not there(name))


def property_defaults():
    """The default of each property with a number, by its name."""
    core = "qemu-device/engine/core"
    members = re.findall(r'\b(?:number|size)\("([\w-]+)", &Config::(\w+)',
                         text_of(f"{core}/properties.cc"))
    config, limits = text_of(f"{core}/config.h"), text_of(f"{core}/limits.h")

    def value(text):
        if text.startswith("k"):
            text = re.search(rf"\b{text} = ([^;]+);", limits)[1]
        factor, shift = re.fullmatch(r"(?:std::uint64_t)?\{?(\d+)\}?(?: << (\d+))?", text).groups()
        return int(factor) << int(shift or 0)

    return {
        name: value(re.search(rf"\b{member} = ([^;]+);", config)[1]) for name, member in members
    }


def forms_of(number):
    """How the data book may write a default; a rate has another unit."""
    return [
        str(number),
        str(number * 1000), f"{number >> 20} MiB", rf"2\ :sup:`{number.bit_length() - 1}`"
    ]


class Names(unittest.TestCase):
    def test_functions_of_engine(self):
        self.assertEqual(missing_functions(text_of("Documentation/engine.rst")), [])

    def test_functions_of_add_a_verb(self):
        self.assertEqual(missing_functions(text_of("Documentation/add-a-verb.rst")), [])

    def test_files(self):
        for page in examples.pages():
            with self.subTest(page):
                literal = re.compile(r"`([^`\n]+)`") if page.endswith(".md") else LITERAL
                self.assertEqual(missing_files(text_of(page), literal), [])

    def test_defaults_of_properties_in_the_data_book(self):
        page = text_of("Documentation/spec/limits.rst")
        rows = re.findall(r"^``\w+``.*(?:\n  .*)*", page, re.M)
        compared = set()
        for name, default in property_defaults().items():
            for row in rows:
                if f"``{name}``" in row:
                    compared.add(name)
                    self.assertTrue(
                        any(
                            re.search(rf"(?<!\w){re.escape(form)}(?!\w)", row)
                            for form in forms_of(default)), (row, default))
        self.assertEqual(len(compared), 11, compared)

    def test_a_function_that_is_not_there_is_found(self):
        file = "qemu-device/engine/datapath/port.cc"
        text = f"   * - ``{file}``: ``Port::emit()``, ``Port::emits()``\n"
        self.assertEqual(missing_functions(text), ["Port::emits()"])
        self.assertEqual(missing_functions("``tern_run()``\n"), ["tern_run()"])
        self.assertEqual(missing_files("``lab/run-vm -- x`` and ``lab/run-it``"), ["lab/run-it"])

    def test_tests_of_the_security_page(self):
        """The last cell of a row: ``TEST`` of the suite, and after a colon cases, or classes of
        cases."""
        page = text_of("Documentation/security.rst")
        cells = [row.split("\n     - ")[-1] for row in re.split(r"\n   \* - ", page)[1:]]
        suite = {test.name for test in read_tests(TOP)}
        sources = [
            text_of(os.path.relpath(path, TOP))
            for path in glob.glob(f"{TOP}/qemu-device/**/*_test.cpp", recursive=True)
        ]
        cases = {
            name for text in sources
            for m in re.findall(r"^TEST(?:_[FP])?\((\w+),\s+(\w+)\)", text, re.M)
            for name in (m[0], ".".join(m))
        }
        named = 0
        for cell in cells[2:]:
            for test in LITERAL.findall(cell):
                self.assertIn(test, suite, cell)
            for case in re.findall(r"\b[A-Z]\w+(?:\.\w+)?",
                                   re.sub(r"``[^`]+``|\s+", " ",
                                          cell.split("\n\n")[0])):
                self.assertIn(case, cases, cell)
            named += 1
        self.assertGreater(named, 10)

    def test_targets_of_make(self):
        makefile = text_of("Makefile").replace("\\\n", " ")
        targets = set(re.search(r"^\.PHONY: (.*)$", makefile, re.M)[1].split())
        for page in ["README.md", *glob.glob(f"{TOP}/Documentation/*.rst")]:
            with self.subTest(page):
                named = re.findall(r"`make ([a-z][\w-]*)", text_of(page))
                named += [
                    m for block in examples.read(
                        os.path.relpath(page, TOP) if os.path.isabs(page) else page)
                    for m in re.findall(r"^make ([a-z][\w-]*)", block.text, re.M)
                ]
                self.assertEqual(
                    sorted(set(named) - targets - {"install", "defconfig", "olddefconfig"}), [])


class Figures(unittest.TestCase):
    def test_windows(self):
        page = text_of("Documentation/verbs-judge.rst")
        self.assertEqual(re.search(r"^tern +\S+ +\d+ +(\d+)", page, re.M)[1], "0")
        fails, rules = re.search(r"(\d+) of (\d+) rules of windows", page).groups()
        self.assertIn(f"Of {rules} rules of windows Soft-RoCE fails {fails}:",
                      " ".join(text_of("README.md").split()))

    def test_verbs(self):
        """verbs.rst and the README have the counts of pages.txt, and the verbs that do not work."""
        rows = re.findall(r"^(\w+) +(works|partly|refuses) (.*)",
                          text_of("tests/guest/verbs_table/pages.txt"), re.M)
        page = text_of("Documentation/verbs.rst")
        counts = [[outcome for _, outcome, _ in rows].count(word)
                  for word in ("works", "partly", "refuses")]
        self.assertEqual(re.findall(r"^(?:works|partly|refuses) +(\d+)", page, re.M),
                         [str(n) for n in counts])
        self.assertIn(f"has {len(rows)} pages", " ".join(page.split()))
        self.assertEqual(sorted(set(LITERAL.findall(page.partition("EOPNOTSUPP:")[2]))),
                         sorted(name for name, outcome, _ in rows if outcome != "works"))
        self.assertIn("Of {} verbs {} work, {} in part, {} are refused".format(len(rows), *counts),
                      " ".join(text_of("README.md").split()))

    def measured(self, title):
        """The numbers in a row of performance.rst's results, without the target."""
        row = re.search(rf"^   {re.escape(title)}\b.*", text_of("Documentation/performance.rst"),
                        re.M)
        return [float(n) for n in re.findall(r"\d[\d.]*", re.split(r"  +", row[0].strip())[-1])]

    def test_speed(self):
        """A figure that has become too modest is found, too."""
        readme = " ".join(text_of("README.md").split())
        latency = self.measured("8-byte loopback latency")
        across, = self.measured("64 KiB WRITE across, times")
        loop, = self.measured("64 KiB loopback WRITE")
        self.assertIn(
            f"loopback latency of 8 bytes {min(latency):.0f} to {max(latency):.0f} times shorter",
            readme)
        self.assertIn(f"and {across:.0f} times between two machines", readme)
        said = int(
            re.search(r"WRITEs of 64 KiB more than (\d+) times faster in loopback", readme)[1])
        self.assertLess(said, loop)
        self.assertGreater(said * 1.1, loop)


class Markers(unittest.TestCase):
    def test_every_block_has_one(self):
        bad = [
            f"{b.page}:{b.line}: {b.error}" for page in examples.pages()
            for b in examples.read(page) if b.error
        ]
        self.assertEqual(bad, [])


class Parser(unittest.TestCase):
    def blocks(self, text, page="p.rst"):
        return [(b.where or b.reason or b.error, b.status, b.text)
                for b in examples.parse(page, text)]

    def test_a_block_behind_a_paragraph(self):
        text = ".. run: host\n\nRun this::\n\n    one\n\n      two\n\nand so on\n"
        self.assertEqual(self.blocks(text), [("host", 0, "one\n\n  two\n")])

    def test_a_code_block_of_a_shell(self):
        self.assertEqual(
            self.blocks(".. run: vm1, status 3\n.. code-block:: sh\n   :caption: x\n\n   one\n"),
            [("vm1", 3, "one\n")])

    def test_other_languages_and_directives_are_passed_over(self):
        self.assertEqual(
            self.blocks(
                ".. code-block:: c\n\n   int x;\n\n.. note::\n\n   text\n\n.. a comment::\n"), [])

    def test_a_reason_over_two_lines(self):
        text = ".. not run: it takes\n   hours\n\n::\n\n    one\n"
        self.assertEqual(self.blocks(text), [("it takes hours", 0, "one\n")])

    def test_errors(self):
        self.assertEqual(self.blocks("::\n\n    one\n")[0][0], "no marker")
        self.assertEqual(
            self.blocks(".. run: here\n\n::\n\n    one\n")[0][0], "what is `run: here`?")
        self.assertEqual(
            self.blocks(".. run: host\n.. run: host\n\n::\n\n    one\n")[0][0], "two markers")
        self.assertEqual(self.blocks("text\n\n.. run: host\n")[0][0], "a marker without a block")

    def test_a_marker_is_for_one_block(self):
        text = ".. run: host\n\n::\n\n    one\n\n::\n\n    two\n"
        self.assertEqual([b[0] for b in self.blocks(text)], ["host", "no marker"])

    def test_a_block_in_a_list(self):
        text = "* item::\n\n      .. no marker here\n      one\n\n  goes on\n"
        self.assertEqual(self.blocks(text), [("no marker", 0, ".. no marker here\none\n")])

    def test_markdown(self):
        text = "<!-- run: host -->\n\n    one\n\n```text\npicture\n```\n<!-- not run: why -->\n```sh\ntwo\n```\n"
        self.assertEqual(self.blocks(text, "p.md"), [("host", 0, "one\n"), ("why", 0, "two\n")])

    def test_a_transcript(self):
        block = examples.parse(
            "p.rst",
            ".. run: host\n\n::\n\n    $ one \\\n    > two\n    out  put\n    $ three\n    ... end\n"
        )[0]
        self.assertEqual(block.script(), ("one \\\ntwo\nthree\n", ["out  put", "... end"]))
        self.assertIsNone(
            examples.differs(["out  put", "the ... end"], "x\nout put here\nthe very end\n"))
        self.assertEqual(examples.differs(["b", "a"], "a\nb\n"), "a")


class Runs(unittest.TestCase):
    """Blocks are run, here with a shell of this machine for the login."""
    def setUp(self):
        self.top = tempfile.mkdtemp(prefix="tern-infra-")
        self.addCleanup(shutil.rmtree, self.top, ignore_errors=True)
        os.makedirs(os.path.join(self.top, examples.WORK))
        self.addCleanup(setattr, examples, "TOP", examples.TOP)
        self.addCleanup(setattr, examples, "GUEST_TOP", examples.GUEST_TOP)
        examples.TOP = examples.GUEST_TOP = self.top

    def results(self, text):
        """The result lines without comments, and the blocks for the login of make shell."""
        report, shared, out = examples.Report(), [], io.StringIO()
        with contextlib.redirect_stdout(out):
            examples.run_page(examples.parse("p.rst", text), report, shared)
        return [
            re.sub(r"p.rst:\d+: ", "",
                   line.partition(" # ")[0]) for line in out.getvalue().splitlines()
            if not line.startswith("# ")
        ], shared

    def page(self, *blocks):
        return "".join(f".. run: {marker}\n\n::\n\n" +
                       "".join(f"    {line}\n" for line in lines.splitlines()) + "\n"
                       for marker, lines in blocks)

    def test_host(self):
        results, _ = self.results(
            self.page(("host", "true\nfalse\ntrue"), ("host, status 3", "exit 3"),
                      ("host", "$ echo a  b\na b"), ("host", "$ echo a\nb")))
        self.assertEqual(
            results,
            ["not ok p/1 - exit status 1", "ok p/2", "ok p/3", "not ok p/4 - its output lacks: b"])

    def test_a_login(self):
        login = "PS1='vm1:/# ' bash --noprofile --norc -i"
        results, shared = self.results(
            self.page(("terminal", login), ("vm1", "$ sleep 0.2 &\n$ x=5 && echo $((x + 1))\n6"),
                      ("vm1", "wait; test $x = 5"), ("vm1", "false\necho on"),
                      ("vm1, status 1", "false"), ("beside", "echo here"),
                      ("vm1", "$ tty\n/dev/pts/..."), ("host", "true")))
        self.assertEqual(results, [
            "ok p/1", "ok p/2", "ok p/3", "not ok p/4 - exit status 1", "ok p/5", "ok p/6",
            "ok p/7", "ok p/8"
        ])
        self.assertEqual(shared, [])

    def test_no_login(self):
        results, _ = self.results(self.page(("terminal", "exit 4"), ("vm1", "true")))
        self.assertEqual(results, ["not ok p/1 - exit status 4", "not ok p/2 - no login by p/1"])

    def test_the_shared_login_comes_last(self):
        results, shared = self.results(
            self.page(("terminal", "make shell"), ("vm1", "true"), ("host", "true"),
                      ("vm1", "true")))
        self.assertEqual((results, [b.number for b in shared]), (["ok p/3"], [1, 2, 4]))


if __name__ == "__main__":
    unittest.main()

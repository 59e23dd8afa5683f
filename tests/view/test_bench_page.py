# SPDX-License-Identifier: GPL-2.0-or-later
"""The page of `make bench` without a browser: what it shows of a run, of two that are compared and
of earlier ones; how runs are recorded."""
import base64
import contextlib
import hashlib
import html.parser
import importlib.machinery
import importlib.util
import io
import json
import math
import os
import re
import statistics
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

HERE = os.path.dirname(os.path.realpath(__file__))
BENCH = os.path.join(HERE, "../bench")
sys.path[:0] = [HERE, BENCH]

import benchmarks  # noqa: E402
import benchpage  # noqa: E402
import charts  # noqa: E402
import figures  # noqa: E402
import history  # noqa: E402
import names  # noqa: E402

VOID = {"meta", "br", "hr", "img", "input", "link"}


class Reader(html.parser.HTMLParser):
    """Tables, marks and links of a page: rows[section, figure] = [(kind, value)] of the marks,
    cells[section, figure] = texts."""
    def __init__(self, text):
        super().__init__()
        self.section = None
        self.figure = None
        self.open = []
        self.rows = {}
        self.cells = {}
        self.headings = []
        self.addresses = []
        self.classes, self.texts = [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        a = dict(attrs)
        if tag not in VOID:
            self.open.append(tag)
        self.classes.append(a.get("class") or "")
        self.addresses += [
            a[name] for name in ("src", "href", "srcset", "action", "data") if name in a
        ]
        if tag == "section":
            self.section = a["id"]
        if tag == "tr":
            self.figure = a.get("data-figure")
            if self.figure:
                self.rows.setdefault((self.section, self.figure), [])
                self.cells[self.section, self.figure] = []
        if self.figure and tag in ("td", "th"):
            self.cells[self.section, self.figure].append("")
        if self.figure and "data-value" in a:
            self.rows[self.section, self.figure].append(
                (a["class"].split()[1], float(a["data-value"])))

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        if self.open.pop() != tag:
            raise ValueError(f"</{tag}> at {self.getpos()}")
        if tag == "tr":
            self.figure = None

    def handle_data(self, data):
        if "script" in self.open or "style" in self.open:
            return
        self.texts.append(data)
        if self.open and self.open[-1] == "h2":
            self.headings.append(data)
        if self.figure and self.open[-1] in ("td", "th"):
            self.cells[self.section, self.figure][-1] += data


class Pages(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.TemporaryDirectory()
        self.addCleanup(self.dir.cleanup)

    def text_of(self, record, runs=None):
        path = os.path.join(self.dir.name, "page.html")
        benchpage.make(record, [record] if runs is None else runs, path)
        with open(path, encoding="utf-8") as f:
            return f.read()

    def page(self, record, runs=None):
        return Reader(self.text_of(record, runs))


class OneRun(Pages):
    def test_each_median_of_the_json_is_marked(self):
        record = benchmarks.run()
        page = self.page(record)
        marked = {}
        for (section, figure), marks in page.rows.items():
            if section not in ("targets", "beside", "all"):
                marked.setdefault(figure, {}).update(marks)
        for k, values in record["passes"].items():
            device, _, rest = k.partition("/")
            over_sizes = re.search("-bandwidth/|register(-on-demand)?/", k)
            if device == "rxe0" or device == "tern0" and over_sizes:
                continue
            with self.subTest(figure=k):
                own = "bound" if "limit" in k else "tern"
                self.assertEqual(marked[k][own], statistics.median(values))
                if f"rxe0/{rest}" in record["passes"] and device == "tern0":
                    self.assertEqual(marked[k]["rxe"],
                                     statistics.median(record["passes"][f"rxe0/{rest}"]))

    def test_charts_over_sizes_have_the_medians(self):
        record = benchmarks.run()
        text = self.text_of(record)
        for path in ("loop", "across"):
            for op in ("write", "read", "send"):
                figure = re.search(
                    rf'<figure data-sizes="tern0/{path}/{op}-bandwidth">.*?</figure>', text)[0]
                for device, kind in (("tern0", "tern"), ("rxe0", "rxe")):
                    marks = [
                        float(v)
                        for v in re.findall(rf'class="mark {kind}" data-value="([^"]+)"', figure)
                    ]
                    self.assertEqual(marks, [
                        statistics.median(record["passes"][f"{device}/{path}/{op}-bandwidth/{n}"])
                        for n in (4096, 65536, 1 << 20)
                    ])
                    self.assertEqual(figure.count(f'class="pass {kind}"'), 3 * 5)

    def test_each_pass_is_a_point(self):
        text = self.text_of(benchmarks.run(n=4))
        row = re.search(
            r'<section id="latency".*?<tr[^>]*data-figure="tern0/loop/send-latency/8">(.*?)</tr>',
            text)[1]
        self.assertEqual((row.count('class="pass tern"'), row.count('class="pass rxe"'),
                          row.count('class="whisker tern"')), (4, 4, 1))
        self.assertIn("4 passes from", row)

    def test_the_ratio_is_that_of_the_json(self):
        record = benchmarks.run()
        page = self.page(record)
        beside = {
            figure: dict(marks)["tern"] for (section, figure), marks in page.rows.items()
            if section == "beside"
        }
        self.assertEqual(
            beside, {
                f"tern0/{name.removesuffix(' to Soft-RoCE')}": ratio
                for name, ratio in record["ratios"].items()
                if name.endswith(" to Soft-RoCE") and "-p99" not in name
            })

    def test_every_figure_is_in_the_table(self):
        record = benchmarks.run()
        listed = {figure for section, figure in self.page(record).rows if section == "all"}
        self.assertEqual(listed, {k for k in record["passes"] if not k.startswith("rxe0/")})

    def test_lines_of_the_network_are_together(self):
        page = self.page(benchmarks.run())
        self.assertEqual(
            [figure.split("/")[2] for section, figure in page.rows if section == "network"], [
                "tcp-1", "tcp-4", "tcp-plain", "tcp-jumbo", "tcp-plain-jumbo", "udp-packets",
                "xdp-drop"
            ])

    def test_every_figure_of_the_sample_has_a_group(self):
        self.assertEqual([
            k for k in benchmarks.run()["passes"]
            if not k.startswith("rxe0/") and k not in names.grouped()
        ], [])
        self.assertNotIn("Other figures", self.page(benchmarks.run()).headings)

    def test_targets(self):
        record = benchmarks.run(better=0.5)
        page = self.page(record)
        verdicts = {
            figure: cells[-1] for (section, figure), cells in page.cells.items()
            if section == "targets"
        }
        self.assertEqual(verdicts,
                         {t["text"]: "met" if t["met"] else "missed" for t in record["targets"]})
        self.assertIn("missed", verdicts.values())

    def test_the_page_loads_nothing(self):
        page = self.page(benchmarks.run())
        self.assertEqual([a for a in page.addresses if not a.startswith("#")], [])

    def test_the_policy_allows_what_the_page_has(self):
        text = self.text_of(benchmarks.run())
        policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]+)"', text)[1]
        for tag in ("style", "script"):
            body = re.search(rf"<{tag}>(.*?)</{tag}>", text, re.S)[1]
            self.assertIn(
                f"{tag}-src 'sha256-{base64.b64encode(hashlib.sha256(body.encode()).digest()).decode()}'",
                policy)
        self.assertNotRegex(text, r'\sstyle="|\son\w+="')

    def test_the_record_is_in_the_page(self):
        record = benchmarks.run()
        text = self.text_of(record)
        self.assertEqual(
            json.loads(
                re.search(r'<script type="application/json" id="record">(.*?)</script>', text)[1]),
            record)


class Incomplete(Pages):
    def one(self):
        return benchmarks.pages()["bench-one"][0]

    def test_one_pass_has_no_spread(self):
        text = self.text_of(self.one())
        self.assertNotIn('class="whisker', text)
        self.assertNotIn('class="pass', text)
        self.assertIn("1 pass of 0.4 s", text)

    def test_what_was_not_measured_is_said(self):
        page = self.page(self.one())
        self.assertEqual(page.cells["network", "tern0/across/tcp-4/0"][0],
                         "TCP, four streams (not measured)")
        self.assertEqual(page.cells["targets", "TCP across with four streams, of virtio-net's"][-1],
                         "not measured")
        self.assertEqual(page.cells["targets", "QEMU grows by a QP, bytes"][-1], "not measured")
        self.assertNotIn("Memory of QEMU", page.headings)

    def test_a_figure_without_the_other_device(self):
        page = self.page(self.one())
        self.assertEqual(
            [kind for kind, _ in page.rows["memory", "tern0/memory/bind-invalidate/4096"]],
            ["tern"])

    def test_a_failed_figure_is_a_number_without_a_mark(self):
        page = self.page(self.one())
        self.assertEqual(page.rows["network", "tern0/across/xdp-drop/60"], [])
        self.assertIn("0", page.cells["network", "tern0/across/xdp-drop/60"])

    def test_a_new_figure_is_shown(self):
        page = self.page(self.one())
        self.assertIn("Other figures", page.headings)
        self.assertEqual(page.rows["others", "tern0/loop/new-figure/8"], [("tern", 3.5)])

    def test_values_that_json_lacks(self):
        record = benchmarks.run(n=2)
        record["passes"]["tern0/across/tcp-1/0"] = [math.nan, 1.5]
        record["passes"]["tern0/across/tcp-4/0"] = [math.inf, math.nan]
        text = self.text_of(record)
        page = Reader(text)
        self.assertEqual(dict(page.rows["network", "tern0/across/tcp-1/0"])["tern"], 1.5)
        self.assertEqual(page.cells["network", "tern0/across/tcp-4/0"][0],
                         "TCP, four streams (not measured)")

        def refuse(word):
            raise ValueError(word)

        json.loads(re.search(r'id="record">(.*?)</script>', text)[1], parse_constant=refuse)

    def test_a_result_of_before(self):
        record = benchmarks.run(n=1)
        page = self.page({name: record[name] for name in ("commit", "passes", "units", "ratios")},
                         [])
        self.assertIn("Latency", page.headings)
        self.assertNotIn("Targets", page.headings)

    def test_no_figures_at_all(self):
        page = self.page(benchmarks.finish({**benchmarks.run(), "passes": {}, "units": {}}))
        self.assertEqual(page.headings, ["Targets", "History", "All figures"])

    def test_text_is_never_markup(self):
        page = self.page(self.one())
        self.assertIn("Benchmark of tern, <img src=x onerror=alert(1)>&amp;", page.texts)


class BothSides(Pages):
    def test_a_commit(self):
        record, runs = benchmarks.pages()["bench-against"]
        page = self.page(record, runs)
        rows = [(figure, marks) for (section, figure), marks in page.rows.items()
                if section == "against"]
        changes = record["against"]["changes"]
        self.assertEqual([figure for figure, _ in rows], sorted(changes, key=changes.get))
        for figure, marks in rows:
            mine, base = (statistics.median(side[figure])
                          for side in (record["passes"], record["against"]["passes"]))
            want = base / mine if record["units"][figure] in figures.LESS else mine / base
            self.assertAlmostEqual(dict(marks)["tern"], want)
            self.assertEqual(dict(marks)["base"], 1)
        fell = [figure for figure, change in changes.items() if change < 0.7]
        self.assertTrue(fell)
        self.assertEqual([
            f for (s, f), cells in page.cells.items()
            if s == "against" and cells[-1].startswith("fell: ")
        ], sorted(fell, key=changes.get))

    def test_both_are_in_the_charts(self):
        record, runs = benchmarks.pages()["bench-against"]
        page = self.page(record, runs)
        self.assertEqual(
            page.rows["latency", "tern0/loop/send-latency/8"][:3],
            [(kind, statistics.median(side[k]))
             for kind, side, k in (("tern", record["passes"], "tern0/loop/send-latency/8"),
                                   ("base", record["against"]["passes"],
                                    "tern0/loop/send-latency/8"),
                                   ("rxe", record["passes"], "rxe0/loop/send-latency/8"))])

    def test_two_fronts(self):
        record, runs = benchmarks.pages()["bench-fronts"]
        page = self.page(record, runs)
        self.assertIn("tern, qemu", page.texts)
        self.assertIn("tern, vfio-user", page.texts)
        self.assertIn("tern0/across/send-latency/8", [f for s, f in page.rows if s == "against"])

    def test_a_base_without_a_figure(self):
        record = benchmarks.compared(benchmarks.run(n=1), "commit", "0ld")
        del record["against"]["passes"]["tern0/across/tcp-4/0"]
        del record["against"]["changes"]["tern0/across/tcp-4/0"]
        page = self.page(record)
        self.assertEqual([kind for kind, _ in page.rows["network", "tern0/across/tcp-4/0"]],
                         ["tern", "rxe"])


class Trends(Pages):
    def test_runs_of_this_machine_and_front_are_shown(self):
        record = benchmarks.run()
        text = self.text_of(record, [*benchmarks.earlier(), record])
        section = re.search(r'<section id="history".*?</section>', text)[0]
        self.assertIn("2 recorded runs of other machines or adapters are left out", section)
        self.assertEqual(len(re.findall(r"<tr>", re.search(r"<tbody>.*?</tbody>", section)[0])), 13)
        first = re.search(r'<figure class="trend">.*?</figure>', section)[0]
        self.assertEqual((first.count('class="run"'), first.count('class="run last"')), (12, 1))
        self.assertIn(f'{charts.digits(record["targets"][0]["value"])} in the last', first)

    def test_a_new_kernel_is_the_same_machine(self):
        a = benchmarks.run()
        self.assertEqual(history.comparable(a),
                         history.comparable({**a, "machine": {**a["machine"], "kernel": "7.2"}}))
        for other in ({"machine": {**a["machine"], "guest": "host"}}, {"front": "vfio-user"}):
            self.assertNotEqual(history.comparable(a), history.comparable({**a, **other}))

    def test_the_first_run(self):
        record = benchmarks.run()
        self.assertIn('id="first-run"', self.text_of(record, [record]))

    def test_a_page_of_an_old_run_ends_there(self):
        runs = [
            r for r in benchmarks.earlier()
            if r["front"] == "qemu" and r["machine"]["processors"] == 2
        ]
        text = self.text_of(runs[4], runs)
        self.assertEqual(
            re.search(r'<figure class="trend">.*?</figure>', text)[0].count('class="run'), 5)

    def test_a_run_that_is_not_recorded_is_the_last(self):
        text = self.text_of(benchmarks.run(), benchmarks.earlier())
        self.assertEqual(
            re.search(r'<figure class="trend">.*?</figure>', text)[0].count('class="run'), 13)

    def test_figures_that_both_have_are_ratios(self):
        record = benchmarks.run()
        text = self.text_of(record, [*benchmarks.earlier(), record])
        every = re.search(r'<details id="every">.*?</details>', text)[0]
        captions = re.findall(r"<figcaption>(.*?)</figcaption>", every)
        self.assertIn(
            f"SEND latency, 8 bytes, loopback, times Soft-RoCE: {charts.digits(record['ratios']['loop/send-latency/8 to Soft-RoCE'])}",
            captions)
        self.assertEqual(
            len([c for c in captions if c.startswith("TCP, one queue, no offloads, across, GB/s")]),
            1)

    def test_runs_without_a_figure(self):
        runs = benchmarks.earlier()
        for r in runs[:5]:
            benchmarks.without(r, "tcp")
        record = benchmarks.run()
        figure = re.search(r'<figcaption>TCP across, of virtio-net.*?</figure>',
                           self.text_of(record, [*runs, record]))[0]
        left_out = sum(history.comparable(r) != history.comparable(record) for r in runs[:5])
        self.assertEqual(figure.count('class="run"'), 12 - (5 - left_out))


class Recorded(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.TemporaryDirectory()
        self.addCleanup(self.dir.cleanup)
        self.place = os.path.join(self.dir.name, "runs")
        patch = mock.patch.dict(os.environ, {history.PLACE: self.place})
        patch.start()
        self.addCleanup(patch.stop)

    def test_runs_are_kept_in_order_without_the_other_side(self):
        late = benchmarks.run(n=1, date="2026-02-02T00:00:00+00:00")
        early = benchmarks.run(n=2, date="2026-01-01T00:00:00+00:00", commit="v1/x-3-gabc")
        history.keep(benchmarks.compared(late, "commit", "base"))
        self.assertEqual(history.keep(early), [early, late])
        self.assertEqual(sorted(os.listdir(self.place)), [
            "2026-01-01T00-00-00-00-00-v1-x-3-gabc.json", "2026-02-02T00-00-00-00-00-b1946ac92.json"
        ])

    def test_the_oldest_go(self):
        with mock.patch.object(history, "MOST_RUNS", 3):
            for i in range(1, 6):
                kept = history.keep({"date": f"2026-01-0{i}", "commit": "c", "passes": {}})
        self.assertEqual([r["date"] for r in kept], ["2026-01-03", "2026-01-04", "2026-01-05"])
        self.assertEqual(len(os.listdir(self.place)), 3)

    def test_other_files_are_passed_over(self):
        os.mkdir(self.place)
        for i, text in enumerate(("", "[]", "null", '{"passes": []}', '{"date": "x"}', "\xff")):
            with open(os.path.join(self.place, f"{i}.json"), "w", encoding="latin-1") as f:
                f.write(text)
        with contextlib.redirect_stderr(io.StringIO()) as said:
            self.assertEqual(history.read(self.place), [])
        self.assertEqual(said.getvalue().count("is no recorded run"), 6)

    def test_nothing_is_recorded_without_a_place(self):
        os.environ[history.PLACE] = ""
        record = benchmarks.run(n=1)
        self.assertEqual(history.keep(record), [record])
        self.assertEqual(history.read(""), [])

    def test_the_place_outlives_make_clean(self):
        with mock.patch.dict(os.environ, {"TERN_CACHE": "/somewhere"}):
            del os.environ[history.PLACE]
            self.assertEqual(history.directory(), "/somewhere/bench-history")

    def test_this_machine(self):
        found = history.machine(os.path.join(self.dir.name, "none"))
        self.assertGreater(found["processors"], 0)
        self.assertEqual(found["guest"], "")


class Figures(unittest.TestCase):
    def test_targets_that_were_not_measured(self):
        self.assertTrue(all(t["value"] is None and not t["met"] for t in figures.targets({}, {})))

    def test_a_target_is_met(self):
        for value, at_most, met in ((0.1, True, True), (0.11, True, False), (0.1, False, True),
                                    (0.09, False, False)):
            self.assertEqual(figures.judge("x", value, 0.1, at_most)["met"], met)

    def test_changes_compare_the_best(self):
        units = {"a": "us", "b": "GB/s", "c": "us", "d": "M/s", "e": "us"}
        mine = {"a": [4, 2], "b": [4, 2], "c": [1], "d": [0.0], "e": [1]}
        base = {"a": [1, 8], "b": [1, 8, 9], "c": [0.0], "d": [2]}
        self.assertEqual(figures.changes(mine, base, units, lambda k: True),
                         {"a": 0.5, "b": 0.5, "d": 0})

    def test_quantities(self):
        for value, unit, text in ((0.4, "us", "400 ns"), (1.307, "us", "1.31 µs"),
                                  (999.8, "us", "1.00 ms"), (6.2e6, "us", "6.20 s"),
                                  (332, "ns", "332 ns"), (8.07, "bytes", "8.07 bytes"),
                                  (419430, "bytes", "410 KiB"), (0.0162, "GB/s", "0.0162"),
                                  (1234.5, "M/s", "1,234"), (0, "M/s", "0"), (None, "us", "–")):
            self.assertEqual(charts.quantity(value, unit), text)

    def test_scales(self):
        for values in ([1], [0.5, 0.9], [1, 30], [3, 4e6], [1e-5,
                                                            1e7], [0, 0], [], [2, -1, math.inf, 5]):
            for log in (None, True):
                with self.subTest(values=values, log=log):
                    scale = charts.Scale(values, log=log)
                    good = charts.usable(values)
                    self.assertTrue(all(0 <= scale.at(v) <= 100 for v in good))
                    self.assertEqual(sorted(good), sorted(good, key=scale.at))
                    ticks = scale.ticks()
                    self.assertTrue(1 <= len(ticks) <= 8, ticks)
                    self.assertTrue(
                        all(-0.1 <= scale.at(v) <= 100.1 for v, _ in ticks if v or not scale.log))

    def test_logarithms_for_decades(self):
        self.assertEqual([charts.Scale(values).log for values in ([1, 19], [1, 21])], [False, True])


def load_bench():
    loader = importlib.machinery.SourceFileLoader("bench_script", os.path.join(BENCH, "bench"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(
        "bench_script", loader))
    loader.exec_module(module)
    return module


class Whole(unittest.TestCase):
    """tests/bench/bench itself, where a run of the machines is replaced by made up figures."""
    def setUp(self):
        self.dir = tempfile.TemporaryDirectory()
        self.addCleanup(self.dir.cleanup)
        os.mkdir(os.path.join(self.dir.name, "build"))
        self.bench = load_bench()
        self.seed = 0
        self.properties = []
        changed = {
            "TOP": self.dir.name, "run": self.run_command, "host_limits": lambda: [],
            "memory_figures": lambda: [("host/growth/qp/0", 900, "bytes")],
            "guest_figures": self.guest, "base_tree": lambda commit: "/base",
            "base_pass": lambda tree, seconds: self.base()
        }
        for name, value in changed.items():
            setattr(self.bench, name, value)

    def run_command(self, *command, **_):
        return mock.Mock(stdout="0123abc\n" if "--dirty" in command else "base\n")

    def guest(self, _, front, props=()):
        self.seed += 1
        self.properties.append((front, props))
        passes, units = benchmarks.passes_of(benchmarks.random.Random(self.seed), 1,
                                             1.0 if front == "qemu" else 0.5)
        return [(k, values[0], units[k]) for k, values in passes.items()
                if not k.startswith("host/growth")]

    def base(self):
        return {k: [v] for k, v, _ in self.guest(0, "qemu")}

    def main(self, *args):
        with mock.patch.dict(os.environ, {history.PLACE: os.path.join(self.dir.name, "runs")}), mock.patch.object(sys, "argv", ["bench", *args]), \
                contextlib.redirect_stdout(io.StringIO()) as said:
            status = self.bench.main()
        with open(os.path.join(self.dir.name, "build/bench.json"), encoding="utf-8") as f:
            return status, json.load(f), said.getvalue()

    def test_json_page_and_history(self):
        status, record, said = self.main("--passes", "3")
        self.assertEqual(status, 0)
        self.assertEqual({name: record[name] for name in ("commit", "front", "command", "seconds")},
                         {
                             "commit": "0123abc", "front": "qemu",
                             "command": "tests/bench/bench --passes 3", "seconds": 0.4
                         })
        self.assertRegex(record["date"], r"^20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00$")
        self.assertEqual(record["machine"]["processors"], len(os.sched_getaffinity(0)))
        self.assertEqual((len(record["passes"]["tern0/loop/send-latency/8"]),
                          len(record["passes"]["host/growth/qp/0"])), (3, 1))
        self.assertIn("met     64 KiB loopback write, times Soft-RoCE", said)
        self.assertIn("?       QEMU grows by a device, MiB: not measured", said)
        self.assertTrue(os.path.exists(os.path.join(self.dir.name, "build/bench.html")))
        self.assertEqual(len(os.listdir(os.path.join(self.dir.name, "runs"))), 1)

    def test_against_a_commit(self):
        status, record, said = self.main("--passes", "2", "--against", "HEAD^")
        self.assertEqual((record["against"]["kind"], record["against"]["name"]), ("commit", "base"))
        self.assertEqual(len(record["against"]["passes"]["tern0/loop/send-latency/8"]), 2)
        self.assertEqual(status, int(min(record["against"]["changes"].values()) < 0.7))
        self.assertIn("times as good as the base, best pass of 2 each:", said)

    def test_against_a_front(self):
        _, record, _ = self.main("--front", "vfio-user", "--device-prop", "dm-size=0",
                                 "--against-front", "qemu")
        self.assertEqual(self.properties, [("vfio-user", ["dm-size=0"]), ("qemu", ["dm-size=0"])])
        self.assertEqual((record["front"], record["against"]["kind"], record["against"]["name"]),
                         ("vfio-user", "front", "qemu"))
        self.assertNotIn("host/growth/qp/0", record["passes"])
        self.assertIn("tern0/across/write-latency/8", record["against"]["changes"])

    def test_a_page_of_a_file(self):
        result, page = (os.path.join(self.dir.name, name) for name in ("x.json", "x.html"))
        with open(result, "w", encoding="utf-8") as f:
            json.dump(benchmarks.run(), f)
        command = [sys.executable, os.path.join(BENCH, "make-page")]
        env = {**os.environ, history.PLACE: ""}
        self.assertEqual(
            subprocess.run([*command, result, page], env=env, check=False).returncode, 0)
        self.assertTrue(os.path.exists(page))
        done = subprocess.run([*command, os.path.join(self.dir.name, "none"), page], env=env,
                              check=False, capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr.count("\n")), (1, 1))

    def test_a_base_of_before_is_read_and_records_nothing(self):
        bench = load_bench()
        tree = os.path.join(self.dir.name, "base")
        os.makedirs(os.path.join(tree, "build"))
        with open(os.path.join(tree, "build/bench.json"), "w", encoding="utf-8") as f:
            json.dump({"commit": "0ld", "passes": {"a": [1]}, "units": {}, "ratios": {}}, f)
        with mock.patch.object(bench, "run") as run:
            self.assertEqual(bench.base_pass(tree, 0.4), {"a": [1]})
        self.assertEqual(run.call_args.kwargs["env"][history.PLACE], "")


if __name__ == "__main__":
    unittest.main()

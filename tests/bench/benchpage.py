# SPDX-License-Identifier: GPL-2.0-or-later
"""Makes build/bench.html of a run and of the recorded ones. The charts are made here: the page
shows them without JavaScript."""
import math
import os
import statistics
import sys

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "../../tools")]

import charts  # noqa: E402
import names  # noqa: E402
import trends  # noqa: E402
import webpage  # noqa: E402
from charts import Section, digits, quantity, spread_text, usable  # noqa: E402
from figures import HOST, LESS, key, limit_of, medians, ratios  # noqa: E402
from webpage import escape  # noqa: E402


def finite(value):
    """The same without numbers that JSON and an axis lack: a list without them, None instead of
    one."""
    if isinstance(value, dict):
        return {name: finite(v) for name, v in value.items()}
    if isinstance(value, list):
        return [v for v in map(finite, value) if v is not None]
    return None if isinstance(value, float) and not math.isfinite(value) else value


class View:
    """A run as the page needs it: series, limits and names of its figures."""
    def __init__(self, record):
        self.record = record = finite(record)
        self.units = record["units"]
        self.passes = {k: values for k, values in record["passes"].items() if values}
        self.v = medians(self.passes, self.units)
        self.ratios = record.get("ratios") or ratios(self.v)
        self.against = record.get("against")
        self.base = {k: values for k, values in self.against["passes"].items()
                     if values} if self.against else {}
        front = bool(self.against) and self.against["kind"] == "front"
        self.title = {
            "tern": f"tern, {record.get('front')}" if front else "tern", "rxe": "Soft-RoCE",
            "limit": "limit", "demand": "tern, on demand", "bound": "this machine",
            "base": f"tern, {self.against['name']}" if front else "tern, base"
        }

    def rxe(self, k):
        device, _, rest = k.partition("/")
        return self.passes.get(f"rxe0/{rest}",
                               []) if device == "tern0" and not rest.startswith("limits/") else []

    def limit(self, k):
        device, path, what, size = k.split("/")
        if device != "tern0" or path == "limits":
            return None
        if path == "memory" and what == "register":
            part = self.v.get(key(HOST, "limit", what, size))
            return part[0] / 1e3 if part else None
        return limit_of(path, what, size, self.v)[1]

    def ratio(self, k):
        return self.ratios.get(k.partition("/")[2] + " to Soft-RoCE")

    def series(self, k):
        """[(kind, values)] of the lanes of a figure."""
        own = "bound" if k.startswith("host/limit/") or "/limits/" in k else "tern"
        limit = self.limit(k)
        found = [(own, self.passes.get(k, [])), ("base", self.base.get(k, [])),
                 ("rxe", self.rxe(k)), ("limit", [] if limit is None else [limit])]
        return [(kind, values) for kind, values in found if values or kind == own]

    def words(self, series, unit):
        return "; ".join(spread_text(self.title[kind], values, unit) for kind, values in series)

    def middle(self, k, unit):
        return quantity(self.v[k][0], unit) if k in self.v else "–"


def legend(view, kinds):
    items = "".join(
        f'<li><svg width="14" height="14" aria-hidden="true">{charts.mark(kind, 7, 7)}</svg>{escape(view.title[kind])}</li>'
        for kind in kinds)
    return f'<ul class="legend">{items}</ul>'


def direction(unit):
    return "less is better" if unit in LESS else "more is better"


def rows_chart(view, chart):
    """Figures beside each other on one axis. A figure that no run of this kind has is left out, one
    that failed is not."""
    all_series = {k: view.series(k) for k in chart.figures}
    here = {k: s for k, s in all_series.items() if any(values for _, values in s)}
    if not here:
        return ""
    values = [v for s in here.values() for _, found in s for v in found]
    scale = charts.Scale(values, chart.unit)
    kinds = {kind for s in here.values() for kind, found in s if found}
    heads = [(kind, view.title[kind]) for kind in ("tern", "bound", "base", "rxe", "limit")
             if kind in kinds]
    rows = []
    for k, series in all_series.items():
        found = dict(series)
        cells = [
            quantity(statistics.median(found[kind]), chart.unit) if found.get(kind) else "–"
            for kind, _ in heads
        ]
        if "rxe" in kinds:
            cells.append("–" if view.ratio(k) is None else digits(view.ratio(k)))
        label = names.full_name(k) if "/limit" in k or k not in names.grouped() else names.name_of(
            *k.split("/")[2:])
        rows.append((label + ("" if series[0][1] else " (not measured)"), series,
                     view.words(series, chart.unit), cells, (), "", k))
    columns = [title for _, title in heads] + ["ratio"] * ("rxe" in kinds)
    table = charts.table(chart.title, scale, f"{chart.axis}, {direction(chart.unit)}", columns,
                         rows)
    keys = legend(view, [kind for kind, _ in heads]) if len(heads) > 1 else ""
    return f'<div class="block"><h3>{escape(chart.title)}</h3>{keys}{table}</div>'


def sizes_of(view, chart):
    """{size: [(kind, values)]} of a chart over sizes."""
    found = {}
    for size in sorted(names.SIZES):
        series = []
        for kind, prefix in chart.series:
            k = f"{prefix}/{size}"
            if kind == "tern":
                series += view.series(k)
            elif k in view.passes:
                series.append((kind, view.passes[k]))
        if any(values for kind, values in series if kind != "limit"):
            found[size] = series
    return found


def sizes_chart(view, chart, scale):
    """One figure over the sizes of a message, with the numbers below."""
    found = sizes_of(view, chart)
    if not found:
        return ""
    kinds = [
        kind for kind in ("tern", "demand", "base", "rxe", "limit") if any(
            dict(s).get(kind) for s in found.values())
    ]
    place = {size: 12 + 76 * i / max(1, len(found) - 1) for i, size in enumerate(found)}
    inside = ""
    for at, kind in enumerate(kinds):
        shift = 0 if kind == "limit" else (at - (len(kinds) - 1) / 2) * 5
        points = [(place[size], statistics.median(dict(s)[kind])) for size, s in found.items()
                  if dict(s).get(kind)]
        drawn = charts.segments(kind, points, scale, charts.HEIGHT)
        for size, series in found.items():
            drawn += charts.spread_up(scale, kind,
                                      dict(series).get(kind, []), charts.percent(place[size]),
                                      charts.HEIGHT)
        inside += f'<g transform="translate({shift:g},0)">{drawn}</g>'
    labels = [(place[size], names.size_text(size)) for size in found]
    words = ". ".join(f"{names.size_text(size)}: {view.words(series, chart.unit)}"
                      for size, series in found.items())
    head = "".join(f'<th scope="col" class="n">{escape(view.title[kind])}</th>' for kind in kinds)
    rows = "".join(
        f'<tr data-figure="{escape(chart.series[0][1])}/{size}"><th scope="row">{names.size_text(size)}</th>'
        + "".join(
            f'<td class="n">{escape(quantity(statistics.median(dict(s)[kind]), chart.unit) if dict(s).get(kind) else "–")}</td>'
            for kind in kinds) + "</tr>" for size, s in found.items())
    drawing = charts.upright(scale, inside, words, labels, f"{chart.axis}, {direction(chart.unit)}")
    return (
        f'<figure data-sizes="{escape(chart.series[0][1])}"><figcaption>{escape(chart.title)}</figcaption>{drawing}'
        f'<table class="numbers" aria-label="{escape(chart.title)}"><thead><tr><th scope="col">Size</th>{head}</tr></thead><tbody>{rows}</tbody></table></figure>'
    )


def group(view, name, title, text, parts):
    """A section: charts over sizes side by side on one scale for each unit, then rows."""
    sized = [chart for chart in parts if isinstance(chart, names.Sizes)]
    values = {}
    for chart in sized:
        values.setdefault(chart.unit, []).extend(v for s in sizes_of(view, chart).values()
                                                 for _, found in s for v in found)
    kinds = [
        kind for kind in ("tern", "demand", "base", "rxe", "limit") if any(
            dict(s).get(kind) for chart in sized for s in sizes_of(view, chart).values())
    ]
    drawn = "".join(
        sizes_chart(view, chart, charts.Scale(values[chart.unit], chart.unit)) for chart in sized)
    body = f'{legend(view, kinds)}<div class="charts">{drawn}</div>' if drawn else ""
    body += "".join(rows_chart(view, chart) for chart in parts if isinstance(chart, names.Rows))
    return Section(name, title, f'<p class="muted">{escape(text)}</p>{body}' if body else "")


def others(view):
    """Figures that no group names: those of a newer benchmark."""
    rest = sorted(k for k in view.passes if k not in names.grouped() and not k.startswith("rxe0/"))
    units = sorted({view.units[k] for k in rest})
    parts = [
        names.Rows(f"In {unit}", unit, unit, [k for k in rest if view.units[k] == unit])
        for unit in units
    ]
    return Section("others", "Other figures", "".join(rows_chart(view, part) for part in parts))


def targets(view):
    """How far each target is exceeded or missed, on an axis on which 1 is the target."""
    found = view.record.get("targets") or []

    def part(t):
        if not t["value"] or not t["wanted"]:
            return None
        return t["wanted"] / t["value"] if t["at_most"] else t["value"] / t["wanted"]

    parts = usable([part(t) for t in found])
    scale = charts.Scale([*parts, 0.5, 2], log=True)
    rows = []
    for t in found:
        verdict = "not measured" if t["value"] is None else "met" if t["met"] else "missed"
        # A device may cost nothing.
        values = usable([part(t)])
        words = f"{verdict}: {digits(t['value'])}" if t["value"] is not None else verdict
        rows.append((t["text"][:1].upper() + t["text"][1:], [("tern", values)], words, [
            digits(t["value"]) if t["value"] is not None else "–",
            f"{'≤' if t['at_most'] else '≥'} {t['wanted']:,g}", verdict
        ], [(1, "target")], verdict.split()[0], t["text"]))
    table = charts.table("Targets", scale, "Times the target; right of the line it is met",
                         ["value", "wanted", "verdict"], rows)
    return Section("targets", "Targets",
                   f'<p class="muted">For two emulated processors.</p>{table}' if found else "")


def pass_ratios(view, k):
    """tern to Soft-RoCE in each pass: both were measured in the same boot."""
    mine, other = view.passes.get(k, []), view.rxe(k)
    if len(mine) != len(other):
        return []
    less = view.units[k] in LESS
    return [b / a if less else a / b for a, b in zip(mine, other) if a and b]


def beside(view):
    """tern to Soft-RoCE, all figures but 99th percentiles, whose ratio says little."""
    keys = [k for k in view.passes if k.startswith("tern0/") and view.ratio(k) and "-p99" not in k]
    rows, values = [], []
    for k in keys:
        middle, unit = view.ratio(k), view.units[k]
        # The mark is the ratio of the medians, which the JSON has: it may differ from the median of
        # ratios.
        some = pass_ratios(view, k) or [middle]
        values += [middle, *some]
        words = f"{digits(middle)} times" + (
            f"; passes from {digits(min(some))} to {digits(max(some))}" if len(some) > 1 else "")
        cells = [
            view.middle(k, unit) + named(unit),
            quantity(statistics.median(view.rxe(k)), unit) + named(unit),
            digits(middle)
        ]
        rows.append(
            (names.full_name(k), [("tern", some, middle)], words, cells, [(1, "target")], "", k))
    scale = charts.Scale(values, log=True, include=(1, ))
    text = "Both in the same boot: the ratio holds although figures depend on the day. Right of the line tern is better."
    table = charts.table("tern beside Soft-RoCE", scale, "Times as good as Soft-RoCE",
                         [view.title["tern"], "Soft-RoCE", "ratio"], rows)
    return Section("beside", "tern beside Soft-RoCE",
                   f'<p class="muted">{text}</p>{table}' if keys else "")


def named(unit):
    return "" if unit in LESS else f" {unit}"


def times(values, than, unit):
    """How many times as good each value is."""
    return [than / v if unit in LESS else v / than for v in values if v and than]


def comparison(view):
    """Both sides of --against or --against-front, each pass to the median of the base."""
    if not view.against:
        return Section("against", "Both sides", "")
    changes, tolerance = view.against["changes"], view.against["tolerance"]
    rows, everything = [], []
    for k, change in sorted(changes.items(), key=lambda c: c[1]):
        unit, then = view.units[k], view.base[k]
        middle = statistics.median(then)
        sides = [(kind, times(values, middle,
                              unit), *times([statistics.median(values)], middle, unit))
                 for kind, values in (("tern", view.passes[k]), ("base", then))]
        everything += sides[0][1] + sides[1][1]
        fell = change < 1 - tolerance
        rows.append((names.full_name(k), sides,
                     f"{view.words([('tern', view.passes[k]), ('base', then)], unit)}; "
                     f"best pass {digits(change)} times the base's", [
                         view.middle(k, unit) + named(unit),
                         quantity(middle, unit) + named(unit),
                         ("fell: " if fell else "") + digits(change)
                     ], [(1, "target"), (1 - tolerance, "floor")], "missed" if fell else "", k))
    what = "The same commit with two fronts" if view.against[
        "kind"] == "front" else f"The base is {view.against['name']}"
    fell = sum(c < 1 - tolerance for c in changes.values())
    text = (
        f"{what}; their passes alternated. The best pass of each side decides; the dashed line is {tolerance:.0%} below the base. "
        f"{len(changes)} figures, {fell} fell by more.")
    scale = charts.Scale([*everything, 1 - tolerance, 1.2], log=True)
    body = charts.table("Both sides", scale, "Times the base's median, more is better",
                        [view.title["tern"], view.title["base"], "best to best"],
                        rows) if rows else ""
    return Section("against", "Both sides",
                   f'<p class="muted">{escape(text)}</p>{legend(view, ["tern", "base"])}{body}')


def everything(view):
    """All numbers, also those of the other side, with the names that bench.json has."""
    rows = ""
    for k, values in view.passes.items():
        if k.startswith("rxe0/") and f"tern0/{k[5:]}" in view.passes:
            continue
        unit, rxe, base, limit = view.units[k], view.rxe(k), view.base.get(k), view.limit(k)
        cells = [
            unit,
            digits(view.v[k][0]),
            spread(values),
            digits(statistics.median(rxe)) if rxe else "",
            spread(rxe),
            digits(view.ratio(k)) if view.ratio(k) else "",
            digits(limit) if limit else ""
        ]
        cells += [digits(statistics.median(base)) if base else "",
                  spread(base)] if view.against else []
        rows += f'<tr data-figure="{escape(k)}"><th scope="row" class="mono">{escape(k)}</th>' + "".join(
            f'<td class="n">{escape(c)}</td>' for c in cells) + "</tr>"
    heads = ["unit", "median", "passes", "Soft-RoCE", "passes", "ratio", "limit"
             ] + ([view.title["base"], "passes"] if view.against else [])
    head = "".join(f'<th scope="col" class="n">{escape(h)}</th>' for h in heads)
    return Section(
        "all", "All figures",
        '<p class="muted">The names are those of bench.json: device, path, figure, size.</p>'
        '<div class="scroll" tabindex="0" role="region" '
        f'aria-label="Table of all figures"><table><thead><tr><th scope="col">Figure</th>{head}</tr></thead><tbody>{rows}</tbody></table></div>'
    )


def spread(values):
    return f"{digits(min(values))} to {digits(max(values))}" if values and len(values) > 1 else ""


def tiles(view):
    """The run in a few numbers."""
    found = [t for t in view.record.get("targets") or [] if t["value"] is not None]
    missed = [t for t in found if not t["met"]]

    def tile(name, value, tone=""):
        return f'<div{f" class={tone}" if tone else ""}><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>'

    out = tile("Targets met", f"{len(found) - len(missed)} of {len(found)}",
               "warm" if missed else "") if found else ""
    for name, k in (("64 KiB WRITE, loopback", "tern0/loop/write-bandwidth/65536"),
                    ("64 KiB WRITE, across", "tern0/across/write-bandwidth/65536"),
                    ("WRITE latency, loopback",
                     "tern0/loop/write-latency/8"), ("TCP, one stream", "tern0/across/tcp-1/0")):
        if k in view.v:
            out += tile(name, view.middle(k, view.units[k]) + named(view.units[k]))
    missing = [
        k for part in names.charts_of(names.GROUPS) if isinstance(part, names.Rows)
        for k in part.figures if k not in view.passes
    ]
    return out + tile("Figures", f"{len(view.passes)}") + (tile("Not measured", f"{len(missing)}",
                                                                "warm") if missing else "")


def about(view):
    r, machine = view.record, view.record.get("machine", {})
    most = max(map(len, view.passes.values()), default=0)
    parts = [
        r.get("date", "").replace("T",
                                  " ").replace("+00:00",
                                               " UTC"), f"{most} pass{'es' if most != 1 else ''}" +
        (f" of {r['seconds']:g} s a figure" if "seconds" in r else ""),
        f"adapter of {'ternd' if r.get('front') == 'vfio-user' else 'QEMU'}",
        trends.machine_text(machine)
    ]
    return escape("; ".join(p for p in parts if p))


def make(record, runs, path):
    """Writes the page of a run to `path`; `runs`: recorded ones, oldest first."""
    view = View(record)
    sections = [
        targets(view),
        comparison(view),
        beside(view), *(group(view, *g) for g in names.GROUPS),
        others(view),
        trends.history(view, runs),
        everything(view)
    ]
    sections = [s for s in sections if s.body]
    links = "".join(f'<li><a href="#{s.name}">{escape(s.title)}</a></li>' for s in sections)
    body = "\n".join(
        f'<section id="{s.name}" aria-labelledby="{s.name}-title"><h2 id="{s.name}-title">{escape(s.title)}</h2>{s.body}</section>'
        for s in sections)
    commit = record.get("commit", "")
    if view.against:
        commit = f"{commit}, {record.get('front')} and {view.against['name']}" if view.against[
            "kind"] == "front" else f"{commit} and {view.against['name']}"
    page = webpage.Page(os.path.join(HERE, "page"), ("main", ), "Benchmark of tern, @TITLE@")
    data = [
        f'<script type="application/json" id="record">{webpage.safe_json(view.record)}</script>\n'
    ]
    command = f"<code>{escape(record['command'])}</code>" if record.get("command") else ""
    webpage.replace(
        path, lambda out: page.write(out, data, TITLE=escape(commit), ABOUT=about(view), COMMAND=
                                     command, LINKS=links, TILES=tiles(view), CHARTS=body))

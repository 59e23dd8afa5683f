# SPDX-License-Identifier: GPL-2.0-or-later
"""Charts of the benchmark's page: SVG whose places across are percentages, so that text keeps its
size on every screen.

A series is (kind, values): kind is a class of the style sheet, values are those of the passes, of
which the median is marked. A third member is marked instead of the median."""
import collections
import math
import os
import statistics
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.realpath(__file__)), "../../tools"))

from webpage import escape  # noqa: E402

# A shape for each kind, so that colour is not needed to tell them apart.
SHAPES = {
    "tern": "M-5 0a5 5 0 1 0 10 0a5 5 0 1 0-10 0z", "rxe": "M-4.5-4.5h9v9h-9z",
    "base": "M0-6L6 0 0 6-6 0z", "demand": "M0-5.5L5.5 4.5h-11z", "limit": "M-1.5-6h3v12h-3z",
    "bound": "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0z",
}
TIMES = ((1e6, "s"), (1e3, "ms"), (1, "µs"), (1e-3, "ns"))
BYTES = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"), (1, "bytes"))
LADDER = 22  # pixels of a series in a row
HEIGHT = 190  # of a chart with an axis of its own
# A part of the page; body is HTML.
Section = collections.namedtuple("Section", "name title body")


def digits(x):
    """Three digits that count."""
    if not x:
        return "0"
    places = max(0, min(9, 2 - int(f"{x:.2e}".partition("e")[2])))
    return f"{x:,.{places}f}"


def quantity(x, unit, short=False):
    """A value as text; times and sizes with the unit that suits them, others without. `short`: for
    an axis."""
    if x is None:
        return "–"
    scaled = {"us": (TIMES, 1), "ns": (TIMES, 1e-3), "bytes": (BYTES, 1)}.get(unit)
    show = (lambda v: f"{v:,.10g}") if short else digits
    if not scaled:
        return show(x)
    sizes, factor = scaled
    size, name = next(((s, n) for s, n in sizes if abs(x * factor) >= s * 0.9995), sizes[-1])
    return f"{show(x * factor / size)} {'B' if short and name == 'bytes' else name}"


def usable(values):
    """Those that an axis can have: no failure is 0, and none is negative."""
    return [v for v in values if v is not None and math.isfinite(v) and v > 0]


def even(low, high, most):
    """Round values at the same distance, no more than `most` or so."""
    raw = (high - low) / most
    power = 10**math.floor(math.log10(raw))
    step = next(f * power for f in (1, 2, 5, 10) if f * power >= raw * 0.999)
    return [
        k * step for k in range(math.ceil(low / step - 1e-9),
                                math.floor(high / step + 1e-9) + 1)
    ]


class Scale:
    """Where values lie between the ends of an axis, in percent."""
    def __init__(self, values, unit="", log=None, room=3, include=()):
        values = usable([*values, *include]) or [1]
        low, high = min(values), max(values)
        self.unit, self.room = unit, room
        self.log = high / low > 20 if log is None else log
        if self.log:
            spread = max(math.log10(high / low) * 0.04, 0.04)
            self.low, self.high = math.log10(low) - spread, math.log10(high) + spread
        else:
            self.low, self.high = 0, high * 1.05

    def near(self, values):
        """A linear axis that need not begin at 0, for changes over time."""
        values = usable(values) or [1]
        middle = (min(values) + max(values)) / 2
        half = max((max(values) - min(values)) * 0.6, statistics.median(values) * 0.2)
        self.low, self.high = max(0, middle - half), middle + half
        return self

    def at(self, v):
        place = math.log10(v) if self.log else v
        return self.room + (place - self.low) / (self.high - self.low) * (100 - 2 * self.room)

    def up(self, v, height):
        """The same from the bottom, in pixels from the top."""
        return height - self.at(v) / 100 * height

    def ticks(self, most=5):
        """[(value, text)], round ones, no more than `most` or so."""
        if not self.log:
            # Sizes are even in their unit.
            size = next((s for s, _ in BYTES if s <= self.high), 1) if self.unit == "bytes" else 1
            values = [v * size for v in even(self.low / size, self.high / size, most)]
        elif self.high - self.low < 0.7:
            values = even(10**self.low, 10**self.high, most)
        else:
            values = self.powers(most) if self.unit == "bytes" else self.decades(most)
        return [(v, quantity(round(v, 12), self.unit, short=True) if v else "0") for v in values]

    def powers(self, most):
        """Powers of two."""
        step = max(1, math.ceil((self.high - self.low) / math.log10(2) / most))
        first, last = math.ceil(self.low / math.log10(2)), math.floor(self.high / math.log10(2))
        return [2.0**k for k in range(-(-first // step) * step, last + 1, step)]

    def decades(self, most):
        for factors in ((1, 2, 5), (1, 3), (1, )):
            found = [
                f * 10**e for e in range(math.floor(self.low),
                                         math.ceil(self.high) + 1) for f in factors
                if self.low <= math.log10(f * 10**e) <= self.high
            ]
            if len(found) <= most:
                return found
        return found[::-(-len(found) // -most) or 1]


def percent(x):
    return f"{x:.2f}%"


def mark(kind, x, y, value=None):
    """The shape of a median; x and y with their units."""
    data = "" if value is None else f' data-value="{value!r}"'
    return f'<svg x="{x}" y="{y}" class="mark {kind}"{data}><path d="{SHAPES[kind]}"/></svg>'


def spread_across(scale, kind, values, y, middle=None):
    """The passes as points, a whisker from the least to the most, and the mark of the median or of
    `middle`, along a row."""
    if kind == "limit" or not (good := usable(values)):
        return "".join(mark(kind, percent(scale.at(v)), y, v) for v in usable(values))
    low, high = percent(scale.at(min(good))), percent(scale.at(max(good)))
    out = f'<line class="whisker {kind}" x1="{low}" x2="{high}" y1="{y}" y2="{y}"/>' if len(
        good) > 1 else ""
    out += "".join(f'<circle class="pass {kind}" cx="{percent(scale.at(v))}" cy="{y}" r="3"/>'
                   for v in good) if len(good) > 1 else ""
    middle = statistics.median(values) if middle is None else middle
    return out + (mark(kind, percent(scale.at(middle)), y, middle) if middle > 0 else "")


def spread_up(scale, kind, values, x, height):
    """The same in a chart whose values go up; x with its unit."""
    if not (good := usable(values)):
        return ""
    ys = [f"{scale.up(v, height):.1f}" for v in sorted(good)]
    middle = statistics.median(values)
    out = ""
    if len(good) > 1 and kind != "limit":
        out = f'<line class="whisker {kind}" x1="{x}" x2="{x}" y1="{ys[0]}" y2="{ys[-1]}"/>'
        out += "".join(f'<circle class="pass {kind}" cx="{x}" cy="{y}" r="3"/>' for y in ys)
    return out + (mark(kind, x, f"{scale.up(middle, height):.1f}", middle) if middle > 0 else "")


def spread_text(name, values, unit):
    """What a spread shows, in words."""
    if not values:
        return f"{name}: not measured"
    middle = quantity(statistics.median(values), unit)
    if len(values) == 1:
        return f"{name}: {middle}"
    return f"{name}: {middle}, {len(values)} passes from {quantity(min(values), unit)} to {quantity(max(values), unit)}"


def grid_across(scale, ticks, height):
    """Lines that reach beyond the picture: a row may be higher than it, and cuts them."""
    return "".join(
        f'<line class="grid" x1="{percent(scale.at(v))}" x2="{percent(scale.at(v))}" y1="-20" y2="{height + 20}"/>'
        for v, _ in ticks)


def row(scale, ticks, series, words, special=()):
    """The plot of one figure: each series has a lane, the limit all of them. `special`: [(value,
    class)] of lines down the row."""
    lanes = [kind for kind, values, *_ in series if kind != "limit" and values] or ["none"]
    height = LADDER * max(1, len(lanes)) + 6
    out = grid_across(scale, ticks, height)
    out += "".join(
        f'<line class="{name}" x1="{percent(scale.at(v))}" x2="{percent(scale.at(v))}" y1="-20" y2="{height + 20}"/>'
        for v, name in special)
    for kind, values, *middle in series:
        y = height / 2 if kind not in lanes else 3 + LADDER * (lanes.index(kind) + 0.5)
        out += spread_across(scale, kind, values, f"{y:g}", *middle)
    return f'<svg class="plot" role="img" width="100%" height="{height}"><title>{escape(words)}</title>{out}</svg>'


def axis(scale, ticks, title):
    """The head of the column of plots: what it shows, and the ticks."""
    kind = ", log scale" if scale.log else ""
    labels = "".join(
        f'<text x="{percent(scale.at(v))}" y="12" text-anchor="{anchor(scale.at(v))}">{escape(text)}</text>'
        for v, text in ticks)
    return f'{escape(title + kind)}<svg class="axis" aria-hidden="true" width="100%" height="16">{labels}</svg>'


def anchor(place):
    return "start" if place < 6 else "end" if place > 94 else "middle"


def cell(label, text, extra=""):
    return f'<td role="cell" class="n{extra}" data-label="{escape(label)}">{escape(text)}</td>'


def table(name, scale, title, columns, rows):
    """Rows of (label, series, words, [cell text], special lines, class, data); columns are the
    heads of the cells."""
    ticks = scale.ticks()
    head = "".join(f'<th role="columnheader" scope="col" class="n">{escape(c)}</th>'
                   for c in columns)
    body = "".join(
        f'<tr role="row" class="{extra}" data-figure="{escape(data)}"><th role="rowheader" scope="row">{escape(label)}</th>'
        f'<td role="cell" class="picture">{row(scale, ticks, series, words, special)}</td>'
        f'{"".join(cell(c, text) for c, text in zip(columns, cells))}</tr>'
        for label, series, words, cells, special, extra, data in rows)
    return (
        f'<table role="table" class="chart" aria-label="{escape(name)}"><thead role="rowgroup"><tr role="row"><th role="columnheader" scope="col">Figure</th>'
        f'<th role="columnheader" scope="col" class="picture">{axis(scale, ticks, title)}</th>{head}</tr></thead><tbody role="rowgroup">{body}</tbody></table>'
    )


def upright(scale, inside, words, labels, title, height=HEIGHT):
    """A chart whose values go up: axis with its title, picture, labels [(percent, text)] below."""
    ticks = scale.ticks()
    ys = "".join(
        f'<text x="100%" dx="-6" y="{scale.up(v, height) + 4:.1f}" text-anchor="end">{escape(text)}</text>'
        for v, text in ticks)
    lines = "".join(
        f'<line class="grid" x1="0" x2="100%" y1="{scale.up(v, height):.1f}" y2="{scale.up(v, height):.1f}"/>'
        for v, _ in ticks)
    xs = "".join(
        f'<text x="{percent(x)}" y="{height + 16}" text-anchor="{anchor(x)}">{escape(text)}</text>'
        for x, text in labels)
    kind = ", log scale" if scale.log else ""
    return (
        f'<p class="unit">{escape(title + kind)}</p><div class="upright"><svg class="ys" aria-hidden="true" height="{height + 22}">{ys}</svg>'
        f'<svg class="plot" role="img" width="100%" height="{height + 22}"><title>{escape(words)}</title>{lines}{inside}{xs}</svg></div>'
    )


def segments(kind, points, scale, height):
    """Lines between medians: [(percent, value)]."""
    good = [(percent(x), f"{scale.up(v, height):.1f}") for x, v in points if usable([v])]
    return "".join(f'<line class="joint {kind}" x1="{a}" y1="{b}" x2="{c}" y2="{d}"/>'
                   for (a, b), (c, d) in zip(good, good[1:]))

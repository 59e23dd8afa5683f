# SPDX-License-Identifier: GPL-2.0-or-later
"""The history of recorded runs, as a section of the benchmark's page."""
import math
import statistics

import charts
import names
from charts import Section, quantity, usable
from figures import LESS
from history import comparable
from webpage import escape

# Charts show the last of more runs.
SHOWN = 60
HEIGHT = 84
# Tell whether the machine itself was another one, or busy.
MACHINE = ("host/limit/copy/1048576", "host/limit/crc32/4096")


def machine_text(machine):
    parts = [
        f"{machine['processors']} × {machine.get('processor') or 'processor'}"
        if machine.get("processors") else "",
        f"{machine['memory_gib']} GiB" if machine.get("memory_gib") else "",
        f"guests on {machine['guest']}" if machine.get("guest") else "",
        f"Linux {machine['kernel']}" if machine.get("kernel") else ""
    ]
    return ", ".join(p for p in parts if p)


def finite(v):
    """None for what no axis has, too."""
    return v if v is not None and math.isfinite(v) else None


def spread_of(run, k):
    return [v for v in run["passes"].get(k, []) if finite(v) is not None]


class Trend:
    """One quantity over the runs: its values in each, as (median, passes), or None."""
    def __init__(self, title, unit, less, points, wanted=None):
        self.title = title
        self.unit = unit
        self.less = less
        self.points = points
        self.wanted = wanted

    def there(self):
        return sum(1 for p in self.points if p and usable([p[0]])) > 1


def of_targets(view, runs):
    for t in view.record.get("targets") or []:
        points = []
        for run in runs:
            value = next((finite(old["value"])
                          for old in run.get("targets") or [] if old["text"] == t["text"]), None)
            points.append(None if value is None else (value, [value]))
        yield Trend(t["text"][:1].upper() + t["text"][1:], "", t["at_most"], points, t["wanted"])


def of_figure(view, runs, k):
    """A figure as its ratio to Soft-RoCE where there is one, as that varies least."""
    ratio, unit = k.partition("/")[2] + " to Soft-RoCE", view.units[k]
    title = names.full_name(k)
    if view.ratio(k):
        found = [finite(run.get("ratios", {}).get(ratio)) for run in runs]
        return Trend(f"{title}, times Soft-RoCE", "", False,
                     [None if v is None else (v, [v]) for v in found])
    values = [spread_of(run, k) for run in runs]
    shown = "" if unit in LESS else f", {unit}"
    return Trend(title + shown, unit, unit in LESS,
                 [(statistics.median(v), v) if v else None for v in values])


def scale_of(trend):
    values = [v for p in trend.points if p for v in p[1]]
    scale = charts.Scale(values, trend.unit, room=6)
    if scale.log:
        return charts.Scale(values, trend.unit, room=6, include=usable([trend.wanted]))
    good = usable(values) or [1]
    near = trend.wanted and min(good) / 3 < trend.wanted < max(good) * 3
    return scale.near([*values, trend.wanted] if near else values)


def picture(trend, runs):
    """A small chart: a point for each run, with its passes; the last one is this run's."""
    scale, n = scale_of(trend), len(runs)
    place = [4 + 92 * i / max(1, n - 1) for i in range(n)]

    def up(v):
        return f"{scale.up(v, HEIGHT):.1f}"

    inside = ""
    if trend.wanted and 0 <= scale.at(trend.wanted) <= 100:
        inside += f'<line class="target" x1="0" x2="100%" y1="{up(trend.wanted)}" y2="{up(trend.wanted)}"/>'
    inside += charts.segments("tern", [(x, p[0]) for x, p in zip(place, trend.points) if p], scale,
                              HEIGHT)
    for x, p, run in zip(place, trend.points, runs):
        good = usable(p[1]) if p else []
        if len(good) > 1:
            inside += f'<line class="whisker tern" x1="{charts.percent(x)}" x2="{charts.percent(x)}" y1="{up(min(good))}" y2="{up(max(good))}"/>'
        if p and usable([p[0]]):
            last = " last" if run is runs[-1] else ""
            told = escape(f"{day(run)}, {run['commit']}: {quantity(p[0], trend.unit)}")
            inside += f'<circle class="run{last}" cx="{charts.percent(x)}" cy="{up(p[0])}" r="{4 if last else 2.5}"><title>{told}</title></circle>'
    found = [(p[0], run) for p, run in zip(trend.points, runs) if p]
    (first, _), (last, _) = found[0], found[-1]
    words = f"{trend.title}: {quantity(first, trend.unit)} in the first of {len(found)} runs, {quantity(last, trend.unit)} in the last"
    title = "less is better" if trend.less else "more is better"
    title += f'; wanted: at {"most" if trend.less else "least"} {trend.wanted:,g}' if trend.wanted else ""
    drawing = charts.upright(scale, inside, words, [(place[0], day(runs[0])),
                                                    (place[-1], day(runs[-1]))], title, HEIGHT)
    return f'<figure class="trend"><figcaption>{escape(trend.title)}: {quantity(last, trend.unit)}</figcaption>{drawing}</figure>'


def day(run):
    return run["date"][:10]


def table(runs):
    rows = "".join(
        f'<tr><td>{escape(run["date"].replace("T", " ")[:16])}</td><td class="mono">{escape(run["commit"])}</td>'
        f'<td class="n">{max(map(len, run["passes"].values()), default=0)}</td><td class="n">{verdict(run)}</td>'
        f'<td>{escape(run.get("machine", {}).get("kernel", ""))}</td></tr>'
        for run in reversed(runs))
    return (
        '<div class="scroll" tabindex="0" role="region" aria-label="Recorded runs"><table><thead><tr><th scope="col">Date, UTC</th><th scope="col">Commit</th>'
        '<th scope="col" class="n">Passes</th><th scope="col" class="n">Targets met</th><th scope="col">Kernel of the host</th></tr></thead>'
        f"<tbody>{rows}</tbody></table></div>")


def verdict(run):
    found = [t for t in run.get("targets") or [] if t["value"] is not None]
    return f"{sum(t['met'] for t in found)} of {len(found)}" if found else ""


def history(view, runs):
    """The section, for runs that can be compared with this one."""
    record = view.record
    same = [run for run in runs if comparable(run) == comparable(record)]
    mine = [*(run for run in same if run["date"] < record.get("date", "")), record][-SHOWN:]
    apart = len(runs) - len(same)
    text = "Recorded runs of this machine with the same kind of adapter. Absolute figures depend on the day, so those that Soft-RoCE has too " \
           "are shown as ratios. Whiskers: the passes. The large point is this run."
    if apart:
        text += f" {apart} recorded run{'s' if apart > 1 else ''} of other machines or adapters {'are' if apart > 1 else 'is'} left out."
    if len(mine) < 2:
        return Section(
            "history", "History",
            f'<p class="muted">{escape(text)}</p><p id="first-run">This is the first recorded run of its kind: the next one begins '
            'the charts.</p>')
    main = [t for t in of_targets(view, mine) if t.there()]
    machine = [
        t for t in (of_figure(view, mine, k) for k in MACHINE if k in view.passes) if t.there()
    ]
    rest = [
        t for t in (of_figure(view, mine, k) for k in view.passes
                    if not k.startswith("rxe0/") and k not in MACHINE) if t.there()
    ]

    def draw(trends):
        return f'<div class="charts trends">{"".join(picture(t, mine) for t in trends)}</div>'

    body = f'<p class="muted">{escape(text)}</p>{table(mine)}<h3>Targets</h3>{draw(main)}'
    body += f"<h3>The machine itself</h3>{draw(machine)}" if machine else ""
    body += f'<details id="every"><summary>Every figure ({len(rest)} charts)</summary>{draw(rest)}</details>' if rest else ""
    return Section("history", "History", body)

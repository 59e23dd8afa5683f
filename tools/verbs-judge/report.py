# SPDX-License-Identifier: GPL-2.0-or-later
"""Results as JSON, as a summary and as a page of one file, alone or beside those of another run."""
import json
import os

from webpage import Page, escape, replace, safe_json

HERE = os.path.dirname(os.path.realpath(__file__))
RESULTS = ("pass", "fail", "not supported", "not decided")
LIMIT = 64 << 20  # bytes of a file of results


class Malformed(OSError):
    pass


def save(path, judged):
    replace(path, lambda out: json.dump(judged, out, indent=1))


def load(path):
    with open(path, encoding="utf-8") as f:
        try:
            judged = json.loads(f.read(LIMIT))
            about = {str(key): str(value) for key, value in judged["about"].items()}
            results = [{
                **{
                    key: str(r[key]) for key in ("group", "name", "says", "authority", "detail")
                }, "result": RESULTS[RESULTS.index(r["result"])],
                "trace": [str(line) for line in r["trace"]], "seconds": float(r["seconds"])
            } for r in judged["results"]]
        except (ValueError, KeyError, TypeError, AttributeError) as e:
            raise Malformed(f"{path} has no results of verbs-judge ({e!r})") from e
    return {"about": about, "results": results}


def groups(judged):
    """{group: {result: number}}"""
    counts = {}
    for r in judged["results"]:
        row = counts.setdefault(r["group"], dict.fromkeys(RESULTS, 0))
        row[r["result"]] += 1
    return counts


def changed(judged, other):
    """[(rule, result there, result here)] of the rules that both runs have."""
    before = {r["name"]: r for r in other["results"]}
    return [(r, before[r["name"]]["result"], r["result"]) for r in judged["results"]
            if r["name"] in before and before[r["name"]]["result"] != r["result"]]


def name_of(about):
    return f"{about.get('device', '?')} (Linux {about.get('kernel', '?')})"


def summary(judged, other):
    counts = groups(judged)
    width = max(map(len, [*counts, "group"]))
    yield name_of(judged["about"])
    yield f"{'group':{width}} {'pass':>6} {'fail':>6} {'not supported':>14} {'not decided':>12}"
    for group, row in counts.items():
        yield (f"{group:{width}} {row['pass']:6} {row['fail']:6} {row['not supported']:14} "
               f"{row['not decided']:12}")
    if other:
        rows = changed(judged, other)
        yield f"{len(rows)} rules differ from {name_of(other['about'])}"
        for rule, before, now in rows:
            yield f"  {rule['name']}: {before} -> {now}"


def facts(about, label):
    rows = "".join(f"<div><dt>{escape(key)}</dt><dd>{escape(value)}</dd></div>"
                   for key, value in about.items() if value)
    return f"<section><h3>{escape(label)}</h3><dl class=\"facts\">{rows}</dl></section>"


def table(judged, other):
    there = groups(other) if other else {}
    rows = []
    for group, row in groups(judged).items():
        cells = "".join(
            f"<td class=\"n{' bad' if result == 'fail' and row[result] else ''}\">{row[result]}" +
            (f" <span class=\"muted\">({there[group][result]})</span>" if group in there else "") +
            "</td>" for result in RESULTS)
        rows.append(f"<tr><th scope=\"row\">{escape(group)}</th>{cells}</tr>")
    return "".join(rows)


def page(path, judged, other):
    """Writes the page. `other`: results to compare with, or None."""
    about = judged["about"]
    before = {r["name"]: r for r in other["results"]} if other else {}
    rules = [{
        **r, "other": before[r["name"]]["result"] if r["name"] in before else "",
        "there": before[r["name"]]["detail"] if r["name"] in before else ""
    } for r in judged["results"]]
    data = [f"<script type=\"application/json\" id=\"rules\">{safe_json(rules)}</script>"]
    fields = {
        "NAME": escape(f"verbs-judge: {name_of(about)}"),
        "FACTS": facts(about, "judged") + (facts(other["about"], "compared with") if other else ""),
        "GROUPS": table(judged, other), "AGAINST": escape(name_of(other["about"])) if other else "",
    }
    made = Page(os.path.join(HERE, "page"), ["rules"], "@NAME@")
    replace(path, lambda out: made.write(out, data, **fields))

# SPDX-License-Identifier: GPL-2.0-or-later
"""Prints figures as tables."""
import statistics

from figures import HOST, TOLERANCE, key, limit_of, number


def show(v, r):
    print(f"{'':38} {'tern':>10} {'Soft-RoCE':>10} {'ratio':>8} {'limit':>10} {'of it':>6}"
          "  unit, limit")
    for k, (value, unit) in v.items():
        device, path, what, size = k.split("/")
        if device == "rxe0":
            continue
        name = f"{path}/{what}/{size}"
        if device == HOST or path == "limits":
            print(f"{k:38} {number(value):>10} {'':>37}  {unit}")
            continue
        other = v.get(key("rxe0", path, what, size), (None, ))[0]
        limit_name, limit = limit_of(path, what, size, v)
        ratio = r.get(f"{name} to Soft-RoCE")
        part = r.get(f"{name} to its limit")
        print(f"{name:38} {number(value):>10} {number(other):>10} {number(ratio):>8}"
              f" {number(limit):>10} {number(part):>6}  {unit}{', ' + limit_name if limit else ''}")


def show_changes(kept, count):
    print(f"\ntimes as good as the base, best pass of {count} each:")
    for k, ratio in sorted(kept.items(), key=lambda x: x[1]):
        print(f"{'fell' if ratio < 1 - TOLERANCE else '    '}  {k:38} {ratio:.2f}")
    fell = sum(ratio < 1 - TOLERANCE for ratio in kept.values())
    if kept:
        median = statistics.median(kept.values())
        print(f"{len(kept)} figures, median {median:.2f}, {fell} fell by more than {TOLERANCE:.0%}")
    return fell


def show_targets(found):
    for t in found:
        verdict = "?     " if t["value"] is None else "met   " if t["met"] else "missed"
        value = "not measured" if t["value"] is None else number(t["value"])
        print(f"{verdict}  {t['text']}: {value}, wanted {'at most ' * t['at_most']}{t['wanted']}")

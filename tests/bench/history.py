# SPDX-License-Identifier: GPL-2.0-or-later
"""The recorded runs of `make bench`, a file each, and the machine that a run was on."""
import glob
import json
import os
import re
import sys

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.append(os.path.join(HERE, "../../tools"))

import webpage  # noqa: E402

# The variable that names another directory; if it is empty, no run is recorded.
PLACE = "TERN_BENCH_HISTORY"
# The oldest of more are removed.
MOST_RUNS = 200


def directory():
    """The cache survives `make clean`, and the checkouts of a machine share it."""
    cache = os.environ.get("TERN_CACHE") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "tern")
    return os.environ.get(PLACE, os.path.join(cache, "bench-history"))


def first(path, pattern):
    """What the first line that matches has, or ""."""
    try:
        with open(path, encoding="utf-8") as f:
            found = re.search(pattern, f.read(), re.M)
    except OSError:
        return ""
    return found[1].strip() if found else ""


def machine(guest):
    """Describes this machine. `guest`: a file with the name of the guests' processor, which tells
    emulation from virtualisation."""
    memory = first("/proc/meminfo", r"^MemTotal: *(\d+) kB")
    return {
        "processor": first("/proc/cpuinfo",
                           r"^model name\s*: (.*)"), "processors": len(os.sched_getaffinity(0)),
        "memory_gib": round(int(memory or 0) / (1 << 20)),
        "guest": first(guest, r"^model name\s*: (.*)"), "kernel": os.uname().release
    }


def comparable(run):
    """Runs with the same value can be compared: a new kernel is news of the same machine."""
    return {name: value for name, value in run.get("machine", {}).items()
            if name != "kernel"}, run.get("front")


def paths_in(place):
    return sorted(glob.glob(os.path.join(glob.escape(place), "*.json")))


def keep(record):
    """Records a run; returns all recorded ones, oldest first."""
    place = directory()
    if not place:
        return [record]
    os.makedirs(place, exist_ok=True)
    name = re.sub(r"[^\w.-]", "-", f"{record['date']}-{record['commit']}")
    kept = {part: value for part, value in record.items() if part != "against"}
    webpage.replace(os.path.join(place, f"{name}.json"), lambda f: json.dump(kept, f))
    for path in paths_in(place)[:-MOST_RUNS]:
        os.unlink(path)
    return read(place)


def read(place):
    """The runs of a directory, oldest first, without files that are not runs; none of "", where
    nothing is recorded."""
    runs = []
    for path in paths_in(place) if place else []:
        try:
            with open(path, encoding="utf-8") as f:
                run = json.load(f)
            if not isinstance(run["passes"], dict) or not isinstance(run["date"], str):
                raise ValueError
            runs.append(run)
        except (OSError, ValueError, LookupError, TypeError):
            print(f"bench: {path} is no recorded run", file=sys.stderr)
    return sorted(runs, key=lambda run: run["date"])

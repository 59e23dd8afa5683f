#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs of the benchmark for the tests of its page: made up, but of the size that real ones have.

benchmarks.py DIR: writes pages of some runs to DIR, each with its run in a JSON file."""
import json
import os
import random
import sys

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.realpath(__file__))
sys.path[:0] = [os.path.join(HERE, "../bench"), os.path.join(HERE, "../../tools")]

import benchpage  # noqa: E402
from figures import TOLERANCE, changes, judged, medians, ported, ratios, targets  # noqa: E402

# Figure: unit, tern's, Soft-RoCE's if it has one, as of two emulated processors.
SENT = {
    "loop/send-latency/8": ("us", 1.9, 52), "loop/write-latency/8": ("us", 1.3, 55),
    "loop/read-latency/8": ("us", 1.2, 66), "loop/atomic-latency/8": ("us", 2.1, 66),
    "loop/write-bandwidth/4096": ("GB/s", 6.4, 0.049), "loop/write-bandwidth/65536": ("GB/s", 21,
                                                                                      0.056),
    "loop/write-bandwidth/1048576": ("GB/s", 24.6, 0.061), "loop/read-bandwidth/4096": ("GB/s", 5.9,
                                                                                        0.045),
    "loop/read-bandwidth/65536": ("GB/s", 19, 0.055), "loop/read-bandwidth/1048576": ("GB/s", 24,
                                                                                      0.059),
    "loop/send-bandwidth/4096": ("GB/s", 4.4, 0.046), "loop/send-bandwidth/65536": ("GB/s", 18,
                                                                                    0.054),
    "loop/send-bandwidth/1048576": ("GB/s", 22, 0.06), "loop/write-rate/64": ("M/s", 2.49, 0.036),
    "loop/write-rate-lists/64": ("M/s", 3.3, 0.039), "across/send-latency/8": ("us", 480, 950),
    "across/write-latency/8": ("us", 61, 880), "across/read-latency/8": ("us", 115, 1700),
    "across/atomic-latency/8": ("us", 122, 1750), "across/write-bandwidth/4096": ("GB/s", 1.05,
                                                                                  0.014),
    "across/write-bandwidth/65536": ("GB/s", 1.1,
                                     0.0162), "across/write-bandwidth/1048576": ("GB/s", 1.2,
                                                                                 0.016),
    "across/read-bandwidth/4096": ("GB/s", 0.8,
                                   0.012), "across/read-bandwidth/65536": ("GB/s", 1.15, 0.015),
    "across/read-bandwidth/1048576": ("GB/s", 1.2,
                                      0.0155), "across/send-bandwidth/4096": ("GB/s", 0.21, 0.011),
    "across/send-bandwidth/65536": ("GB/s", 0.9,
                                    0.015), "across/send-bandwidth/1048576": ("GB/s", 1.1, 0.0158),
    "across/write-rate/64": ("M/s", 0.9, 0.011), "across/write-rate-lists/64": ("M/s", 1.6, 0.012),
    "across/tcp-1/0": ("GB/s", 1.31, 0.62), "across/tcp-4/0": ("GB/s", 1.42, 0.71),
    "across/tcp-plain/0": ("GB/s", 0.17, None), "across/tcp-jumbo/0": ("GB/s", 1.33, 0.64),
    "across/tcp-plain-jumbo/0": ("GB/s", 0.3, None), "across/udp-packets/64": ("M/s", 0.021, 0.017),
    "across/xdp-drop/60": ("M/s", 0.94, None), "memory/register/4096": ("us", 29, 21),
    "memory/register/1048576": ("us", 41, 44), "memory/register/268435456": ("us", 2000, 4100),
    "memory/deregister/4096": ("us", 17, 12), "memory/deregister/1048576": ("us", 22, 24),
    "memory/deregister/268435456": ("us", 900, 1600), "memory/register-on-demand/4096": ("us", 32,
                                                                                         None),
    "memory/register-on-demand/1048576": ("us", 33,
                                          None), "memory/register-on-demand/268435456": ("us", 36,
                                                                                         None),
    "memory/deregister-on-demand/4096": ("us", 24,
                                         None), "memory/deregister-on-demand/1048576": ("us", 25,
                                                                                        None),
    "memory/deregister-on-demand/268435456": ("us", 31,
                                              None), "memory/bind-invalidate/4096": ("M/s", 0.62,
                                                                                     0.02),
    "memory/copy-to-dm/65536": ("GB/s", 4.1, None), "memory/copy-from-dm/65536": ("GB/s", 3.6,
                                                                                  None),
    "memory/fault/4096": ("us", 700, None), "memory/dont-need/4096": ("us", 4.4, None),
    "memory/dont-need-on-demand/4096": ("us", 8.5,
                                        None), "memory/first-touch-pinned/1073741824": ("us", 4.9e6,
                                                                                        None),
    "memory/first-touch-on-demand/1073741824": ("us", 6.2e6, None),
    "memory/write-pinned/65536": ("GB/s", 14.1, None), "memory/write-on-demand/65536": ("GB/s",
                                                                                        14.4, None),
}
TAILS = ("latency/", "register", "fault/", "dont-need")
ALONE = {
    "host/limit/copy/4096": ("GB/s", 38), "host/limit/copy/65536": ("GB/s", 33),
    "host/limit/copy/1048576": ("GB/s", 29), "host/limit/crc32/64": ("GB/s", 4.2),
    "host/limit/crc32/4096": ("GB/s", 11.6), "host/limit/register/4096": ("ns", 600),
    "host/limit/register/1048576": ("ns", 900), "host/limit/register/268435456": ("ns", 31000),
    "tern0/limits/build-wqe/64": ("ns", 332), "tern0/limits/poll-empty/0": ("ns", 78),
    "tern0/limits/mmio-store/4": ("ns", 210), "tern0/limits/guest-memcpy/4096": ("GB/s", 8.5),
    "tern0/limits/guest-memcpy/65536": ("GB/s", 8.1), "tern0/limits/guest-memcpy/1048576": ("GB/s",
                                                                                            7.4),
}
GROWTH = {"host/growth/device/0": 419_430, "host/growth/qp/0": 896.2, "host/growth/page/0": 8.02}
MACHINE = {
    "processor": "AMD EPYC 7763 64-Core Processor", "processors": 2, "memory_gib": 8,
    "guest": "QEMU TCG CPU version 2.5+", "kernel": "6.12.9-amd64"
}


def passes_of(dice, n, better=1.0):
    """n passes; `better`: times as good as usual."""
    passes, units = {}, {}

    def put(k, unit, value, vary, count=n):
        units[k] = unit
        passes[k] = [float(f"{value * dice.lognormvariate(0, vary):.6g}") for _ in range(count)]

    for name, (unit, tern, rxe) in SENT.items():
        path, what, size = name.split("/")
        vary = 0.25 if path == "across" and what.endswith(("latency", "rate")) else 0.08
        for device, value in ("tern0", tern), ("rxe0", rxe):
            if value is not None:
                value = value / better if unit == "us" else value * better
                put(f"{device}/{name}", unit, value, vary)
                if any(tail in name for tail in TAILS):
                    put(f"{device}/{path}/{what}-p99/{size}", unit, value * 3.5, 0.4)
    for k, (unit, value) in ALONE.items():
        put(k, unit, value, 0.03)
    for k, value in GROWTH.items():
        put(k, "bytes", value, 0.01, 1)
    return passes, units


def run(seed=1, n=5, better=1.0, front="qemu", date="2026-03-14T09:26:53+00:00", commit="b1946ac92",
        machine=MACHINE):
    passes, units = passes_of(random.Random(seed), n, better)
    return finish({
        "version": 2, "commit": commit, "date": date, "machine": machine, "front": front,
        "command": f"tests/bench/bench --passes {n}", "seconds": 0.4, "passes": passes,
        "units": units
    })


def finish(record):
    """Adds what follows from the passes."""
    v = medians(record["passes"], record["units"])
    record["ratios"] = ratios(v)
    record["targets"] = targets(v, record["ratios"])
    return record


def without(record, *names):
    """The same run when these figures could not be measured."""
    record["passes"] = {
        k: values for k, values in record["passes"].items() if not any(name in k for name in names)
    }
    return finish(record)


def compared(record, kind, name, better=1.0):
    base, _ = passes_of(random.Random(99), max(map(len, record["passes"].values())), better)
    kept = changes(record["passes"], base, record["units"], ported if kind == "front" else judged)
    return {
        **record, "against": {
            "kind": kind, "name": name, "passes": base, "changes": kept, "tolerance": TOLERANCE
        }
    }


def earlier(count=12):
    """Recorded runs of this machine, one of another machine, one of another front."""
    runs = [
        run(seed=50 + i, n=3, better=0.8 + 0.02 * i, date=f"2026-03-{i + 1:02}T08:00:00+00:00",
            commit=f"{i * 7919 + 1000000:x}") for i in range(count)
    ]
    runs.append(
        run(seed=80, n=1, better=3, date="2026-03-05T10:00:00+00:00",
            machine={**MACHINE, "processors": 64}))
    runs.append(run(seed=81, n=1, date="2026-03-06T10:00:00+00:00", front="vfio-user"))
    return sorted(runs, key=lambda r: r["date"])


def pages():
    """{name: (record, recorded runs)}."""
    full = run()
    one = without(run(seed=2, n=1, commit="<img src=x onerror=alert(1)>&amp;"), "rxe0/memory",
                  "tcp-4", "growth")
    one["passes"]["tern0/across/xdp-drop/60"] = [0.0]
    one["passes"]["tern0/loop/new-figure/8"], one["units"]["tern0/loop/new-figure/8"] = [3.5], "M/s"
    commit = compared(run(seed=3, n=3, better=0.9, commit="0cc175b9c"), "commit", "92eb5ffee", 1.1)
    fronts = compared(run(seed=4, n=2), "front", "vfio-user", 0.85)
    return {
        "bench": (full, [*earlier(), full]), "bench-one": (one, [one]),
        "bench-against": (commit, [commit]), "bench-fronts": (fronts, [fronts])
    }


def main():
    for name, (record, runs) in pages().items():
        path = os.path.join(sys.argv[1], name)
        with open(f"{path}.json", "w", encoding="utf-8") as f:
            json.dump(record, f)
        benchpage.make(record, runs, f"{path}.html")


if __name__ == "__main__":
    main()

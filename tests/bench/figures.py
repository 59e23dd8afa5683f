# SPDX-License-Identifier: GPL-2.0-or-later
"""What the figures of `make bench` mean: their limits, ratios and targets. A figure's name is
DEVICE/PATH/WHAT/SIZE."""
import re
import statistics

# The part that a figure may lose.
TOLERANCE = 0.3
# Units of which less is better.
LESS = {"us", "ns", "bytes"}
HOST = "host"
DEVICE_PART = "the device's part"
REGIONS = (4096, 1 << 20, 256 << 20)


def key(device, path, what, size):
    return f"{device}/{path}/{what}/{size}"


def limit_of(path, what, size, v):
    """Returns (name, value) of the limit of one of tern's figures, in the same unit; None if no
    limit was measured."""
    def of(k):
        return v.get(k, (None, ))[0]

    if what.endswith("-bandwidth"):
        name = key(HOST, "limit", "copy", size) if path == "loop" else key(
            HOST, "limit", "crc32", 4096)
        return name, of(name)
    if what in ("copy-to-dm", "copy-from-dm"):
        name = key("tern0", "limits", "guest-memcpy", size)
        return name, of(name)
    # Excludes the doorbell store: the device polls busy queues.
    parts = [of(key("tern0", "limits", w, s)) for w, s in (("build-wqe", 64), ("poll-empty", 0))]
    if None in parts:
        return None, None
    build, poll = parts
    if "-latency" in what:
        return "build + poll", (build + poll) / 1e3
    if what in ("write-rate", "write-rate-lists"):
        return "build", 1e3 / build
    return None, None


def ratios(v):
    """Returns {name: ratio}: the ratio to Soft-RoCE's figure and the fraction of the limit."""
    found = {}
    for k, (value, unit) in v.items():
        device, path, what, size = k.split("/")
        if device != "tern0" or path == "limits":
            continue
        other = v.get(key("rxe0", path, what, size))
        if other and other[0] and value:
            found[f"{path}/{what}/{size} to Soft-RoCE"] = other[
                0] / value if unit in LESS else value / other[0]
        part = v.get(key(HOST, "limit", what, size))
        if what == "register" and part and value:
            found[f"{path}/register/{size} {DEVICE_PART}"] = part[0] / 1e3 / value
        _, limit = limit_of(path, what, size, v)
        if limit and value:
            found[
                f"{path}/{what}/{size} to its limit"] = limit / value if unit in LESS else value / limit
    return found


def part_of(a, b):
    return a / b if a is not None and b else None


def known(choose, values):
    """The least or the most of figures, None if one of them was not measured."""
    return None if None in values else choose(values)


def targets(v, r):
    """The project's targets on two emulated processors: [{text, value, wanted, at_most, met}];
    value: None if it was not measured."""
    def of(device, path, what, size=0):
        return v.get(key(device, path, what, size), (None, ))[0]

    def times(what, other, size):
        return part_of(of("tern0", "memory", other, size), of("tern0", "memory", what, size))

    latencies = [
        r.get(f"loop/{op}-latency/8 to Soft-RoCE") for op in ("send", "write", "read", "atomic")
    ]
    parts = [r.get(f"memory/register/{n} {DEVICE_PART}") for n in REGIONS]
    found = [
        ("1 MiB loopback write, of host memcpy", r.get("loop/write-bandwidth/1048576 to its limit"),
         0.6),
        ("64 KiB loopback write, times Soft-RoCE", r.get("loop/write-bandwidth/65536 to Soft-RoCE"),
         100),
        ("64 KiB write across, times Soft-RoCE", r.get("across/write-bandwidth/65536 to Soft-RoCE"),
         50), ("64 KiB write across, GB/s", of("tern0", "across", "write-bandwidth", 65536), 1),
        ("8-byte loopback latency, times better than Soft-RoCE, the least of four",
         known(min, latencies), 10),
        ("64-byte messages a second in loopback, times Soft-RoCE",
         r.get("loop/write-rate/64 to Soft-RoCE"), 50),
        ("the same, posted as lists", r.get("loop/write-rate-lists/64 to Soft-RoCE"), 50),
        ("the device's part of a registration, the most of three", known(max, parts), 0.1, True),
        ("registration of 256 MiB on demand, times faster than pinned",
         times("register-on-demand", "register", 256 << 20), 50),
        ("WRITEs to present pages on demand, of those to pinned ones",
         times("write-pinned", "write-on-demand", 65536), 0.97),
        ("TCP across, times one queue without offloads",
         part_of(of("tern0", "across", "tcp-1"), of("tern0", "across", "tcp-plain")), 5),
        ("TCP across, of virtio-net's", r.get("across/tcp-1/0 to Soft-RoCE"), 1),
        ("TCP across with four streams, of virtio-net's", r.get("across/tcp-4/0 to Soft-RoCE"), 1),
        ("QEMU grows by a device, MiB", part_of(of(HOST, "growth", "device"), 1 << 20), 64, True),
        ("QEMU grows by a QP, bytes", of(HOST, "growth", "qp"), 1024, True),
        ("QEMU grows by a registered page, bytes", of(HOST, "growth", "page"), 8.25, True),
    ]
    return [judge(text, value, wanted, bool(at_most)) for text, value, wanted, *at_most in found]


def judge(text, value, wanted, at_most):
    met = value is not None and (value <= wanted if at_most else value >= wanted)
    return {"text": text, "value": value, "wanted": wanted, "at_most": at_most, "met": met}


def medians(passes, units):
    """{figure: (median, unit)}."""
    return {k: (statistics.median(values), units[k]) for k, values in passes.items()}


def judged(k):
    """Whether a figure can tell a regression: it is tern's, and does not depend on what else runs,
    as 99th percentiles do. So do small messages across where both machines' pollers share two
    processors: the same build took 40 or 1900 us for 8 bytes. The growth by a device is a small
    difference of two whole processes; its target is absolute."""
    device, path, what, _ = k.split("/")
    if "-p99" in what or path == "across" and re.search("-latency|-rate", what):
        return False
    return (device == "tern0"
            and path != "limits") or (device, path) == (HOST, "growth") and what != "device"


def ported(k):
    """Whether a figure can tell two fronts apart."""
    return k.startswith("tern0/") and "/limits/" not in k


def changes(passes, base, units, wanted):
    """{figure: times as good as the base}. A regression shows in every pass, a disturbance in some:
    each figure's best pass is compared with the base's best."""
    def best(values, k):
        return min(values) if units[k] in LESS else max(values)

    kept = {}
    for k in passes:
        then = base.get(k, [])[:len(passes[k])]
        if wanted(k) and then:
            pair = best(passes[k], k), best(then, k)
            if all(pair) or pair[1] and units[k] not in LESS:
                kept[k] = pair[1] / pair[0] if units[k] in LESS else pair[0] / pair[1]
    return kept


def number(x):
    return "" if x is None else f"{x:,.0f}" if abs(x) >= 1000 else f"{x:.3g}"

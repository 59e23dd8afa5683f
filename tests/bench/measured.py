# SPDX-License-Identifier: GPL-2.0-or-later
"""Reads what the programs of the benchmark have measured, as figures: (key, value, unit)."""
import glob
import json
import os
import re

from figures import HOST, key

MTU = 4300
# Of run-vm: the built-in device, and ternd with stock QEMU.
FRONTS = ("qemu", "vfio-user")
# Those of engine_bench that are limits: copies in the shape of the benchmark's messages, the CRC,
# the device's part of a registration.
LIMITS = "^(copy|crc32|register)/"


def benchmarks(text):
    """Returns google-benchmark's results from its JSON, which other lines may precede."""
    return json.loads(text[text.index("{"):])["benchmarks"]


def limits(text):
    """Yields the limits of the host from the output of engine_bench."""
    for b in benchmarks(text):
        if not re.match(LIMITS, b["name"]):
            continue
        what, size = b["name"].split("/")[:2]
        if what == "register":
            yield key(HOST, "limit", what, size), b["real_time"], "ns"
        else:
            yield key(HOST, "limit", what, size), b["bytes_per_second"] / 1e9, "GB/s"


def guest_arguments(out, seconds, front, props):
    """Returns the arguments with which run-vm makes the measurements of guest.sh and leaves them in
    `out`."""
    return [
        "--no-build", "--timeout", "1500", "--share", out, "--run-dir", f"{out}/run", "--front",
        front, "--vms", "2", "--virtio-wire", "--mtu",
        str(MTU), *(word for prop in props for word in ("--device-prop", prop)), "--",
        "/mnt/tern/tests/bench/guest.sh",
        str(seconds)
    ]


def guests(out):
    """Yields the figures that guest.sh has left in `out`."""
    with open(f"{out}/lines") as f:
        for line in map(json.loads, f):
            yield key(line["device"], line["path"], line["what"],
                      line["size"]), line["value"], line["unit"]
    yield from network(out)
    with open(f"{out}/drop") as f:
        yield key("tern0", "across", "xdp-drop", 60), json.load(f)["per_second"] / 1e6, "M/s"
    with open(f"{out}/mmio") as f:
        yield key("tern0", "limits", "mmio-store",
                  4), float(re.search(r"one store to the BAR +([0-9.]+) ns", f.read())[1]), "ns"


def network(out):
    """What iperf3 measured: streams of TCP, and UDP in frames of 64 bytes."""
    for file in sorted(glob.glob(f"{out}/net-*")):
        device, what = os.path.basename(file).removeprefix("net-").split("-", 1)
        with open(file) as f:
            received = json.load(f).get("end", {}).get("sum_received")
        if received is None:
            continue
        if what == "udp-packets":
            yield key(device, "across", what,
                      64), (received["packets"] -
                            received["lost_packets"]) / received["seconds"] / 1e6, "M/s"
        else:
            yield key(device, "across", what, 0), received["bits_per_second"] / 8e9, "GB/s"

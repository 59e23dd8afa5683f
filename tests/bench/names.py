# SPDX-License-Identifier: GPL-2.0-or-later
"""The figures of `make bench` as the page shows them: what each is called, and which belong
together."""
import collections

OPERATIONS = {"send": "SEND", "write": "WRITE", "read": "READ", "atomic": "atomic"}
SIZES = {4096: "4 KiB", 65536: "64 KiB", 1 << 20: "1 MiB", 256 << 20: "256 MiB", 1 << 30: "1 GiB"}
NAMES = {
    "write-bandwidth-4": "64 KiB WRITEs of four processes",
    "write-rate": "WRITEs of 64 bytes, posted one by one",
    "write-rate-lists": "WRITEs of 64 bytes, lists of 32",
    "bind-invalidate": "windows bound and invalidated", "copy-to-dm": "64 KiB to device memory",
    "copy-from-dm": "64 KiB from device memory", "fault": "WRITE of 8 bytes to an absent page",
    "dont-need": "MADV_DONTNEED, no region", "dont-need-on-demand": "MADV_DONTNEED in a region",
    "first-touch-pinned": "1 GiB pinned, written, released",
    "first-touch-on-demand": "1 GiB on demand, written, released",
    "write-pinned": "64 KiB to pinned pages", "write-on-demand": "64 KiB on demand, present pages",
    "tcp-1": "TCP, one stream", "tcp-4": "TCP, four streams",
    "tcp-plain": "TCP, one queue, no offloads", "tcp-jumbo": "TCP, one stream, MTU 4300",
    "tcp-plain-jumbo": "TCP, one queue, no offloads, MTU 4300",
    "udp-packets": "UDP, frames of 64 bytes", "xdp-drop": "frames of 60 bytes, XDP_DROP",
    "mmio-store": "store to the doorbell page", "build-wqe": "building a WQE",
    "poll-empty": "polling an empty queue", "crc32": "CRC by the host", "copy": "copy by the host",
    "guest-memcpy": "copy by the guest", "register": "registration", "deregister": "deregistration",
    "device": "a device", "qp": "a QP", "page": "a registered page",
}
# Names that tell the size already, or have none.
SIZED = {
    "write-bandwidth-4", "write-rate", "write-rate-lists", "bind-invalidate", "copy-to-dm",
    "copy-from-dm", "fault", "dont-need", "dont-need-on-demand", "first-touch-pinned",
    "first-touch-on-demand", "write-pinned", "write-on-demand", "tcp-1", "tcp-4", "tcp-plain",
    "tcp-jumbo", "tcp-plain-jumbo", "udp-packets", "xdp-drop", "mmio-store", "build-wqe",
    "poll-empty", "device", "qp", "page"
}
PATHS = {"loop": "loopback", "across": "across"}


def size_text(size):
    return SIZES.get(int(size), f"{int(size):,} bytes")


def name_of(what, size, with_size=True):
    """What a figure is called in a chart that says where it was measured."""
    base, p99, _ = what.partition("-p99")
    operation, _, kind = base.partition("-")
    on_demand = base.removesuffix("-on-demand")
    if base in NAMES:
        name = NAMES[base]
    elif operation in OPERATIONS and kind in ("latency", "bandwidth"):
        name = f"{OPERATIONS[operation]} {kind}"
    elif on_demand in NAMES:
        name = f"{NAMES[on_demand]} on demand"
    else:
        name = base.replace("-", " ")
    sized = f", {size_text(size)}" if with_size and base not in SIZED and int(size) else ""
    return name[:1].upper() + name[1:] + sized + (", 99th percentile" if p99 else "")


def full_name(k):
    """What it is called among figures of all kinds."""
    device, path, what, size = k.split("/")
    if (device, path, what) == ("host", "limit", "register"):
        return f"Registration of {size_text(size)}, the device's part"
    return name_of(what, size) + (f", {PATHS[path]}" if path in PATHS else "")


# Rows beside each other on one axis: (what, size) of tern0 in a path, or whole names. Sizes:
# figures over the size of the message.
Rows = collections.namedtuple("Rows", "title axis unit figures")
Sizes = collections.namedtuple("Sizes", "title axis unit series")


def latencies(path):
    return [f"tern0/{path}/{op}-latency{tail}/8" for tail in ("", "-p99") for op in OPERATIONS]


def rates(path):
    return [f"tern0/{path}/write-rate/64", f"tern0/{path}/write-rate-lists/64"]


def bandwidths(path):
    return [
        Sizes(f"{OPERATIONS[op]}, {PATHS[path]}", "Bandwidth, GB/s", "GB/s",
              [("tern", f"tern0/{path}/{op}-bandwidth")]) for op in ("write", "read", "send")
    ]


def registrations(what):
    return Sizes(name_of(what, 0), "Time", "us", [("tern", f"tern0/memory/{what}"),
                                                  ("demand", f"tern0/memory/{what}-on-demand")])


# (id, title, what it shows, charts)
GROUPS = [
    ("bandwidth", "Bandwidth",
     "8 MiB or 64 messages in flight. All six charts have the same scale. The limit in loopback is a copy by the host's processor in the "
     "same pattern; across it is the CRC of 4 KiB, which both ends compute for each byte.",
     [*bandwidths("loop"), *bandwidths("across")]),
    ("latency", "Latency",
     "8 bytes there and back; SEND and WRITE count half of the round trip. The limit is building a WQE and polling an empty queue.",
     [
         Rows("Loopback", "Time", "us", latencies("loop")),
         Rows("Across", "Time", "us", latencies("across"))
     ]),
    ("rate", "Small messages", "256 WRITEs of 64 bytes in flight. The limit is building a WQE.", [
        Rows("Loopback", "Million messages a second", "M/s", rates("loop")),
        Rows("Across", "Million messages a second", "M/s", rates("across"))
    ]),
    ("network", "Network device",
     "TCP and UDP by iperf3 over tern's network device, and over the virtio-net below Soft-RoCE. XDP_DROP: frames that a program at the "
     "receiver drops, sent from an AF_XDP socket without copies.", [
         Rows("TCP", "GB/s", "GB/s", [
             f"tern0/across/{what}/0"
             for what in ("tcp-1", "tcp-4", "tcp-plain", "tcp-jumbo", "tcp-plain-jumbo")
         ]),
         Rows("Small frames", "Million frames a second", "M/s",
              ["tern0/across/udp-packets/64", "tern0/across/xdp-drop/60"])
     ]),
    ("memory", "Memory", "Regions, windows and device memory.", [
        registrations("register"),
        registrations("deregister"),
        Rows("99th percentiles", "Time", "us", [
            f"tern0/memory/{what}{demand}-p99/{size}" for demand in ("", "-on-demand")
            for what in ("register", "deregister") for size in (4096, 1 << 20, 256 << 20)
        ]),
        Rows("Windows", "Million a second", "M/s", ["tern0/memory/bind-invalidate/4096"]),
        Rows("Device memory", "GB/s", "GB/s",
             ["tern0/memory/copy-to-dm/65536", "tern0/memory/copy-from-dm/65536"])
    ]),
    ("demand", "On-demand paging", "Page faults of the device, beside pinned memory.", [
        Rows("Times", "Time", "us", [
            "tern0/memory/fault/4096", "tern0/memory/fault-p99/4096",
            "tern0/memory/dont-need-on-demand/4096", "tern0/memory/dont-need-on-demand-p99/4096",
            "tern0/memory/dont-need/4096", "tern0/memory/dont-need-p99/4096",
            f"tern0/memory/first-touch-on-demand/{1 << 30}",
            f"tern0/memory/first-touch-pinned/{1 << 30}"
        ]),
        Rows("WRITEs in loopback", "GB/s", "GB/s",
             ["tern0/memory/write-on-demand/65536", "tern0/memory/write-pinned/65536"])
    ]),
    ("growth", "Memory of QEMU",
     "What a process of QEMU grows by, without the guest's memory. Measured once in a run.", [
         Rows("QEMU grows by", "Memory", "bytes",
              ["host/growth/device/0", "host/growth/qp/0", "host/growth/page/0"])
     ]),
    ("limits", "This machine",
     "What bounds the figures here: it compares machines, not versions of tern.", [
         Rows("Copies and CRC", "GB/s", "GB/s", [
             *(f"{prefix}/{n}" for prefix in ("host/limit/copy", "tern0/limits/guest-memcpy")
               for n in (4096, 65536, 1 << 20)), "host/limit/crc32/64", "host/limit/crc32/4096"
         ]),
         Rows("Steps", "Time", "ns", [
             "tern0/limits/build-wqe/64", "tern0/limits/poll-empty/0", "tern0/limits/mmio-store/4",
             *(f"host/limit/register/{n}" for n in (4096, 1 << 20, 256 << 20))
         ])
     ]),
]


def charts_of(groups):
    return [chart for *_, charts in groups for chart in charts]


def grouped():
    """The figures that have a place in a group."""
    found = set()
    for chart in charts_of(GROUPS):
        if isinstance(chart, Rows):
            found.update(chart.figures)
        else:
            found.update(f"{prefix}/{size}" for _, prefix in chart.series for size in SIZES)
    return found

# SPDX-License-Identifier: GPL-2.0-or-later
"""What is judged: the adapter, its kernel and its libraries."""
import datetime
import glob
import os
import platform
import re
import subprocess

SYS = "/sys/class/infiniband"


class NoDevice(OSError):
    pass


def only_device():
    names = sorted(os.path.basename(path) for path in glob.glob(f"{SYS}/*"))
    if len(names) == 1:
        return names[0]
    raise NoDevice("choose an adapter with --device: " +
                   ", ".join(names) if names else "this machine has no adapter")


def read(path):
    try:
        with open(path, encoding="utf-8", errors="replace") as f:
            return f.read().strip()
    except OSError:
        return ""


def driver(device):
    """The kernel driver: that of its PCI function, or the type of a software device."""
    link = os.path.realpath(f"{SYS}/{device}/device/driver")
    if os.path.exists(link) and os.path.basename(link) != "driver":
        return os.path.basename(link)
    name = re.match(r"[a-z]+", device)
    return name[0] if name else ""


def rdma_core():
    """The release of libibverbs, by the name of its file."""
    path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    try:
        out = subprocess.run(["ldconfig", "-p"], capture_output=True, text=True, check=False,
                             env={**os.environ, "PATH": path})
    except OSError:
        return ""
    for line in out.stdout.splitlines():
        if "libibverbs.so.1 " in line:
            real = os.path.realpath(line.rsplit("=> ", 1)[-1].strip())
            return os.path.basename(real).removeprefix("libibverbs.so.")
    return ""


def everything(options):
    device = options.device
    return {
        "device": device, "driver": driver(device), "firmware": read(f"{SYS}/{device}/fw_ver"),
        "hca": read(f"{SYS}/{device}/hca_type"), "board": read(f"{SYS}/{device}/board_id"),
        "kernel": platform.release(), "libibverbs": rdma_core(), "peer": options.peer or "",
        "options": " ".join(options.more),
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"),
    }

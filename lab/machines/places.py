# SPDX-License-Identifier: GPL-2.0-or-later
"""Where the parts of the lab are, and where it may write."""
import os

TOP = os.environ["TERN_TOP"]
# What remains from run to run.
CACHE = os.environ["TERN_CACHE"]
LAB = os.path.join(TOP, "lab")
STOCK_QEMU = os.path.join(LAB, "build/stock-qemu")
TERND = os.path.join(TOP, "build/ternd/ternd")


def qemu(front, mutate):
    """Returns the beginning of QEMU's command line."""
    if front == "vfio-user":
        return [STOCK_QEMU]
    program = os.path.join(TOP, "build/qemu/qemu-system-x86_64")
    return [
        program + ("-mutate" if mutate else ""), "-L", "/usr/share/seabios", "-L",
        "/usr/share/qemu"
    ]


def image(out):
    """Returns the directory with the guests' kernel, initramfs and root file system."""
    with open(os.path.join(TOP, out, "image")) as f:
        return f.read().strip()


def run_dir():
    """Returns the default directory for consoles and captures."""
    return os.path.join(TOP, "build/run")


def temporary():
    """Returns the directory for sockets, whose names must be short."""
    return "/tmp"


def shown(path):
    """Returns the path as a user may type it."""
    return os.path.relpath(path, TOP)

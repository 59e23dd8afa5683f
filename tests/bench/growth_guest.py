#!/usr/bin/python3
"""growth_guest.py: creates queue pairs, then registers memory. After each step it writes their number to /mnt/share/growth-STEP and
waits for growth-STEP.seen, which the host writes after it has measured QEMU."""
import ctypes
import mmap
import os
import subprocess
import time

from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.enums import IBV_QPT_RC
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPCap, QPInitAttr

QPS = 8192
BYTES = 256 << 20
REGIONS = 16
SHARE = "/mnt/share/growth-"
MADV_NOHUGEPAGE = 15


def count(name):
    lines = subprocess.run(["tern-objects"], check=True, capture_output=True, text=True).stdout.splitlines()
    return int(dict(line.split() for line in lines)[name])


def step(name, number):
    with open(SHARE + name + ".new", "w") as f:
        f.write(str(number))
    os.rename(SHARE + name + ".new", SHARE + name)
    while not os.path.exists(SHARE + name + ".seen"):
        time.sleep(0.1)


context = Context(name="tern0")
pd = PD(context)
cq = CQ(context, 16)
# Small pages, so that each 4 KiB has a page list entry.
memory = mmap.mmap(-1, BYTES)
memory.madvise(MADV_NOHUGEPAGE)
address = ctypes.addressof(ctypes.c_char.from_buffer(memory))


def make_qps(number):
    init = QPInitAttr(qp_type=IBV_QPT_RC, scq=cq, rcq=cq, cap=QPCap(max_send_wr=1, max_recv_wr=1))
    return [QP(pd, init) for _ in range(number)]


def register(number, length):
    return [MR(pd, length, 0, address=address) for _ in range(number)]


# Warm up: memory for translated code does not count as the device's.
for made in make_qps(64), register(1, mmap.PAGESIZE):
    for thing in made:
        thing.close()
step("idle", 0)
qps = make_qps(QPS)
step("qps", count("alive_qp"))
mrs = register(REGIONS, BYTES)
step("pages", count("page_entries"))
# Skip the destruction of all objects: the machine ends anyway.
os._exit(0)

#!/usr/bin/python3
"""growth_guest.py BATCHES: creates queue pairs, then registers memory. After each step it writes
their number to /mnt/share/growth-STEP and waits for growth-STEP.seen, which the host writes after
it has measured QEMU."""
import ctypes
import mmap
import os
import subprocess
import sys
import time

from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.enums import IBV_QPT_RC
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPCap, QPInitAttr

WARM_QPS = 1024
QPS = 12288
BYTES = 256 << 20
REGIONS = 16
BATCHES = int(sys.argv[1])
SHARE = "/mnt/share/growth-"
MADV_NOHUGEPAGE = 15


def count(name):
    lines = subprocess.run(["tern-objects"], check=True, capture_output=True,
                           text=True).stdout.splitlines()
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


def batches(name, make, counted):
    """What is made is kept."""
    for i in range(BATCHES):
        before = count(counted)
        kept.append(make())
        step(f"{name}{i}", count(counted) - before)


# Each first step makes QEMU keep more about the guest's code and memory, which is not the device's.
kept = [make_qps(WARM_QPS)]
step("idle", 0)
batches("qps", lambda: make_qps(QPS // BATCHES), "alive_qp")
kept.append(register(1, BYTES))
step("warm", 0)
batches("pages", lambda: register(REGIONS // BATCHES, BYTES), "page_entries")
# Skip the destruction of all objects: the machine ends anyway.
os._exit(0)

#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Test: rdma-core-odp
# Tier: full, 1200 s
# Boot: pair
# Run: rdma_core.py test_odp
# Results: 17
# Proves: Rdma-core's test_odp on tern0. Not captured: the judge knows RNR NAKs for SENDs only, and
#   page faults cause them for every request.
#
# Test: rdma-core
# Tier: full, 2400 s
# Boot: net-wire
# Run: rdma_core.py --without test_odp
# Results: 164
# Proves: Rdma-core's own tests on tern0, compared with tests/guest/rdma_core.expect. A GPU's
#   dma-bufs are replaced by those of udmabuf. rdma-core-65 has those of rdma-core 65 for regions,
#   DMA handles, on-demand paging, flows and RSS, in the lane testing.
#
# Test: rdma-core-65
# Tier: quick, 3000 s
# Lane: testing
# Boot: zen
# Run: rdma_core.py --expect /mnt/tern/tests/guest/rdma_core_65.expect
# Results: 231
# Skip: * rdma-core/* no confidential guest: see rdma_core_65.expect
# Proves: Rdma-core 65's tests of regions, DMA handles, on-demand paging, flows and RSS.
"""Runs rdma-core's own tests on tern0 and compares their outcomes with an expectation.

usage: rdma_core.py [--tests DIR] [--expect FILE] [--table FILE] [--without MODULE] [MODULE...]

The expectation lists every test of the modules: "CLASS: NAME..." those that pass, "CLASS.NAME skip
REASON" or "CLASS.NAME fail REASON" others; later lines win. The run fails if a test has another
outcome, is missing or is not listed. Each module runs in a process of its own. The dma-bufs of
test_mr are of memory (udmabuf), not of a GPU.
"""
import argparse
import fcntl
import json
import mmap
import os
import struct
import subprocess
import sys
import threading
import types
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
DEVICE = "tern0"
MODULE_TIMEOUT = 1200  # seconds; bounds a hang
HUGE_PAGES = {"test_odp": 16, "test_parent_domain": 4}  # of 2 MiB, for these modules
SLOWNESS = 10  # the tests' time limits assume a fast machine


def ipv4_gid_index():
    """Returns the index of the first IPv4 GID, which every lane has."""
    gids = f"/sys/class/infiniband/{DEVICE}/ports/1/gids"
    for index in sorted(os.listdir(gids), key=int):
        with open(os.path.join(gids, index)) as f:
            if f.read().startswith("0000:0000:0000:0000:0000:ffff:"):
                return index
    sys.exit(f"{DEVICE} has no IPv4 GID")


class Recorder(unittest.TextTestResult):
    """Writes (id, outcome, detail) of each test as a line of JSON to file descriptor 3."""
    def _record(self, test, outcome, detail=""):
        with os.fdopen(os.dup(3), "w") as out:
            out.write(json.dumps([test.id(), outcome, detail]) + "\n")

    def addSuccess(self, test):
        super().addSuccess(test)
        self._record(test, "pass")

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self._record(test, "skip", reason)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self._record(test, "fail", str(err[1]))

    def addError(self, test, err):
        super().addError(test, err)
        self._record(test, "fail", f"{err[0].__name__}: {err[1]}")

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err:
            self._record(test, "fail", f"{subtest}: {err[1]}")


def extend_time_limits():
    """Multiplies the tests' time limits for completions, barriers and processes by SLOWNESS."""
    import multiprocessing
    from multiprocessing.context import BaseContext
    from multiprocessing.process import BaseProcess
    from tests import utils
    barrier, join = BaseContext.Barrier, BaseProcess.join

    def slow_barrier(self, parties, action=None, timeout=None):
        return barrier(self, parties, action, timeout and timeout * SLOWNESS)

    def slow_join(self, timeout=None):
        return join(self, timeout and timeout * SLOWNESS)

    BaseContext.Barrier, BaseProcess.join = slow_barrier, slow_join
    # Python 3.14 would send the test to another process, with its open streams, which it cannot.
    multiprocessing.set_start_method("fork")
    utils.POLL_CQ_TIMEOUT *= SLOWNESS


class Memory:
    """A dma-buf of shared memory (udmabuf), where the tests would allocate it from a GPU."""

    CREATE = 0x40187542  # UDMABUF_CREATE

    def __init__(self, size, gpu=0, gtt=0):
        size = -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
        memfd = os.memfd_create("dma-buf", os.MFD_ALLOW_SEALING)
        try:
            os.ftruncate(memfd, size)
            fcntl.fcntl(memfd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
            self.bytes = mmap.mmap(memfd, size)
            with open("/dev/udmabuf", "wb") as device:
                self.fd = fcntl.ioctl(device, self.CREATE,
                                      bytearray(struct.pack("IIQQ", memfd, 0, 0, size)))
        finally:
            os.close(memfd)

    def __del__(self):
        os.close(self.fd)


def use_memory_for_dmabufs(module):
    """Makes the tests of this module take their dma-bufs from memory."""
    class MemoryMR(module.DmaBufMR):
        def __init__(self, pd, length, access, offset=0, gpu=0, gtt=0):
            self.memory = Memory(length + offset)
            super().__init__(pd, length, access, dmabuf=self.memory.fd, offset=offset)

        def write(self, data, length, offset=0):
            at = offset + self.offset
            self.memory.bytes[at:at +
                              length] = (data.encode() if isinstance(data, str) else data)[:length]

        def read(self, length, offset):
            at = offset + self.offset
            return self.memory.bytes[at:at + length]

    module.DmaBuf, module.DmaBufMR = Memory, MemoryMR


def child(tests_dir, module, gid):
    """Runs one module without the package's loader, which imports all of them."""
    sys.path.insert(0, tests_dir)
    package = types.ModuleType("tests")
    package.__path__ = [tests_dir]
    sys.modules["tests"] = package
    sys.argv = ["run_tests.py", "--dev", DEVICE, "--gid", gid, "-v"]
    from args_parser import parser
    parser.parse_args()
    extend_time_limits()
    suite = unittest.defaultTestLoader.loadTestsFromName(f"tests.{module}")
    if module == "test_mr":
        if not os.path.exists("/dev/udmabuf"):
            subprocess.run(["modprobe", "udmabuf"], check=True)
        use_memory_for_dmabufs(sys.modules["tests.test_mr"])
    unittest.TextTestRunner(verbosity=2, resultclass=Recorder).run(suite)


def run_module(tests_dir, module, gid):
    """Runs one module in a process; returns {id: (outcome, detail)} and the exit status."""
    read, write = os.pipe()
    command = [
        sys.executable,
        os.path.abspath(__file__), "--child", module, "--tests", tests_dir, "--gid", gid
    ]
    # The shell moves the pipe to descriptor 3, which the child expects.
    process = subprocess.Popen(["sh", "-c", f'exec "$@" 3>&{write}', "sh", *command],
                               pass_fds=[write])
    os.close(write)
    results = {}
    limit = threading.Timer(MODULE_TIMEOUT, process.kill)
    limit.start()
    with os.fdopen(read) as lines:
        for line in lines:
            name, outcome, detail = json.loads(line)
            # The end of a test must not replace a subtest's failure.
            if results.get(name, ("", ))[0] != "fail":
                results[name] = (outcome, detail)
    status = process.wait()
    limit.cancel()
    return results, status


def huge_pages(number):
    """Reserves huge pages, as many as there is memory for."""
    with open("/proc/sys/vm/nr_hugepages", "w") as f:
        f.write(str(number))


def read_expectation(path):
    expected = {}
    with open(path) as f:
        for line in f:
            name, _, rest = line.split("#")[0].strip().partition(" ")
            if name.endswith(":"):
                expected |= {f"{name[:-1]}.{test}": ("pass", "") for test in rest.split()}
            elif name:
                outcome, _, reason = rest.partition(" ")
                if outcome not in ("skip", "fail") or not reason:
                    sys.exit(f"{path}: {name}: want 'skip REASON' or 'fail REASON'")
                expected[name] = (outcome, reason)
    return expected


def judge(expected, results):
    """Yields (verdict, name, outcome, note) for each test that is expected or was run."""
    for name in sorted(expected.keys() | results.keys()):
        outcome, detail = results.get(name, ("missing", ""))
        want, reason = expected.get(name, ("unknown", ""))
        verdict = "ok" if outcome == want else "not ok"
        note = reason if outcome == want != "pass" else detail
        if verdict != "ok":
            note = f"expected {want}" + (f": {detail}" if detail else "")
        yield verdict, name, outcome, " ".join(note.split())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tests", default=os.environ.get("RDMA_CORE_TESTS"),
                        required="RDMA_CORE_TESTS" not in os.environ)
    parser.add_argument("--expect", default=os.path.join(HERE, "rdma_core.expect"))
    parser.add_argument("--table", help="also write the results here, tab-separated")
    parser.add_argument("--without", metavar="MODULE", help="not this one")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--gid", help=argparse.SUPPRESS)
    parser.add_argument("modules", nargs="*")
    args = parser.parse_args()
    if args.child:
        return child(args.tests, args.child, args.gid)

    expected = read_expectation(args.expect)
    modules = args.modules or sorted({name.split(".")[1] for name in expected} - {args.without})
    gid = ipv4_gid_index()
    rows = []
    for module in modules:
        huge_pages(HUGE_PAGES.get(module, 0))
        results, status = run_module(args.tests, module, gid)
        huge_pages(0)
        wanted = {n: e for n, e in expected.items() if n.split(".")[1] == module}
        found = list(judge(wanted, results))
        if status != 0:
            found.append(
                ("not ok", f"tests.{module}", "fail", f"the module's process ended with {status}"))
        for verdict, name, outcome, note in found:
            print(
                f"{verdict} rdma-core/{name}" +
                (f" # SKIP {note}" if outcome != "pass" and verdict == "ok" else
                 f" - {note}" if note else ""), flush=True)
        rows += found
    if args.table:
        with open(args.table, "w") as f:
            for _, name, outcome, note in rows:
                f.write(f"{name}\t{outcome}\t{note}\n")
    return any(row[0] != "ok" for row in rows)


if __name__ == "__main__":
    sys.exit(main())

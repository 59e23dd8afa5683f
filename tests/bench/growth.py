"""Measures the memory that a tern device adds to its QEMU process: resident, without guest RAM and
translated code."""
import os
import re
import statistics
import subprocess
import time

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LAB = os.path.join(TOP, "lab")
RAM = 2 << 30
LIMIT = 300
BATCHES = 4


def emulator_below(pid):
    """Returns the process id of the QEMU among a process's descendants, or None."""
    with open(f"/proc/{pid}/task/{pid}/children") as f:
        children = f.read().split()
    for name in children:
        try:
            if os.readlink(f"/proc/{name}/exe").rpartition("/")[2].startswith("qemu-system"):
                return int(name)
            if found := emulator_below(name):
                return found
        except FileNotFoundError:
            pass
    return None


def resident(pid):
    total, counts = 0, True
    with open(f"/proc/{pid}/smaps") as f:
        for line in f:
            if m := re.match(r"([0-9a-f]+)-([0-9a-f]+) (\S+)", line):
                counts = int(m[2], 16) - int(m[1], 16) < RAM and "wx" not in m[3]
            elif counts and line.startswith("Rss:"):
                total += int(line.split()[1]) << 10
    return total


def of_device():
    """Returns the bytes that a device adds to a QEMU that has not started to run."""
    qemu = os.path.join(TOP, "build/qemu/qemu-system-x86_64")
    sizes = []
    for device in [], ["-device", "tern"]:
        with subprocess.Popen([
                f"{LAB}/sysroot-run", qemu, "-L", "/usr/share/seabios", "-L", "/usr/share/qemu",
                "-M", "q35", "-m", "2G", "-accel", "qtest", "-display", "none", "-nodefaults", "-S",
                "-qmp", "stdio", *device
        ], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as p:
            # The greeting, then the answer, which comes once the machine is complete.
            p.stdin.write('{"execute": "qmp_capabilities"}\n')
            p.stdin.flush()
            p.stdout.readline()
            p.stdout.readline()
            sizes.append(resident(emulator_below(p.pid)))
            p.stdin.write('{"execute": "quit"}\n')
            p.stdin.close()
    return sizes[1] - sizes[0]


def wait_for(path, process):
    end = time.time() + LIMIT
    while not os.path.exists(path):
        if process.poll() is not None or time.time() > end:
            raise RuntimeError(f"no {path}")
        time.sleep(0.1)


def batches(step, what):
    return [(f"{step}{i}", what) for i in range(BATCHES)]


def figures(out):
    """Yields (what, bytes) for a device, a queue pair and a registered page. `out` is a working
    directory."""
    share = os.path.join(out, "growth")
    os.makedirs(share, exist_ok=True)
    for name in os.listdir(share):
        if name.startswith("growth-"):
            os.unlink(os.path.join(share, name))
    yield "device", of_device()
    before = None
    with subprocess.Popen([
            f"{LAB}/run-vm", "--no-build", "--front", "qemu", "--vms", "1", "--mem", "2G",
            "--timeout",
            str(LIMIT), "--share", share, "--run-dir",
            os.path.join(share, "run"), "--", "python3", "/mnt/tern/tests/bench/growth_guest.py",
            str(BATCHES)
    ]) as p:
        grown = {"qp": [], "page": []}
        for step, what in ("idle", None), *batches("qps", "qp"), ("warm",
                                                                  None), *batches("pages", "page"):
            path = os.path.join(share, "growth-" + step)
            wait_for(path, p)
            with open(path) as f:
                number = int(f.read())
            size = resident(emulator_below(p.pid))
            if what:
                grown[what].append((size - before) / number)
            before = size
            with open(path + ".seen", "w"):
                pass
    # QEMU's own memory grows now and then: such a batch is not the median.
    for what, sizes in grown.items():
        yield what, statistics.median(sizes)

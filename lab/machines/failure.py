# SPDX-License-Identifier: GPL-2.0-or-later
"""Keeps the data of a failed run: RUN-DIR/failure-N, with consoles, captures and the state of
all machines. Bounded in time and size: for a machine that does not answer, only its console and
QEMU's state are kept."""
import io
import json
import os
import re
import select
import shlex
import shutil
import tarfile
import time

from lanes import read_lanes
from machine import CAPTURE, EVENT_LOG

KEPT = 5  # directories
SECONDS = 30  # limit for the machines to answer, times the lane's factor
LIMIT = 32 << 20  # bytes of a machine's archive
OUTPUT = 64 << 10  # bytes of CMD's output


def new_directory(run):
    """Creates RUN-DIR/failure-N and deletes the oldest."""
    numbers = sorted(
        int(m[1]) for m in map(re.compile(r"failure-(\d+)$").match, os.listdir(run)) if m)
    for n in numbers[:max(0, len(numbers) - KEPT + 1)]:
        shutil.rmtree(f"{run}/failure-{n}", ignore_errors=True)
    path = f"{run}/failure-{numbers[-1] + 1 if numbers else 1}"
    os.makedirs(path)
    return path


def link_files(run, path):
    """Links consoles, captures and event logs, which the machines are still writing. The next
    run replaces the files of the run directory."""
    for name in os.listdir(run):
        if re.fullmatch(rf"vm\d+\.log|{CAPTURE}|{EVENT_LOG}", name):
            os.link(f"{run}/{name}", f"{path}/{name}")


def archives(machines, seconds):
    """Returns {machine's name: tar archive} of the machines that answer in time."""
    found, waiting = {}, {}
    for m in machines:
        if not m.ready or m.process.poll() is not None:
            continue
        try:
            m.ports["ctl"].send(b"collect\n")
            waiting[m.ports["state"]] = m, bytearray()
        except OSError:
            pass
    end = time.monotonic() + seconds
    while waiting and (left := end - time.monotonic()) > 0:
        for sock in select.select(list(waiting), [], [], left)[0]:
            m, data = waiting[sock]
            try:
                chunk = sock.recv(1 << 18)
            except OSError:
                chunk = b""
            data += chunk
            # A line with the size comes first.
            at = data.find(b"\n", 0, 32)
            size = int(data[:at]) if at > 0 and data[:at].isdigit() else LIMIT
            if len(data) - at - 1 >= size:
                found[m.name] = bytes(data[at + 1:])
            if m.name in found or not chunk or size > LIMIT:
                del waiting[sock]
    return found


def adapters(lab, m):
    """Returns the properties of the machine's tern devices, as QEMU has them."""
    def get(command, **arguments):
        return lab.qmp(m.name, {"execute": command, "arguments": arguments}, 5).get("return")

    found = {"status": lab.qmp(m.name, {"execute": "query-status"}, 5).get("return")}
    for item in get("qom-list", path="/machine/peripheral") or []:
        if item["type"] == "child<tern>":
            path = f"/machine/peripheral/{item['name']}"
            found[item["name"]] = {
                p["name"]: get("qom-get", path=path, property=p["name"])
                for p in get("qom-list", path=path) or []
                if not re.match(r"child<|link<|struct", p["type"])
            }
    return found


def collect(lab, status, why):
    """Fills a new directory; returns its path."""
    path = new_directory(lab.run)
    with open(f"{path}/command", "w") as f:
        f.write(
            f"{shlex.join(lab.opt.cmd)}\nexit status {status}{': ' * bool(why)}{why}\nlane {lab.opt.lane}, {lab.opt.vms} machines\n"
        )
    if not lab.opt.tty:
        with open(f"{path}/output", "wb") as f:
            f.write(lab.last)
    link_files(lab.run, path)
    for m in lab.machines:
        os.makedirs(f"{path}/{m.name}")
        try:
            with open(f"{path}/{m.name}/qemu.json", "w") as f:
                json.dump(adapters(lab, m), f, indent=1)
        except (OSError, ValueError) as e:
            with open(f"{path}/{m.name}/qemu.json", "w") as f:
                json.dump({"error": str(e)}, f)
    for name, archive in archives(lab.machines, SECONDS * read_lanes()[lab.opt.lane]).items():
        try:
            with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
                tar.extractall(f"{path}/{name}", filter="data")
        except (tarfile.TarError, OSError) as e:
            with open(f"{path}/{name}/error", "w") as f:
                f.write(f"{e}\n")
    for m in lab.machines:
        if os.listdir(f"{path}/{m.name}") == ["qemu.json"]:
            with open(f"{path}/{m.name}/error", "w") as f:
                f.write("the machine did not answer\n")
    return path

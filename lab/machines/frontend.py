# SPDX-License-Identifier: GPL-2.0-or-later
"""The front ends: tern as a device of our QEMU, or adapters of ternd that stock QEMU attaches by
vfio-user."""
import contextlib
import os
import subprocess
import sys
import time

from places import TERND, TOP

sys.path.append(os.path.join(TOP, "tools"))

import hosts  # noqa: E402
import monitor  # noqa: E402
from machine import adapter_properties, soft_roce_device  # noqa: E402

attacks = {}  # by control socket: the process, and its log


def adapter_socket(lab, m, n):
    return f"{lab.tmp}/{m.name}-{n}.sock"


def control_socket(lab, m, n):
    """Returns the control socket of the ternd that has adapter n of a machine."""
    host = host_of(lab, m)
    return f"{lab.tmp}/ternd{n}{f'-{host.number}' if host else ''}.ctl"


def host_of(lab, m):
    return lab.hosts[(m.index - 1) % len(lab.hosts)] if lab.hosts else None


def start_daemons(lab):
    """Starts a ternd for each wire, with an adapter for each machine; on two hosts, one on each,
    for its machines. Returns the processes once their sockets exist."""
    opt = lab.opt
    processes = []
    paths = []
    machines = [m for m in lab.machines if not m.soft_roce]
    for n in range(0 if opt.no_tern else opt.adapters):
        for host in lab.hosts or [None]:
            here = [m for m in machines if host_of(lab, m) is host]
            if not here:
                continue
            command = [TERND]
            for m in here:
                paths.append(adapter_socket(lab, m, n))
                command += [
                    "--adapter",
                    ",".join([paths[-1], "zero-copy=on", *adapter_properties(m, n, opt, lab.run)])
                ]
            # A share for each adapter, and one for an adapter that a test adds.
            command += [
                "--max-adapters",
                str(len(here) + 1), "--control",
                control_socket(lab, here[0], n)
            ] + (["--uplink", host.uplink] if host else [])
            log = open(f"{lab.run}/ternd{n or ''}{f'-{host.number}' if host else ''}.log", "wb")
            with host or contextlib.nullcontext():
                processes.append(
                    subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                     start_new_session=True))
    end = time.monotonic() + 30
    while not all(os.path.exists(p) for p in paths):
        if time.monotonic() > end or any(p.poll() is not None for p in processes):
            raise OSError("ternd does not start: see ternd.log")
        time.sleep(0.05)
    for host in {host_of(lab, m) for m in machines} - {None}:
        hosts.join(host, opt.mtu)
    return processes


def devices(lab, m):
    """Returns QEMU's arguments for the adapters of a machine, or for Soft-RoCE's devices
    instead."""
    if m.soft_roce:
        tap = hosts.open_tap(host_of(lab, m), m.name, lab.opt.mtu)
        m.fds.append(tap)
        return ["-netdev", f"tap,id=wire,fd={tap.fileno()}", *soft_roce_device(m, lab.opt)]
    args = []
    for n in range(lab.opt.adapters):
        args += [
            "-device",
            '{"driver":"vfio-user-pci","id":"tern%d","bus":"rp%d","socket":{"type":"unix","path":"%s"}}'
            % (n, n + 1, adapter_socket(lab, m, n))
        ]
    return args


# Translates requests of labctl for our QEMU's device to those for stock QEMU or ternd.


def adapter_of(path):
    """Returns N of ternN or /machine/peripheral/ternN; None for other devices."""
    name = path.removeprefix("/machine/peripheral/")
    return int(
        name.removeprefix("tern")) if name.startswith("tern") and name[4:].isdigit() else None


def ask(lab, who, n, request):
    """Sends a request to the control socket of the ternd of a machine."""
    m = next(m for m in lab.machines if m.name == who)
    return monitor.ternd(control_socket(lab, m, n), request)


def attack(lab, who):
    """Makes ternd_attack attack the daemon of a machine, through an adapter that is added for
    it. Returns its output so far, and its status once it has ended."""
    control = control_socket(lab, next(m for m in lab.machines if m.name == who), 0)
    if control not in attacks:
        adapter, log = f"{lab.tmp}/attacker.sock", f"{lab.run}/attack.log"
        added = subprocess.run([
            os.path.join(os.path.dirname(TERND), "ternctl"), "--socket", control, "adapter", "add",
            adapter
        ], capture_output=True, text=True, timeout=60)
        if added.returncode:
            raise ValueError(added.stderr.strip())
        with open(log, "wb") as out:
            attacks[control] = subprocess.Popen([TERND + "_attack", adapter, control],
                                                stdin=subprocess.DEVNULL, stdout=out,
                                                stderr=out), log
    process, log = attacks[control]
    status = process.poll()
    with open(log) as out:
        return {"output": out.read(), "status": status}


def qmp(lab, who, command):
    """Executes a command that concerns an adapter, and returns its answer. For others returns
    (None, command), with the command changed if necessary."""
    name, args = command.get("execute"), command.get("arguments", {})
    if name in ("qom-set", "qom-get") and adapter_of(args.get("path", "")) is not None:
        n = adapter_of(args["path"])
        adapter = {"adapter": f"{who}-{n}"}
        prop = args.get("property")
        if prop == "faults":
            rules = {"rules": args["value"]} if name == "qom-set" else {}
            result = ask(lab, who, n, {"command": "faults", **adapter, **rules})
            return {"return": {} if rules else result["rules"]}, command
        if prop == "icrc" and name == "qom-set":
            ask(lab, who, n, {"command": "icrc", **adapter, "mode": args["value"]})
            return {"return": {}}, command
        if prop == "port-speed" and name == "qom-set":
            ask(lab, who, n, {"command": "speed", **adapter, "mbps": args["value"]})
            return {"return": {}}, command
        if prop == "removed":
            on = {"on": args["value"]} if name == "qom-set" else {}
            result = ask(lab, who, n, {"command": "removed", **adapter, **on})
            return {"return": {} if on else result["removed"]}, command
        if prop == "state" and name == "qom-get":
            a = next(a for a in ask(lab, who, n, {"command": "list"})["adapters"]
                     if a["name"] == adapter["adapter"])
            return {
                "return": {
                    "link": a["port"]["link"],
                    **{key: a[key] for key in ("attached", "memory", "queue_pairs", "keys")}
                }
            }, command
        raise ValueError(f"ternd has no property '{prop}'")
    if name == "set_link" and adapter_of(args.get("name", "")) is not None:
        n = adapter_of(args["name"])
        ask(lab, who, n, {"command": "link", "adapter": f"{who}-{n}", "up": args["up"]})
        return {"return": {}}, command
    if name == "x-attack":
        return {"return": attack(lab, who)}, command
    if name == "device_add" and args.get("driver") == "tern":
        n = adapter_of(args["id"])
        machine = next(m for m in lab.machines if m.name == who)
        return None, {
            "execute": name, "arguments": {
                "driver": "vfio-user-pci", "id": args["id"], "bus": args["bus"],
                "socket": {"type": "unix", "path": adapter_socket(lab, machine, n)}
            }
        }
    return None, command

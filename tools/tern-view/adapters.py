# SPDX-License-Identifier: GPL-2.0-or-later
"""The adapters whose faults the live page sets: those of ternd, by its control socket, and those
of QEMU, by QMP. The device parses the rules."""
import glob
import json
import os
import re
import threading

import monitor

SECONDS = 5
MOST_TEXT = 8192  # bytes of rules that an adapter takes
MOST_ADAPTERS = 64
COUNTS = re.compile(r"(.*?)\s*# matched (\d+), applied (\d+)")


class Refused(Exception):
    """The request cannot be done. The text is for the person who made it."""


def plain(error):
    """Returns an error's text, without numbers of the system."""
    return error.strerror if isinstance(error, OSError) and error.strerror else str(error)


class OfTernd:
    """A port of ternd."""
    def __init__(self, control, name):
        self.control, self.name = control, name

    def faults(self, change=None):
        """Returns the report of the rules, after the change if there is one."""
        return monitor.ternd(self.control, {
            "command": "faults", "port": self.name, **({} if change is None else {"rules": change})
        }, SECONDS)["rules"]


class OfQemu:
    """A device of QEMU."""
    def __init__(self, socket, machine, device, alone):
        self.socket = socket
        self.device = device
        self.name = machine if alone else f"{machine}:{device.removeprefix('tern')}"

    def faults(self, change=None):
        at = {"path": f"/machine/peripheral/{self.device}", "property": "faults"}
        if change is not None:
            returned(self.socket, "qom-set", {**at, "value": change})
        return returned(self.socket, "qom-get", at)


def returned(socket, command, arguments):
    answer = monitor.qmp(socket, {"execute": command, "arguments": arguments}, SECONDS)
    if "error" in answer:
        raise ValueError(answer["error"]["desc"])
    return answer["return"]


def of_ternd(control):
    found = monitor.ternd(control, {"command": "list"}, SECONDS)
    return [OfTernd(control, port["name"]) for port in found["adapters"] + found["uplinks"]]


def of_qemu(socket):
    machine = os.path.basename(socket).removesuffix(".qmp")
    devices = [
        p["name"] for p in returned(socket, "qom-list", {"path": "/machine/peripheral"})
        if p["type"] == "child<tern>"
    ]
    return [OfQemu(socket, machine, device, len(devices) == 1) for device in sorted(devices)]


def of_lab(directory):
    """Returns the adapters of the lab that has its sockets in this directory."""
    controls = sorted(glob.glob(os.path.join(glob.escape(directory), "ternd*.ctl")))
    sockets = sorted(glob.glob(os.path.join(glob.escape(directory), "vm*.qmp")), key=lambda path:
                     (len(path), path))
    found = []
    for path in controls or sockets:
        try:
            found += of_ternd(path) if controls else of_qemu(path)
        except ConnectionRefusedError:  # a machine that is switched off
            continue
    return found


def rules_of(report):
    """Returns [{rule, matched, applied}], and the adapter's other lines."""
    rules, notes = [], []
    for line in report.splitlines():
        found = COUNTS.fullmatch(line)
        if found:
            rules.append({"rule": found[1], "matched": int(found[2]), "applied": int(found[3])})
        elif line.strip("# "):
            notes.append(line.strip("# "))
    return rules, notes


class Adapters:
    """The adapters that find() returns now. One request at a time."""
    def __init__(self, find):
        self.find, self.lock = find, threading.Lock()

    def list(self):
        """Returns [{name, rules, notes, error}] of each adapter."""
        with self.lock:
            return [self.describe(adapter) for adapter in self.found()]

    def found(self):
        try:
            return self.find()[:MOST_ADAPTERS]
        except (OSError, ValueError, KeyError, TypeError) as e:
            raise Refused(f"the adapters cannot be reached: {plain(e)}") from e

    def describe(self, adapter):
        try:
            rules, notes = rules_of(adapter.faults())
            return {"name": adapter.name, "rules": rules, "notes": notes}
        except (OSError, ValueError, KeyError, TypeError) as e:
            return {"name": adapter.name, "rules": [], "notes": [], "error": plain(e)}

    def change(self, request):
        """Executes {"adapter", "add": rules}, {"adapter", "remove": rules} or {"adapter",
        "clear": true}."""
        if not isinstance(request, dict) or not isinstance(request.get("adapter"), str):
            raise Refused("which adapter?")
        with self.lock:
            adapter = next((a for a in self.found() if a.name == request["adapter"]), None)
            if adapter is None:
                raise Refused(f"there is no adapter '{request['adapter'][:64]}' now")
            try:
                adapter.faults(change_of(request))
                return self.describe(adapter)
            except (OSError, ValueError, KeyError, TypeError) as e:
                raise Refused(f"{adapter.name}: {plain(e)}") from e


def change_of(request):
    """Returns the text that makes the adapter change its rules, without affecting changes by
    others."""
    for word in ("add", "remove"):
        if isinstance(request.get(word), str):
            return f"{word} {request[word]}"
    if request.get("clear") is True:
        return ""
    raise Refused("what is to change?")


def read(body):
    """Returns the request in the body of a POST."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as e:
        raise Refused(f"no JSON: {e}") from e

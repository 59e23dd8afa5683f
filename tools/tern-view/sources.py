# SPDX-License-Identifier: GPL-2.0-or-later
"""The sources of the live page's files and adapters: named files, the lab, or ternd."""
import fcntl
import glob
import os
import tempfile
import time

import adapters
import monitor

MOST_FILES = 64
TURN = 64 << 20  # bytes of a capture of ternd, before the next one begins
ASK = 2.0  # seconds between two polls of ternd


class Files:
    """Files that were named on the command line. `control`: the socket of a ternd, or None."""
    def __init__(self, paths, tail, control=None):
        self.list, self.control = [tail(path) for path in paths], control

    def tails(self):
        return self.list

    def adapters(self):
        return adapters.of_ternd(self.control) if self.control else []

    def say(self):
        return ""


class Lab:
    """The lab that runs in a directory: its captures and logs, and the adapters of its machines."""
    def __init__(self, run, tail):
        self.run, self.tail, self.known = run, tail, {}

    def paths(self):
        here = glob.escape(self.run)
        return sorted(path for pattern in ("wire*.pcap", "*.events")
                      for path in glob.glob(os.path.join(here, pattern)))[:MOST_FILES]

    def tails(self):
        for path in self.paths():
            if path not in self.known:
                self.known[path] = self.tail(path)
        while len(self.known) > MOST_FILES:
            self.known.pop(next(iter(self.known))).close()
        return list(self.known.values())

    def adapters(self):
        return adapters.of_lab(os.path.join(self.run, "qmp")) if self.running() else []

    def running(self):
        """Returns whether the lab runs: it keeps a file next to its sockets locked."""
        try:
            with open(os.path.join(self.run, "qmp/lock"), "rb") as f:
                fcntl.flock(f, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return False
        except BlockingIOError:
            return True
        except OSError:
            return False

    def say(self):
        if not self.running():
            return f"No lab runs in {self.run}." + (
                " What the last one captured stays until the next one begins."
                if self.known else " The page waits for one.")
        return "" if self.paths() else "The lab captures nothing: start it with --pcap."


class Ternd:
    """A running ternd, which captures one of its ports for this page: in unnamed files, one
    after the other."""
    def __init__(self, control, port, tail):
        self.control, self.port, self.make, self.trouble = control, port, tail, ""
        self.file, self.tail, self.due, self.alive = None, None, 0.0, False

    def tails(self):
        """Begins the next capture when this one is long, or when another ternd has replaced the
        last one."""
        if time.monotonic() >= self.due:
            self.due = time.monotonic() + ASK
            try:
                found = monitor.ternd(self.control, {"command": "list"}, ASK)
                ports = [port["name"] for port in found["adapters"] + found["uplinks"]]
                again = not self.alive or self.daemon() != self.process
                if again or os.fstat(self.file.fileno()).st_size > TURN:
                    self.capture(ports)
                self.alive, self.trouble = True, ""
            except (OSError, ValueError, KeyError) as e:
                self.alive = False
                self.trouble = f"ternd does not capture: {adapters.plain(e)}. The page waits for it."
        return [self.tail] if self.tail else []

    def daemon(self):
        """Returns an identity that distinguishes the daemon's socket from its successor's."""
        found = os.stat(self.control)
        return found.st_dev, found.st_ino, found.st_ctime_ns

    def capture(self, ports):
        name = self.port or next(iter(ports), None)
        if name not in ports:
            raise ValueError(f"it has no port '{name}'" if name else "it has no port")
        self.process = self.daemon()
        file = tempfile.TemporaryFile()
        try:
            monitor.ternd(self.control, {"command": "capture", "port": name, "limit": 4 * TURN},
                          ASK, file)
        except BaseException:
            file.close()
            raise
        path = f"/proc/self/fd/{file.fileno()}"
        if self.tail is None:
            self.tail = self.make(path, name=name)
        else:
            self.tail.follow(path)
        if self.file:
            self.file.close()
        self.file = file

    def close(self):
        """Ends the capture."""
        if self.file:
            self.file.close()
        if self.alive:
            try:
                monitor.ternd(self.control, {"command": "capture", "port": self.tail.name}, ASK)
            except (OSError, ValueError):
                pass

    def adapters(self):
        return adapters.of_ternd(self.control)

    def say(self):
        return self.trouble


def source_of(opt, tail):
    """Returns the source that the options name. tail(path, name=None): a Tail."""
    if opt.files:
        return Files(opt.files, tail, opt.control)
    if opt.control:
        return Ternd(opt.control, opt.port_name, tail)
    return Lab(opt.run, tail)

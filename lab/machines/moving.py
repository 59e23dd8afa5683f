# SPDX-License-Identifier: GPL-2.0-or-later
"""Machines that move to another QEMU while they run (run-vm --movable). The lab passes the frames
of all their networks, so that another QEMU can take a machine's place on the wire."""
import concurrent.futures
import contextlib
import os
import selectors

import monitor
from machine import Machine

# Bytes that wait for a QEMU which does not read. A wire that is full loses frames.
MOST = 8 << 20


class End:
    """A QEMU's end of a network: length-prefixed frames, as -netdev stream sends them."""
    def __init__(self, hub, sock):
        sock.setblocking(False)
        self.hub, self.sock = hub, sock
        self.unread = b""
        self.unsent = bytearray()
        self.receives = True

    def frames(self):
        """Returns the complete frames that have arrived; None at the end."""
        try:
            data = self.sock.recv(1 << 20)
        except BlockingIOError:
            return b""
        except OSError:
            return None
        if not data:
            return None
        self.unread += data
        at = 0
        while len(self.unread) - at >= 4:
            size = 4 + int.from_bytes(self.unread[at:at + 4], "big")
            if len(self.unread) - at < size:
                break
            at += size
        whole, self.unread = self.unread[:at], self.unread[at:]
        return whole

    def send(self, frames):
        if self.receives and len(self.unsent) < MOST:
            self.unsent += frames
            self.flush()

    def flush(self):
        try:
            while self.unsent:
                del self.unsent[:self.sock.send(self.unsent)]
        except BlockingIOError:
            pass
        except OSError:
            self.unsent.clear()


class Hub:
    """A network."""
    def __init__(self, selector):
        self.selector = selector
        self.ends = []

    def attach(self, sock):
        end = End(self, sock)
        self.ends.append(end)
        self.selector.register(sock, selectors.EVENT_READ, (self.serve, end))
        return end

    def detach(self, end):
        if end in self.ends:
            self.ends.remove(end)
            self.selector.unregister(end.sock)
            end.sock.close()

    def serve(self, end):
        end.flush()
        frames = end.frames()
        if frames is None:
            return self.detach(end)
        for other in self.ends:
            if frames and other is not end:
                other.send(frames)
        for each in self.ends:
            events = selectors.EVENT_READ | (selectors.EVENT_WRITE if each.unsent else 0)
            if self.selector.get_key(each.sock).events != events:
                self.selector.modify(each.sock, events, (self.serve, each))


def connect(lab, m):
    """Connects a machine to the hubs of all networks."""
    m.ends = []
    for net, hub in lab.hubs.items():
        mine, fd = m.pair()
        m.args += ["-netdev", f"stream,id={net},server=off,addr.type=fd,addr.str={fd}"]
        m.ends.append(hub.attach(mine))


class Job:
    """A change of a machine's QEMU that takes time. step() is called from time to time, and returns
    whether the job is over."""
    def __init__(self, lab, who, answer):
        """answer(dict) is called at the end."""
        self.lab, self.answer = lab, answer
        self.at = next((i for i, m in enumerate(lab.machines) if m.name == who), None)
        if self.at is None or not lab.opt.movable:
            raise ValueError("run-vm --movable has machines that move; there is no such machine")
        if any(job.at == self.at for job in lab.jobs):
            raise ValueError(f"{who} moves already")
        self.old, self.new = lab.machines[self.at], None
        self.thread = concurrent.futures.ThreadPoolExecutor(1)
        self.asked = None
        self.divided = False  # between two QEMUs
        self.said = os.path.getsize(f"{lab.run}/{who}.log")

    @staticmethod
    def ask(m, command, **arguments):
        return monitor.execute(m.monitor, command, **arguments)

    def advance(self):
        """Calls step(). A QEMU that does not answer ends the job."""
        try:
            return self.step()
        except (OSError, ValueError) as e:
            return self.fail(str(e))

    def status(self, m, command):
        """Returns a QEMU's answer to a query; None as long as there is none. The wire goes on
        meanwhile, as a switch does."""
        if not self.asked:
            self.asked = self.thread.submit(self.ask, m, command)
        if not self.asked.done():
            return None
        asked, self.asked = self.asked, None
        try:
            return asked.result()
        except OSError:  # it has just started, or has ended
            return None

    def prepare(self, m, returns, postcopy=False, rate=1 << 33):
        """returns: the old QEMU waits for the new one's success, and otherwise goes on. rate: bytes
        a second at most."""
        self.ask(m, "migrate-set-parameters", **{"max-bandwidth": rate, "downtime-limit": 200})
        self.ask(
            m, "migrate-set-capabilities",
            capabilities=[{"capability": "return-path", "state": returns},
                          {"capability": "postcopy-ram", "state": postcopy}])

    def complaint(self):
        """Returns what the QEMUs have said since the job began."""
        with open(f"{self.lab.run}/{self.old.name}.log", errors="replace") as f:
            f.seek(self.said)
            lines = [line for line in f.read().splitlines() if line.startswith("qemu-system")]
        return lines[0].partition(": ")[2] if lines else "the new QEMU ended"

    def successor(self, incoming, properties=()):
        """Starts the QEMU that takes the machine's place."""
        lab = self.lab
        self.new = new = Machine(self.at + 1)
        new.replaced, new.ready, new.moved = True, True, True
        new.monitor = f"{lab.tmp}/{new.name}.next.qmp"
        new.properties = properties
        with contextlib.suppress(FileNotFoundError):
            os.unlink(new.monitor)  # an earlier job left it
        connect(lab, new)
        for end in new.ends:
            end.receives = False  # as long as the old one does
        lab.start_machine(new, lab.kvm, ["-incoming", incoming])

    def run_new(self):
        """The new QEMU has the machine: it receives the frames."""
        for end in self.old.ends:
            end.hub.detach(end)
        for end in self.new.ends:
            end.receives = True

    def swap(self):
        """The new QEMU takes the place of the old one."""
        lab, old, new = self.lab, self.old, self.new
        lab.machines[self.at] = new
        self.run_new()
        self.end(old)
        os.rename(new.monitor, f"{lab.tmp}/{new.name}.qmp")
        new.monitor = f"{lab.tmp}/{new.name}.qmp"
        if new.index == 1:
            lab.watch_command(new)

    def succeed(self, result):
        self.answer({"return": result})
        return True

    def fail(self, why):
        """The machine stays where it is, unless its memory is divided."""
        if self.divided:
            self.lab.lost(self.old, why)
        if self.new:
            self.end(self.new)
        self.answer({"error": {"class": "Lab", "desc": why}})
        return True

    def end(self, m):
        for end in m.ends:
            end.hub.detach(end)
        self.lab.forget(m)
        m.killed = True
        m.process.kill()
        m.process.wait()


class Move(Job):
    """A migration. how: live, postcopy, a property K=V that the new adapter has, or for tests
    cancel or kill: the migration is cancelled, or the new QEMU killed, in the middle."""
    def __init__(self, lab, who, how, answer):
        super().__init__(lab, who, answer)
        if how not in ("live", "postcopy", "cancel", "kill") and "=" not in how:
            raise ValueError("a migration is live, postcopy, cancel, kill or K=V")
        self.how, self.begun, self.ended = how, False, False
        path = f"{lab.tmp}/{who}.move"
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        self.incoming = f"unix:{path}"
        self.successor(self.incoming, [how] if "=" in how else [])

    def begin(self):
        postcopy = self.how == "postcopy"
        for m in (self.new, self.old):
            self.prepare(m, True, postcopy, 1 << (22 if self.how in ("cancel", "kill") else 33))
        self.ask(self.old, "migrate", uri=self.incoming)
        if postcopy:
            self.ask(self.old, "migrate-start-postcopy")

    def step(self):
        if self.new.process.poll() is not None and not self.ended:
            return self.fail(self.complaint())
        if not self.begun:
            if not os.path.exists(self.incoming.removeprefix("unix:")):
                return False
            self.begun = True
            self.begin()
        info = self.status(self.old, "query-migrate")
        if info is None:
            return False
        status, ram = info.get("status"), info.get("ram", {"transferred": 0})
        if status in ("cancelled", "failed", "postcopy-paused"):
            return self.fail("cancelled" if status == "cancelled" else self.complaint())
        if status == "postcopy-active":
            self.divided = True
            self.run_new()
        if status == "active" and ram["transferred"] > 1 << 20 and not self.ended:
            if self.how == "cancel":
                self.ask(self.old, "migrate_cancel")
            elif self.how == "kill":
                self.new.process.kill()
            self.ended = self.how in ("cancel", "kill")
        if status != "completed":
            return False
        self.swap()
        return self.succeed({
            "downtime": info["downtime"], "total": info["total-time"], "bytes": ram["transferred"]
        })


def saved(lab, m, name):
    if not name.isidentifier():
        raise ValueError(f"{name} is no name")
    return f"{lab.run}/{name}.{m.name}"


class Save(Job):
    """Saves a machine, which pauses meanwhile."""
    def __init__(self, lab, who, name, answer):
        super().__init__(lab, who, answer)
        self.path = saved(lab, self.old, name)
        self.prepare(self.old, False)
        self.ask(self.old, "stop")
        try:
            self.ask(self.old, "migrate", uri=f"file:{self.path}.new")
        except OSError:
            self.ask(self.old, "cont")
            raise

    def step(self):
        info = self.status(self.old, "query-migrate")
        if not info or info.get("status") not in ("failed", "completed"):
            return False
        self.ask(self.old, "cont")
        if info["status"] == "failed":
            return self.fail(info.get("error-desc", "failed"))
        os.rename(f"{self.path}.new", self.path)
        return self.succeed({"total": info["total-time"], "bytes": info["ram"]["transferred"]})


class Load(Job):
    """Gives a machine the state that was saved."""
    def __init__(self, lab, who, name, answer):
        super().__init__(lab, who, answer)
        path = saved(lab, self.old, name)
        if not os.path.exists(path):
            raise ValueError(f"{who} has no state {name}")
        self.successor(f"file:{path}")

    def step(self):
        if self.new.process.poll() is not None:
            return self.fail(self.complaint())
        info = self.status(self.new, "query-status")
        if not info or info["status"] == "inmigrate":
            return False
        self.ask(self.new, "cont")  # it was saved when it had stopped
        self.swap()
        return self.succeed({})


JOBS = {"migrate": Move, "save": Save, "load": Load}

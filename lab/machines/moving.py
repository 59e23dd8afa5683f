# SPDX-License-Identifier: GPL-2.0-or-later
"""Machines that move to another QEMU while they run (run-vm --movable). The lab passes the frames
of all their networks, so that another QEMU can take a machine's place on the wire."""
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


class Move:
    """A migration in progress. step() is called from time to time."""
    def __init__(self, lab, who, answer):
        """answer(dict) is called at its end."""
        self.lab, self.answer = lab, answer
        self.at = next((i for i, m in enumerate(lab.machines) if m.name == who), None)
        if self.at is None or not lab.opt.movable:
            raise ValueError("run-vm --movable has machines that move; there is no such machine")
        if any(move.at == self.at for move in lab.moves):
            raise ValueError(f"{who} moves already")
        self.old = lab.machines[self.at]
        self.new = new = Machine(self.at + 1)
        new.replaced, new.ready = True, True
        new.monitor = f"{lab.tmp}/{who}.next.qmp"
        incoming = f"unix:{lab.tmp}/{who}.move"
        connect(lab, new)
        for end in new.ends:
            end.receives = False  # as long as the old one does
        lab.start_machine(new, lab.kvm, ["-incoming", incoming])
        self.incoming = incoming
        self.begun = False

    def step(self):
        """Returns whether the migration is over."""
        if self.new.process.poll() is not None:
            return self.fail("the new QEMU ended: see the console log")
        if not self.begun:
            if not os.path.exists(self.incoming.removeprefix("unix:")):
                return False
            self.begun = True
            self.ask(self.old, "migrate-set-parameters",
                     **{"max-bandwidth": 1 << 33, "downtime-limit": 200})
            error = self.ask(self.old, "migrate", uri=self.incoming).get("error")
            return bool(error) and self.fail(error["desc"])
        info = self.ask(self.old, "query-migrate").get("return", {})
        if info.get("status") in ("failed", "cancelled"):
            return self.fail(info.get("error-desc", info["status"]))
        if info.get("status") != "completed":
            return False
        self.swap()
        ram = info["ram"]
        self.answer({
            "return": {
                "downtime": info["downtime"], "total": info["total-time"],
                "bytes": ram["transferred"]
            }
        })
        return True

    @staticmethod
    def ask(m, command, **arguments):
        return monitor.qmp(m.monitor, {"execute": command, "arguments": arguments})

    def swap(self):
        """The new QEMU takes the place of the old one."""
        lab, old, new = self.lab, self.old, self.new
        lab.machines[self.at] = new
        for end in new.ends:
            end.receives = True
        self.end(old)
        os.rename(new.monitor, f"{lab.tmp}/{new.name}.qmp")
        new.monitor = f"{lab.tmp}/{new.name}.qmp"
        if new.index == 1:
            lab.watch_command(new)

    def fail(self, why):
        """The machine stays where it is."""
        self.end(self.new)
        self.answer({"error": {"class": "Lab", "desc": why}})
        return True

    def end(self, m):
        lab = self.lab
        for end in m.ends:
            end.hub.detach(end)
        lab.forget(m)
        m.killed = True
        m.process.kill()
        m.process.wait()

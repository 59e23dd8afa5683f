# SPDX-License-Identifier: GPL-2.0-or-later
"""The lab without machines: which devices they get, and what is collected when a command fails."""
import io
import json
import os
import shutil
import socket
import sys
import tarfile
import tempfile
import threading
import time
import types
import unittest

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
os.environ.setdefault("TERN_TOP", os.path.dirname(TESTS))
sys.path.append(os.path.join(TESTS, "vm"))
import failure  # noqa: E402
import machine  # noqa: E402
import options  # noqa: E402


def opt(**more):
    defaults = {"vms": 2, "adapters": 1, "no_tern": False, "soft_roce": [], "net_wire": False, "loop": False, "front": "qemu", "virtio_wire": False, "pcap": False, "events": False, "device_prop": [],
                "mtu": 4500, "tty": False, "no_collect": False, "lane": "trixie", "cmd": ["true", "a b"]}
    return types.SimpleNamespace(**{**defaults, **more})


class Adapters(unittest.TestCase):
    def machines(self, **more):
        o = opt(**more)
        made = [machine.Machine(i + 1) for i in range(o.vms)]
        ends = machine.connect(o, made)
        for m in made:
            self.addCleanup(lambda m=m: [s.close() for s in m.fds])
            machine.add_adapters(m, o, "/run")
        for end in ends:
            end.close()
        return made, [[a for a in m.args if a.startswith("tern,")] for m in made]

    def test_one(self):
        self.assertEqual([["tern,id=tern0,wire=wire,bus=rp1,mac=52:54:00:77:00:01"], ["tern,id=tern0,wire=wire,bus=rp1,mac=52:54:00:77:00:02"]],
                         self.machines()[1])

    def test_several_have_wires_and_root_ports_of_their_own(self):
        made, tern = self.machines(adapters=2, vms=3)
        self.assertEqual(["tern,id=tern0,netdev=wire,bus=rp1,mac=52:54:00:77:00:03", "tern,id=tern1,netdev=wire1,bus=rp2,mac=52:54:00:77:01:03"], tern[2])
        hubs = [a for a in made[0].args if a.startswith("hubport,id=wire") and "netdev" not in a]
        self.assertEqual(2, len({a.partition("hubid=")[2] for a in hubs}), hubs)
        self.assertEqual(3, sum("pcie-root-port" in a for a in machine.root_ports(3)))

    def test_a_single_machine(self):
        made, tern = self.machines(adapters=2, vms=1)
        self.assertEqual(2, len(tern[0]))
        self.assertEqual(3, sum(a.startswith("stream,") for a in made[0].args))

    def test_a_single_machine_whose_adapters_are_connected(self):
        made, tern = self.machines(adapters=2, vms=1, loop=True)
        self.assertEqual(["tern,id=tern0,netdev=wire,bus=rp1,mac=52:54:00:77:00:01", "tern,id=tern1,netdev=wire1,bus=rp2,mac=52:54:00:77:01:01"], tern[0])
        self.assertEqual(["hubport,id=wire,hubid=1", "hubport,id=wire1,hubid=1"], [a for a in made[0].args if "wire" in a and not a.startswith("tern,")])

    def test_properties(self):
        tern = self.machines(adapters=2, device_prop=["a=1", "vm2:b=2", "1:c=3", "vm1:0:d=vm1:0:e"])[1]
        self.assertEqual([[",a=1,d=vm1:0:e", ",a=1,c=3"], [",a=1,b=2", ",a=1,b=2,c=3"]],
                         [[t[t.index("mac=") + 21:] for t in of] for of in tern])

    def test_captures(self):
        tern = self.machines(adapters=2, pcap=True)[1]
        self.assertEqual([["/run/wire.pcap", "/run/wire1.pcap"], ["", ""]], [[t.partition("pcap=")[2] for t in of] for of in tern])

    def test_event_logs(self):
        tern = self.machines(adapters=2, events=True)[1]
        self.assertEqual([["/run/vm1.events", "/run/vm1-1.events"], ["/run/vm2.events", "/run/vm2-1.events"]],
                         [[t.partition("events=")[2] for t in of] for of in tern])

    def test_split_prop(self):
        self.assertEqual((None, None, "mac=52:54"), options.split_prop("mac=52:54"))
        self.assertEqual((2, 10, "x=1:2"), options.split_prop("vm2:10:x=1:2"))


class Guest(threading.Thread):
    """A machine's end of the ports: answers `collect` with these bytes, or not at all."""

    def __init__(self, name, answer):
        super().__init__(daemon=True)
        ctl, self.ctl = socket.socketpair()
        state, self.state = socket.socketpair()
        state.setblocking(False)
        self.answer = answer
        self.machine = types.SimpleNamespace(name=name, ready=True, ports={"ctl": ctl, "state": state},
                                             process=types.SimpleNamespace(poll=lambda: None))
        self.start()

    def run(self):
        if self.ctl.recv(100) == b"collect\n" and self.answer is not None:
            self.state.sendall(self.answer)
            self.state.close()


def archive(**files):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return out.getvalue()


def framed(data):
    return b"%d\n" % len(data) + data


class Collect(unittest.TestCase):
    def setUp(self):
        self.run_dir = tempfile.mkdtemp(prefix="tern-infra-")
        self.addCleanup(shutil.rmtree, self.run_dir, ignore_errors=True)
        self.addCleanup(setattr, failure, "SECONDS", failure.SECONDS)
        for name in ("vm1.log", "vm2.log", "wire.pcap", "wire1.pcap", "vm1.events", "vm2-1.events", "other"):
            with open(f"{self.run_dir}/{name}", "w") as f:
                f.write(name)

    def collect(self, *answers, **more):
        guests = [Guest(f"vm{i}", a) for i, a in enumerate(answers, 1)]
        for g in guests:
            for s in (*g.machine.ports.values(), g.ctl, g.state):
                self.addCleanup(s.close)
        lab = types.SimpleNamespace(run=self.run_dir, opt=opt(**more), machines=[g.machine for g in guests], last=b"the end",
                                    qmp=lambda who, command, seconds: {"return": {"status": "running"} if command["execute"] == "query-status" else []})
        return failure.collect(lab, 3, "")

    def text(self, path):
        with open(path) as f:
            return f.read()

    def test_everything(self):
        path = self.collect(framed(archive(dmesg=b"x" * 300000)), framed(archive(dmesg=b"two", ip=b"addresses")))
        self.assertEqual(f"{self.run_dir}/failure-1", path)
        self.assertEqual(["command", "output", "vm1", "vm1.events", "vm1.log", "vm2", "vm2-1.events", "vm2.log", "wire.pcap", "wire1.pcap"], sorted(os.listdir(path)))
        self.assertEqual(300000, len(self.text(f"{path}/vm1/dmesg")))
        self.assertEqual(["dmesg", "ip", "qemu.json"], sorted(os.listdir(f"{path}/vm2")))
        self.assertEqual("true 'a b'\nexit status 3\nlane trixie, 2 machines\n", self.text(f"{path}/command"))
        self.assertEqual("the end", self.text(f"{path}/output"))
        self.assertEqual("running", json.loads(self.text(f"{path}/vm1/qemu.json"))["status"]["status"])

    def test_a_machine_that_does_not_answer(self):
        failure.SECONDS = 1
        began = time.monotonic()
        path = self.collect(None, framed(archive(dmesg=b"two")))
        self.assertLess(time.monotonic() - began, 30)
        self.assertEqual("the machine did not answer\n", self.text(f"{path}/vm1/error"))
        self.assertEqual("two", self.text(f"{path}/vm2/dmesg"))

    def test_hostile_answers(self):
        evil = io.BytesIO()
        with tarfile.open(fileobj=evil, mode="w") as tar:
            tar.addfile(tarfile.TarInfo("../../outside"), io.BytesIO())
        for answer in (b"999999999999999\n", b"x" * 1000, b"5\nabc", framed(b"no archive at all"), framed(evil.getvalue()), b""):
            path = self.collect(answer)
            self.assertEqual(["error", "qemu.json"], sorted(os.listdir(f"{path}/vm1")), answer[:20])
        self.assertNotIn("outside", os.listdir(self.run_dir))

    def test_a_login_has_no_output(self):
        self.assertNotIn("output", os.listdir(self.collect(framed(archive(a=b"")), tty=True)))

    def test_the_oldest_are_deleted(self):
        for _ in range(failure.KEPT + 3):
            path = self.collect(framed(archive(a=b"")))
        self.assertEqual(f"failure-{failure.KEPT + 3}", os.path.basename(path))
        self.assertEqual(failure.KEPT, sum(name.startswith("failure-") for name in os.listdir(self.run_dir)))

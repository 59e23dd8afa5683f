# SPDX-License-Identifier: GPL-2.0-or-later
"""The lab without machines: which devices they get, and what is collected when a command fails."""
import contextlib
import io
import json
import os
import shutil
import socket
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
import types
import unittest
import unittest.mock

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
os.environ.setdefault("TERN_TOP", os.path.dirname(TESTS))
sys.path.append(os.path.join(os.path.dirname(TESTS), "lab/machines"))
os.environ.setdefault("TERN_CACHE", "/nonexistent")
import failure  # noqa: E402
import lab  # noqa: E402
import machine  # noqa: E402
import options  # noqa: E402
import stall  # noqa: E402


def opt(**more):
    defaults = {
        "vms": 2, "adapters": 1, "no_tern": False, "soft_roce": [], "net_wire": False,
        "loop": False, "front": "qemu", "virtio_wire": False, "pcap": False, "events": False,
        "device_prop": [], "mtu": 4500, "tty": False, "no_collect": False, "lane": "trixie",
        "cmd": ["true", "a b"]
    }
    return types.SimpleNamespace(**{**defaults, **more})


class Front(unittest.TestCase):
    def choice(self, processors, *args, front="auto"):
        with unittest.mock.patch("os.sched_getaffinity", return_value=set(range(processors))), \
                unittest.mock.patch.dict(os.environ, {"TERN_FRONT": front}), \
                unittest.mock.patch("sys.argv", ["run-vm", *args, "--", "true"]):
            return options.arguments().front

    def test_ternd_with_a_processor_for_each_thread_and_one_more(self):
        self.assertEqual("vfio-user", self.choice(7))
        self.assertEqual("qemu", self.choice(6))
        self.assertEqual("vfio-user", self.choice(4, "--vms", "1"))
        self.assertEqual("qemu", self.choice(7, "--adapters", "2"))

    def test_what_needs_our_qemu(self):
        for args in (["--no-tern"], ["--mutate"], ["--net-wire"], ["--soft-roce", "vm2"],
                     ["--qemu-arg=-s"], ["--loop", "--vms", "1", "--adapters", "2"]):
            self.assertEqual("qemu", self.choice(64, *args), args)

    def test_two_hosts_need_ternd(self):
        self.assertEqual("vfio-user", self.choice(1, "--two-hosts", "--soft-roce", "vm2"))

    def test_a_choice_of_the_user(self):
        self.assertEqual("qemu", self.choice(64, "--front", "qemu"))
        self.assertEqual("qemu", self.choice(64, front="qemu"))
        self.assertEqual("vfio-user", self.choice(1, "--front", "vfio-user", front="qemu"))
        with self.assertRaises(SystemExit), contextlib.redirect_stderr(io.StringIO()) as err:
            self.choice(1, front="vhost-user")
        self.assertIn("vhost-user", err.getvalue())


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
        self.assertEqual([["tern,id=tern0,wire=wire,bus=rp1,mac=52:54:00:77:00:01"],
                          ["tern,id=tern0,wire=wire,bus=rp1,mac=52:54:00:77:00:02"]],
                         self.machines()[1])

    def test_several_have_wires_and_root_ports_of_their_own(self):
        made, tern = self.machines(adapters=2, vms=3)
        self.assertEqual([
            "tern,id=tern0,netdev=wire,bus=rp1,mac=52:54:00:77:00:03",
            "tern,id=tern1,netdev=wire1,bus=rp2,mac=52:54:00:77:01:03"
        ], tern[2])
        hubs = [a for a in made[0].args if a.startswith("hubport,id=wire") and "netdev" not in a]
        self.assertEqual(2, len({a.partition("hubid=")[2] for a in hubs}), hubs)
        self.assertEqual(3, sum("pcie-root-port" in a for a in machine.root_ports(3)))

    def test_a_single_machine(self):
        made, tern = self.machines(adapters=2, vms=1)
        self.assertEqual(2, len(tern[0]))
        self.assertEqual(3, sum(a.startswith("stream,") for a in made[0].args))

    def test_a_single_machine_whose_adapters_are_connected(self):
        made, tern = self.machines(adapters=2, vms=1, loop=True)
        self.assertEqual([
            "tern,id=tern0,netdev=wire,bus=rp1,mac=52:54:00:77:00:01",
            "tern,id=tern1,netdev=wire1,bus=rp2,mac=52:54:00:77:01:01"
        ], tern[0])
        self.assertEqual(["hubport,id=wire,hubid=1", "hubport,id=wire1,hubid=1"],
                         [a for a in made[0].args if "wire" in a and not a.startswith("tern,")])

    def test_properties(self):
        tern = self.machines(adapters=2, device_prop=["a=1", "vm2:b=2", "1:c=3",
                                                      "vm1:0:d=vm1:0:e"])[1]
        self.assertEqual([[",a=1,d=vm1:0:e", ",a=1,c=3"], [",a=1,b=2", ",a=1,b=2,c=3"]],
                         [[t[t.index("mac=") + 21:] for t in of] for of in tern])

    def test_captures(self):
        tern = self.machines(adapters=2, pcap=True)[1]
        self.assertEqual([["/run/wire.pcap", "/run/wire1.pcap"], ["", ""]],
                         [[t.partition("pcap=")[2] for t in of] for of in tern])

    def test_event_logs(self):
        tern = self.machines(adapters=2, events=True)[1]
        self.assertEqual(
            [["/run/vm1.events", "/run/vm1-1.events"], ["/run/vm2.events", "/run/vm2-1.events"]],
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
        self.machine = types.SimpleNamespace(name=name, ready=True,
                                             ports={"ctl": ctl, "state": state},
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
        for name in ("vm1.log", "vm2.log", "wire.pcap", "wire1.pcap", "vm1.events", "vm2-1.events",
                     "other"):
            with open(f"{self.run_dir}/{name}", "w") as f:
                f.write(name)

    def collect(self, *answers, **more):
        guests = [Guest(f"vm{i}", a) for i, a in enumerate(answers, 1)]
        for g in guests:
            for s in (*g.machine.ports.values(), g.ctl, g.state):
                self.addCleanup(s.close)
        lab = types.SimpleNamespace(
            run=self.run_dir, opt=opt(**more), machines=[g.machine for g in guests],
            last=b"the end", qmp=lambda who, command, seconds:
            {"return": {"status": "running"} if command["execute"] == "query-status" else []})
        return failure.collect(lab, 3, "")

    def text(self, path):
        with open(path) as f:
            return f.read()

    def test_everything(self):
        path = self.collect(framed(archive(dmesg=b"x" * 300000)),
                            framed(archive(dmesg=b"two", ip=b"addresses")))
        self.assertEqual(f"{self.run_dir}/failure-1", path)
        self.assertEqual([
            "command", "output", "vm1", "vm1.events", "vm1.log", "vm2", "vm2-1.events", "vm2.log",
            "wire.pcap", "wire1.pcap"
        ], sorted(os.listdir(path)))
        self.assertEqual(300000, len(self.text(f"{path}/vm1/dmesg")))
        self.assertEqual(["dmesg", "ip", "qemu.json"], sorted(os.listdir(f"{path}/vm2")))
        self.assertEqual("true 'a b'\nexit status 3\nlane trixie, 2 machines\n",
                         self.text(f"{path}/command"))
        self.assertEqual("the end", self.text(f"{path}/output"))
        self.assertEqual("running",
                         json.loads(self.text(f"{path}/vm1/qemu.json"))["status"]["status"])

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
        for answer in (b"999999999999999\n", b"x" * 1000, b"5\nabc", framed(b"no archive at all"),
                       framed(evil.getvalue()), b""):
            path = self.collect(answer)
            self.assertEqual(["error", "qemu.json"], sorted(os.listdir(f"{path}/vm1")), answer[:20])
        self.assertNotIn("outside", os.listdir(self.run_dir))

    def test_a_login_has_no_output(self):
        self.assertNotIn("output", os.listdir(self.collect(framed(archive(a=b"")), tty=True)))

    def test_the_oldest_are_deleted(self):
        for _ in range(failure.KEPT + 3):
            path = self.collect(framed(archive(a=b"")))
        self.assertEqual(f"failure-{failure.KEPT + 3}", os.path.basename(path))
        self.assertEqual(failure.KEPT,
                         sum(name.startswith("failure-") for name in os.listdir(self.run_dir)))


class Ending(unittest.TestCase):
    """The processes of a lab end when they are told to, with exit status 0."""
    def end(self, script, seconds=60, ended=False):
        p = subprocess.Popen(["bash", "-c", script], stdout=subprocess.PIPE)
        self.addCleanup(p.stdout.close)
        self.assertEqual(b"up\n", p.stdout.readline())
        if ended:
            os.waitid(os.P_PID, p.pid, os.WEXITED | os.WNOWAIT)
        found = lab.end_all({"vm1": p}, seconds)
        self.assertIsNotNone(p.returncode)
        return found

    def test_as_expected(self):
        self.assertEqual([], self.end("trap 'exit 0' TERM; echo up; while :; do sleep 0.05; done"))

    def test_it_has_ended_before(self):
        self.assertEqual([], self.end("echo up", ended=True))

    def test_a_report_of_a_sanitizer(self):
        self.assertEqual(["vm1 ended with exit status 23"],
                         self.end("trap 'exit 23' TERM; echo up; while :; do sleep 0.05; done"))

    def test_a_crash_in_teardown(self):
        self.assertEqual(
            ["vm1 ended by SIGSEGV"],
            self.end("trap 'kill -SEGV $$' TERM; echo up; while :; do sleep 0.05; done"))

    def test_a_crash_that_nobody_saw_yet(self):
        self.assertEqual(["vm1 ended by SIGABRT"], self.end("echo up; kill -ABRT $$", ended=True))

    def test_a_hang(self):
        self.assertEqual(["vm1 did not end in 0.2 s"],
                         self.end("trap '' TERM; echo up; while :; do sleep 0.05; done", 0.2))

    def stopped(self, *scripts):
        """A lab without machines' devices, whose QEMUs are these scripts."""
        it = lab.Lab.__new__(lab.Lab)
        it.run = it.tmp = tempfile.mkdtemp(prefix="tern-infra-")
        it.saved_tty, it.hosts, it.daemons, it.machines = None, [], [], []
        it.run_lock = io.StringIO()
        for i, script in enumerate(scripts, 1):
            m = machine.Machine(i)
            m.process = subprocess.Popen(["bash", "-c", script], stdout=subprocess.PIPE)
            self.addCleanup(m.process.stdout.close)
            if not m.process.stdout.readline():
                os.waitid(os.P_PID, m.process.pid, os.WEXITED | os.WNOWAIT)
            it.machines.append(m)
        return it

    def test_a_machine_that_was_switched_off(self):
        it = self.stopped("trap 'exit 0' TERM; echo up; while :; do sleep 0.05; done",
                          "kill -KILL $$", "kill -KILL $$")
        it.machines[1].killed = True
        self.assertEqual(["vm3 ended by SIGKILL"], it.stop(60))

    def test_a_daemon(self):
        it = self.stopped()
        it.daemons = [subprocess.Popen(["bash", "-c", "exit 3"])]
        os.waitid(os.P_PID, it.daemons[0].pid, os.WEXITED | os.WNOWAIT)
        self.assertEqual(["ternd ended with exit status 3"], it.stop(60))


class Booting(unittest.TestCase):
    """Which machines are started again."""

    STALL = "rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:"

    def setUp(self):
        self.lab = lab.Lab.__new__(lab.Lab)
        self.lab.run = tempfile.mkdtemp(prefix="tern-infra-")
        self.addCleanup(shutil.rmtree, self.lab.run)
        self.machine = machine.Machine(1)

    def console(self, *lines):
        with open(f"{self.lab.run}/vm1.log", "w") as f:
            f.write("\n".join(lines) + "\n")

    def trouble(self, seconds, again=2):
        self.lab.again = again
        with self.assertRaises(lab.Trouble) as raised:
            self.lab.boot_trouble(self.machine, seconds, 200)
        return isinstance(raised.exception, lab.Stalled), str(raised.exception)

    def test_one_that_boots(self):
        self.console("hello")
        self.lab.again = 2
        self.lab.boot_trouble(self.machine, 1, 200)

    def test_a_stall(self):
        self.console("hello", self.STALL, "RIP: 0010:default_idle+0x9/0x10")
        self.assertEqual((True, "vm1 stalled while booting"), self.trouble(30))

    def test_no_stall_but_time(self):
        self.console("hello")
        self.assertEqual((False, "vm1 did not boot in 200 s"), self.trouble(201))

    def test_a_stall_in_a_driver(self):
        for where in ("RIP: 0010:tern_aq_wait+0x9/0x10 [tern]", " ? tern_ib_probe+0x1/0x2"):
            self.console("hello", self.STALL, where)
            self.assertEqual((False, "vm1 stalled in a driver of tern"), self.trouble(30))

    def test_a_third_stall(self):
        self.console(self.STALL)
        self.lab.again = 0
        self.lab.boot_trouble(self.machine, 30, 200)
        self.assertEqual((False, "vm1 did not boot in 200 s"), self.trouble(201, 0))

    def test_a_stall_after_the_boot(self):
        """It is final after a silence of the command, and not retried if a driver is in it."""
        shown = []
        self.lab.show_stall = shown.append
        for where, status in (("default_idle+0x9/0x10", lab.STALLED), ("tern_rx+0x1/0x2 [tern]",
                                                                       125)):
            self.console(self.STALL, f"RIP: 0010:{where}")
            self.machine.stall_shown = None
            self.lab.heard = time.monotonic()
            for _ in range(2):
                self.lab.stall_trouble(self.machine)
            self.lab.heard -= 2 * lab.SILENCE
            self.lab.stall_trouble(self.machine)
            self.machine.stall_shown -= 2 * lab.SILENCE
            with self.assertRaises(lab.Trouble) as raised:
                self.lab.stall_trouble(self.machine)
            self.assertEqual(status, raised.exception.status)
        self.assertEqual([self.machine] * 2, shown)

    def test_what_is_in_a_report(self):
        self.assertTrue(stall.in_driver(["RIP: 0010:tern_rx+0x1/0x2 [tern]"]))
        self.assertFalse(
            stall.in_driver(
                ["CPU: 0 Comm: tern-up", "RIP: 0010:pattern_fill+0x1/0x2",
                 "external_call+0x1/0x2"]))


class Complaints(unittest.TestCase):
    """What kernel-complaints takes for a kernel in trouble."""
    GUEST = os.path.join(os.path.dirname(TESTS), "lab/guest/bin")

    def complaints(self, log):
        with tempfile.TemporaryDirectory() as d:
            with open(os.path.join(d, "dmesg"), "w") as f:
                f.write(f"#!/bin/sh\ncat {d}/log\n")
            os.chmod(os.path.join(d, "dmesg"), 0o755)
            with open(os.path.join(d, "log"), "w") as f:
                f.write(log)
            env = dict(os.environ, PATH=f"{d}:{os.environ['PATH']}")
            return subprocess.run([os.path.join(self.GUEST, "kernel-complaints")], env=env,
                                  capture_output=True, text=True).stdout

    @staticmethod
    def freed(mapped, unmapped, what="attributes"):
        return (
            "[    7.1] ------------[ cut here ]------------\n"
            f"[    7.1] DMA-API: tern 0000:01:00.0: device driver frees DMA memory with different {what} "
            f"[device address=0x0000000012345000] [size=4096 bytes] [mapped with {mapped}] [unmapped with {unmapped}]\n"
            "[    7.1] WARNING: kernel/dma/debug.c:1091 at check_unmap+0x1/0x2, CPU#0: x/1\n"
            "[    7.1] Call Trace:\n"
            "[    7.1] ---[ end trace 0000000000000000 ]---\n")

    def test_a_udmabuf_whose_page_is_pinned_is_no_misuse(self):
        for attrs in (("0x20", "0x1000"), ("0x1000", "0x20")):
            self.assertEqual(self.complaints(self.freed(*attrs)), "")

    def test_warnings_of_two_processors_mix(self):
        one = self.freed("0x20", "0x1000").splitlines(True)
        two = self.freed("0x1000", "0x20").splitlines(True)
        self.assertEqual(self.complaints("".join(a + b for a, b in zip(one, two))), "")
        self.assertEqual(self.complaints("".join(one[:2] + two + one[2:])), "")

    def test_other_misuse_of_the_dma_api_is_reported(self):
        for other in (self.freed("0x20", "0x1200"), self.freed("0x20", "0x1000",
                                                               "size"), self.freed("0x20", "0x0")):
            self.assertIn("WARNING", self.complaints(self.freed("0x20", "0x1000") + other))

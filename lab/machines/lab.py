#!/usr/bin/python3
"""The lab: boots machines on a shared wire and runs a command in the first one. run-vm starts it
inside the sysroot.

With TERN_CHECK=1, outside the sysroot: checks the arguments and prints those that run-vm needs, as
shell variables."""
import contextlib
import ctypes
import fcntl
import glob
import json
import os
import re
import secrets
import selectors
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import termios
import time
import tty

import failure
import frontend
import hosts
import monitor
import moving
import packages
import places
import stall
from kvm import kvm_works
from machine import CAPTURE, EVENT_LOG, Machine, add_adapters, add_ports, add_second_wire, connect, cpio, networks, qemu_command
from options import LANES, arguments, plan
from places import LAB, TOP
from snapshot import Snapshot, saving

with open(os.path.join(LAB, "guest/bin/complaints")) as _f:
    _lines = [line for line in _f.read().splitlines() if not line.startswith("#")]
BAD = re.compile("|".join(line for line in _lines if line[0] not in "!~"))
HARMLESS = re.compile("|".join(line[1:] for line in _lines if line.startswith("!")))
FOREIGN = re.compile("|".join(line[1:] for line in _lines if line.startswith("~")))


def say(text):
    t = int(time.time()) - int(os.environ.get("TERN_T0", time.time()))
    print(f"[{t // 60:3}:{t % 60:02}] {text}", file=sys.stderr, flush=True)


LIBC = ctypes.CDLL(None)
PR_SET_PDEATHSIG = 1
# The exit status if a machine stalls after the boot.
STALLED = 98
# Seconds without output of the command after which a stall is final.
SILENCE = 180


class Lab:
    def __init__(self, opt, again):
        """again: number of restarts allowed for machines that do not boot."""
        self.opt = opt
        self.again = again
        suffix = "" if opt.lane == LANES[0] else f"-{opt.lane}"
        self.out = f"build/out{suffix}"
        self.image = os.environ["TERN_IMAGE"] if opt.kernel else places.image(self.out)
        self.daemons = []
        self.hosts = []
        self.snapshot = None
        self.hubs = {}
        self.jobs = []
        self.qemu = places.qemu(opt.front, opt.mutate)
        self.token = b"\0tern-end-" + secrets.token_hex(12).encode()
        self.selector = selectors.DefaultSelector()
        self.machines = [Machine(i + 1) for i in range(opt.vms)]
        for m in self.machines:
            m.soft_roce = m.name in opt.soft_roce
        self.status = None
        self.tail = {1: b"", 2: b""}
        self.last = b""
        self.heard = time.monotonic()
        self.done = set()
        self.saved_tty = None
        self.deadline = time.monotonic() + opt.timeout if opt.timeout else None
        self.open_run_dir()

    def open_run_dir(self):
        base = os.path.abspath(self.opt.run_dir or places.run_dir())
        for n in range(1, 100):
            self.run = base if n == 1 else f"{base}-{n}"
            os.makedirs(self.run, exist_ok=True)
            self.run_lock = open(os.path.join(self.run, ".lock"), "w")
            try:
                fcntl.flock(self.run_lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError:
                continue
        if self.run != base:
            say(f"another lab uses {places.shown(base)}: logs go to {places.shown(self.run)}")
        self.opt.used_dir = self.run
        for f in os.listdir(self.run):
            if re.fullmatch(
                    r"vm\d+\.log|qmp" + (f"|{CAPTURE}" if self.opt.pcap else "") +
                (f"|{EVENT_LOG}" if self.opt.events else ""), f):
                os.unlink(os.path.join(self.run, f))
        remove_killed(places.temporary())
        self.tmp = tempfile.mkdtemp(prefix="tern-lab-", dir=places.temporary())
        self.tmp_lock = open(f"{self.tmp}/lock", "w")
        fcntl.flock(self.tmp_lock, fcntl.LOCK_EX)
        os.symlink(self.tmp, os.path.join(self.run, "qmp"))
        self.share = os.path.abspath(self.opt.share or os.path.join(self.run, "share"))
        os.makedirs(self.share, exist_ok=True)

    # starting

    def files(self, m):
        """Returns the files in a machine's /tern: {name: (mode, bytes)}."""
        opt = self.opt
        ssh = f"{self.tmp}/ssh"
        if not os.path.isdir(ssh) and places.keys():
            shutil.copytree(places.keys(), ssh, copy_function=shutil.copyfile)
            os.chmod(ssh, 0o700)  # the bundle may be read-only
        elif not os.path.isdir(ssh):
            os.mkdir(ssh)
            for key in ("id_ed25519", "host_key"):
                subprocess.run([
                    "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "lab", "-f", f"{ssh}/{key}"
                ], check=True)
            os.rename(f"{ssh}/id_ed25519.pub", f"{ssh}/authorized_keys")
        # Empty if the kernel has the drivers.
        drivers = os.environ.get("TERN_DRIVERS", "" if opt.kernel else self.out)
        driver = not (opt.no_tern or opt.no_driver or m.soft_roce) and (
            not drivers or os.path.exists(f"{TOP}/{drivers}/tern.ko"))
        provider = [] if opt.overlay and glob.glob(f"{glob.escape(opt.overlay)}/usr/lib/*/libibverbs/libtern-rdmav*") else \
            glob.glob(f"{glob.escape(TOP)}/{self.out}/libtern-rdmav*")
        conf = {
            "NAME": m.name, "INDEX": m.index, "VMS": opt.vms, "MTU": opt.mtu,
            "CTL_MAC": f"52:54:00:78:00:{m.index:02x}", "TTY": int(opt.tty), "DEBUG": int(
                os.environ.get("TERN_DEBUG",
                               0)), "DRIVER": int(driver), "TOKEN": self.token.decode()[1:],
            "SOFT_ROCE": int(m.soft_roce), "VIRTIO_WIRE": int(opt.virtio_wire), "LANE": opt.lane,
            "FRONT": opt.front, "OUT": self.out, "PROVIDER": os.path.basename(
                max(provider, key=os.path.getmtime,
                    default="")), "DRIVERS": drivers, "OVERLAY": int(bool(opt.overlay)),
            "ADAPTERS": int(not opt.no_tern) and opt.adapters, "SNAPSHOT": int(bool(opt.snapshot)),
        }
        files = {
            "tern/init": (0o755, open(f"{LAB}/guest/init", "rb").read()),
            "tern/conf": (0o644, "".join(f"{k}={shlex.quote(str(v))}\n"
                                         for k, v in conf.items()).encode()),
        }
        for d, mode in ((f"{LAB}/guest/bin", 0o755), (ssh, 0o600)):
            for f in os.listdir(d):
                files[f"tern/{os.path.basename(d)}/{f}"] = (mode, open(f"{d}/{f}", "rb").read())
        if m.index == 1:
            if opt.stdin:
                files["tern/stdin"] = (0o600, sys.stdin.buffer.read())
            files["tern/cmd"] = (0o755, f"#!/bin/bash\nexec {shlex.join(opt.cmd)}\n".encode())
        return files

    def initrd(self, m):
        if self.opt.snapshot and not self.opt.saving:
            return f"{self.image}/initrd"  # the machine is booted already
        path = f"{self.tmp}/{m.name}.initrd"
        if not os.path.exists(path):  # unless this is another QEMU of the machine
            with open(path, "wb") as f:
                f.write(open(f"{self.image}/initrd", "rb").read())
                f.write(bytes(-f.tell() % 4) + cpio(self.files(m)))
        return path

    def start(self):
        opt = self.opt
        kvm = opt.kvm != "off" and kvm_works(self.qemu, f"{self.image}/vmlinuz", opt.kvm == "on")
        self.began, self.accelerator = time.monotonic(), "KVM" if kvm else "emulation (TCG)"
        if opt.front == "vfio-user":
            self.hosts = hosts.make_hosts(opt.mtu) if opt.two_hosts else []
            self.daemons = frontend.start_daemons(self)
        self.kvm = kvm
        if opt.snapshot:
            self.snapshot = Snapshot(self)
            if opt.saving and self.snapshot.fresh:
                self.status, self.done = 0, {1, 2}
                return
        if opt.movable:
            self.hubs = {net: moving.Hub(self.selector) for net in networks(opt)}
            for m in self.machines:
                moving.connect(self, m)
        else:
            # A wire that ends in this process discards all frames.
            for end in connect(opt, self.machines):
                self.watch(end, lambda sock: sock.recv(1 << 20))
        for m in self.machines:
            self.start_machine(m, kvm, self.snapshot.arguments() if opt.snapshot else ())
        if opt.snapshot and not opt.saving:
            self.load_snapshot()
        self.watch_command(self.machines[0])

    def load_snapshot(self):
        try:
            self.snapshot.load()
        except OSError as e:
            for m in self.machines:
                if m.process.poll() is not None:
                    raise Trouble(f"{m.name} cannot load the snapshot", m) from e
            raise

    def watch_command(self, first):
        if self.opt.tty:
            self.watch(first.ports["tty"], self.from_tty)
        else:
            for fd, port in enumerate(("out", "err"), 1):
                if fd not in self.done:
                    self.watch(first.ports[port], self.output, fd)

    def start_machine(self, m, kvm, more=()):
        """Starts the QEMU of a connected machine, and watches it."""
        m.monitor = m.monitor or f"{self.tmp}/{m.name}.qmp"
        add_ports(m, self.opt)
        if self.opt.front == "vfio-user" and not self.opt.no_tern:
            m.args += frontend.devices(self, m)
        else:
            add_adapters(m, self.opt, self.run)
        add_second_wire(m, self.opt)
        # One file for the console and QEMU's messages; both append.
        self.errors = open(f"{self.run}/{m.name}.log", "ab")
        m.process = subprocess.Popen([*qemu_command(m, self, self.initrd(m), kvm), *more],
                                     stdin=subprocess.DEVNULL, stdout=self.errors,
                                     stderr=self.errors, close_fds=True,
                                     pass_fds=[s.fileno() for s in m.fds], start_new_session=True,
                                     preexec_fn=end_with_lab)
        for s in m.fds:
            s.close()
        self.watch(m.ports["ctl"], self.control, m)
        self.watch(m.ports["lab"], self.lab_request, m)
        m.lines = {"ctl": b"", "lab": b""}
        m.pidfd = os.pidfd_open(m.process.pid)
        self.selector.register(m.pidfd, selectors.EVENT_READ, (self.gone, m))

    def power(self, who, on):
        """Kills the QEMU of a machine, or starts another one. That one is not on the control
        network, whose sockets ended with the first QEMU."""
        i = next((i for i, m in enumerate(self.machines) if m.name == who), 0)
        if not i or self.opt.front != "vfio-user":
            raise ValueError(
                "only --front vfio-user has adapters that outlive a machine, and vm1 runs the command"
            )
        m = self.machines[i]
        if on == (m.process.poll() is None):
            raise ValueError(f"{who} is {'on' if on else 'off'} already")
        if not on:
            self.forget(m)
            m.killed = True
            m.process.kill()
            m.process.wait()
            return
        m = self.machines[i] = Machine(i + 1)
        m.replaced = True
        m.ports["control"], fd = m.pair()
        m.args += ["-netdev", f"stream,id=control,server=off,addr.type=fd,addr.str={fd}"]
        self.watch(m.ports["control"], lambda sock: sock.recv(1 << 20))
        self.start_machine(m, False)

    def forget(self, m):
        """Watches a machine no longer."""
        self.selector.unregister(m.pidfd)
        os.close(m.pidfd)
        for port in m.ports.values():
            if port in self.selector.get_map():
                self.selector.unregister(port)

    def watch(self, sock, handler, *args):
        self.selector.register(sock, selectors.EVENT_READ, (handler, sock, *args))

    # events

    def lines(self, sock, m, port):
        try:
            data = sock.recv(65536)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.selector.unregister(sock)
            return
        m.lines[port] += data
        *lines, m.lines[port] = m.lines[port].split(b"\n")
        yield from (l.decode(errors="replace") for l in lines)

    def control(self, sock, m):
        for line in self.lines(sock, m, "ctl"):
            word, _, rest = line.partition(" ")
            if word == "ready":
                m.ready = True
                if not m.replaced and all(x.ready for x in self.machines):
                    if self.opt.saving:
                        self.snapshot.save()
                        self.status, self.done = 0, {1, 2}
                    else:
                        self.go()
            elif word == "fail":
                raise Trouble(f"{m.name}: {rest}", m)
            elif word == "exit":
                self.status = int(rest)

    def lab_request(self, sock, m):
        for line in self.lines(sock, m, "lab"):
            try:
                word, who, command = line.split(" ", 2)
                if word not in ("qmp", "power", "fetch",
                                *moving.JOBS) or not re.fullmatch(r"vm\d+", who):
                    raise ValueError("expected: qmp VM JSON, power VM on|off, or "
                                     "migrate|save|load VM WORD")
                if word in moving.JOBS:
                    job = moving.JOBS[word]
                    self.jobs.append(job(self, who, command, lambda a: self.reply(m.index, a)))
                    continue
                if word == "qmp":
                    answer = self.qmp(who, json.loads(command))
                elif word == "fetch":
                    answer = {"return": self.fetch(json.loads(command))}
                else:
                    self.power(who, command == "on")
                    answer = {"return": {}}
            except (ValueError, OSError) as e:
                answer = {"error": {"class": "Lab", "desc": str(e)}}
            if m.process.poll() is not None:  # the machine has killed itself
                return
            self.reply(m.index, answer)

    def reply(self, index, answer):
        """Answers a request of a machine, which may have moved since."""
        sock = self.machines[index - 1].ports["lab"]
        sock.setblocking(True)
        sock.sendall(json.dumps(answer).encode() + b"\n")
        sock.setblocking(False)

    def fetch(self, uri):
        if not self.opt.fetches:
            raise ValueError("this lab fetches nothing")
        return packages.fetch(uri, self.share)

    def qmp(self, who, command, seconds=120):
        if self.opt.front == "vfio-user":
            answer, command = frontend.qmp(self, who, command)
            if answer:
                return answer
        return monitor.qmp(f"{self.tmp}/{who}.qmp", command, seconds)

    def go(self):
        if places.BUNDLE:
            say(f"booted {len(self.machines)} by {self.accelerator} in {time.monotonic() - self.began:.1f} s"
                )
        ctl = self.machines[0].ports["ctl"]
        if self.opt.tty:
            self.saved_tty = termios.tcgetattr(0)
            tty.setraw(0)
            signal.signal(signal.SIGWINCH, lambda *_: self.winsize())
            self.winsize()
            self.selector.register(0, selectors.EVENT_READ, (self.to_tty, ))
        ctl.send(b"run\n")

    def winsize(self):
        size = shutil.get_terminal_size()
        self.machines[0].ports["ctl"].send(f"winsize {size.lines} {size.columns}\n".encode())

    def to_tty(self):
        data = os.read(0, 4096)
        sock = self.machines[0].ports["tty"]
        sock.setblocking(True)
        sock.sendall(data)
        sock.setblocking(False)

    def from_tty(self, sock):
        try:
            write_all(1, sock.recv(65536))
        except BlockingIOError:
            pass

    def output(self, sock, fd):
        """Passes on guest output up to the token that ends it; holds back a tail that may be the
        token's beginning."""
        try:
            data = sock.recv(262144)
        except BlockingIOError:
            return
        if not data:
            self.selector.unregister(sock)
            self.done.add(fd)
            return
        data = self.tail[fd] + data
        token = self.token[1:]
        at = data.find(token)
        if at >= 0:
            self.write(fd, data[:at])
            self.tail[fd] = b""
            self.done.add(fd)
            self.selector.unregister(sock)
            return
        keep = 0
        for n in range(min(len(token) - 1, len(data)), 0, -1):
            if token.startswith(data[-n:]):
                keep = n
                break
        self.write(fd, data[:len(data) - keep])
        self.tail[fd] = data[len(data) - keep:]

    def write(self, fd, data):
        self.heard = time.monotonic()
        self.last = (self.last + data)[-failure.OUTPUT:]
        write_all(fd, data)

    def lost(self, m, why):
        raise Trouble(f"{m.name} is lost: {why}", m)

    def gone(self, m):
        if any(m is job.new for job in self.jobs):
            return  # the machine itself is still in the old QEMU
        raise Trouble(f"{m.name} stopped (QEMU's exit status {m.process.wait()})", m)

    # main loop

    def loop(self):
        boot_seconds = float(
            os.environ.get("TERN_BOOT_TIMEOUT", 600 if self.opt.lane == "debug" else 200))
        began = time.monotonic()
        next_look = 0
        while True:
            if self.status is not None and (self.opt.tty or {1, 2} <= self.done):
                return self.status
            now = time.monotonic()
            if self.deadline and now > self.deadline:
                raise Trouble(f"timed out after {self.opt.timeout:g} s", None, 124)
            for late in (m for m in self.machines if not m.ready and not m.replaced):
                self.boot_trouble(late, now - began, boot_seconds)
            if now > next_look:
                next_look = now + 5
                for m in self.machines:
                    if m.ready and self.stalled(m):
                        self.stall_trouble(m)
            self.jobs = [job for job in self.jobs if not job.advance()]
            for key, _ in self.selector.select(0.02 if self.jobs else 1):
                if key.fileobj in self.selector.get_map():
                    handler, *args = key.data
                    handler(*args)

    def boot_trouble(self, m, seconds, limit):
        """Raises an exception if a machine has stalled or takes too long to boot."""
        if seconds > limit:
            raise Trouble(f"{m.name} did not boot in {limit:.0f} s", m)
        if self.again and self.stalled(m):
            time.sleep(1)  # for the rest of the report
            if stall.in_driver(stall.first_report(f"{self.run}/{m.name}.log")):
                raise Trouble(f"{m.name} stalled in a driver of tern", m)
            raise Stalled(f"{m.name} stalled while booting", m)

    def stalled(self, m):
        """On a busy host, an emulated machine sometimes calibrates its timers wrongly, and a
        processor sleeps for ever."""
        with open(f"{self.run}/{m.name}.log", "rb") as f:
            return stall.STALL in f.read()

    def stall_trouble(self, m):
        """Shows a stall after the boot; raises an exception if the command has been silent for
        long since then: the processors sleep for ever, and no time limit in the guest ends."""
        if not m.stall_shown:
            m.stall_shown = time.monotonic()
            time.sleep(1)  # for the rest of the report
            self.show_stall(m)
        elif time.monotonic() - max(self.heard, m.stall_shown) > SILENCE:
            if stall.in_driver(stall.first_report(f"{self.run}/{m.name}.log")):
                raise Trouble(f"{m.name} stalled in a driver of tern", m)
            raise Trouble(f"{m.name} stalled", m, STALLED)

    def show_stall(self, m):
        report = stall.first_report(f"{self.run}/{m.name}.log")
        for line in report + stall.describe(m.process.pid,
                                            lambda command: self.qmp(m.name, command)):
            say(f"stall: {m.name}: {line}")

    def stop(self, seconds):
        """Ends all processes; returns a line for each that did not end normally."""
        if self.saved_tty:
            termios.tcsetattr(0, termios.TCSADRAIN, self.saved_tty)
        bad = end_all({m.name: m.process for m in self.machines if m.process and not m.killed},
                      seconds)
        bad += end_all({f"ternd{n or ''}": daemon for n, daemon in enumerate(self.daemons)},
                       max(5, seconds))
        for host in self.hosts:
            host.close()
        shutil.rmtree(self.tmp, ignore_errors=True)
        qmp = os.path.join(self.run, "qmp")
        if os.path.islink(qmp):
            os.unlink(qmp)
        self.run_lock.close()
        return bad

    def kernel_complaints(self):
        found = []
        for m in (m for m in self.machines if m.process):
            path = os.path.join(self.run, f"{m.name}.log")
            foreign = 0  # open warnings: those of two processors mix
            for line in open(path, errors="replace").read().splitlines():
                foreign = max(0, foreign - ("end trace" in line)) + bool(FOREIGN.search(line))
                if not foreign and BAD.search(line) and not HARMLESS.search(line):
                    found.append(f"{m.name}: {line.strip()}")
        return found


def end_with_lab():
    """In a child: the kernel kills it when the lab ends, however that ends."""
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def remove_killed(where):
    """Removes the directories of killed labs."""
    for name in os.listdir(where):
        path = f"{where}/{name}"
        if not name.startswith("tern-lab-") or os.path.exists(f"{path}/keep"):
            continue
        with contextlib.suppress(OSError):
            if os.stat(path).st_mtime > time.time() - 60:  # its lab may not have locked it yet
                continue
            with open(f"{path}/lock") as f:
                fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path, ignore_errors=True)


def write_all(fd, data):
    while data:
        data = data[os.write(fd, data):]


def end_all(processes, seconds):
    """Ends {name: process}; returns a line for each that crashed, reported a failure or had to
    be killed."""
    bad = []
    for p in processes.values():
        if p.poll() is None:
            p.terminate()
    end = time.monotonic() + seconds
    for name, p in processes.items():
        try:
            status = p.wait(max(0.01, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            p.kill()
            p.wait()
            bad.append(f"{name} did not end in {seconds:g} s")
            continue
        if status:
            bad.append(f"{name} ended by {signal.Signals(-status).name}" if status <
                       0 else f"{name} ended with exit status {status}")
    return bad


class Trouble(Exception):
    def __init__(self, text, machine, status=125):
        super().__init__(text)
        self.machine = machine
        self.status = status


class Stalled(Trouble):
    """Raised if the machines may be started again."""


# QEMU stops its processors first, which takes time on a busy host.
ENDING = 60


def collected(lab, status, why):
    """Collects the state of the machines; returns the end of the line that names its location."""
    try:
        return f"consoles, counters and resources are in {places.shown(failure.collect(lab, status, why))}"
    except OSError as e:  # a full disk
        return f"the state of the machines could not be collected ({e.strerror or e})"


def run(opt, again):
    """Runs a lab; returns it with the command's exit status, or with None if a machine stalled
    and may be restarted."""
    lab = Lab(opt, again)
    why = ""
    seconds, status = 2, 125
    try:
        try:
            lab.start()
            status = lab.loop()
        except Trouble as t:
            why = str(t)
            say(f"{places.COMMAND}: {t}")
            for m in [t.machine] if t.machine else lab.machines:
                with open(os.path.join(lab.run, f"{m.name}.log"), errors="replace") as f:
                    for line in f.read().splitlines()[-20:]:
                        print(f"  {m.name}| {line}", file=sys.stderr)
            status = None if isinstance(t, Stalled) else t.status
        if status == 0 and opt.judge_kernels and lab.kernel_complaints():
            why = "a kernel complained"
        # Ignore the status of a login: it is that of the last command typed.
        if (why or status and not opt.tty) and status is not None and not opt.no_collect:
            say(f"{places.COMMAND}: {why or f'exit status {status}'}; {collected(lab, status, why)}"
                )
        seconds = 2 if status is None else ENDING
    except KeyboardInterrupt:
        status = 130
    finally:
        bad = lab.stop(seconds)
        if lab.snapshot:
            lab.snapshot.end(status == 0 and not lab.kernel_complaints())
    if status is None:  # the first processes of a machine that stalled may end in any way
        print(f"# retried: {why}: restarting the machines", file=sys.stderr)
        return lab, None
    for line in bad:
        say(f"{places.COMMAND}: {line}")
    return lab, 125 if bad and status == 0 else status


def main(argv=None):
    """argv: the arguments, by default those of this process."""
    opt = arguments(argv)
    if os.environ.get("TERN_CHECK"):
        print(plan(opt))
        return 0
    return boot(opt)


def add_packages(opt):
    """Makes a layer with the packages for the machines of a bundle, in a machine of its own."""
    def make(share, command):
        say(f"{places.COMMAND}: installing {' '.join(opt.package)}, once")
        more = ["--no-tern", "--no-collect", "--kvm", opt.kvm, "--timeout", str(packages.SECONDS)]
        prepare = arguments(
            ["--vms", "1", "--share", share, "--run-dir", f"{share}/run", *more, "--", *command])
        prepare.fetches = True
        return run_again(prepare)

    os.environ["TERN_PACKAGES"] = packages.layer(opt.package, make)


def boot(opt):
    """Runs the command of the options; returns the exit status."""
    for s in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(s, lambda n, _: sys.exit(128 + n))
    try:
        if places.BUNDLE and opt.package:
            add_packages(opt)
        return run_again(opt)
    except OSError as e:  # a full disk, no right to write, no KVM
        say(f"{places.COMMAND}: {e}")
        return 125


def run_again(opt):
    """Runs a lab, again if a machine stalls while it boots; returns the exit status."""
    if opt.snapshot and not opt.saving:
        status = run_again(saving(opt))
        if status:
            return status
    for again in (2, 1, 0):
        lab, status = run(opt, again)
        if status is not None:
            break
    complaints = lab.kernel_complaints()
    for line in complaints[:10]:
        say(f"kernel complaint: {line}")
    if complaints and opt.judge_kernels and status == 0:
        status = 99
    return status


if __name__ == "__main__":
    sys.exit(main())

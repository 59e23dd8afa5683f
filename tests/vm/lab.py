#!/usr/bin/python3
"""The lab: boots machines on a shared wire and runs a command in the first one. run-vm starts it inside the sysroot.

With TERN_CHECK=1, outside the sysroot: checks the arguments and prints those that run-vm needs, as shell variables."""
import argparse
import fcntl
import glob
import io
import json
import os
import re
import secrets
import selectors
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import termios
import time
import tty

import stall
from lanes import read_lanes

TOP = os.environ["TERN_TOP"]
CACHE = os.environ["TERN_CACHE"]
QEMU = os.path.join(TOP, "build/qemu/qemu-system-x86_64")
VM_DIR = os.path.join(TOP, "tests/vm")

LANES = list(read_lanes())
with open(os.path.join(VM_DIR, "guest/complaints")) as _f:
    _lines = [line for line in _f.read().splitlines() if not line.startswith("#")]
BAD = re.compile("|".join(line for line in _lines if not line.startswith("!")))
HARMLESS = re.compile("|".join(line[1:] for line in _lines if line.startswith("!")))


def say(text):
    t = int(time.time()) - int(os.environ.get("TERN_T0", time.time()))
    print(f"[{t // 60:3}:{t % 60:02}] {text}", file=sys.stderr, flush=True)


def arguments():
    p = argparse.ArgumentParser(prog="run-vm", usage="run-vm [option]... -- CMD...", allow_abbrev=False)
    p.add_argument("--vms", type=int, default=2, help="number of machines (2)")
    p.add_argument("--lane", choices=LANES, default=LANES[0], help="kernel and user space of the guests")
    p.add_argument("--kernel", metavar="DIR", help="boot DIR/lib/modules/RELEASE/vmlinuz with the modules beside it, including tern and tern_ib, instead of the lane's kernel")
    p.add_argument("--overlay", metavar="DIR", help="files copied over the guests' root file system; a libtern among them replaces the checkout's")
    p.add_argument("--share", metavar="DIR", help="directory that every guest mounts at /mnt/share (RUN-DIR/share)")
    p.add_argument("--device-prop", metavar="[vmJ:]K=V", action="append", default=[], help="property of the tern device, in all machines or in one")
    p.add_argument("--qemu-arg", metavar="A", action="append", default=[], help="additional argument for every QEMU")
    p.add_argument("--timeout", metavar="S", type=float, help="give up after S seconds (exit status 124)")
    p.add_argument("--mem", metavar="SIZE", default="2G", help="memory of each machine (2G)")
    p.add_argument("--smp", type=int, default=2, help="processors of each machine (2)")
    p.add_argument("--pcap", action="store_true", help="capture vm1's wire in RUN-DIR/wire.pcap")
    p.add_argument("--check-dmesg", action="store_true", help="exit with status 99 if a kernel warns on any console (always in the lane debug)")
    p.add_argument("--run-dir", metavar="DIR", default=os.environ.get("TERN_RUN_DIR"), help="directory for console logs and the capture (build/run)")
    p.add_argument("--tty", action="store_true", help="CMD gets a terminal")
    p.add_argument("--stdin", action="store_true", help="CMD reads this standard input, which is read to its end before the boot")
    p.add_argument("--iommu", action="store_true", help="put an emulated VT-d between devices and memory")
    p.add_argument("--no-driver", action="store_true", help="do not load the drivers; CMD can, with tern-up")
    p.add_argument("--no-tern", action="store_true", help="machines without the tern device and its drivers")
    p.add_argument("--soft-roce", metavar="vmJ", action="append", default=[], help="give this machine Soft-RoCE (rxe0) on a virtio-net instead of tern")
    p.add_argument("--net-wire", action="store_true", help="connect two machines by a -netdev, as more are, instead of shared memory")
    p.add_argument("--virtio-wire", action="store_true", help="add a second wire with virtio-nets, with Soft-RoCE (rxe0) on them")
    p.add_argument("--mtu", type=int, default=4500, help="MTU of the wires (4500, enough for a path MTU of 4096)")
    p.add_argument("--mutate", action="store_true", help="use a QEMU whose tern devices have the property `mutate`, which switches off one rule of memory windows")
    p.add_argument("--no-build", action="store_true", help="use the existing build")
    p.add_argument("--kvm", choices=["auto", "off"], default=os.environ.get("TERN_KVM", "auto"))
    p.add_argument("cmd", nargs=argparse.REMAINDER, metavar="-- CMD...")
    a = p.parse_args()
    if a.cmd[:1] == ["--"]:
        a.cmd = a.cmd[1:]
    if not a.cmd:
        p.error("no CMD")
    if not 1 <= a.vms <= 16:
        p.error("--vms takes 1 to 16")
    if a.timeout is not None and a.timeout <= 0:
        p.error("--timeout takes more than 0 seconds")
    if not re.fullmatch(r"\d+[KMGT]?", a.mem):
        p.error(f"--mem takes a size such as 2G, not {a.mem}")
    if not 1 <= a.smp <= 255:
        p.error("--smp takes 1 to 255")
    if a.kernel and len(glob.glob(f"{glob.escape(a.kernel)}/lib/modules/*/vmlinuz")) != 1:
        p.error(f"--kernel: {a.kernel} needs exactly one lib/modules/RELEASE/vmlinuz")
    if a.overlay and not os.path.isdir(a.overlay):
        p.error(f"--overlay: no such directory: {a.overlay}")
    for path in (a.share, a.run_dir):
        if path and os.path.exists(path) and not os.path.isdir(path):
            p.error(f"{path} is not a directory")
    if a.tty and not sys.stdin.isatty():
        p.error("--tty needs a terminal")
    unknown = set(a.soft_roce) - {f"vm{i + 1}" for i in range(a.vms)}
    if unknown or (a.soft_roce and a.no_tern):
        p.error("--soft-roce takes the name of a machine, and does not go with --no-tern")
    return a


def plan(a):
    """Returns what run-vm must prepare before the machines start, as shell assignments."""
    path = {name: os.path.realpath(getattr(a, name)) if getattr(a, name) else "" for name in ("share", "run_dir", "kernel", "overlay")}
    words = {"build": int(not a.no_build), "tern": int(not a.no_tern), "terminal": int(a.tty), "lane": a.lane,
             "mutate": "--mutate" * a.mutate, **path}
    return "\n".join(f"{k}={shlex.quote(str(v))}" for k, v in words.items())


def kvm_works(qemu, kernel):
    """Whether KVM boots `kernel` as far as the missing root file system. Under nested virtualisation /dev/kvm may exist and fail in
    a kernel's first instructions. The result is remembered until the host boots again."""
    try:
        boot = open("/proc/sys/kernel/random/boot_id").read().strip()
        if not os.access("/dev/kvm", os.R_OK | os.W_OK):
            return False
        memo = os.path.join(CACHE, f"kvm-kernel-{boot}")
        if os.path.exists(memo):
            return open(memo).read() == "yes"
        r = subprocess.run([qemu, "-L", "/usr/share/seabios", "-L", "/usr/share/qemu", "-M", "q35,smm=off", "-accel", "kvm", "-cpu", "host",
                            "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-m", "512", "-smp", "2", "-serial", "stdio",
                            "-kernel", kernel, "-append", "console=ttyS0 loglevel=4 panic=-1 root=/dev/ram0"],
                           stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=20)
        ok = b"Kernel panic - not syncing: VFS" in r.stdout and b"KVM internal error" not in r.stdout
    except (OSError, subprocess.TimeoutExpired):
        ok = False
    with open(memo, "w") as f:
        f.write("yes" if ok else "no")
    return ok


def cpio(files):
    """A newc cpio archive of {name: (mode, bytes)}; the kernel unpacks it after the first initramfs."""
    out = io.BytesIO()

    def entry(name, mode, data):
        out.write(b"070701" + b"".join(b"%08x" % n for n in
                  (0, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name) + 1, 0)) + name.encode() + b"\0")
        out.write(bytes(-out.tell() % 4) + data)
        out.write(bytes(-out.tell() % 4))

    dirs = set()
    for name, (mode, data) in files.items():
        parts = name.split("/")[:-1]
        for i in range(len(parts)):
            d = "/".join(parts[:i + 1])
            if d not in dirs:
                dirs.add(d)
                entry(d, 0o040755, b"")
        entry(name, 0o100000 | mode, data)
    entry("TRAILER!!!", 0, b"")
    return out.getvalue()


class Machine:
    def __init__(self, index):
        self.index = index
        self.name = f"vm{index}"
        self.process = None
        self.ready = False
        self.soft_roce = False
        self.shared_wire = False
        self.stall_shown = False
        self.fds = []
        self.args = []
        self.ports = {}

    def pair(self):
        """A socket pair: one end stays here, this machine's QEMU inherits the other."""
        mine, theirs = socket.socketpair()
        theirs.set_inheritable(True)
        self.fds.append(theirs)
        return mine, theirs.fileno()

    def port(self, nr, name):
        mine, fd = self.pair()
        mine.setblocking(False)
        self.ports[name] = mine
        self.args += ["-chardev", f"socket,id={name},fd={fd}", "-device", f"virtserialport,nr={nr},chardev={name},name=tern.{name}"]


def shared_wire(machines):
    """Connects the tern devices of two machines by shared memory, which they negotiate over a socket pair."""
    for s, m in zip(socket.socketpair(), machines):
        s.set_inheritable(True)
        m.fds.append(s)
        m.args += ["-chardev", f"socket,id=wire,fd={s.fileno()}"]
        m.shared_wire = True


def wire(machines, net):
    """Connects the machines: two by a stream, more by a hub in vm1's QEMU."""
    links = []
    first = machines[0]
    for other in machines[1:]:
        a, b = socket.socketpair()
        for s, m in ((a, first), (b, other)):
            s.set_inheritable(True)
            m.fds.append(s)
        other.args += ["-netdev", f"stream,id={net},server=off,addr.type=fd,addr.str={b.fileno()}"]
        links.append(a.fileno())
    if len(links) == 1:
        first.args += ["-netdev", f"stream,id={net},server=off,addr.type=fd,addr.str={links[0]}"]
        return
    hub = {"wire": 1, "control": 2, "virtio": 3}[net]
    for i, fd in enumerate(links):
        first.args += ["-netdev", f"stream,id={net}-s{i},server=off,addr.type=fd,addr.str={fd}",
                       "-netdev", f"hubport,id={net}-p{i},hubid={hub},netdev={net}-s{i}"]
    first.args += ["-netdev", f"hubport,id={net},hubid={hub}"]


class Lab:
    def __init__(self, opt, again):
        """again: how often machines that do not boot may be restarted."""
        self.opt = opt
        self.again = again
        suffix = "" if opt.lane == LANES[0] else f"-{opt.lane}"
        self.out = f"build/out{suffix}"
        if opt.kernel:
            self.image = os.environ["TERN_IMAGE"]
        else:
            with open(os.path.join(TOP, self.out, "image")) as f:
                self.image = f.read().strip()
        self.qemu = QEMU + ("-mutate" if opt.mutate else "")
        self.token = b"\0tern-end-" + secrets.token_hex(12).encode()
        self.selector = selectors.DefaultSelector()
        self.machines = [Machine(i + 1) for i in range(opt.vms)]
        for m in self.machines:
            m.soft_roce = m.name in opt.soft_roce
        self.status = None
        self.tail = {1: b"", 2: b""}
        self.done = set()
        self.saved_tty = None
        self.deadline = time.monotonic() + opt.timeout if opt.timeout else None
        self.open_run_dir()

    def open_run_dir(self):
        base = os.path.abspath(self.opt.run_dir or os.path.join(TOP, "build/run"))
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
            say(f"another lab uses {os.path.relpath(base, TOP)}: logs go to {os.path.relpath(self.run, TOP)}")
        for f in os.listdir(self.run):
            if re.fullmatch(r"vm\d+\.log|qmp" + (r"|wire\.pcap" if self.opt.pcap else ""), f):
                os.unlink(os.path.join(self.run, f))
        # In /tmp, because the names of sockets are short. Removes the directories of labs that were killed.
        for d in os.listdir("/tmp"):
            if d.startswith("tern-lab-") and not os.path.exists(f"/proc/self/root/tmp/{d}/keep"):
                try:
                    if os.stat(f"/tmp/{d}").st_mtime > time.time() - 60:  # its lab may not have locked it yet
                        continue
                    with open(f"/tmp/{d}/lock") as f:
                        fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
                        shutil.rmtree(f"/tmp/{d}", ignore_errors=True)
                except OSError:
                    pass
        self.tmp = tempfile.mkdtemp(prefix="tern-lab-", dir="/tmp")
        self.tmp_lock = open(f"{self.tmp}/lock", "w")
        fcntl.flock(self.tmp_lock, fcntl.LOCK_EX)
        os.symlink(self.tmp, os.path.join(self.run, "qmp"))
        self.share = os.path.abspath(self.opt.share or os.path.join(self.run, "share"))
        os.makedirs(self.share, exist_ok=True)

    # starting

    def initrd(self, m):
        opt = self.opt
        ssh = f"{self.tmp}/ssh"
        if not os.path.isdir(ssh):
            os.mkdir(ssh)
            for key in ("id_ed25519", "host_key"):
                subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "lab", "-f", f"{ssh}/{key}"], check=True)
            os.rename(f"{ssh}/id_ed25519.pub", f"{ssh}/authorized_keys")
        driver = not (opt.no_tern or opt.no_driver or m.soft_roce) and bool(opt.kernel or os.path.exists(f"{TOP}/{self.out}/tern.ko"))
        provider = [] if opt.overlay and glob.glob(f"{glob.escape(opt.overlay)}/usr/lib/*/libibverbs/libtern-rdmav*") else \
            glob.glob(f"{glob.escape(TOP)}/{self.out}/libtern-rdmav*")
        conf = {
            "NAME": m.name, "INDEX": m.index, "VMS": opt.vms, "MTU": opt.mtu, "CTL_MAC": f"52:54:00:78:00:{m.index:02x}",
            "TTY": int(opt.tty), "DEBUG": int(os.environ.get("TERN_DEBUG", 0)), "DRIVER": int(driver), "TOKEN": self.token.decode()[1:],
            "SOFT_ROCE": int(m.soft_roce), "VIRTIO_WIRE": int(opt.virtio_wire), "LANE": opt.lane, "OUT": self.out,
            "PROVIDER": os.path.basename(max(provider, key=os.path.getmtime, default="")),
            "OWN_KERNEL": int(bool(opt.kernel)), "OVERLAY": int(bool(opt.overlay)),
        }
        files = {
            "tern/init": (0o755, open(f"{VM_DIR}/guest-init", "rb").read()),
            "tern/conf": (0o644, "".join(f"{k}={shlex.quote(str(v))}\n" for k, v in conf.items()).encode()),
        }
        for d, mode in ((f"{VM_DIR}/guest", 0o755), (ssh, 0o600)):
            for f in os.listdir(d):
                files[f"tern/{os.path.basename(d)}/{f}"] = (mode, open(f"{d}/{f}", "rb").read())
        if m.index == 1:
            if opt.stdin:
                files["tern/stdin"] = (0o600, sys.stdin.buffer.read())
            files["tern/cmd"] = (0o755, f"#!/bin/bash\nexec {shlex.join(opt.cmd)}\n".encode())
        path = f"{self.tmp}/{m.name}.initrd"
        with open(path, "wb") as f:
            f.write(open(f"{self.image}/initrd", "rb").read())
            f.write(bytes(-f.tell() % 4) + cpio(files))
        return path

    def start(self):
        opt = self.opt
        kvm = opt.kvm == "auto" and kvm_works(self.qemu, f"{self.image}/vmlinuz")
        nets = ["control"] + ["wire"] * (not opt.no_tern) + ["virtio"] * opt.virtio_wire
        if opt.vms == 2 and not (opt.no_tern or opt.soft_roce or opt.net_wire):
            nets.remove("wire")
            shared_wire(self.machines)
        if opt.vms > 1:
            for net in nets:
                wire(self.machines, net)
        else:  # the wire ends in this process, which discards all frames
            m = self.machines[0]
            for net in nets:
                mine, fd = m.pair()
                m.args += ["-netdev", f"stream,id={net},server=off,addr.type=fd,addr.str={fd}"]
                self.watch(mine, lambda sock: sock.recv(1 << 20))
        for m in self.machines:
            m.args += ["-device", "virtio-serial-pci,max_ports=8"]
            m.port(1, "ctl")
            m.port(4, "lab")
            if m.index == 1:
                m.port(2, "out")
                m.port(3, "err")
                if opt.tty:
                    mine, fd = m.pair()
                    mine.setblocking(False)
                    m.ports["tty"] = mine
                    m.args += ["-chardev", f"socket,id=tty,fd={fd}", "-device", "virtconsole,nr=6,chardev=tty"]
            if m.soft_roce:
                m.args += ["-device", f"virtio-net-pci,netdev=wire,mac=52:54:00:77:00:{m.index:02x},host_mtu={opt.mtu},romfile="]
            elif not opt.no_tern:
                end = "wire" if m.shared_wire else "netdev"
                props = [f"tern,id=tern0,{end}=wire,bus=rp1,mac=52:54:00:77:00:{m.index:02x}"]
                if opt.pcap and m.index == 1:
                    props.append(f"pcap={self.run}/wire.pcap")
                for p in opt.device_prop:
                    who = re.fullmatch(r"vm(\d+):(.*)", p)
                    if not who or int(who[1]) == m.index:
                        props.append(who[2] if who else p)
                m.args += ["-device", ",".join(props)]
            if opt.virtio_wire:
                m.args += ["-device", f"virtio-net-pci,netdev=virtio,mac=52:54:00:79:00:{m.index:02x},host_mtu={opt.mtu},romfile="]
            iommu = ["-device", "intel-iommu,intremap=on,caching-mode=on,device-iotlb=on"] if opt.iommu else []
            accel = ["-accel", "kvm", "-cpu", "host"] if kvm else ["-accel", "tcg,thread=multi,tb-size=256", "-cpu", "max,la57=off"]
            append = ("console=ttyS0 loglevel=6 panic=-1 mitigations=off nokaslr audit=0 apparmor=0 no_timer_check "
                      "random.trust_cpu=1 net.ifnames=0 cryptomgr.notests" + (" intel_iommu=on" if opt.iommu else "")
                      + (" kunit.enable=1 kunit.autorun=1 page_poison=1" if opt.lane == "debug" else ""))
            args = [self.qemu, "-L", "/usr/share/seabios", "-L", "/usr/share/qemu", "-name", m.name,
                    "-M", "q35,smm=off,usb=off,vmport=off" + (",kernel-irqchip=split" if opt.iommu else ""), *accel, "-m", opt.mem, "-smp", str(opt.smp),
                    "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
                    "-kernel", f"{self.image}/vmlinuz", "-initrd", self.initrd(m), "-append", append,
                    "-chardev", f"file,id=console,path={self.run}/{m.name}.log,append=on", "-serial", "chardev:console",
                    "-qmp", f"unix:{self.tmp}/{m.name}.qmp,server=on,wait=off", *iommu,
                    "-device", "pcie-root-port,id=rp1,chassis=1,slot=1,mem-reserve=64M,pref64-reserve=2G",
                    "-device", "pcie-root-port,id=rp2,chassis=2,slot=2,mem-reserve=64M,pref64-reserve=2G",
                    "-drive", f"file={self.image}/root.erofs,format=raw,if=none,id=root,readonly=on,file.locking=off",
                    "-device", "virtio-blk-pci,drive=root", "-device", "virtio-rng-pci",
                    "-fsdev", f"local,id=share,path={self.share},security_model=none,multidevs=remap",
                    "-device", "virtio-9p-pci,fsdev=share,mount_tag=share",
                    "-fsdev", f"local,id=tern,path={TOP},security_model=none,readonly=on,multidevs=remap",
                    "-device", "virtio-9p-pci,fsdev=tern,mount_tag=tern",
                    *(["-fsdev", f"local,id=overlay,path={os.path.abspath(opt.overlay)},security_model=none,readonly=on,multidevs=remap",
                       "-device", "virtio-9p-pci,fsdev=overlay,mount_tag=overlay"] if opt.overlay else []),
                    "-device", f"virtio-net-pci,netdev=control,mac=52:54:00:78:00:{m.index:02x},romfile=",
                    *m.args, *opt.qemu_arg]
            # One file for the console and QEMU's messages; both append.
            self.errors = open(f"{self.run}/{m.name}.log", "ab")
            m.process = subprocess.Popen(args, stdin=subprocess.DEVNULL, stdout=self.errors, stderr=self.errors, close_fds=True,
                                         pass_fds=[s.fileno() for s in m.fds], start_new_session=True)
        for m in self.machines:
            for s in m.fds:
                s.close()
            self.watch(m.ports["ctl"], self.control, m)
            self.watch(m.ports["lab"], self.lab_request, m)
            m.lines = {"ctl": b"", "lab": b""}
            pidfd = os.pidfd_open(m.process.pid)
            self.selector.register(pidfd, selectors.EVENT_READ, (self.gone, m))
        first = self.machines[0]
        if opt.tty:
            self.watch(first.ports["tty"], self.from_tty)
        else:
            self.watch(first.ports["out"], self.output, 1)
            self.watch(first.ports["err"], self.output, 2)

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
                if all(x.ready for x in self.machines):
                    self.go()
            elif word == "fail":
                raise Trouble(f"{m.name}: {rest}", m)
            elif word == "exit":
                self.status = int(rest)

    def lab_request(self, sock, m):
        for line in self.lines(sock, m, "lab"):
            try:
                word, who, command = line.split(" ", 2)
                if word != "qmp" or not re.fullmatch(r"vm\d+", who):
                    raise ValueError("expected: qmp VM JSON")
                answer = self.qmp(who, json.loads(command))
            except (ValueError, OSError) as e:
                answer = {"error": {"class": "Lab", "desc": str(e)}}
            sock.setblocking(True)
            sock.sendall(json.dumps(answer).encode() + b"\n")
            sock.setblocking(False)

    def qmp(self, who, command):
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(120)
            s.connect(f"{self.tmp}/{who}.qmp")
            f = s.makefile("rw")
            f.readline()
            for c in ({"execute": "qmp_capabilities"}, command):
                f.write(json.dumps(c) + "\n")
                f.flush()
                while True:
                    answer = json.loads(f.readline() or '{"error": {"desc": "QEMU is gone"}}')
                    if "return" in answer or "error" in answer:
                        break
            return answer

    def go(self):
        ctl = self.machines[0].ports["ctl"]
        if self.opt.tty:
            self.saved_tty = termios.tcgetattr(0)
            tty.setraw(0)
            signal.signal(signal.SIGWINCH, lambda *_: self.winsize())
            self.winsize()
            self.selector.register(0, selectors.EVENT_READ, (self.to_tty,))
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
        """Passes on guest output up to the token that ends it; holds back a tail that may be the token's beginning."""
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
            write_all(fd, data[:at])
            self.tail[fd] = b""
            self.done.add(fd)
            self.selector.unregister(sock)
            return
        keep = 0
        for n in range(min(len(token) - 1, len(data)), 0, -1):
            if token.startswith(data[-n:]):
                keep = n
                break
        write_all(fd, data[:len(data) - keep])
        self.tail[fd] = data[len(data) - keep:]

    def gone(self, m):
        raise Trouble(f"{m.name} stopped (QEMU's exit status {m.process.wait()})", m)

    # main loop

    def loop(self):
        boot_seconds = float(os.environ.get("TERN_BOOT_TIMEOUT", 600 if self.opt.lane == "debug" else 200))
        boot_limit = time.monotonic() + boot_seconds
        next_look = 0
        while True:
            if self.status is not None and (self.opt.tty or {1, 2} <= self.done):
                return self.status
            now = time.monotonic()
            if self.deadline and now > self.deadline:
                raise Trouble(f"timed out after {self.opt.timeout:g} s", None, 124)
            for late in (m for m in self.machines if not m.ready):
                if now > boot_limit:
                    raise NotBooted(f"{late.name} did not boot in {boot_seconds:.0f} s", late)
                if self.again and self.stalled(late):
                    raise NotBooted(f"{late.name} stalled while booting", late)
            if now > next_look:
                next_look = now + 5
                for m in self.machines:
                    if m.ready and not m.stall_shown and self.stalled(m):
                        self.show_stall(m)
            for key, _ in self.selector.select(1):
                if key.fileobj in self.selector.get_map():
                    handler, *args = key.data
                    handler(*args)

    def stalled(self, m):
        """On a busy host, an emulated machine sometimes calibrates its timers wrongly, and a processor sleeps for ever."""
        with open(f"{self.run}/{m.name}.log", "rb") as f:
            return stall.STALL in f.read()

    def show_stall(self, m):
        m.stall_shown = True
        time.sleep(1)
        report = stall.first_report(f"{self.run}/{m.name}.log")
        for line in report + stall.describe(m.process.pid, lambda command: self.qmp(m.name, command)):
            say(f"stall: {m.name}: {line}")

    def stop(self):
        if self.saved_tty:
            termios.tcsetattr(0, termios.TCSADRAIN, self.saved_tty)
        running = [m for m in self.machines if m.process and m.process.poll() is None]
        for m in running:
            m.process.terminate()
        end = time.monotonic() + 2
        for m in running:
            try:
                m.process.wait(max(0.01, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                m.process.kill()
                m.process.wait()
        shutil.rmtree(self.tmp, ignore_errors=True)
        qmp = os.path.join(self.run, "qmp")
        if os.path.islink(qmp):
            os.unlink(qmp)
        self.run_lock.close()

    def kernel_complaints(self):
        found = []
        for m in self.machines:
            path = os.path.join(self.run, f"{m.name}.log")
            for line in open(path, errors="replace").read().splitlines():
                if BAD.search(line) and not HARMLESS.search(line):
                    found.append(f"{m.name}: {line.strip()}")
        return found


def write_all(fd, data):
    while data:
        data = data[os.write(fd, data):]


class Trouble(Exception):
    def __init__(self, text, machine, status=125):
        super().__init__(text)
        self.machine = machine
        self.status = status


class NotBooted(Trouble):
    pass


def run(opt, again):
    """Runs a lab; returns it with the command's exit status, or with None if a machine did not boot and may be restarted."""
    lab = Lab(opt, again)
    try:
        lab.start()
        status = lab.loop()
    except Trouble as t:
        say(f"run-vm: {t}")
        for m in [t.machine] if t.machine else lab.machines:
            with open(os.path.join(lab.run, f"{m.name}.log"), errors="replace") as f:
                for line in f.read().splitlines()[-20:]:
                    print(f"  {m.name}| {line}", file=sys.stderr)
        status = None if again and isinstance(t, NotBooted) else t.status
    except KeyboardInterrupt:
        status = 130
    finally:
        lab.stop()
    return lab, status


def main():
    opt = arguments()
    if os.environ.get("TERN_CHECK"):
        print(plan(opt))
        return 0
    for s in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(s, lambda n, _: sys.exit(128 + n))
    for again in (2, 1, 0):
        lab, status = run(opt, again)
        if status is not None:
            break
        say("run-vm: restarting the machines")
    complaints = lab.kernel_complaints()
    for line in complaints[:10]:
        say(f"kernel complaint: {line}")
    if complaints and (opt.check_dmesg or opt.lane == "debug") and status == 0:
        status = 99
    return status


if __name__ == "__main__":
    sys.exit(main())

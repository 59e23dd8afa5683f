# SPDX-License-Identifier: GPL-2.0-or-later
"""A machine of the lab, the wires between machines, and the archive of files with which a
machine boots."""
import io
import os
import socket

from options import split_prop
from places import TOP


class Machine:
    def __init__(self, index):
        self.index = index
        self.name = f"vm{index}"
        self.process = None
        self.ready = False
        self.replaced = False
        self.moved = False
        self.killed = False
        self.soft_roce = False
        self.shared_wire = False
        self.stall_shown = None
        self.monitor = None
        self.properties = []  # more properties of the adapters
        self.ends = []
        self.fds = []
        self.args = []
        self.ports = {}

    def pair(self):
        """Returns one end of a socket pair; this machine's QEMU inherits the other."""
        mine, theirs = socket.socketpair()
        theirs.set_inheritable(True)
        self.fds.append(theirs)
        return mine, theirs.fileno()

    def port(self, nr, name):
        mine, fd = self.pair()
        mine.setblocking(False)
        self.ports[name] = mine
        self.args += [
            "-chardev", f"socket,id={name},fd={fd}", "-device",
            f"virtserialport,nr={nr},chardev={name},name=tern.{name}"
        ]


# Files of a run directory, named by wire_of() and adapter_properties().
CAPTURE, EVENT_LOG = r"wire\d*\.pcap", r"vm\d+(-\d+)?\.events"


def wire_of(adapter):
    """Returns the name of the wire that connects this adapter of all machines."""
    return f"wire{adapter or ''}"


def shared_wire(machines, name):
    """Connects tern devices of two machines by shared memory, which they negotiate over a socket
    pair."""
    for s, m in zip(socket.socketpair(), machines):
        s.set_inheritable(True)
        m.fds.append(s)
        m.args += ["-chardev", f"socket,id={name},fd={s.fileno()}"]
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
    hub = {"wire": 1, "control": 2, "virtio": 3}.get(net) or 3 + int(net.removeprefix("wire"))
    for i, fd in enumerate(links):
        first.args += [
            "-netdev", f"stream,id={net}-s{i},server=off,addr.type=fd,addr.str={fd}", "-netdev",
            f"hubport,id={net}-p{i},hubid={hub},netdev={net}-s{i}"
        ]
    first.args += ["-netdev", f"hubport,id={net},hubid={hub}"]


def networks(opt):
    """Returns the names of all networks of -netdevs, if none is a shared wire."""
    wires = [] if opt.no_tern else [wire_of(adapter) for adapter in range(opt.adapters)]
    return ["control", *wires] + ["virtio"] * opt.virtio_wire


def connect(opt, machines):
    """Connects the machines. The wires of a single machine end in this process: returns their
    sockets."""
    wires = [] if opt.no_tern else [wire_of(adapter) for adapter in range(opt.adapters)]
    if opt.front == "vfio-user":
        wires = []
    elif opt.vms == 2 and not (opt.soft_roce or opt.net_wire):
        for name in wires:
            shared_wire(machines, name)
        wires = []
    nets = ["control", *wires] + ["virtio"] * opt.virtio_wire
    if opt.vms > 1:
        for net in nets:
            wire(machines, net)
        return []
    ends = []
    m = machines[0]
    if opt.loop:
        for name in wires:
            m.args += ["-netdev", f"hubport,id={name},hubid=1"]
        nets = [net for net in nets if net not in wires]
    for net in nets:
        mine, fd = m.pair()
        m.args += ["-netdev", f"stream,id={net},server=off,addr.type=fd,addr.str={fd}"]
        ends.append(mine)
    return ends


def add_ports(m, opt):
    """Adds the ports between guest-init and the lab."""
    m.args += ["-device", "virtio-serial-pci,max_ports=8"]
    m.port(1, "ctl")
    m.port(4, "lab")
    m.port(5, "state")
    if m.index == 1:
        m.port(2, "out")
        m.port(3, "err")
        if opt.tty:
            mine, fd = m.pair()
            mine.setblocking(False)
            m.ports["tty"] = mine
            m.args += [
                "-chardev", f"socket,id=tty,fd={fd}", "-device", "virtconsole,nr=6,chardev=tty"
            ]


def adapter_properties(m, n, opt, run):
    """Returns the properties of adapter n of a machine, for any front end."""
    props = [f"mac=52:54:00:77:{n:02x}:{m.index:02x}"]
    if opt.pcap and m.index == 1 and not m.moved:
        props.append(f"pcap={quoted(run)}/{wire_of(n)}.pcap")
    if opt.events and not m.moved:
        props.append(f"events={quoted(run)}/{m.name}{f'-{n}' if n else ''}.events")
    props += [
        prop for vm, adapter, prop in map(split_prop, opt.device_prop)
        if vm in (None, m.index) and adapter in (None, n)
    ]
    return [*props, *m.properties]


def soft_roce_device(m, opt):
    return [
        "-device",
        f"virtio-net-pci,netdev=wire,mac=52:54:00:77:00:{m.index:02x},host_mtu={opt.mtu},romfile="
    ]


def add_adapters(m, opt, run):
    """Adds the tern adapters, or their replacements."""
    if m.soft_roce:
        m.args += soft_roce_device(m, opt)
    elif not opt.no_tern:
        end = "wire" if m.shared_wire else "netdev"
        for n in range(opt.adapters):
            m.args += [
                "-device", ",".join([
                    f"tern,id=tern{n},{end}={wire_of(n)},bus=rp{n + 1}",
                    *adapter_properties(m, n, opt, run)
                ])
            ]


def add_second_wire(m, opt):
    """Adds the end of the second wire."""
    if opt.virtio_wire:
        m.args += [
            "-device",
            f"virtio-net-pci,netdev=virtio,mac=52:54:00:79:00:{m.index:02x},host_mtu={opt.mtu},romfile="
        ]


def quoted(path):
    """Returns a path as QEMU's options take it."""
    return path.replace(",", ",,")


# TCG copies "rep movsb" byte by byte: without these flags Linux copies words, five times as fast.
EMULATED = "max,la57=off,erms=off,fsrm=off"


def qemu_command(m, lab, initrd, kvm):
    opt = lab.opt
    iommu = ["-device", "intel-iommu,intremap=on,caching-mode=on,device-iotlb=on"
             ] if opt.iommu else []
    accel = ["-accel", "kvm"] if kvm else ["-accel", "tcg,thread=multi,tb-size=256"]
    accel += ["-cpu", ",".join(["host" if kvm else EMULATED, *opt.cpu])]
    # While many emulated machines boot, one may get no processor for longer than RCU waits.
    append = (
        "console=ttyS0 loglevel=6 panic=-1 mitigations=off nokaslr audit=0 apparmor=0 no_timer_check "
        "random.trust_cpu=1 net.ifnames=0 cryptomgr.notests "
        "rcupdate.rcu_cpu_stall_suppress_at_boot=1" + (" intel_iommu=on" if opt.iommu else "") +
        (" kunit.enable=1 kunit.autorun=1 page_poison=1" if opt.lane == "debug" else ""))
    return [
        *lab.qemu, "-name", m.name, "-M",
        "q35,smm=off,usb=off,vmport=off" + (",kernel-irqchip=split" if opt.iommu else ""), *accel,
        "-m", opt.mem, "-smp", f"{opt.smp},sockets={opt.nodes}", *memory(m, lab), "-nodefaults",
        "-no-user-config", "-display", "none", "-no-reboot", "-kernel", f"{lab.image}/vmlinuz",
        "-initrd", initrd, "-append", append, "-chardev",
        f"file,id=console,path={quoted(lab.run)}/{m.name}.log,append=on", "-serial",
        "chardev:console", "-qmp", f"unix:{quoted(m.monitor)},server=on,wait=off", *iommu,
        *root_ports(opt.adapters + 1), "-drive",
        f"file={quoted(lab.image)}/root.erofs,format=raw,if=none,id=root,readonly=on,file.locking=off",
        "-device", "virtio-blk-pci,drive=root", "-device", "virtio-rng-pci",
        *share("share", lab.share, ""), *share("tern", TOP, ",readonly=on"),
        *(share("overlay", os.path.abspath(opt.overlay), ",readonly=on") if opt.overlay else []),
        "-device", f"virtio-net-pci,netdev=control,mac=52:54:00:78:00:{m.index:02x},romfile=",
        *layers(lab.image), *m.args, *opt.qemu_arg
    ]


def backend(m, lab, name, size):
    """Returns the backend of a part of the memory. ternd accesses shared memory; a snapshot's is a
    file, which is shared while the machine boots."""
    more = ""
    if lab.snapshot:
        path = f"{quoted(lab.snapshot.path)}/{m.name}.{name}"
        kind, more = "file", f",mem-path={path},share={'on' if lab.opt.saving else 'off'}"
    elif lab.opt.front == "vfio-user":
        kind, more = "memfd", ",share=on"
    else:
        kind = "ram"
    return ["-object", f"memory-backend-{kind},id={name},size={size}{more}"]


def memory(m, lab):
    """Returns the arguments for nodes with equal parts of the processors and the memory."""
    opt = lab.opt
    if opt.nodes == 1:
        return [*backend(m, lab, "ram", opt.mem), "-machine", "memory-backend=ram"]
    processors = opt.smp // opt.nodes
    unit = opt.mem.lstrip("0123456789")
    kib = int(opt.mem.removesuffix(unit)) * {
        "K": 1, "": 1 << 10, "M": 1 << 10, "G": 1 << 20, "T": 1 << 30
    }[unit] // opt.nodes
    args = []
    for n in range(opt.nodes):
        args += [
            *backend(m, lab, f"node{n}", f"{kib}K"), "-numa",
            f"node,memdev=node{n},cpus={n * processors}-{(n + 1) * processors - 1}"
        ]
    return args


def root_ports(number):
    """Returns a port for each adapter, and an empty one."""
    args = []
    for n in range(1, number + 1):
        args += [
            "-device",
            f"pcie-root-port,id=rp{n},chassis={n},slot={n},mem-reserve=64M,pref64-reserve=2G"
        ]
    return args


def layers(image):
    """Returns the layers over the root file system: another kernel's modules, packages. The
    initramfs finds them by their serial numbers."""
    args = []
    found = [
        path for path in (f"{image}/modules.erofs", os.environ.get("TERN_PACKAGES"))
        if path and os.path.exists(path)
    ]
    for n, path in enumerate(found, 1):
        args += [
            "-drive",
            f"file={quoted(path)},format=raw,if=none,id=layer{n},readonly=on,file.locking=off",
            "-device", f"virtio-blk-pci,drive=layer{n},serial=layer{n}"
        ]
    return args


def share(tag, path, more):
    """Returns the arguments for a directory of the host that guests mount by 9p."""
    return [
        "-fsdev", f"local,id={tag},path={quoted(path)},security_model=none{more},multidevs=remap",
        "-device", f"virtio-9p-pci,fsdev={tag},mount_tag={tag}"
    ]


def cpio(files):
    """Returns a newc cpio archive of {name: (mode, bytes)}; the kernel unpacks it after the
    first initramfs."""
    out = io.BytesIO()

    def entry(name, mode, data):
        out.write(b"070701" + b"".join(b"%08x" % n
                                       for n in (0, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0,
                                                 len(name) + 1, 0)) + name.encode() + b"\0")
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

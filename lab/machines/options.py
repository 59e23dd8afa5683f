# SPDX-License-Identifier: GPL-2.0-or-later
"""The options of run-vm."""
import argparse
import os
import re
import shlex
import sys

import kernel
import places
from lanes import read_lanes

LANES = list(read_lanes())
FRONTS = ["auto", "qemu", "vfio-user"]


def arguments(argv=None):
    """Returns the options in argv, by default those of this process."""
    p = argparse.ArgumentParser(prog=places.COMMAND,
                                usage=f"{places.COMMAND} [option]... -- CMD...", allow_abbrev=False)
    p.add_argument("--vms", type=int, default=2, help="number of machines (2)")
    p.add_argument("--lane", choices=LANES, default=LANES[0],
                   help="kernel and user space of the guests")
    p.add_argument(
        "--adapters", metavar="N", type=int, default=1,
        help="number of tern adapters in each machine; those with the same number share a wire (1)")
    p.add_argument(
        "--front", choices=FRONTS, default=os.environ.get("TERN_FRONT", FRONTS[0]),
        help="who has the adapters: our QEMU, or ternd with Debian testing's QEMU (auto: ternd on a "
        "host with more processors than the machines have processors and adapters)")
    p.add_argument(
        "--two-hosts", action="store_true",
        help="with --front vfio-user: odd machines on one host, even ones on another, "
        "each a network namespace with a ternd; VXLAN joins their bridges")
    p.add_argument(
        "--kernel", metavar="TREE|BZIMAGE|DIR",
        help="boot this kernel instead of the lane's: the tree where it was built, its image, or a "
        "directory with lib/modules/RELEASE/vmlinuz. Without tern among its modules, the drivers are built for the tree"
    )
    p.add_argument("--modules", metavar="DIR",
                   help="the modules of --kernel: lib/modules/RELEASE, or the directory above lib")
    p.add_argument("--package", metavar="NAME[,NAME]...", action="append", default=[],
                   help="add Debian packages to the guests: names, or .deb files")
    p.add_argument(
        "--overlay", metavar="DIR", help=
        "files copied over the guests' root file system; a libtern among them replaces the checkout's"
    )
    p.add_argument("--share", metavar="DIR", default=os.environ.get("TERN_SHARE"),
                   help="directory that every guest mounts at /mnt/share (RUN-DIR/share)")
    p.add_argument(
        "--device-prop", metavar="[vmJ:][A:]K=V", action="append", default=[], help=
        "property of the tern devices, in all machines or in one, of all adapters or of one (0, 1, ...)"
    )
    p.add_argument("--qemu-arg", metavar="A", action="append", default=[],
                   help="additional argument for every QEMU")
    p.add_argument("--timeout", metavar="S", type=float,
                   help="give up after S seconds (exit status 124)")
    p.add_argument("--mem", metavar="SIZE", default="2G", help="memory of each machine (2G)")
    p.add_argument("--smp", type=int, default=2, help="processors of each machine (2)")
    p.add_argument("--cpu", metavar="K=V[,K=V]...", action="append", default=[],
                   help="properties of the processors, as those of QEMU's -cpu")
    p.add_argument(
        "--nodes", metavar="N", type=int, default=1, help=
        "number of NUMA nodes of each machine, with equal parts of its memory and processors (1)")
    p.add_argument(
        "--pcap", action="store_true",
        help="capture vm1's wire in RUN-DIR/wire.pcap, those of further adapters in wire1.pcap, ..."
    )
    p.add_argument(
        "--events", action="store_true",
        help="log what each adapter does: RUN-DIR/vmJ.events, of further adapters vmJ-1.events, ..."
    )
    p.add_argument(
        "--check-dmesg", action="store_true",
        help="exit with status 99 if a kernel warns on any console (always in the lane debug)")
    p.add_argument("--run-dir", metavar="DIR", default=os.environ.get("TERN_RUN_DIR"),
                   help="directory for console logs and the capture (build/run)")
    p.add_argument(
        "--no-collect", action="store_true", help=
        "collect nothing when CMD fails; otherwise RUN-DIR/failure-N has the state of all machines")
    p.add_argument("--tty", action="store_true", help="CMD gets a terminal")
    p.add_argument("--stdin", action="store_true",
                   help="CMD reads this standard input, which is read to its end before the boot")
    p.add_argument("--iommu", action="store_true",
                   help="put an emulated VT-d between devices and memory")
    p.add_argument("--no-driver", action="store_true",
                   help="do not load the drivers; CMD can, with tern-up")
    p.add_argument("--no-tern", action="store_true",
                   help="machines without the tern device and its drivers")
    p.add_argument("--soft-roce", metavar="vmJ", action="append", default=[],
                   help="give this machine Soft-RoCE (rxe0) on a virtio-net instead of tern")
    p.add_argument("--net-wire", action="store_true",
                   help="connect two machines by a -netdev, as more are, instead of shared memory")
    p.add_argument("--movable", action="store_true",
                   help="machines that `labctl migrate` can move; the lab passes their frames")
    p.add_argument(
        "--from", metavar="NAME", dest="snapshot",
        help="start the machines from the snapshot NAME of machines with these options, booted "
        "already; makes the snapshot if there is none, or it is out of date")
    p.add_argument("--loop", action="store_true",
                   help="connect the two adapters of a single machine to each other")
    p.add_argument("--virtio-wire", action="store_true",
                   help="add a second wire with virtio-nets, with Soft-RoCE (rxe0) on them")
    p.add_argument("--mtu", type=int, default=4500,
                   help="MTU of the wires (4500, enough for a path MTU of 4096)")
    p.add_argument(
        "--mutate", action="store_true", help=
        "use a QEMU whose tern devices have the property `mutate`, which switches off one rule of memory windows"
    )
    p.add_argument("--no-build", action="store_true", help="use the existing build")
    p.add_argument("--kvm", choices=["auto", "on",
                                     "off"], default=os.environ.get("TERN_KVM", "auto"),
                   help="auto: if a trial boot succeeds with it, within seconds; on: or fail")
    p.add_argument("cmd", nargs=argparse.REMAINDER, metavar="-- CMD...")
    a = p.parse_args(argv)
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
    if not 1 <= a.nodes <= min(a.smp, 8) or a.smp % a.nodes:
        p.error("--nodes takes 1 to 8, and divides --smp")
    if not 1 <= a.adapters <= 8:
        p.error("--adapters takes 1 to 8")
    if a.adapters > 1 and (a.no_tern or a.soft_roce):
        p.error("--adapters does not go with --no-tern or --soft-roce")
    a.fetches = a.saving = False
    if places.BUNDLE:
        check_bundle(p, a)
    choose_front(p, a)
    if a.loop and (a.vms != 1 or a.adapters != 2 or a.front != "qemu"):
        p.error("--loop needs --vms 1 --adapters 2, with adapters of our QEMU")
    if a.movable and (a.front != "qemu" or a.loop or a.soft_roce):
        p.error("--movable needs adapters of our QEMU, and does not go with --loop or --soft-roce")
    if a.snapshot and (a.front != "qemu" or a.overlay or a.movable
                       or not re.fullmatch(r"\w[\w.-]*", a.snapshot)):
        p.error(
            "--from takes a name, needs adapters of our QEMU, and does not go with --overlay or "
            "--movable")
    if a.two_hosts and (a.front != "vfio-user" or a.adapters > 1 or a.no_tern):
        p.error("--two-hosts needs --front vfio-user, and does not go with --adapters or --no-tern")
    if a.front == "vfio-user" and (a.mutate or a.net_wire or a.soft_roce and not a.two_hosts):
        p.error(
            "--front vfio-user does not go with --mutate or --net-wire, and with --soft-roce only on --two-hosts"
        )
    check_kernel(p, a)
    check_packages(p, a)
    for prop in a.device_prop:
        vm, adapter, _ = split_prop(prop)
        if not 1 <= (vm or 1) <= a.vms or not 0 <= (adapter or 0) < a.adapters:
            p.error(
                f"--device-prop {prop}: there is no such {'machine' if not 1 <= (vm or 1) <= a.vms else 'adapter'}"
            )
    if a.overlay and not os.path.isdir(a.overlay):
        p.error(f"--overlay: no such directory: {a.overlay}")
    for path in (a.share, a.run_dir):
        if path and os.path.exists(path) and not os.path.isdir(path):
            p.error(f"{path} is not a directory")
    a.judge_kernels = a.check_dmesg or a.lane == "debug"
    if a.tty and not sys.stdin.isatty():
        p.error("--tty needs a terminal")
    unknown = set(a.soft_roce) - {f"vm{i + 1}" for i in range(a.vms)}
    if unknown or (a.soft_roce and a.no_tern):
        p.error("--soft-roce takes the name of a machine, and does not go with --no-tern")
    return a


# What a bundle does not have: other kernels, front ends and builds.
CHECKOUT = ("lane", "front", "two_hosts", "kernel", "modules", "mutate")


def check_bundle(p, a):
    for name in CHECKOUT:
        if getattr(a, name) not in (p.get_default(name), "qemu"):
            p.error(f"--{name.replace('_', '-')} needs a checkout of tern (lab/run-vm)")
    a.front = "qemu"


def choose_front(p, a):
    """Sets a.front. ternd is much faster between machines if its threads need not share processors
    with theirs, and needs no QEMU of ours; otherwise our QEMU is faster
    (Documentation/ternd.rst). Some options need one of them."""
    if a.front not in FRONTS:
        p.error(f"TERN_FRONT is {a.front}, not {', '.join(FRONTS)}")
    if a.front != "auto":
        return
    ours = any(
        (a.no_tern, a.snapshot, a.movable, a.loop, a.mutate, a.net_wire, a.soft_roce, a.qemu_arg))
    free = len(os.sched_getaffinity(0)) > a.vms * (a.smp + a.adapters)
    a.front = "vfio-user" if a.two_hosts or free and not ours else "qemu"


def split_prop(text):
    """Parses (machine or None, adapter or None, K=V) of a --device-prop."""
    m = re.fullmatch(r"(?:vm(\d+):)?(?:(\d+):)?(.*)", text, re.S)
    return *(None if n is None else int(n) for n in m.groups()[:2]), m[3]


def check_kernel(p, a):
    """Sets a.own to the kernel.Kernel of --kernel. In the sysroot, where the kernel is not
    visible, run-vm has already processed it."""
    a.own = None
    if a.modules and not a.kernel:
        p.error("--modules belongs to --kernel")
    if not a.kernel or os.environ.get("TERN_IMAGE"):
        return
    try:
        a.own = kernel.find(a.kernel, a.modules,
                            "" if a.no_tern else "later" if a.no_driver else "needed")
    except kernel.Wrong as e:
        p.error(f"--kernel: {e}")


def check_packages(p, a):
    """Makes a.package a list of names and of absolute paths."""
    a.package = [name for word in a.package for name in word.split(",") if name]
    for i, name in enumerate(a.package):
        if name.endswith(".deb"):
            if not os.path.isfile(name) and not os.environ.get("TERN_PACKAGES"):
                p.error(f"--package: no such file: {name}")
            a.package[i] = os.path.realpath(name)
        elif not re.fullmatch(r"[a-z0-9][a-z0-9+.-]*[a-z0-9+](:[a-z0-9-]+)?(=[A-Za-z0-9.+:~-]+)?",
                              name):
            p.error(f"--package: {name} is no name of a package")


def plan(a):
    """Returns the preparations of run-vm before the machines start, as shell assignments."""
    path = {
        name: os.path.realpath(getattr(a, name)) if getattr(a, name) else ""
        for name in ("share", "run_dir", "overlay")
    }
    own = a.own or kernel.Kernel("", "")
    words = {
        "build": int(not a.no_build), "tern": int(not a.no_tern), "terminal": int(a.tty),
        "lane": a.lane, "front": a.front, "mutate": "--mutate" * a.mutate, "kernel": own.image,
        "release": own.release, "modules": own.modules, "tree": own.tree, "drivers": own.drivers,
        **path
    }
    lines = [f"{k}={shlex.quote(str(v))}" for k, v in words.items()]
    return "\n".join([*lines, f"packages=({shlex.join(a.package)})"])

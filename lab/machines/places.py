# SPDX-License-Identifier: GPL-2.0-or-later
"""Where the lab's parts are. In a checkout they run inside its sysroot; a bundle (packaging/bundle)
brings its own QEMU, image and libraries, may be read-only, and runs anywhere."""
import errno
import os

TOP = os.environ["TERN_TOP"]
HOST = os.path.join(TOP, "host")  # a bundle's programs for the host
BUNDLE = os.path.isdir(HOST)
# What remains from run to run; a bundle has cache().
CACHE = None if BUNDLE else os.environ["TERN_CACHE"]
COMMAND = "tern run" if BUNDLE else "run-vm"
LAB = os.path.join(TOP, "lab")
STOCK_QEMU = os.path.join(LAB, "build/stock-qemu")
TERND = os.path.join(TOP, "build/ternd/ternd")
# Longer names leave no room for a socket's, which has 107 bytes in all.
LONGEST = 70


def qemu(front, mutate):
    """Returns the beginning of QEMU's command line."""
    if BUNDLE:
        return [
            f"{HOST}/lib/ld-linux-x86-64.so.2", "--library-path", f"{HOST}/lib",
            f"{HOST}/bin/qemu-system-x86_64", "-L", f"{HOST}/firmware"
        ]
    if front == "vfio-user":
        return [STOCK_QEMU]
    return [
        os.path.join(TOP, "build/qemu/qemu-system-x86_64") + ("-mutate" if mutate else ""), "-L",
        "/usr/share/seabios", "-L", "/usr/share/qemu"
    ]


def image(out):
    """Returns the directory with the guests' kernel, initramfs and root file system."""
    if BUNDLE:
        return os.path.join(TOP, "image")
    with open(os.path.join(TOP, out, "image")) as f:
        return f.read().strip()


def run_dir():
    """Returns the default directory for consoles and captures."""
    if not BUNDLE:
        return os.path.join(TOP, "build/run")
    if os.access(".", os.W_OK | os.X_OK):
        return os.path.abspath("tern-run")
    path = f"{temporary()}/tern-run-{os.getuid()}"
    os.makedirs(path, mode=0o700, exist_ok=True)
    if os.lstat(path).st_uid != os.getuid() or os.path.islink(path):
        raise PermissionError(errno.EACCES, "belongs to another user; use --run-dir", path)
    return path


def cache():
    """Returns the directory for a bundle's layers and snapshots, which only this user can write."""
    base = os.environ.get("XDG_CACHE_HOME") or (os.environ.get("HOME") or "") + "/.cache"
    for path in (f"{base}/tern-bundle", f"{temporary()}/tern-bundle-{os.getuid()}"):
        try:
            os.makedirs(path, mode=0o700, exist_ok=True)
        except OSError:
            continue
        if os.stat(path).st_uid == os.getuid() and os.access(path, os.W_OK):
            return path
    raise OSError("no directory for layers and snapshots; set XDG_CACHE_HOME")


def snapshots():
    """Returns the directory for snapshots of machines."""
    return os.path.join(cache() if BUNDLE else os.path.join(TOP, "build"), "snapshots")


def temporary():
    """Returns a directory for sockets, whose names must be short. In the sysroot, TMPDIR is not
    set."""
    asked = os.environ.get("TMPDIR")
    for place in filter(None, (asked, "/tmp", os.environ.get("XDG_RUNTIME_DIR"), "/dev/shm")):
        path = os.path.abspath(place)
        if len(os.fsencode(path)) <= LONGEST and os.access(path, os.W_OK | os.X_OK):
            return path
    raise OSError(
        errno.EACCES, f"no directory for sockets (writable, and a name of at most {LONGEST} "
        f"bytes); set TMPDIR", asked or "/tmp")


def shown(path):
    """Returns the path as a user may type it."""
    return os.path.relpath(path, os.curdir if BUNDLE else TOP)


def keys():
    """Returns the directory of a bundle's ssh keys. Only the machines of one run reach each other,
    and the programs that make a key need a user with a name."""
    return os.path.join(TOP, "image/ssh") if BUNDLE else None

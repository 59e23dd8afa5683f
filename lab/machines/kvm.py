# SPDX-License-Identifier: GPL-2.0-or-later
"""Finds out whether KVM works, by a trial boot: under nested virtualisation /dev/kvm may exist and
fail in a kernel's first instructions, or be slower than emulation."""
import os
import select
import subprocess
import time

import places

# Seconds from one line of the kernel to the next, and in all. A working KVM boots in less than one.
# Those who insist on KVM wait for a busy host.
SILENT, LIMIT = 0.9, 5
PATIENT = 20


def kvm_works(qemu, kernel, insist=False):
    """Returns whether KVM boots `kernel` as far as the missing root file system. The result is
    cached until the host boots again. insist: raises OSError if it does not."""
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        if insist:
            raise OSError("--kvm on: this user cannot open /dev/kvm")
        return False
    if insist:
        if not boots(qemu, kernel, PATIENT, PATIENT):
            raise OSError("--kvm on: a trial boot with /dev/kvm fails")
        return True
    memo = None
    if places.CACHE:
        with open("/proc/sys/kernel/random/boot_id") as f:
            memo = os.path.join(places.CACHE, f"kvm-kernel-{f.read().strip()}")
        if os.path.exists(memo):
            with open(memo) as f:
                return f.read() == "yes"
    ok = boots(qemu, kernel, SILENT, LIMIT)
    if memo:
        with open(memo, "w") as f:
            f.write("yes" if ok else "no")
    return ok


def boots(qemu, kernel, silent, limit):
    """Returns whether the kernel ends with its panic, within `limit` seconds and `silent` seconds
    from one line to the next."""
    command = [
        *qemu, "-M", "q35,smm=off", "-accel", "kvm", "-cpu", "host", "-nodefaults",
        "-no-user-config", "-display", "none", "-no-reboot", "-m", "512", "-smp", "2", "-serial",
        "stdio", "-kernel", kernel, "-append",
        "console=ttyS0 earlyprintk=ttyS0,115200 loglevel=7 panic=-1 root=/dev/ram0"
    ]
    output = b""
    end = time.monotonic() + limit
    try:
        p = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT)
    except OSError:
        return False
    with p:
        while select.select([p.stdout], [], [], min(silent, max(0, end - time.monotonic())))[0]:
            chunk = os.read(p.stdout.fileno(), 65536)
            output += chunk
            if not chunk or b"KVM internal error" in output:
                break
        p.kill()
    return b"Kernel panic - not syncing: VFS" in output and b"KVM internal error" not in output

# SPDX-License-Identifier: GPL-2.0-or-later
"""Machines that are booted already (run-vm --from NAME). A snapshot has the state of each machine's
QEMU, and the memory as files that later machines map privately. guest/init mounts no directory of
the host meanwhile, because QEMU's 9p cannot be saved then."""
import copy
import fcntl
import glob
import io
import json
import os
import shutil
import tarfile
import time

import monitor
import places
from places import LAB, TOP

# Options that runs from one snapshot may have in different ways.
FREE = ("cmd", "stdin", "share", "run_dir", "timeout", "check_dmesg", "judge_kernels", "no_build",
        "no_collect", "kvm", "snapshot", "saving", "own", "used_dir")


def saving(opt):
    """Returns the options of the run that makes the snapshot, if there is none that fits."""
    opt = copy.copy(opt)
    opt.saving, opt.cmd, opt.stdin, opt.timeout = True, ["true"], False, None
    return opt


def processor():
    """Describes the host's processor, which a machine with KVM has."""
    with open("/proc/cpuinfo") as f:
        first = f.read().split("\n\n")[0].splitlines()
    return [line for line in first if line.startswith(("model name", "flags"))]


class Snapshot:
    def __init__(self, lab):
        self.lab = lab
        self.kept = os.path.join(places.snapshots(), lab.opt.snapshot)
        os.makedirs(places.snapshots(), exist_ok=True)
        self.lock = open(f"{self.kept}.lock", "w")
        self.path = self.kept
        if not lab.opt.saving:
            fcntl.flock(self.lock, fcntl.LOCK_SH)
        elif not self.fits():
            fcntl.flock(self.lock, fcntl.LOCK_EX)  # another lab may be making it
        self.fresh = self.fits()
        if lab.opt.saving and not self.fresh:
            self.path = f"{self.kept}.new"
            shutil.rmtree(self.path, ignore_errors=True)
            os.mkdir(self.path)
        if not (self.fresh or lab.opt.saving):
            raise OSError(f"another lab has changed the snapshot {lab.opt.snapshot}")

    def key(self):
        """Describes all that the snapshot depends on."""
        lab = self.lab
        drivers = os.environ.get("TERN_DRIVERS", lab.out)
        files = [
            *lab.qemu, *glob.glob(f"{glob.escape(lab.image)}/*"),
            *glob.glob(f"{TOP}/{drivers}/*.ko"), *glob.glob(f"{TOP}/{lab.out}/libtern*"),
            f"{LAB}/guest/init", *glob.glob(f"{LAB}/guest/bin/*"),
            *glob.glob(f"{LAB}/machines/*.py"),
            os.environ.get("TERN_PACKAGES", "")
        ]
        stamps = {
            path: (os.stat(path).st_size, os.stat(path).st_mtime_ns) for path in sorted(files)
            if os.path.isfile(path)
        }
        options = {name: value for name, value in vars(lab.opt).items() if name not in FREE}
        return json.dumps({"files": stamps, "options": options, "kvm": lab.kvm and processor()},
                          sort_keys=True)

    def fits(self):
        try:
            with open(f"{self.kept}/key") as f:
                return f.read() == self.key()
        except FileNotFoundError:
            return False

    def arguments(self):
        """Returns QEMU's arguments. A new generation makes the kernel renew its random numbers."""
        return [
            "-device", "vmgenid,guid=auto", *([] if self.lab.opt.saving else ["-incoming", "defer"])
        ]

    @staticmethod
    def ask(m, command, **arguments):
        return monitor.execute(m.monitor, command, **arguments)

    def without_memory(self, m, on):
        self.ask(m, "migrate-set-capabilities",
                 capabilities=[{"capability": "x-ignore-shared", "state": on}])

    def save(self):
        """Saves the machines, which end then."""
        machines = self.lab.machines
        for m in machines:
            self.ask(m, "stop")
        for m in machines:
            self.without_memory(m, True)
            self.ask(m, "migrate", uri=f"file:{self.path}/{m.name}")
        for m in machines:
            while (info := self.ask(m, "query-migrate")).get("status") != "completed":
                if info.get("status") == "failed":
                    raise OSError(f"{m.name} cannot be saved: {info.get('error-desc')}")
                time.sleep(0.01)
        with open(f"{self.path}/key", "w") as f:
            f.write(self.key())

    def load(self):
        """Loads the machines, which have just started, and gives them the time and the files of
        this run."""
        machines = self.lab.machines
        for m in machines:
            while True:
                try:
                    self.without_memory(m, True)
                    break
                except (FileNotFoundError, ConnectionRefusedError):
                    if m.process.poll() is not None:
                        raise
                    time.sleep(0.01)
            self.ask(m, "migrate-incoming", uri=f"file:{self.path}/{m.name}")
        for m in machines:
            while self.ask(m, "query-status")["status"] == "inmigrate":
                time.sleep(0.01)
            self.without_memory(m, False)
            self.ask(m, "cont")  # it was saved when it had stopped
            self.resume(m)
        fcntl.flock(self.lock, fcntl.LOCK_UN)  # the files may now be removed

    def end(self, good):
        """The machines have ended. A new snapshot takes the place of an older one."""
        if self.path != self.kept and good:
            shutil.rmtree(self.kept, ignore_errors=True)
            os.rename(self.path, self.kept)
        elif self.path != self.kept:
            shutil.rmtree(self.path, ignore_errors=True)
        self.lock.close()

    def resume(self, m):
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as tar:
            for name, (mode, data) in self.lab.files(m).items():
                entry = tarfile.TarInfo(name)
                entry.mode, entry.size = mode, len(data)
                tar.addfile(entry, io.BytesIO(data))
        data = out.getvalue()
        ctl = m.ports["ctl"]
        ctl.setblocking(True)
        ctl.sendall(f"resume {time.time():.3f} {len(data)}\n".encode() + data)
        ctl.setblocking(False)

#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""layer.py BASE MERGED NAME...: writes a tar file on stdout, a layer that turns the guests' image
of BASE into MERGED, as far as the packages NAME need it. BASE is a Debian tree, MERGED the same
tree after packages were added.

The image lacks what lab/image/excludes lists. A layer brings back those of its files that
belong to a package NAME, or to one that such a package depends on. A file that MERGED lacks becomes
a whiteout of overlayfs: a character device 0:0."""
import fnmatch
import os
import re
import stat
import sys
import tarfile

EXCLUDES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "excludes")
# Links to directories in /usr, by which packages may name their files.
MERGED_USR = re.compile(r"(bin|sbin|lib|lib32|lib64|libx32)(/|$)")


def read_excludes(path=EXCLUDES):
    """Returns {section: compiled pattern} of the sections scratch and large."""
    patterns, section = {}, None
    with open(path) as f:
        for line in f.read().splitlines():
            if line.startswith("#"):
                section = re.match(r"# (scratch|large)\b", line)
                section = section and section[1]
            elif line.strip():
                pattern = fnmatch.translate(line.removeprefix("./"))
                patterns.setdefault(section, []).append(re.sub(r"\\[Zz]$", "", pattern))
    return {
        name: re.compile(f"(?:{'|'.join(found)})(?:/.*)?$", re.S)
        for name, found in patterns.items()
    }


def walk(root):
    """Returns {path: stat} of the tree, without mounts of a chroot."""
    found, todo = {}, [""]
    while todo:
        at = todo.pop()
        for entry in os.scandir(os.path.join(root, at)):
            path = os.path.join(at, entry.name)
            found[path] = entry.stat(follow_symlinks=False)
            if entry.is_dir(follow_symlinks=False) and not re.match(r"(proc|sys|dev)/", path):
                todo.append(path)
    return found


def same(base, merged, path, old, new):
    if (old.st_mode, old.st_uid, old.st_gid, old.st_rdev) != (new.st_mode, new.st_uid, new.st_gid,
                                                              new.st_rdev):
        return False
    if stat.S_ISLNK(new.st_mode):
        return os.readlink(os.path.join(base, path)) == os.readlink(os.path.join(merged, path))
    return not stat.S_ISREG(new.st_mode) or (old.st_size, old.st_mtime_ns) == (new.st_size,
                                                                               new.st_mtime_ns)


def difference(base, merged, excludes, needed):
    """Returns (paths of the layer with their directories, paths of whiteouts). needed: paths of
    packages that the image may lack."""
    old, new = walk(base), walk(merged)
    scratch, large = (excludes[name].match for name in ("scratch", "large"))

    def wanted(path, st):
        changed = path not in old or not same(base, merged, path, old[path], st)
        return path in needed and (changed or scratch(path)
                                   or large(path)) or changed and not scratch(path)

    gone = {path for path in old if path not in new and not scratch(path) and not large(path)}
    # A whiteout of a removed directory also hides its contents.
    top = {
        path for path in gone if os.path.dirname(path) not in gone and (
            not os.path.dirname(path) or stat.S_ISDIR(new[os.path.dirname(path)].st_mode))
    }
    paths = {path for path, st in new.items() if wanted(path, st)}
    for path in paths | top:
        while path := os.path.dirname(path):
            paths.add(path)
    return paths, top


def installed(root):
    """Returns {package: [its dependencies, each a list of alternatives]} of the installed
    packages, and {virtual package: provider}."""
    packages, provides = {}, {}
    with open(os.path.join(root, "var/lib/dpkg/status")) as f:
        for paragraph in f.read().split("\n\n"):
            fields = dict(re.findall(r"^(\S+): (.*)$", paragraph, re.M))
            if not fields.get("Status", "").endswith(" installed"):
                continue
            depends = ", ".join(fields[name] for name in ("Pre-Depends", "Depends")
                                if name in fields)
            packages[fields["Package"]] = [[re.split(r"[ :(]", a.strip())[0] for a in d.split("|")]
                                           for d in depends.split(",") if d.strip()]
            for name in fields.get("Provides", "").split(","):
                provides[name.split("(")[0].strip()] = fields["Package"]
    return packages, provides


def closure(root, names):
    """Returns the installed packages that `names` need, themselves included."""
    packages, provides = installed(root)
    found, todo = set(), list(names)
    while todo:
        name = todo.pop()
        name = name if name in packages else provides.get(name)
        if name is None or name in found:
            continue
        found.add(name)
        for alternatives in packages[name]:
            todo += [a for a in alternatives if a in packages or a in provides][:1]
    return found


def files_of(root, packages):
    """Returns the paths that these packages own."""
    info = os.path.join(root, "var/lib/dpkg/info")
    paths = set()
    for name in os.listdir(info):
        if name.endswith(".list") and name.removesuffix(".list").partition(":")[0] in packages:
            with open(os.path.join(info, name)) as f:
                for line in f.read().splitlines():
                    path = line.strip("/")
                    paths.add(f"usr/{path}" if MERGED_USR.match(path) else path)
    return paths


def write(merged, paths, whiteouts, out):
    with tarfile.open(fileobj=out, mode="w|", format=tarfile.GNU_FORMAT) as tar:
        for path in ["", *sorted(paths)]:
            member = tar.gettarinfo(os.path.join(merged, path), f"./{path}")
            if member is None:  # a socket
                continue
            member.uname = member.gname = ""
            if member.isreg():
                with open(os.path.join(merged, path), "rb") as f:
                    tar.addfile(member, f)
            else:
                tar.addfile(member)
        for path in sorted(whiteouts):
            member = tarfile.TarInfo(f"./{path}")
            member.type, member.mode = tarfile.CHRTYPE, 0
            tar.addfile(member)


def main():
    base, merged, *names = sys.argv[1:]
    needed = files_of(merged, closure(merged, names))
    paths, whiteouts = difference(base, merged, read_excludes(), needed)
    write(merged, paths, whiteouts, sys.stdout.buffer)


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: GPL-2.0-or-later
"""A kernel of the user's, for run-vm --kernel: its location, missing options, and the source of
tern's drivers for it."""
import bz2
import glob
import lzma
import os
import re
import struct
import subprocess
import zlib
from dataclasses import dataclass

FRAGMENT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "kernel.config")
BZIMAGE = "arch/x86/boot/bzImage"
MODULE = re.compile(r"([^/]+)\.ko(?:\.(?:xz|zst|gz))?$")
# Modules whose names differ from those of their options.
MODULE_OF = {
    "EROFS_FS": "erofs", "OVERLAY_FS": "overlay", "NET_9P": "9pnet",
    "NET_9P_VIRTIO": "9pnet_virtio", "9P_FS": "9p", "PACKET": "af_packet", "INFINIBAND": "ib_core",
    "INFINIBAND_USER_ACCESS": "ib_uverbs", "INFINIBAND_ADDR_TRANS": "rdma_cm"
}


class Wrong(Exception):
    """An error of the kernel, in a line for the user."""


@dataclass
class Kernel:
    image: str
    release: str
    modules: str = ""  # the directory of its modules, empty: it has none, or the lab takes them from the tree
    tree: str = ""  # the tree that built it, or the headers of its package
    drivers: str = ""  # "kernel": it has tern's; "tree": the lab builds them for the tree


def header(path):
    """Returns the beginning of a bzImage, up to its payload, and the release."""
    try:
        with open(path, "rb") as f:
            data = f.read(65536)
    except OSError as e:
        raise Wrong(f"{path}: {e.strerror}")
    if data[0x202:0x206] != b"HdrS":
        raise Wrong(f"{path} is no bzImage")
    at = struct.unpack_from("<H", data, 0x20e)[0] + 0x200
    return data, data[at:at + 256].split(b"\0")[0].split()[0].decode(errors="replace")


def decompressed(data):
    try:
        if data[:2] == b"\x1f\x8b":
            return zlib.decompressobj(31).decompress(data)
        if data[:3] == b"BZh":
            return bz2.BZ2Decompressor().decompress(data)
        if data[:6] == b"\xfd7zXZ\0" or data[:3] == b"\x5d\0\0":
            return lzma.LZMADecompressor().decompress(data)
        if data[:4] == b"\x28\xb5\x2f\xfd":
            # The size of the kernel follows the archive: zstd complains after writing its output.
            return subprocess.run(["zstd", "-dcq"], input=data, stdout=subprocess.PIPE,
                                  stderr=subprocess.DEVNULL).stdout
    except (OSError, EOFError, ValueError, zlib.error, lzma.LZMAError):
        pass
    return b""


def ikconfig(path):
    """Returns the configuration in a bzImage built with CONFIG_IKCONFIG=y; None if there is
    none."""
    data, _ = header(path)
    sectors = data[0x1f1] or 4
    offset, length = struct.unpack_from("<II", data, 0x248)
    with open(path, "rb") as f:
        f.seek((sectors + 1) * 512 + offset)
        kernel = decompressed(f.read(length))
    at = kernel.find(b"IKCFG_ST")
    return zlib.decompressobj(31).decompress(kernel[at + 8:]).decode() if at >= 0 else None


def read_config(text):
    """Returns {option without CONFIG_: value} of the options that are y or m."""
    return dict(re.findall(r"^CONFIG_(\w+)=([ym])$", text, re.M))


def config_of(k):
    """Returns the configuration of a kernel, or None if it cannot be found."""
    beside = os.path.join(os.path.dirname(k.image), f"config-{k.release}")
    boot = re.sub(r"(/usr)?/lib/modules/[^/]+$", "",
                  k.modules) + f"/boot/config-{k.release}" if k.modules else ""
    places = [f"{k.tree}/.config"
              ] if k.tree else [f"{k.modules}/config", f"{k.modules}/build/.config", beside, boot]
    for path in places:
        try:
            with open(path) as f:
                return read_config(f.read())
        except OSError:
            continue
    text = ikconfig(k.image)
    return read_config(text) if text else None


def module_names(k):
    """Returns (modules, built-in modules), by name with underscores. None for a set that is
    unknown."""
    def names(paths):
        return {m[1].replace("-", "_") for m in map(MODULE.search, paths) if m}

    def listed(*paths):
        for path in paths:
            if os.path.exists(path):
                with open(path) as f:
                    return names(re.sub(r"\.o$", ".ko", line.strip()) for line in f)
        return None

    where = k.modules or k.tree
    if not where:
        return set(), None
    modules = names(f for _, _, files in os.walk(k.modules)
                    for f in files) if k.modules else listed(f"{k.tree}/modules.order") or set()
    return modules, listed(f"{where}/modules.builtin")


def read_fragment(path=FRAGMENT):
    """Returns {section: [option]} of lab/machines/kernel.config. Options in a section's title
    are required instead of those below it."""
    sections, section = {}, None
    with open(path) as f:
        for line in f.read().splitlines():
            if m := re.match(r"# ([\w ,]+)(?:[:.].*)?$", line):
                section = m[1]
                if named := re.findall(r"CONFIG_(\w+)", line):
                    sections[section] = named
                    section = None
            elif (m := re.match(r"CONFIG_(\w+)=y$", line)) and section:
                sections.setdefault(section, []).append(m[1])
    return sections


def missing(k, config, modules, builtin, tern):
    """Returns the options that the lab needs and the kernel lacks. Without the configuration,
    only modules show them. tern: include tern's."""
    sections = read_fragment()
    fixed = sections["built in"] + (sections["for tern, selected by others"] if tern else [])
    fixed += sections["to build tern as modules"] if k.drivers == "tree" else []
    either = sections["built in or a module"] + (sections["for tern"] if tern else [])

    def there(option):
        module = MODULE_OF.get(option, option.lower())
        if config is None:
            return builtin is None or module in modules | builtin
        return config.get(option) == "y" or config.get(option) == "m" and module in modules

    return [o for o in fixed if config is not None and config.get(o) != "y"
            ] + [o for o in either if not there(o)]


def find_image(path):
    """Returns the kernel that --kernel names, without its modules if --modules must name them."""
    if os.path.isfile(path):
        tree = path.removesuffix(f"/{BZIMAGE}")
        return Kernel(path,
                      header(path)[1],
                      tree=tree if tree != path and os.path.exists(f"{tree}/.config") else "")
    if os.path.exists(f"{path}/{BZIMAGE}"):
        return Kernel(f"{path}/{BZIMAGE}", header(f"{path}/{BZIMAGE}")[1], tree=path)
    if os.path.exists(f"{path}/Kconfig") or os.path.exists(f"{path}/.config"):
        raise Wrong(
            f"{path} has no {BZIMAGE}: build it there (make bzImage modules), or give the directory of make's O="
        )
    places = [
        f"{glob.escape(path)}{below}/vmlinuz"
        for below in ("", "/lib/modules/*", "/usr/lib/modules/*")
    ]
    images = sorted({os.path.realpath(f) for place in places for f in glob.glob(place)})
    if len(images) != 1:
        raise Wrong(
            f"{path} is neither a bzImage nor a built kernel tree, and has {len(images) or 'no'} lib/modules/RELEASE/vmlinuz"
        )
    modules = os.path.dirname(images[0])
    return Kernel(images[0], os.path.basename(modules), modules)


def find_build(modules):
    """Returns the target of `build` next to the modules: the tree, or the headers of a
    distribution's package. The link may contain a path of the modules' system: packages unpacked
    in a directory have the target below that directory."""
    link = f"{modules}/build"
    root = re.sub(r"(/usr)?/lib/modules/[^/]+$", "", modules)
    target = os.readlink(link) if os.path.islink(link) else link
    for found in (f"{root}{target}" if os.path.isabs(target) else "", link):
        if os.path.exists(f"{found}/.config"):  # headers have no image
            return os.path.realpath(found)
    return ""


def find_modules(k, path):
    """Returns the directory that --modules names."""
    for found in (f"{path}/lib/modules/{k.release}", f"{path}/usr/lib/modules/{k.release}", path):
        if os.path.isdir(found) and any(
                os.path.exists(f"{found}/{name}")
                for name in ("modules.order", "modules.dep", "modules.builtin", "kernel")):
            return os.path.realpath(found)
    others = sorted(
        os.path.basename(d) for usr in ("", "usr/")
        for d in glob.glob(f"{glob.escape(path)}/{usr}lib/modules/*"))
    raise Wrong(f"{path} has no lib/modules/{k.release}, the release of {k.image}" +
                (f"; it has {', '.join(others)}" if others else ""))


def find(path, modules, tern):
    """Returns the Kernel that --kernel and --modules name. tern: "needed", "later" (--no-driver)
    or "" (--no-tern)."""
    k = find_image(os.path.realpath(path))
    if modules:
        k.modules = find_modules(k, os.path.realpath(modules))
    if k.modules and not k.tree:
        k.tree = find_build(k.modules)
    names, builtin = module_names(k)
    config = config_of(k)
    if tern:
        ours = {"TERN": "tern", "INFINIBAND_TERN": "tern_ib"}
        if all(module in names | (builtin or set()) or (config or {}).get(option) == "y"
               for option, module in ours.items()):
            k.drivers = "kernel"
        elif k.tree:
            k.drivers = "tree"
    lacks = missing(k, config, names, builtin, bool(tern))
    if lacks:
        without = " (an option that is m counts only with --modules)" if not (
            k.modules or k.tree) and config and any(config.get(o) for o in lacks) else ""
        raise Wrong(
            f"{path} lacks {', '.join('CONFIG_' + o for o in lacks)}{without}; merge {FRAGMENT} into its configuration "
            "(scripts/kconfig/merge_config.sh) and build it again")
    if tern == "needed" and not k.drivers:
        raise Wrong(
            f"{k.modules or path} has no tern.ko and tern_ib.ko, and no link `build` to the headers of its package; name the tree where the kernel "
            "was built, unpack the headers beside it, or install the drivers there (make modules modules_install KDIR=...)"
        )
    if k.drivers == "tree" and not os.path.exists(f"{k.tree}/Module.symvers"):
        raise Wrong(
            f"{k.tree} has no Module.symvers, which the drivers need: build its modules (make modules)"
        )
    return k

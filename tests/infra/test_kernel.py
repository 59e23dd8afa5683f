# SPDX-License-Identifier: GPL-2.0-or-later
"""run-vm --kernel: which kernel it finds, what that lacks, and what it says."""
import gzip
import lzma
import os
import shutil
import struct
import sys
import tempfile
import unittest

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.append(os.path.join(os.path.dirname(TESTS), "lab/machines"))
import kernel  # noqa: E402

RELEASE = "7.2.1-mine"
SECTIONS = kernel.read_fragment()
HIDDEN = SECTIONS["for tern, selected by others"]
MODULES = [kernel.MODULE_OF.get(o, o.lower()) for o in SECTIONS["built in or a module"]]
GOOD = "".join(f"CONFIG_{o}=y\n" for section in SECTIONS.values() for o in section)


def bzimage(payload=b"", release=RELEASE):
    data = bytearray(1024)
    data[0x1f1] = 1
    data[0x202:0x206] = b"HdrS"
    struct.pack_into("<H", data, 0x20e, 0x100)
    text = f"{release} (someone@somewhere) #1".encode() + b"\0"
    data[0x300:0x300 + len(text)] = text
    struct.pack_into("<II", data, 0x248, 0, len(payload))
    return bytes(data) + payload


class Mine(unittest.TestCase):
    def setUp(self):
        self.dir = os.path.realpath(tempfile.mkdtemp(prefix="tern-infra-"))
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)

    def put(self, path, data=b""):
        path = f"{self.dir}/{path}"
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as f:
            f.write(data.encode() if isinstance(data, str) else data)
        return path

    def tree(self, config=GOOD, symvers=True):
        self.put("tree/.config", config)
        self.put("tree/Kconfig")
        self.put(f"tree/{kernel.BZIMAGE}", bzimage())
        self.put("tree/modules.builtin", "kernel/fs/9p/9p.ko\n")
        if symvers:
            self.put("tree/Module.symvers")
        return f"{self.dir}/tree"

    def find(self, path, modules=None, tern="needed"):
        return kernel.find(path, modules, tern)

    def wrong(self, *words, **more):
        with self.assertRaises(kernel.Wrong) as e:
            self.find(**more)
        self.assertNotIn("\n", str(e.exception))
        for word in words:
            self.assertIn(word, str(e.exception))
        return str(e.exception)

    def test_tree(self):
        k = self.find(self.tree())
        self.assertEqual(
            (f"{self.dir}/tree/{kernel.BZIMAGE}", RELEASE, f"{self.dir}/tree", "", "tree"),
            (k.image, k.release, k.tree, k.modules, k.drivers))
        self.assertEqual(k, self.find(f"{self.dir}/tree/{kernel.BZIMAGE}"))

    def test_tree_with_tern(self):
        self.tree(GOOD + "CONFIG_TERN=m\nCONFIG_INFINIBAND_TERN=m\n", symvers=False)
        self.put("tree/modules.order",
                 "drivers/net/ethernet/tern/tern.o\ndrivers/infiniband/hw/tern/tern_ib.o\n")
        self.assertEqual("kernel", self.find(f"{self.dir}/tree").drivers)

    def test_tree_with_tern_built_in(self):
        self.assertEqual(
            "kernel",
            self.find(self.tree(GOOD + "CONFIG_TERN=y\nCONFIG_INFINIBAND_TERN=y\n")).drivers)

    def test_tree_that_is_not_built(self):
        self.tree()
        os.unlink(f"{self.dir}/tree/{kernel.BZIMAGE}")
        self.wrong("make bzImage", path=f"{self.dir}/tree")

    def test_tree_without_modules_built(self):
        self.wrong("Module.symvers", "make modules", path=self.tree(symvers=False))

    def test_options_are_named(self):
        for option in ("DEVTMPFS", "EROFS_FS", "NET_DEVLINK", "INFINIBAND_USER_ACCESS", "MODULES"):
            self.wrong(f"lacks CONFIG_{option};", "kernel.config", "merge_config.sh",
                       path=self.tree(GOOD.replace(f"CONFIG_{option}=y\n", "")))

    def test_sysctl_of_any_release(self):
        """Linux 7.3 has CONFIG_SYSCTL alone."""
        self.find(self.tree(GOOD.replace("CONFIG_PROC_SYSCTL=y\n", "")))
        self.wrong("lacks CONFIG_SYSCTL;", path=self.tree(GOOD.replace("CONFIG_SYSCTL=y\n", "")))

    def test_options_of_tern_are_not_needed_without_it(self):
        tree = self.tree("".join(line + "\n" for line in GOOD.splitlines()
                                 if "INFINIBAND" not in line))
        self.assertEqual("", self.find(tree, tern="").drivers)

    def test_module_that_is_not_there(self):
        tree = self.tree(GOOD.replace("CONFIG_EROFS_FS=y", "CONFIG_EROFS_FS=m"))
        self.wrong("lacks CONFIG_EROFS_FS;", path=tree)
        self.put("tree/modules.order", "fs/erofs/erofs.o\n")
        self.find(tree)

    def test_built_in_is_not_a_module(self):
        self.wrong("CONFIG_DEVTMPFS",
                   path=self.tree(GOOD.replace("CONFIG_DEVTMPFS=y", "CONFIG_DEVTMPFS=m")))

    def directory(self, *more):
        for m in [*MODULES, "ib_core", "ib_uverbs", "rdma_cm", *more]:
            self.put(f"dir/lib/modules/{RELEASE}/kernel/{m}.ko.xz")
        self.put(f"dir/lib/modules/{RELEASE}/modules.builtin")
        self.put(f"dir/lib/modules/{RELEASE}/vmlinuz", bzimage())
        return f"{self.dir}/dir"

    def test_directory(self):
        k = self.find(self.directory("tern", "tern_ib"))
        self.assertEqual((RELEASE, f"{self.dir}/dir/lib/modules/{RELEASE}", "kernel"),
                         (k.release, k.modules, k.drivers))

    def test_directory_without_tern(self):
        path = self.directory()
        self.wrong("no tern.ko and tern_ib.ko", path=path)
        self.assertEqual("", self.find(path, tern="later").drivers)
        os.symlink(self.tree(), f"{path}/lib/modules/{RELEASE}/build")
        self.assertEqual("tree", self.find(path).drivers)

    def headers(self, below):
        """A distribution's package of headers: no image, no Kconfig."""
        self.put(f"{below}/.config", GOOD)
        self.put(f"{below}/Makefile")
        self.put(f"{below}/Module.symvers")
        return f"{self.dir}/{below}"

    def test_headers_beside_the_modules(self):
        path, link = self.directory(), f"{self.dir}/dir/lib/modules/{RELEASE}/build"
        headers = self.headers(f"dir/usr/src/linux-headers-{RELEASE}")
        # Packages unpacked in a directory: the path of the link is one of the system that they are
        # for.
        for target in (f"/usr/src/linux-headers-{RELEASE}",
                       f"../../../usr/src/linux-headers-{RELEASE}", headers):
            os.symlink(target, link)
            self.assertEqual((headers, "tree"), (self.find(path).tree, self.find(path).drivers))
            self.assertEqual(self.find(path), self.find(os.path.dirname(link)))
            os.unlink(link)
        os.unlink(f"{headers}/Module.symvers")
        os.symlink(headers, link)
        self.wrong("Module.symvers", path=path)

    def test_headers_that_are_not_there(self):
        path = self.directory()
        os.symlink("/usr/src/linux-headers-of-nobody", f"{path}/lib/modules/{RELEASE}/build")
        self.wrong("no link `build` to the headers", path=path)

    def test_directory_that_lacks_a_module(self):
        path = self.directory("tern", "tern_ib")
        os.unlink(f"{path}/lib/modules/{RELEASE}/kernel/virtio_blk.ko.xz")
        self.wrong("CONFIG_VIRTIO_BLK", path=path)
        self.put(f"dir/lib/modules/{RELEASE}/modules.builtin",
                 "kernel/drivers/block/virtio_blk.ko\n")
        self.find(path)

    def test_image_with_modules(self):
        image = self.put("vmlinuz", bzimage())
        for modules in (self.directory("tern", "tern_ib"), f"{self.dir}/dir/lib/modules/{RELEASE}"):
            self.assertEqual((image, f"{self.dir}/dir/lib/modules/{RELEASE}"),
                             (self.find(image, modules).image, self.find(image, modules).modules))

    def test_modules_of_another_release(self):
        image = self.put("vmlinuz", bzimage(release="6.12.9"))
        self.wrong("no lib/modules/6.12.9", f"it has {RELEASE}", path=image,
                   modules=self.directory())

    def test_image_that_needs_modules(self):
        self.put(f"config-{RELEASE}", GOOD.replace("CONFIG_EROFS_FS=y", "CONFIG_EROFS_FS=m"))
        self.wrong("lacks CONFIG_EROFS_FS (", "only with --modules",
                   path=self.put("vmlinuz", bzimage()))

    def test_configuration_in_the_image(self):
        text = GOOD.replace("CONFIG_9P_FS=y\n", "") + "CONFIG_TERN=y\nCONFIG_INFINIBAND_TERN=y\n"
        for compress in (gzip.compress, lzma.compress):
            payload = compress(b"vmlinux" * 100 + b"IKCFG_ST" + gzip.compress(text.encode()) +
                               b"IKCFG_ED" + bytes(100))
            self.wrong("lacks CONFIG_9P_FS;", path=self.put("vmlinuz", bzimage(payload)))

    def test_no_kernel(self):
        self.wrong("no bzImage", path=self.put("text", "hello"))
        self.wrong("no lib/modules/RELEASE/vmlinuz", path=self.dir)
        self.wrong("neither a bzImage nor a built kernel tree", path=f"{self.dir}/nowhere")


class Fragment(unittest.TestCase):
    def test_the_debug_kernel_has_all_of_it(self):
        with open(f"{TESTS}/../lab/build/debug.config") as f:
            debug = set(f.read().splitlines())
        with open(kernel.FRAGMENT) as f:
            wanted = {line for line in f.read().splitlines() if line.startswith("CONFIG")}
        # Linux 7.3 has no such option.
        self.assertEqual({"CONFIG_PROC_SYSCTL=y"}, wanted - debug)

    def test_sections(self):
        self.assertEqual(["AUXILIARY_BUS", "NET_DEVLINK", "PAGE_POOL"], HIDDEN)
        self.assertIn("DEVTMPFS", SECTIONS["built in"])

# SPDX-License-Identifier: GPL-2.0-or-later
"""Documentation/clients.rst has a row for each client of the suite, and no empty cell."""
import importlib.machinery
import importlib.util
import os
import unittest

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LOADER = importlib.machinery.SourceFileLoader("clients", f"{TOP}/tests/clients")
clients = importlib.util.module_from_spec(importlib.util.spec_from_loader("clients", LOADER))
LOADER.exec_module(clients)

ROW = "client: storage|NFS|6.12|RC|SHA-256|1 MB/s|2 MB/s|-"


class Page(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with open(clients.PAGE) as f:
            cls.rows = clients.read(f.read())

    def test_no_empty_cell(self):
        for kind, cells in self.rows:
            self.assertEqual(len(cells), len(clients.CELLS), cells)
            self.assertTrue(all(cell.strip() for cell in cells), f"{kind}: {cells}")

    def test_each_client_has_a_row(self):
        self.assertEqual({cells[-1].strip("`") for _, cells in self.rows}, set(clients.clients()))

    def test_what_fails_has_a_cause(self):
        for _, cells in self.rows:
            row = dict(zip(clients.CELLS, cells))
            self.assertNotIn("fails", (row["tern"], row["Soft-RoCE"]), cells)
            if "none" in (row["tern"], row["Soft-RoCE"]):
                self.assertNotEqual(row["remark"], "-", cells)

    def test_each_kind_at_a_loss(self):
        """A client of each kind runs at 1 % loss; what operations shows does not depend on it."""
        transport = clients.CELLS.index("transport and verbs")
        lossy = {kind for kind, cells in self.rows if cells[transport].endswith(", 1 % loss")}
        self.assertEqual(lossy | {"operations"}, set(clients.KINDS))


class Tool(unittest.TestCase):
    def test_reads_what_it_wrote(self):
        rows = clients.rows_of(["ok nfs/x", ROW, ROW.replace("storage", "sockets")], "nfs")
        self.assertEqual(clients.read(clients.write(rows)), rows)

    def test_refuses_an_empty_cell(self):
        for bad in (ROW.replace("SHA-256", " "), ROW[:-2], ROW.replace("storage", "other")):
            with self.assertRaises(ValueError):
                clients.rows_of([bad], "nfs")


if __name__ == "__main__":
    unittest.main()

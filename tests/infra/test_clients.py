# SPDX-License-Identifier: GPL-2.0-or-later
"""Documentation/clients.rst has a row for each client of the suite; the tool reads its rows."""
import importlib.machinery
import importlib.util
import os
import re
import unittest

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LOADER = importlib.machinery.SourceFileLoader("clients", f"{TOP}/tests/clients")
clients = importlib.util.module_from_spec(importlib.util.spec_from_loader("clients", LOADER))
LOADER.exec_module(clients)

ROW = "client: storage|NFS|6.12|RC|SHA-256|1 MB/s|2 MB/s|-"


class Page(unittest.TestCase):
    def test_each_client_has_a_row(self):
        with open(f"{TOP}/Documentation/clients.rst") as f:
            rows = re.findall(r"^``([\w-]+)`` ", f.read(), re.M)
        self.assertEqual(sorted(rows), sorted(clients.clients()))


class Tool(unittest.TestCase):
    def test_reads_what_it_wrote(self):
        rows = clients.rows_of(["ok nfs/x", ROW, ROW.replace("storage", "sockets")], "nfs")
        self.assertEqual(clients.read(clients.write(rows)), rows)

    def test_refuses_an_incomplete_row(self):
        for bad in (ROW.replace("SHA-256", " "), ROW[:-2], ROW.replace("storage", "other"),
                    ROW.replace("2 MB/s", "none")):
            with self.assertRaises(ValueError):
                clients.rows_of([bad], "nfs")


if __name__ == "__main__":
    unittest.main()

# SPDX-License-Identifier: GPL-2.0-or-later
"""Sphinx: `sphinx-build -W Documentation build/doc`."""
project = "tern"
copyright = "the tern authors"
master_doc = "index"
extensions = []
exclude_patterns = []
html_theme = "alabaster"

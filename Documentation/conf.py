# SPDX-License-Identifier: GPL-2.0-or-later
"""Sphinx: `make docs` writes build/docs."""
project = "tern"
copyright = "the tern authors"
extensions = []
html_theme = "furo"
html_title = "tern"
html_copy_source = False

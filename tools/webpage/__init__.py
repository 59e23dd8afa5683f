# SPDX-License-Identifier: GPL-2.0-or-later
"""Pages that are one file and load nothing, for tern-view and `make bench`: text that is safe in
them, their policy, colours and style."""
import base64
import hashlib
import json
import os
import tempfile

HERE = os.path.dirname(os.path.realpath(__file__))
# Marks the place of the data in a template.
DATA = "<!-- DATA -->"


def safe_json(value):
    """Returns JSON that cannot end the element in which it stands."""
    return json.dumps(value, separators=(",", ":")).replace("<", "\\u003c")


def escape(text):
    return text.encode("utf-8", "replace").decode().replace("&",
                                                            "&amp;").replace("<", "&lt;").replace(
                                                                ">", "&gt;").replace('"', "&quot;")


def read(*path):
    with open(os.path.join(*path), encoding="utf-8") as f:
        return f.read()


def digest(text):
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


class Page:
    """A page being made: template page.html, style.css and scripts of a directory, after the
    parts that all pages share."""
    def __init__(self, directory, scripts, name, policy=""):
        """`name`: of the window, with fields. `policy`: further permissions of the page, as
        directives of a Content-Security-Policy."""
        parts = [read(HERE, "theme.js"), *(read(directory, name + ".js") for name in scripts)]
        self.script = '"use strict";\n(() => {\n' + "\n".join(parts) + "\n})();\n"
        self.style = read(HERE, "base.css") + "\n" + read(directory, "style.css")
        self.template = read(HERE, "head.html").replace("@NAME@", name) + read(
            directory, "page.html")
        self.policy = (
            f"default-src 'none'; style-src {digest(self.style)}; script-src {digest(self.script)}; base-uri 'none'; form-action 'none'"
            + (f"; {policy}" if policy else ""))

    def write(self, out, data, **fields):
        """Writes to the text file `out`: the template with its fields, which are HTML, and in
        place of its mark the strings `data` and the script."""
        before, _, after = self.template.partition(DATA)
        for name, value in {"STYLE": self.style, "POLICY": self.policy, **fields}.items():
            before = before.replace(f"@{name}@", value)
        out.write(before)
        for text in data:
            out.write(text)
        out.write(f"<script>{self.script}</script>{after}")


def umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask


def replace(path, write):
    """Calls `write` with a text file; a reader of `path` sees it as a whole or not at all."""
    if os.path.exists(path) and not os.path.isfile(path):
        with open(path, "w", encoding="utf-8") as f:
            write(f)
        return
    handle, new = tempfile.mkstemp(dir=os.path.dirname(path) or ".",
                                   prefix=f".{os.path.basename(path)[:40]}-")
    try:
        with open(handle, "w", encoding="utf-8") as f:
            write(f)
        os.chmod(new, 0o666 & ~umask())
        os.replace(new, path)
    except BaseException:
        os.unlink(new)
        raise

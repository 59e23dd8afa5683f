# SPDX-License-Identifier: GPL-2.0-or-later
"""Debian packages for the machines of a bundle: a machine without network installs them, with files
that the lab fetches for it, and leaves the difference as a layer over the root file system."""
import hashlib
import os
import shutil
import tempfile
import urllib.error
import urllib.request

import places

SECONDS = 1800  # limit for the installation
FILE = 1 << 30  # bytes of one fetched file
AGENT = "tern-bundle"


def layer(names, make):
    """Returns the layer with these packages. make(share, command): runs a machine's command."""
    files = [name for name in names if name.endswith(".deb")]
    digest = hashlib.sha256("\n".join(sorted(names)).encode())
    for name in [f"{places.TOP}/commit", *files]:
        with open(name, "rb") as f:
            digest.update(f.read())
    path = f"{places.cache()}/packages-{digest.hexdigest()[:16]}.erofs"
    if os.path.exists(path):
        return path
    share = tempfile.mkdtemp(prefix="packages-", dir=places.cache())
    try:
        for name in files:
            shutil.copy(name, share)
        wanted = [f"/mnt/share/{os.path.basename(n)}" if n in files else n for n in names]
        mirror = os.environ.get("TERN_MIRROR", "")
        status = make(share, ["/mnt/tern/lab/guest/add-packages", mirror, *wanted])
        if status:
            raise OSError(f"--package: {', '.join(names)} cannot be added (status {status}), see "
                          "above; it needs network, and names of Debian 13's section main")
        os.rename(f"{share}/layer.erofs", path)
    finally:
        shutil.rmtree(share, ignore_errors=True)
    return path


def fetch(uri, share):
    """Fetches a file for a machine; returns its name in the shared directory."""
    with open(f"{places.TOP}/image/mirrors") as f:
        mirrors = [*f.read().split(), os.environ.get("TERN_MIRROR")]
    if not any(m and uri.startswith(f"{m.rstrip('/')}/") for m in mirrors):
        raise OSError(f"{uri} is not on a mirror of the image's, or on TERN_MIRROR")
    fd, path = tempfile.mkstemp(prefix="fetched-", dir=share)
    request = urllib.request.Request(uri, headers={"User-Agent": AGENT})
    with open(fd, "wb") as out:
        try:
            with urllib.request.urlopen(request, timeout=60) as found:
                while chunk := found.read(1 << 20):
                    if out.tell() + len(chunk) > FILE:
                        raise OSError(f"{uri} is too large")
                    out.write(chunk)
        except (urllib.error.URLError, ValueError) as e:
            raise OSError(f"{uri}: {getattr(e, 'reason', e)}") from e
    return os.path.basename(path)

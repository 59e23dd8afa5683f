# SPDX-License-Identifier: GPL-2.0-or-later
"""Talks to the programs that have tern adapters: QEMU, by QMP, and ternd, by its control socket."""
import json
import os
import socket


def connect(path, seconds):
    s = socket.socket(socket.AF_UNIX)
    try:
        s.settimeout(seconds)
        s.connect(os.path.realpath(path))  # a link's own path may be too long for a socket
    except BaseException:
        s.close()
        raise
    return s


def qmp(path, command, seconds=120):
    """Returns QEMU's answer to a command: {"return": ...} or {"error": {"desc": ...}}. QEMU
    serves one monitor at a time."""
    with connect(path, seconds) as s:
        f = s.makefile("rw")
        f.readline()
        for c in ({"execute": "qmp_capabilities"}, command):
            f.write(json.dumps(c) + "\n")
            f.flush()
            while True:
                answer = json.loads(f.readline() or '{"error": {"desc": "QEMU is gone"}}')
                if "return" in answer or "error" in answer:
                    break
        return answer


def execute(path, command, **arguments):
    """Returns what a QMP command returns; OSError if it fails."""
    answer = qmp(path, {"execute": command, "arguments": arguments})
    if "error" in answer:
        raise OSError(answer["error"]["desc"])
    return answer["return"]


def ternd(path, request, seconds=60, file=None):
    """Returns the result of a request to ternd; `file`: an open file to pass with it. Raises
    ValueError if ternd refuses."""
    with connect(path, seconds) as s:
        line = json.dumps(request).encode() + b"\n"
        if file is None:
            s.sendall(line)
        else:  # the file goes with the first bytes; a line this short is sent at once
            socket.send_fds(s, [line], [file.fileno()])
        with s.makefile("r") as f:
            answer = json.loads(f.readline() or '{"error": "ternd is gone"}')
    if "error" in answer:
        raise ValueError(answer["error"])
    return answer["result"]

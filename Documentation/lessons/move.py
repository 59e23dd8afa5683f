#!/usr/bin/python3
# SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause)
"""Lesson 9: the client WRITEs numbers into the server's memory while the server's machine moves."""
import subprocess
import time

from lesson import REMOTE, Memory, connect, expect

c = connect(timeout=14)  # 67 ms without an answer, then the request is repeated
memory = Memory(4096)
if not c.is_client:
    mr = memory.register(c.pd, REMOTE)
    c.tell(address=memory.address, rkey=mr.rkey)
    last = c.hear()["last"]
    found = int.from_bytes(memory.pages[:8], "little")
    print(f"the server's memory: {found}")
    expect((found, last))
else:
    server = c.hear()
    mr = memory.register(c.pd)
    answers, times = set(), []

    def write():
        memory.pages[:8] = (len(times) + 1).to_bytes(8, "little")
        began = time.monotonic()
        answers.add(c.write(mr, server["address"], server["rkey"], 8))
        times.append(time.monotonic() - began)

    move = subprocess.Popen(["labctl", "migrate", "vm2"])
    while move.poll() is None:
        write()
    for _ in range(20):
        write()
    c.tell(last=len(times))
    print(f"{len(times)} WRITEs: {', '.join(answers)}; the longest took {max(times) * 1000:.0f} ms")
    expect((answers, {"success"}), (move.returncode, 0))

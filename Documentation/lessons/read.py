#!/usr/bin/python3
# SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause)
"""Lesson 3: the client READs from the server, and a packet of the answer is lost."""
from lesson import REMOTE, Memory, connect, expect

SIZE = 8192
DATA = bytes(range(256)) * (SIZE // 256)

c = connect()
memory = Memory(SIZE)
if not c.is_client:
    memory.pages[:] = DATA
    mr = memory.register(c.pd, REMOTE)
    c.tell(address=memory.address, rkey=mr.rkey)
    c.hear()
else:
    server = c.hear()
    mr = memory.register(c.pd)
    got = c.read(mr, server["address"], server["rkey"])
    print(f"READ of {SIZE} bytes: {got}, the data is",
          "right" if memory.pages[:] == DATA else "WRONG")
    c.tell(done=True)
    expect((got, "success"), (memory.pages[:], DATA))

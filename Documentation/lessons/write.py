#!/usr/bin/python3
# SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause)
"""Lesson 1: the client WRITEs into the server's memory."""
from lesson import REMOTE, Memory, connect, expect

c = connect()
memory = Memory(4096)
if not c.is_client:
    mr = memory.register(c.pd, REMOTE)
    c.tell(address=memory.address, rkey=mr.rkey)
    c.hear()  # the server does nothing while the client WRITEs
    print("the server's memory:", memory.pages[:13].decode())
    expect((memory.pages[:13], b"hello, memory"), (memory.pages[1000:4000], b"x" * 3000))
    expect((len(c.cq.poll(1)[1]), 0))  # and has no completion
else:
    server = c.hear()
    mr = memory.register(c.pd)
    memory.pages[:13] = b"hello, memory"
    first = c.write(mr, server["address"], server["rkey"], 13)
    memory.pages[:3000] = b"x" * 3000
    second = c.write(mr, server["address"] + 1000, server["rkey"], 3000)
    print(f"WRITE of 13 bytes: {first}; of 3000 bytes: {second}")
    c.tell(done=True)
    expect((first, "success"), (second, "success"))

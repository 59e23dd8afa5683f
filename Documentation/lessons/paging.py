#!/usr/bin/python3
# SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause)
"""Lesson 7: the client WRITEs into memory of the server that has no pages yet."""
from lesson import REMOTE, Memory, connect, e, expect

c = connect()
memory = Memory(8192)
if not c.is_client:
    mr = memory.register(c.pd, REMOTE | e.IBV_ACCESS_ON_DEMAND)
    c.tell(address=memory.address, rkey=mr.rkey)
    c.hear()
    print("the server's memory:", memory.pages[:5].decode(), memory.pages[5:10].decode())
    expect((memory.pages[:10], b"firstagain"))
else:
    server = c.hear()
    mr = memory.register(c.pd)
    memory.pages[:5] = b"first"
    first = c.write(mr, server["address"], server["rkey"], 5)
    memory.pages[:5] = b"again"
    again = c.write(mr, server["address"] + 5, server["rkey"], 5)
    print(f"WRITE to an absent page: {first}; to the same page again: {again}")
    c.tell(done=True)
    expect((first, "success"), (again, "success"))

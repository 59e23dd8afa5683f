#!/usr/bin/python3
# SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause)
"""Lesson 5: the client uses a key of a region that the server has deregistered."""
from lesson import REMOTE, Memory, connect, e, expect, one_sided

c = connect()
memory = Memory(4096)
if not c.is_client:
    mr = memory.register(c.pd, REMOTE)
    c.tell(address=memory.address, rkey=mr.rkey)
    c.hear()
    old = mr.rkey
    mr.close()
    mr = memory.register(c.pd, REMOTE)  # the same memory again
    c.tell(rkey=mr.rkey)
    c.hear()
    print(f"the first key was {old:#x}, the second one is {mr.rkey:#x}")
    expect((memory.pages[:1], b"a"))
else:
    server = c.hear()
    mr = memory.register(c.pd)
    memory.pages[:64] = b"a" * 64
    first = c.write(mr, server["address"], server["rkey"], 64)
    c.tell(written=True)
    c.hear()  # there is a new key, and the client ignores it
    memory.pages[:64] = b"b" * 64
    for wr in [
            one_sided(e.IBV_WR_RDMA_WRITE, mr, server["address"], server["rkey"], 64)
            for _ in range(3)
    ]:
        c.post(wr)
    then = c.complete(3)
    print(f"WRITE with the key: {first}; three with the old key: {then}")
    c.tell(done=True)
    expect((first, "success"), (then, "remote access error, flushed, flushed"))

#!/usr/bin/python3
# SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause)
"""Lesson 6: the client reads a counter of the server, adds 1 to it ten times, and the wire delivers
each addition twice."""
from lesson import REMOTE, SGE, Memory, SendWR, connect, e, expect

c = connect()
memory = Memory(4096)
if not c.is_client:
    mr = memory.register(c.pd, REMOTE)
    c.tell(address=memory.address, rkey=mr.rkey)
    c.hear()
    counter = int.from_bytes(memory.pages[:8], "little")
    print("the counter:", counter)
    expect((counter, 10))
else:
    server = c.hear()
    mr = memory.register(c.pd)
    expect((c.read(mr, server["address"], server["rkey"], 8), "success"),
           (memory.pages[:8], bytes(8)))
    seen = []
    for _ in range(10):
        wr = SendWR(opcode=e.IBV_WR_ATOMIC_FETCH_AND_ADD, num_sge=1, sg=[SGE(mr.buf, 8, mr.lkey)])
        wr.set_wr_atomic(server["rkey"], server["address"], 1, 0)
        expect((c.execute(wr), "success"))
        seen.append(int.from_bytes(memory.pages[:8], "little"))
    print("the values before each addition:", *seen)
    c.tell(done=True)
    expect((seen, list(range(10))))

#!/usr/bin/python3
# SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause)
"""Lesson 2: the client SENDs before the server has posted a receive."""
import time

from lesson import SGE, Memory, RecvWR, SendWR, connect, e, expect

COUNTER = "/sys/class/infiniband/tern0/ports/1/hw_counters/out_of_buffer"


def refused():
    """How often this adapter had no receive for a SEND."""
    with open(COUNTER) as f:
        return int(f.read())


c = connect(min_rnr_timer=30)  # the server's RNR NAK will ask for 327.68 ms
memory = Memory(4096)
mr = memory.register(c.pd)
if not c.is_client:
    before = refused()
    c.tell(ready=True)
    while refused() == before:
        time.sleep(0.01)
    c.qp.post_recv(RecvWR(num_sge=1, sg=[SGE(mr.buf, 4096, mr.lkey)]))
    got = c.complete()
    print(f"the server's receive: {got}, {memory.pages[:5].decode()}")
    expect((got, "success"), (memory.pages[:5], b"hello"), (refused(), before + 1))
    c.tell(done=True)
else:
    c.hear()
    memory.pages[:5] = b"hello"
    begin = time.monotonic()
    got = c.execute(SendWR(opcode=e.IBV_WR_SEND, num_sge=1, sg=[SGE(mr.buf, 5, mr.lkey)]))
    took = time.monotonic() - begin
    print(f"SEND of 5 bytes: {got} after {took * 1000:.0f} ms")
    c.hear()
    expect((got, "success"), (took > 0.327, True))

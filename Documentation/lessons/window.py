#!/usr/bin/python3
# SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause)
"""Lesson 4: the server lends 512 bytes of a region by a memory window, and takes them back."""
from pyverbs.mr import MW, MWBindInfo

from lesson import Memory, SendWR, connect, e, expect

c = connect()
memory = Memory(4096)
if not c.is_client:
    mr = memory.register(
        c.pd, e.IBV_ACCESS_MW_BIND)  # no remote right: the region's own rkey opens nothing
    window = MW(c.pd, e.IBV_MW_TYPE_2)
    bind = SendWR(opcode=e.IBV_WR_BIND_MW, num_sge=0)
    bind.set_bind_wr(window, MWBindInfo(mr, memory.address + 1024, 512, e.IBV_ACCESS_REMOTE_WRITE))
    lent = c.execute(bind)
    c.tell(address=memory.address + 1024, rkey=bind.rkey)
    c.hear()
    revoke = SendWR(opcode=e.IBV_WR_LOCAL_INV, num_sge=0)
    revoke.imm_data = bind.rkey
    revoked = c.execute(revoke)
    c.tell(revoked=True)
    c.hear()
    window.close()
    print(f"bind: {lent}; invalidate: {revoked}")
    expect((lent, "success"), (revoked, "success"), (memory.pages[1024:1536], b"a" * 512),
           (memory.pages[1536:], bytes(2560)))
else:
    server = c.hear()
    mr = memory.register(c.pd)
    memory.pages[:512] = b"a" * 512
    first = c.write(mr, server["address"], server["rkey"], 512)
    c.tell(written=True)
    c.hear()
    memory.pages[:512] = b"b" * 512
    second = c.write(mr, server["address"], server["rkey"], 512)
    print(f"WRITE while the window is bound: {first}; after it was invalidated: {second}")
    c.tell(done=True)
    expect((first, "success"), (second, "remote access error"))

# SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause)
"""What the programs of the lessons share: a reliable connection between a server and a client.

A program without an argument is the server and waits; with the server's name it is the client. A
TCP connection takes what the two must know of each other before RDMA can start: QP number, first
PSN, address, and later keys."""
import ctypes
import json
import mmap
import socket
import sys

import pyverbs.enums as e
from pyverbs.addr import AHAttr, GID, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, RecvWR, SendWR

PORT = 18600
CLIENT_PSN, SERVER_PSN = 0x100, 0x500  # the first packet numbers; programs use random ones
REMOTE = e.IBV_ACCESS_REMOTE_WRITE | e.IBV_ACCESS_REMOTE_READ | e.IBV_ACCESS_REMOTE_ATOMIC


class Memory:
    """Pages of this program, which are zero. register() lets the adapter use them."""
    def __init__(self, size):
        self.pages = mmap.mmap(-1, size)
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self.pages))
        self.size = size

    def register(self, pd, access=0):
        return MR(pd, self.size, e.IBV_ACCESS_LOCAL_WRITE | access, address=self.address)


class Connection:
    """A QP that is connected to that of the other program."""
    def __init__(self, server=None, min_rnr_timer=12, timeout=18):
        self.is_client = server is not None
        self.context = Context(name="tern0")
        self.pd, self.cq = PD(self.context), CQ(self.context, 64)
        self.qp = QP(
            self.pd,
            QPInitAttr(qp_type=e.IBV_QPT_RC, scq=self.cq, rcq=self.cq,
                       cap=QPCap(max_send_wr=32, max_recv_wr=32)))
        self.talk(server)
        gid = next(i for i in range(16)
                   if "ffff" in self.context.query_gid(1, i).gid)  # the GID that is an IPv4 address
        mine, theirs = (CLIENT_PSN, SERVER_PSN) if self.is_client else (SERVER_PSN, CLIENT_PSN)
        self.tell(qp=self.qp.qp_num, gid=self.context.query_gid(1, gid).gid)
        peer = self.hear()
        attr = QPAttr(port_num=1)
        attr.ah_attr = AHAttr(port_num=1, is_global=1, gr=GlobalRoute(dgid=GID(peer["gid"]),
                                                                      sgid_index=gid))
        attr.dest_qp_num, attr.sq_psn, attr.rq_psn = peer["qp"], mine, theirs
        attr.path_mtu, attr.qp_access_flags = e.IBV_MTU_1024, REMOTE
        attr.timeout, attr.retry_cnt = timeout, 7
        attr.rnr_retry, attr.min_rnr_timer = 7, min_rnr_timer
        attr.max_rd_atomic = attr.max_dest_rd_atomic = 4
        self.qp.to_rts(attr)
        self.tell(ready=True)
        self.hear()

    def talk(self, server):
        if server is None:
            with socket.create_server(("", PORT)) as listener:
                self.tcp, _ = listener.accept()
        else:
            self.tcp = socket.create_connection((server, PORT))
        self.lines = self.tcp.makefile("rw")

    def tell(self, **what):
        """Sends the other program a line of JSON by TCP."""
        print(json.dumps(what), file=self.lines, flush=True)

    def hear(self):
        line = self.lines.readline()
        return json.loads(line) if line else sys.exit("the other program has ended")

    def complete(self, count=1):
        """Waits for completions, and returns their status in words."""
        words = []
        while len(words) < count:
            words += [status(wc.status) for wc in self.cq.poll(count - len(words))[1]]
        return ", ".join(words)

    def post(self, wr):
        """Posts a work request that has a completion."""
        wr.send_flags = e.IBV_SEND_SIGNALED
        self.qp.post_send(wr)

    def execute(self, wr):
        """Posts a work request and waits until it is complete."""
        self.post(wr)
        return self.complete()

    def write(self, *what):
        return self.execute(one_sided(e.IBV_WR_RDMA_WRITE, *what))

    def read(self, *what):
        return self.execute(one_sided(e.IBV_WR_RDMA_READ, *what))


def one_sided(opcode, mr, address, rkey, size=None):
    """A READ or WRITE between the beginning of a region and the address in the other program."""
    wr = SendWR(opcode=opcode, num_sge=1,
                sg=[SGE(mr.buf, mr.length if size is None else size, mr.lkey)])
    wr.set_wr_rdma(rkey, address)
    return wr


def status(code):
    return {
        e.IBV_WC_SUCCESS: "success", e.IBV_WC_REM_ACCESS_ERR: "remote access error",
        e.IBV_WC_WR_FLUSH_ERR: "flushed"
    }.get(code, f"status {code}")


def connect(**more):
    """The connection of this program, as its argument says."""
    return Connection(*sys.argv[1:2], **more)


def expect(*pairs):
    """Ends the program with status 1 if something is not as expected."""
    for got, expected in pairs:
        if got != expected:
            sys.exit(f"expected {expected!r}, got {got!r}")

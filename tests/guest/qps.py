# SPDX-License-Identifier: GPL-2.0-or-later
"""qps.py DEVICE WANTED: makes QPs until that fails or there are so many, prints their number, and
the error's if there was one."""
import sys

from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.pd import PD
from pyverbs.pyverbs_error import PyverbsRDMAError
from pyverbs.qp import QP, QPCap, QPInitAttr

context = Context(name=sys.argv[1])
pd, cq, made = PD(context), CQ(context, 8), []
try:
    while len(made) < int(sys.argv[2]):
        made.append(QP(pd, QPInitAttr(scq=cq, rcq=cq, cap=QPCap(max_send_wr=1, max_recv_wr=1))))
    print(len(made))
except PyverbsRDMAError as e:
    print(len(made), e.error_code)

# SPDX-License-Identifier: GPL-2.0-or-later
"""The meaning of the numbers in an event log: firmware-if/tern_event_log.h and the headers that
it refers to, Documentation/spec/event-log.rst."""

TYPES = {
    1: "events lost", 2: "new epoch", 3: "reset", 4: "doorbell", 5: "posted", 6: "WQE", 7: "sent",
    8: "received", 9: "dropped", 10: "retry", 11: "key check", 12: "key", 13: "page fault",
    14: "CQE", 15: "interrupt", 16: "injected fault", 17: "QP state", 18: "end at the limit",
    19: "rate"
}
DOORBELLS = [
    "all queues of the page", "send queue", "receive queue", "CQ is armed", "event queue",
    "Ethernet transmit queue", "tag matching"
]
WORK = [
    "NOP", "SEND", "SEND_WITH_IMM", "SEND_WITH_INV", "RDMA_WRITE", "RDMA_WRITE_WITH_IMM",
    "RDMA_READ", "ATOMIC_CMP_AND_SWP", "ATOMIC_FETCH_AND_ADD", "ATOMIC_WRITE", "FLUSH", "LOCAL_INV",
    "BIND_MW", "REG_MR"
]
STATUS = [
    "SUCCESS", "LOC_LEN_ERR", "LOC_QP_OP_ERR", "LOC_PROT_ERR", "WR_FLUSH_ERR", "MW_BIND_ERR",
    "BAD_RESP_ERR", "LOC_ACCESS_ERR", "REM_INV_REQ_ERR", "REM_ACCESS_ERR", "REM_OP_ERR",
    "RETRY_EXC_ERR", "RNR_RETRY_EXC_ERR", "REM_ABORT_ERR", "FATAL_ERR", "RESP_TIMEOUT_ERR",
    "GENERAL_ERR", "TM_ERR", "TM_RNDV_INCOMPLETE"
]
DROPS = {
    1: "the port is down", 2: "malformed", 3: "wrong ICRC",
    4: "wrong P_Key, or no QP of this number and type",
    5: "the QP takes no such packet in its state, or not from this address"
}
CHECKS = {
    1: "local access", 2: "remote access", 3: "bind", 4: "register", 5: "local invalidate",
    6: "remote invalidate"
}
RESULTS = ["granted", "granted, a page is absent", "denied", "granted, an address is not RAM"]
CHANGES = {
    1: "created", 2: "destroyed", 3: "changed", 4: "opened", 5: "closed", 6: "bound", 7: "unbound"
}
KINDS = {
    1: "region", 2: "FAST region", 3: "region of device memory", 4: "window, type 1",
    5: "window, type 2", 6: "device memory"
}
PAGE_FAULTS = {1: "raised", 2: "resumed", 3: "failed", 4: "cancelled"}
FAULTS = [
    "drop", "duplicate", "delay", "reorder", "corrupt", "mark", "fatal", "admin drop", "DMA error"
]
STATES = ["RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"]
EVENTS = [
    "COMPLETION", "QP_FATAL", "QP_REQ_ERR", "QP_ACCESS_ERR", "COMM_EST", "SQ_DRAINED",
    "QP_LAST_WQE", "PATH_MIG", "PATH_MIG_ERR", "CQ_ERR", "SRQ_ERR", "SRQ_LIMIT", "PORT_CHANGE"
]
ACCESS = [
    "LOCAL_WRITE", "REMOTE_WRITE", "REMOTE_READ", "REMOTE_ATOMIC", "MW_BIND", "ZERO_BASED",
    "ON_DEMAND", "FLUSH_GLOBAL", "FLUSH_PERSISTENT"
]
# Number of the rule: its name, the violated condition, the source.
RULES = {
    1: ("MW_PD", "type 1 and 2B: QP and window are in one PD", "C10-76.2.1"),
    2: ("MW_QP", "type 2: the QP is the one that bound the window", "o10-37.2.43"),
    3: ("MW_LOW", "the access begins at the first byte of the window or after it",
        "C10-77"), 4: ("MW_HIGH", "it ends at the last byte or before it",
                       "C10-77"), 5: ("MW_WRAP", "it does not wrap", "C10-77"),
    6: ("MW_READ", "the window has REMOTE_READ",
        "C10-77"), 7: ("MW_WRITE", "the window has REMOTE_WRITE",
                       "C10-77"), 8: ("MW_ATOMIC", "the window has REMOTE_ATOMIC", "C10-77"),
    9: ("MW_FLUSH", "no window allows FLUSH", "ibv_bind_mw(3)"),
    10: ("MW_VARIANT", "the key is the current one, variant included",
         "ibv_bind_mw(3)"), 11: ("MW_UNBOUND", "the window is bound", "ibv_alloc_mw(3)"),
    12: ("MW_MR_WRITE", "WRITE, atomics: the region has LOCAL_WRITE",
         "C10-74"), 13: ("BIND_QP_PD", "QP and window are in one PD",
                         "C10-72"), 14: ("BIND_MR_PD", "QP and region are in one PD", "C10-72"),
    15: ("BIND_MR_RIGHT", "the region has MW_BIND", "C10-73"),
    16: ("BIND_LOCAL_WRITE", "REMOTE_WRITE and REMOTE_ATOMIC: the region has LOCAL_WRITE",
         "C10-74"), 17: ("BIND_RANGE", "the range is in the region",
                         "C10-75"), 18: ("BIND_WRAP", "the range does not wrap", "C10-75"),
    19: ("BIND_FREE", "a window of type 2 is free",
         "o10-37.2.30"), 20: ("BIND_TYPE", "the WQE has the type of the window",
                              "o10-37.2.34, o10-37.2.35"),
    21: ("BIND_ZERO_LENGTH", "the length of a window of type 2 is not 0",
         "o10-37.2.40"), 22: ("BIND_KEY", "the WQE has the current key of the window",
                              "ibv_bind_mw(3)"), 23: ("INV_FREE", "the window is bound",
                                                      "o10-37.2.30"),
    24: ("INV_TYPE", "the window is of type 2",
         "o10-37.2.26"), 25: ("INV_QP", "the QP is the one that bound it", "o10-37.2.43"),
    26: ("INV_PD", "type 2B: QP and window are in one PD",
         "C10-76.2.1"), 27: ("INV_VARIANT", "the key is the current one, variant included",
                             "ibv_post_send(3)"),
    28: ("MR_BUSY",
         "no window is bound to a region that is destroyed or moved; commands have no record",
         "ibv_alloc_mw(3)"), 29: ("INV_MR_BOUND", "no window is bound to the region",
                                  "ibv_alloc_mw(3), Documentation/spec/windows, Invalidation"),
    32: ("KEY", "there is a region or window with the key",
         "10.6.3.1"), 33: ("MR_CLOSED", "the region is open",
                           "ibv_post_send(3), Documentation/spec/memory"),
    34: ("MR_PD", "QP and region are in one PD",
         "10.6.3.1"), 35: ("MR_LOCAL_WRITE", "the region has LOCAL_WRITE", "ibv_reg_mr(3)"),
    36: ("MR_REMOTE_WRITE", "the region has REMOTE_WRITE",
         "ibv_reg_mr(3)"), 37: ("MR_REMOTE_READ", "the region has REMOTE_READ", "ibv_reg_mr(3)"),
    38: ("MR_REMOTE_ATOMIC", "the region has REMOTE_ATOMIC",
         "ibv_reg_mr(3)"), 39: ("MR_FLUSH", "the region has the right of the kind of FLUSH",
                                "ibv_reg_mr(3), A19"),
    40: ("MR_LOW", "the access begins at the first byte of the region or after it",
         "10.6.3.1"), 41: ("MR_HIGH", "the access ends at the last byte or before it", "10.6.3.1"),
    42: ("PRIVILEGED", "the QP's PD is privileged: for TERN_LKEY_DMA and REG_MR",
         "Documentation/spec/memory"), 43: ("FIELDS", "the fields of BIND_MW or REG_MR are valid",
                                            "Documentation/spec/wqe"),
    44: ("FAST", "the region is of kind FAST",
         "Documentation/spec/memory"), 45: ("FAST_OPEN", "REG_MR: the region is closed",
                                            "Documentation/spec/memory"),
    46: ("INV_RIGHTS", "a peer closes only a region that has a remote right",
         "Documentation/spec/windows, Invalidation"), 47: ("QP_RIGHTS",
                                                           "the QP allows peers the operation",
                                                           "ibv_modify_qp(3)"),
}

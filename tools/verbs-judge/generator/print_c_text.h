// SPDX-License-Identifier: GPL-2.0-or-later
// The part of a printed program that is always the same.
#pragma once

namespace guest::generator {

inline constexpr const char* kPrologue = R"(//
// Build: gcc -o program program.c -libverbs     Run: ./program [DEVICE]
// Exit status: 1 the violation happened, 0 it did not, 2 something else went wrong before.
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#pragma GCC diagnostic ignored "-Wunused-function"
#define LOCAL_WRITE IBV_ACCESS_LOCAL_WRITE
#define REMOTE_WRITE IBV_ACCESS_REMOTE_WRITE
#define REMOTE_READ IBV_ACCESS_REMOTE_READ
#define REMOTE_ATOMIC IBV_ACCESS_REMOTE_ATOMIC
#define MW_BIND IBV_ACCESS_MW_BIND
#define ZERO_BASED IBV_ACCESS_ZERO_BASED
#define FLUSH_GLOBAL (1 << 8)
#define SIGNALED IBV_SEND_SIGNALED
#define FENCE IBV_SEND_FENCE
#define SOLICITED IBV_SEND_SOLICITED
#define INLINE IBV_SEND_INLINE
enum { MEM = 8192, DM = 3, DM_SIZE = 4096 };

// The objects of the ends 0 and 1.
static struct ibv_context* ctx[2];
static struct ibv_pd* pd[2][2];
static struct ibv_cq* cq[2][2];
static struct ibv_srq *srq[2], *xsrq[2];
static struct ibv_xrcd* xrcd[2];
static struct ibv_dm* dm[2];
static struct ibv_mr* mr[2][8];
static struct ibv_mw* mw[2][8];
static struct ibv_qp* qp[8][2];
static struct ibv_ah* ah[2];
static uint8_t* mem[2][4];
static union ibv_gid gid[2];
static int gid_index[2];
static uint32_t k[4096];  // all keys there have been
static int last;          // the errno of the last request that was posted

static void check(int err, const char* what) {
  if (err == 0) return;
  printf("%s: %s\n", what, strerror(err > 0 ? err : errno));
  exit(2);
}
static uint64_t at(int end, int m, int64_t off) { return (uintptr_t)mem[end][m] + (uint64_t)off; }

static void fill(uint8_t* out, size_t size, uint64_t seed) {
  for (size_t i = 0; i < size; i += 8) {
    uint64_t x = seed * 0x9e3779b97f4a7c15U + i / 8 * 0xbf58476d1ce4e5b9U + 1;
    x ^= x >> 29;
    x *= 0x94d049bb133111ebU;
    x ^= x >> 32;
    memcpy(out + i, &x, 8);
  }
}

static void open_end(int end, uint64_t seed) {
  struct ibv_device** list = ibv_get_device_list(NULL);
  const char* name = getenv("DEVICE") ? getenv("DEVICE") : "@DEVICE@";
  for (int i = 0; list && list[i]; i++) {
    if (!strcmp(ibv_get_device_name(list[i]), name)) ctx[end] = ibv_open_device(list[i]);
  }
  if (!ctx[end]) check(ENODEV, name);
  struct ibv_gid_entry e[64];
  const ssize_t n = ibv_query_gid_table(ctx[end], e, 64, 0);
  for (ssize_t i = 0; i < n; i++) {  // the last GID that is an IPv4 address
    if (memcmp(e[i].gid.raw, "\0\0\0\0\0\0\0\0\0\0\377\377", 12)) continue;
    gid[end] = e[i].gid;
    gid_index[end] = (int)e[i].gid_index;
  }
  for (int i = 0; i < 2; i++) {
    pd[end][i] = ibv_alloc_pd(ctx[end]);
    cq[end][i] = ibv_create_cq(ctx[end], 512, NULL, ibv_create_comp_channel(ctx[end]), 0);
  }
  for (int i = 0; i < 3; i++) {
    mem[end][i] = mmap(NULL, MEM, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    fill(mem[end][i], MEM, seed * 16 + (uint64_t)(end * 4 + i));
  }
}
static void setup(uint64_t seed) {
  open_end(0, seed);
  open_end(1, seed);
}

static struct ibv_mr* reg(int end, int p, int m, uint32_t off, uint32_t len, uint64_t iova, unsigned access) {
  struct ibv_mr* made = NULL;
  if (m == DM) {
    struct ibv_alloc_dm_attr attr = {.length = DM_SIZE};
    if (!dm[end]) dm[end] = ibv_alloc_dm(ctx[end], &attr);
    made = ibv_reg_dm_mr(pd[end][p], dm[end], off, len, access | ZERO_BASED);
  } else {
    made = ibv_reg_mr_iova(pd[end][p], mem[end][m] + off, len, iova, access);
  }
  if (!made) check(errno, "registration");
  return made;
}
// A region to which windows are bound must be refused.
static void dereg(int end, int slot, int refused) {
  const int err = ibv_dereg_mr(mr[end][slot]);
  if ((err != 0) == refused) return;
  printf("ibv_dereg_mr: %s\n", strerror(err));
  exit(1);
}

static void create(int c, int end, enum ibv_qp_type type, int p, int use_srq) {
  struct ibv_qp_init_attr_ex attr = {.qp_type = type, .comp_mask = IBV_QP_INIT_ATTR_PD, .pd = pd[end][p]};
  struct ibv_srq_init_attr srq_attr = {.attr = {.max_wr = 32, .max_sge = 2}};
  if (use_srq && !srq[end]) srq[end] = ibv_create_srq(pd[end][0], &srq_attr);
  attr.send_cq = cq[end][c % 2];
  if (type != IBV_QPT_XRC_SEND) attr.recv_cq = cq[end][c % 2];
  attr.srq = use_srq ? srq[end] : NULL;
  attr.cap.max_send_wr = 32;
  attr.cap.max_send_sge = 2;
  attr.cap.max_inline_data = 64;
  if (!use_srq && type != IBV_QPT_XRC_SEND) attr.cap.max_recv_wr = 32, attr.cap.max_recv_sge = 2;
  if (type == IBV_QPT_XRC_RECV) {
    struct ibv_xrcd_init_attr x = {.comp_mask = 3, .fd = -1, .oflags = O_CREAT};
    xrcd[end] = ibv_open_xrcd(ctx[end], &x);
    struct ibv_srq_init_attr_ex s = {.attr = {.max_wr = 32, .max_sge = 2}, .comp_mask = 15, .srq_type = IBV_SRQT_XRC,
                                     .pd = pd[end][0], .xrcd = xrcd[end], .cq = cq[end][0]};
    xsrq[end] = ibv_create_srq_ex(ctx[end], &s);
    memset(&attr, 0, sizeof(attr));
    attr.qp_type = type;
    attr.comp_mask = IBV_QP_INIT_ATTR_XRCD;
    attr.xrcd = xrcd[end];
  } else if (type == IBV_QPT_RC) {
    attr.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    attr.send_ops_flags = 0x7f | 0x180 | 0x200;  // all of RC, and those of windows
    attr.send_ops_flags |= IBV_QP_EX_WITH_FLUSH | IBV_QP_EX_WITH_ATOMIC_WRITE;
  }
  qp[c][end] = ibv_create_qp_ex(ctx[end], &attr);
  if (!qp[c][end] && type == IBV_QPT_RC) {  // without ibv_wr_*()
    attr.comp_mask &= ~(uint32_t)IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    qp[c][end] = ibv_create_qp_ex(ctx[end], &attr);
  }
  if (!qp[c][end]) check(errno, "ibv_create_qp_ex");
}
static void modify(int c, int end, enum ibv_qp_state state) {
  struct ibv_qp_attr attr = {.qp_state = state};
  ibv_modify_qp(qp[c][end], &attr, IBV_QP_STATE);
}
// From RESET to RTS.
static void join(int c, int end, unsigned access, enum ibv_mtu mtu) {
  struct ibv_qp* q = qp[c][end];
  const int rc = q->qp_type == IBV_QPT_RC || q->qp_type == IBV_QPT_XRC_SEND || q->qp_type == IBV_QPT_XRC_RECV;
  const int ud = q->qp_type == IBV_QPT_UD;
  struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = access, .qkey = 0x11111111};
  check(ibv_modify_qp(q, &a, IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX | (ud ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS)), "INIT");
  a.qp_state = IBV_QPS_RTR;
  a.path_mtu = mtu;
  a.dest_qp_num = qp[c][1 - end]->qp_num;
  a.rq_psn = a.sq_psn = 1;
  a.max_dest_rd_atomic = 8;
  a.min_rnr_timer = 1;
  a.ah_attr.is_global = 1;
  a.ah_attr.port_num = 1;
  a.ah_attr.grh.dgid = gid[1 - end];
  a.ah_attr.grh.sgid_index = (uint8_t)gid_index[end];
  a.ah_attr.grh.hop_limit = 64;
  if (ud && !ah[end]) ah[end] = ibv_create_ah(q->pd, &a.ah_attr);
  int mask = IBV_QP_STATE;
  if (!ud) mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
  if (rc && q->qp_type != IBV_QPT_XRC_SEND) mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  check(ibv_modify_qp(q, &a, mask), "RTR");
  a.qp_state = IBV_QPS_RTS;
  a.timeout = 13;
  a.retry_cnt = 7;
  a.rnr_retry = 1;
  a.max_rd_atomic = 4;
  mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
  if (rc) mask |= IBV_QP_TIMEOUT;
  if (rc && q->qp_type != IBV_QPT_XRC_RECV) mask |= IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
  check(ibv_modify_qp(q, &a, mask), "RTS");
}

static int post(int end, int c, uint64_t id, enum ibv_wr_opcode op, unsigned flags, struct ibv_sge* sge, int n,
                 uint64_t raddr, uint32_t rkey, uint64_t a, uint64_t b) {
  struct ibv_send_wr wr = {.wr_id = id, .sg_list = sge, .num_sge = n, .opcode = op, .send_flags = flags}, *bad;
  if (op == IBV_WR_LOCAL_INV || op == IBV_WR_SEND_WITH_INV) wr.invalidate_rkey = rkey;
  else wr.imm_data = htonl((uint32_t)a);
  if (qp[c][end]->qp_type == IBV_QPT_XRC_SEND) ibv_get_srq_num(xsrq[1], &wr.qp_type.xrc.remote_srqn);
  if (qp[c][end]->qp_type == IBV_QPT_UD) {
    wr.wr.ud.ah = ah[end];
    wr.wr.ud.remote_qpn = qp[c][1 - end]->qp_num;
    wr.wr.ud.remote_qkey = 0x11111111;
  } else if (op == IBV_WR_ATOMIC_CMP_AND_SWP || op == IBV_WR_ATOMIC_FETCH_AND_ADD) {
    wr.wr.atomic.remote_addr = raddr;
    wr.wr.atomic.rkey = rkey;
    wr.wr.atomic.compare_add = a;
    wr.wr.atomic.swap = b;
  } else {
    wr.wr.rdma.remote_addr = raddr;
    wr.wr.rdma.rkey = rkey;
  }
  return ibv_post_send(qp[c][end], &wr, &bad);
}
// Requests that only ibv_wr_*() has.
static int build(int end, int c, uint64_t id, enum ibv_wr_opcode op, unsigned flags, uint64_t raddr,
                  uint32_t rkey, uint64_t value) {
  struct ibv_qp_ex* q = ibv_qp_to_qp_ex(qp[c][end]);
  ibv_wr_start(q);
  q->wr_id = id;
  q->wr_flags = flags;
  if (op == IBV_WR_FLUSH) ibv_wr_flush(q, rkey, raddr, value, IBV_FLUSH_GLOBAL, IBV_FLUSH_RANGE);
  else ibv_wr_atomic_write(q, rkey, raddr, &value);
  return ibv_wr_complete(q);
}
static int bind_window(int end, int c, uint64_t id, unsigned flags, int w, int m, uint64_t addr, uint64_t length,
                 unsigned access, uint32_t low) {
  const struct ibv_mw_bind_info info = {mr[end][m], addr, length, access};
  if (mw[end][w]->type == IBV_MW_TYPE_1) {
    struct ibv_mw_bind b = {.wr_id = id, .send_flags = flags, .bind_info = info};
    return ibv_bind_mw(qp[c][end], mw[end][w], &b);
  }
  struct ibv_send_wr wr = {.wr_id = id, .opcode = IBV_WR_BIND_MW, .send_flags = flags}, *bad;
  wr.bind_mw.mw = mw[end][w];
  wr.bind_mw.rkey = (mw[end][w]->rkey & ~0xffU) | low;
  wr.bind_mw.bind_info = info;
  return ibv_post_send(qp[c][end], &wr, &bad);
}
static uint32_t bound_key(int end, int w, uint32_t low) {
  return mw[end][w]->type == IBV_MW_TYPE_1 ? mw[end][w]->rkey : (mw[end][w]->rkey & ~0xffU) | low;
}
static void receive(int end, int c, int use_srq, uint64_t id, struct ibv_sge* sge, int n) {
  struct ibv_recv_wr wr = {.wr_id = id, .sg_list = sge, .num_sge = n}, *bad;
  if (qp[c][end]->qp_type == IBV_QPT_XRC_RECV) check(ibv_post_srq_recv(xsrq[end], &wr, &bad), "receive");
  else if (use_srq) check(ibv_post_srq_recv(srq[end], &wr, &bad), "receive");
  else check(ibv_post_recv(qp[c][end], &wr, &bad), "receive");
}

// Waits for the completion of request `id`.
static const struct ibv_wc* wait_for(int end, uint64_t id) {
  static struct ibv_wc got[2][65536];
  static int count[2];
  const time_t start = time(NULL);
  while (time(NULL) - start < 20) {
    for (int i = 0; i < count[end]; i++) {
      if (got[end][i].wr_id == id) return &got[end][i];
    }
    for (int i = 0; i < 2; i++) {
      while (ibv_poll_cq(cq[end][i], 1, &got[end][count[end]]) == 1) count[end]++;
    }
  }
  printf("request %#llx does not complete\n", (unsigned long long)id);
  exit(1);
}
static int status_of(int end, uint64_t id) { return (int)wait_for(end, id)->status; }
// So far all is well: the request completes like this.
static void done(int end, uint64_t id, int status) {
  const int is = status_of(end, id);
  if (is == status) return;
  printf("request %#llx: %s, not %s\n", (unsigned long long)id, ibv_wc_status_str((enum ibv_wc_status)is),
         ibv_wc_status_str((enum ibv_wc_status)status));
  exit(2);
}
// The request completed like this, and (one of these) must not.
static void not_done(int end, uint64_t id, int status) {
  if (status_of(end, id) != status) return;
  printf("request %#llx: %s, which must not be\n", (unsigned long long)id,
         ibv_wc_status_str((enum ibv_wc_status)status));
  exit(1);
}
// The same for a receive.
static void not_received(int end, uint64_t id, int status, uint32_t byte_len, unsigned flags) {
  const struct ibv_wc* wc = wait_for(end, id);
  if ((int)wc->status != status || wc->byte_len != byte_len || wc->wc_flags != flags) return;
  printf("receive %#llx: %s, byte_len %u, wc_flags %#x, which must not be\n",
         (unsigned long long)id, ibv_wc_status_str(wc->status), byte_len, flags);
  exit(1);
}
static void byte_is(int end, int m, uint32_t off, int value) {
  uint8_t word[4];
  if (m == DM) check(ibv_memcpy_from_dm(word, dm[end], off & ~3U, 4), "ibv_memcpy_from_dm");
  const int is = m == DM ? word[off & 3] : mem[end][m][off];
  if (is == value) return;
  printf("byte %u of memory %d of end %d is %#x, not %#x\n", off, m, end, is, value);
  exit(1);
}
)";

}  // namespace guest::generator

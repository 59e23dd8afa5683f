// SPDX-License-Identifier: GPL-2.0-or-later
// What programs do with objects: state changes, requests, completions, the direct verbs.
#include <rdma/ib_user_ioctl_cmds.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "life.h"
#include "verbs.h"

namespace guest::uverbsfuzz {

std::vector<Thread::Op> Thread::using_ops() {
  return {
      {"connect", 10, &Thread::connect_qp, true},
      {"modify-qp", 6, &Thread::modify_qp, true},
      {"modify-wq", 3, &Thread::modify_wq, true},
      {"query", 4, &Thread::query, true},
      {"resize", 3, &Thread::resize, true},
      {"rereg", 3, &Thread::rereg, true},
      {"mcast", 3, &Thread::mcast, true},
      {"sport", 6, &Thread::sport, true},
      {"query-key", 3, &Thread::query_key, true},
      {"map-op", 4, &Thread::map_op, true},
      {"post-send", 10, &Thread::post_send, false},
      {"post-recv", 6, &Thread::post_recv, false},
      {"poll", 6, &Thread::poll, false},
      {"bind-mw", 3, &Thread::bind_mw, false},
      {"advise", 2, &Thread::advise, true},
  };
}

// Takes a QP one step on, with the attributes that its type needs. The peer is the QP itself.
int Thread::to_state(ibv_qp* qp, ibv_qp_state state) {
  const Connection how{.mtu = IBV_MTU_1024,
                       .qp_access = qp->qp_type == IBV_QPT_UC ? 2 : 0xe,
                       .timeout = 8,
                       .retry_cnt = 1,
                       .rnr_retry = 1,
                       .min_rnr_timer = 1,
                       .max_rd_atomic = 4,
                       .max_dest_rd_atomic = 4};
  if (state == IBV_QPS_INIT) return to_init(qp, how);
  if (state == IBV_QPS_RTS) return to_rts(qp, how, 1);
  return to_rtr(qp, process_.gid_index, how, {.qpn = qp->qp_num, .psn = 1, .gid = process_.gid});
}

int Thread::connect_qp() {
  Queue* const queue = fitting(qps_, [](const Queue& q) { return !q.connected; });
  if (queue == nullptr || queue->connected) return kNothing;
  for (const ibv_qp_state state : {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS}) {
    if (const int err = to_state(queue->qp, state)) return err;
  }
  queue->connected = true;
  reached(kConnected);
  return 0;
}

int Thread::modify_qp() {
  Queue* const queue = any(qps_);
  ibv_qp_attr attr{};
  int mask = static_cast<int>(random_.below(1 << 21));
  // Half of them are plain changes of the state.
  if (random_.one_in(2)) mask = IBV_QP_STATE;
  attr.qp_state = static_cast<ibv_qp_state>(random_.below(9));
  attr.cur_qp_state = static_cast<ibv_qp_state>(random_.below(9));
  attr.path_mtu = static_cast<ibv_mtu>(random_.below(8));
  attr.path_mig_state = static_cast<ibv_mig_state>(random_.below(4));
  attr.qkey = random_.below(1U << 30);
  attr.dest_qp_num = random_.below(1U << 24);
  attr.qp_access_flags = random_.below(256);
  attr.timeout = static_cast<std::uint8_t>(random_.below(256));
  attr.retry_cnt = static_cast<std::uint8_t>(random_.below(16));
  attr.max_rd_atomic = static_cast<std::uint8_t>(random_.below(256));
  attr.min_rnr_timer = static_cast<std::uint8_t>(random_.below(64));
  attr.port_num = static_cast<std::uint8_t>(random_.below(3));
  attr.rate_limit = static_cast<std::uint32_t>(interesting(random_));
  attr.ah_attr.is_global = 1;
  attr.ah_attr.port_num = 1;
  attr.ah_attr.grh.dgid = process_.gid;
  attr.ah_attr.grh.sgid_index = process_.gid_index;
  if (queue == nullptr) return kNothing;
  const int err = ibv_modify_qp(queue->qp, &attr, mask);
  if (err == 0) {
    reached(kModify);
    if (mask & IBV_QP_STATE) queue->connected = attr.qp_state == IBV_QPS_RTS;
  }
  return err;
}

int Thread::modify_wq() {
  ibv_wq** const wq = any(wqs_);
  ibv_wq_attr attr{};
  attr.attr_mask = random_.one_in(4) ? random_.below(8) : +IBV_WQ_ATTR_STATE;
  attr.wq_state = static_cast<ibv_wq_state>(random_.below(3));
  attr.curr_wq_state = static_cast<ibv_wq_state>(random_.below(3));
  if (wq == nullptr) return kNothing;
  const int err = ibv_modify_wq(*wq, &attr);
  if (err == 0) reached(kModify);
  return err;
}

int Thread::query() {
  Queue* const queue = any(qps_);
  ibv_srq** const srq = any(srqs_);
  const std::uint32_t what = random_.below(4);
  ibv_qp_attr attr{};
  ibv_qp_init_attr init{};
  ibv_srq_attr srq_attr{};
  ibv_device_attr_ex device{};
  ibv_port_attr port{};
  int err = kNothing;
  if (what == 0) err = ibv_query_device_ex(process_.verbs, nullptr, &device);
  if (what == 1) err = ibv_query_port(process_.verbs, 1, &port);
  if (what == 2 && queue != nullptr) err = ibv_query_qp(queue->qp, &attr, 0xffff, &init);
  if (what == 3 && srq != nullptr) err = ibv_query_srq(*srq, &srq_attr);
  if (err == 0) reached(kQuery);
  return err;
}

int Thread::resize() {
  Completions* const cq = any(cqs_);
  ibv_srq** const srq = any(srqs_);
  const bool of_cq = random_.one_in(2);
  const std::uint32_t size = 1 + random_.below(300);
  int err = kNothing;
  if (of_cq && cq != nullptr && !cq->scribbled) err = ibv_resize_cq(cq->cq, static_cast<int>(size));
  if (!of_cq && srq != nullptr) {
    ibv_srq_attr attr{.max_wr = size, .max_sge = 1, .srq_limit = size / 2};
    err = ibv_modify_srq(*srq, &attr, size % 2 == 0 ? +IBV_SRQ_LIMIT : +IBV_SRQ_MAX_WR);
  }
  if (err == 0) reached(kResize);
  return err;
}

int Thread::rereg() {
  Region* const region = fitting(mrs_, [](const Region& r) { return r.memory != nullptr; });
  ibv_pd** const pd = any(pds_);
  const int flags =
      static_cast<int>(random_.one_in(2) ? +IBV_REREG_MR_CHANGE_TRANSLATION : random_.below(8));
  const int access = static_cast<int>(random_.one_in(2) ? 0xf : random_.below(256));
  const std::size_t part = 1 + random_.below(kPage);
  if (region == nullptr || pd == nullptr || region->memory == nullptr) return kNothing;
  const int err = ibv_rereg_mr(region->mr, flags, *pd, region->memory, part, access);
  if (err == 0) reached(kRereg);
  return err == 0 ? 0 : EINVAL;
}

int Thread::mcast() {
  Queue* const queue = fitting(qps_, [](const Queue& q) { return q.qp->qp_type == IBV_QPT_UD; });
  ibv_gid gid{};
  gid.raw[10] = gid.raw[11] = 0xff;
  gid.raw[12] = 239;
  gid.raw[15] = static_cast<std::uint8_t>(random_.below(4));
  const auto lid = static_cast<std::uint16_t>(0xc000 + random_.below(2));
  const bool leaves = random_.one_in(3);
  if (queue == nullptr || !process_.may_join()) return kNothing;
  const int err =
      leaves ? ibv_detach_mcast(queue->qp, &gid, lid) : ibv_attach_mcast(queue->qp, &gid, lid);
  if (err == 0 && !leaves) reached(kMcast);
  return err;
}

int Thread::sport() {
  Queue* const queue = any(qps_);
  const bool sets = random_.one_in(2);
  auto port = static_cast<std::uint16_t>(random_.below(65536));
  if (queue == nullptr) return kNothing;
  const int err = sets ? terndv_modify_qp_udp_sport(queue->qp, port)
                       : terndv_query_qp_udp_sport(queue->qp, &port);
  if (err == 0) reached(kSport);
  return err;
}

int Thread::query_key() {
  ibv_pd** const pd = any(pds_);
  Region* const region = any(mrs_);
  const std::uint32_t other = random_.below(1U << 30);
  const bool right = !random_.one_in(4);
  terndv_key_attr attr{};
  if (pd == nullptr) return kNothing;
  const std::uint32_t key = right && region != nullptr ? region->mr->lkey : other;
  const int err = terndv_query_key(*pd, key, &attr);
  if (err == 0) reached(kQueryKey);
  return err;
}

int Thread::map_op() {
  ibv_dm** const dm = any(dms_);
  const auto op = static_cast<std::uint8_t>(random_.below(4));
  const std::uint64_t offset = kPage * random_.below(4) + (random_.one_in(16) ? 8 : 0);
  const std::uint32_t value = random_.below(1U << 30);
  if (dm == nullptr) return kNothing;
  void* const page = terndv_dm_map_op_addr(*dm, op, offset);
  if (page == nullptr) return errno;
  *static_cast<volatile std::uint32_t*>(page) = value;
  reached(kMapOp);
  return 0;
}

int Thread::post_send() {
  Queue* const queue = fitting(qps_, [](const Queue& q) {
    return q.connected && !q.scribbled && !q.extended && q.qp->qp_type != IBV_QPT_XRC_RECV;
  });
  Region* const local = any(mrs_);
  Region* const remote = any(mrs_);
  ibv_ah** const ah = any(ahs_);
  ibv_send_wr wr{};
  ibv_send_wr* bad = nullptr;
  const std::uint32_t opcode = random_.below(12);
  const std::uint32_t length = random_.below(8192);
  const std::uint64_t skew = random_.one_in(8) ? interesting(random_) : 0;
  const std::uint32_t flags = random_.below(16);
  const std::uint32_t qpn = random_.below(1U << 12);
  if (queue == nullptr || queue->scribbled || queue->extended ||
      queue->qp->qp_type == IBV_QPT_XRC_RECV || local == nullptr || remote == nullptr) {
    return kNothing;
  }
  ibv_sge sge{.addr = reinterpret_cast<std::uint64_t>(local->mr->addr) + skew,
              .length = length,
              .lkey = local->mr->lkey};
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.opcode = static_cast<ibv_wr_opcode>(opcode);
  // The library would read what an inline request refers to.
  wr.send_flags = flags & ~unsigned{IBV_SEND_INLINE};
  if (queue->qp->qp_type == IBV_QPT_UD) {
    if (ah == nullptr) return kNothing;
    wr.wr.ud = {.ah = *ah, .remote_qpn = queue->qp->qp_num, .remote_qkey = 0x11111111};
  } else if (opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
    wr.wr.atomic = {.remote_addr = reinterpret_cast<std::uint64_t>(remote->mr->addr),
                    .compare_add = 1,
                    .swap = 2,
                    .rkey = remote->mr->rkey};
    sge.length = 8;
  } else if (opcode == IBV_WR_BIND_MW || opcode == IBV_WR_TSO) {
    wr.opcode = IBV_WR_SEND;
  } else {
    wr.wr.rdma = {.remote_addr = reinterpret_cast<std::uint64_t>(remote->mr->addr) + skew,
                  .rkey = remote->mr->rkey};
  }
  wr.qp_type.xrc.remote_srqn = qpn;
  const int err = ibv_post_send(queue->qp, &wr, &bad);
  if (err == 0) reached(kPosted);
  return err;
}

int Thread::post_recv() {
  Queue* const queue = any(qps_);
  ibv_srq** const srq = any(srqs_);
  ibv_wq** const wq = any(wqs_);
  Region* const local = any(mrs_);
  const std::uint32_t which = random_.below(3);
  if (local == nullptr) return kNothing;
  ibv_sge sge{.addr = reinterpret_cast<std::uint64_t>(local->mr->addr),
              .length = 2048,
              .lkey = local->mr->lkey};
  ibv_recv_wr wr{};
  ibv_recv_wr* bad = nullptr;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  int err = kNothing;
  if (which == 0 && srq != nullptr) err = ibv_post_srq_recv(*srq, &wr, &bad);
  if (which == 1 && wq != nullptr) err = ibv_post_wq_recv(*wq, &wr, &bad);
  if (which == 2 && queue != nullptr && !queue->scribbled && !queue->extended &&
      queue->qp->qp_type != IBV_QPT_XRC_RECV && queue->qp->qp_type != IBV_QPT_XRC_SEND &&
      queue->qp->srq == nullptr) {
    err = ibv_post_recv(queue->qp, &wr, &bad);
  }
  if (err == 0) reached(kPosted);
  return err;
}

int Thread::poll() {
  ibv_wc wc[8];
  for (const Completions& completions : cqs_) {
    const int n = completions.scribbled ? 0 : ibv_poll_cq(completions.cq, 8, wc);
    for (int i = 0; i < n; ++i) reached(kCompleted);
  }
  return 0;
}

int Thread::bind_mw() {
  Queue* const queue = fitting(qps_, [](const Queue& q) {
    return q.connected && !q.scribbled && q.qp->qp_type == IBV_QPT_RC;
  });
  ibv_mw** const mw = fitting(mws_, [](const ibv_mw* w) { return w->type == IBV_MW_TYPE_1; });
  Region* const region = any(mrs_);
  const std::uint64_t length = random_.below(kPage);
  if (queue == nullptr || mw == nullptr || region == nullptr || queue->scribbled ||
      queue->extended || (*mw)->type != IBV_MW_TYPE_1 || queue->qp->qp_type != IBV_QPT_RC) {
    return kNothing;
  }
  ibv_mw_bind bind{};
  bind.send_flags = IBV_SEND_SIGNALED;
  bind.bind_info = {.mr = region->mr,
                    .addr = reinterpret_cast<std::uint64_t>(region->mr->addr),
                    .length = length,
                    .mw_access_flags = 0xe};
  return ibv_bind_mw(queue->qp, *mw, &bind);
}

int Thread::advise() {
  ibv_pd** const pd = any(pds_);
  Region* const region = any(mrs_);
  const auto advice = static_cast<ibv_advise_mr_advice>(random_.below(3));
  const std::uint32_t length = 1 + random_.below(kPage);
  if (pd == nullptr || region == nullptr) return kNothing;
  ibv_sge sge{.addr = reinterpret_cast<std::uint64_t>(region->mr->addr),
              .length = length,
              .lkey = region->mr->lkey};
  return ibv_advise_mr(*pd, advice, IBV_ADVISE_MR_FLAG_FLUSH, &sge, 1);
}

}  // namespace guest::uverbsfuzz

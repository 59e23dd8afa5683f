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
      {"connect", 10, &Thread::connect_qp, true}, {"modify-qp", 6, &Thread::modify_qp, true},
      {"modify-wq", 3, &Thread::modify_wq, true}, {"query", 4, &Thread::query, true},
      {"resize", 3, &Thread::resize, true},       {"rereg", 3, &Thread::rereg, true},
      {"mcast", 3, &Thread::join_allowed, true},  {"sport", 6, &Thread::sport, true},
      {"query-key", 3, &Thread::query_key, true}, {"map-op", 4, &Thread::map_op, true},
      {"traffic", 14, &Thread::traffic, false},   {"post-wq", 2, &Thread::post_wq, false},
      {"poll", 6, &Thread::poll, false},          {"bind-mw", 3, &Thread::bind_mw, false},
      {"advise", 2, &Thread::advise, true},
  };
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
  attr.ah_attr.grh.dgid = gid_;
  attr.ah_attr.grh.sgid_index = gid_index_;
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

int Thread::join_allowed() { return process_.may_join() ? mcast() : kNothing; }

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

int Thread::post_wq() {
  ibv_wq** const wq = any(wqs_);
  Region* const local = any(mrs_);
  if (wq == nullptr || local == nullptr) return kNothing;
  ibv_sge sge{.addr = reinterpret_cast<std::uint64_t>(local->mr->addr),
              .length = 2048,
              .lkey = local->mr->lkey};
  ibv_recv_wr wr{};
  ibv_recv_wr* bad = nullptr;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  const int err = ibv_post_wq_recv(*wq, &wr, &bad);
  if (err == 0) reached(kPosted);
  return err;
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

// SPDX-License-Identifier: GPL-2.0-or-later
// Nearly valid admin commands: the objects that an input has created, and the commands on them.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "play.h"

namespace tern::fuzz {

// Types of objects. live_ lists those that the input has created, newest last.
enum Kind : unsigned {
  kUar,
  kPd,
  kXrcd,
  kEq,
  kCq,
  kKey,
  kWindow,
  kDm,
  kQp,
  kSrq,
  kEth,
  kRss,
  kFlow,
  kFlowCounter,
  kCounterSet,
  kCompCounter,
  kKinds
};

struct Shape {
  std::uint16_t opcode;
  std::uint16_t in_len;
  std::uint16_t out_len;
  int makes;  // Kind, or -1
  int destroys;
};

inline constexpr Shape kShapes[] = {
    {TERN_CMD_NOP, 0, 0, -1, -1},
    {TERN_CMD_QUERY_CAPS, 0, sizeof(tern_rsp_caps), -1, -1},
    {TERN_CMD_QUERY_OBJECTS, 0, sizeof(tern_rsp_objects), -1, -1},
    {TERN_CMD_QUERY_COUNTERS, sizeof(tern_cmd_query_counters), 8 * TERN_CNT_RDMA_NUM, -1, -1},
    {TERN_CMD_QUERY_PORT, sizeof(tern_cmd_query_port), sizeof(tern_rsp_port), -1, -1},
    {TERN_CMD_MODIFY_PORT, sizeof(tern_cmd_modify_port), 0, -1, -1},
    {TERN_CMD_SET_GID, sizeof(tern_cmd_set_gid), 0, -1, -1},
    {TERN_CMD_ALLOC_UAR, 0, 8, kUar, -1},
    {TERN_CMD_FREE_UAR, sizeof(tern_cmd_object), 0, -1, kUar},
    {TERN_CMD_ALLOC_PD, sizeof(tern_cmd_alloc_pd), 8, kPd, -1},
    {TERN_CMD_FREE_PD, sizeof(tern_cmd_object), 0, -1, kPd},
    {TERN_CMD_ALLOC_XRCD, 0, 8, kXrcd, -1},
    {TERN_CMD_FREE_XRCD, sizeof(tern_cmd_object), 0, -1, kXrcd},
    {TERN_CMD_CREATE_EQ, sizeof(tern_cmd_create_eq), 8, kEq, -1},
    {TERN_CMD_DESTROY_EQ, sizeof(tern_cmd_object), 0, -1, kEq},
    {TERN_CMD_CREATE_CQ, sizeof(tern_cmd_create_cq), 8, kCq, -1},
    {TERN_CMD_DESTROY_CQ, sizeof(tern_cmd_object), 0, -1, kCq},
    {TERN_CMD_RESIZE_CQ, sizeof(tern_cmd_resize_cq), 8, -1, -1},
    {TERN_CMD_MODIFY_CQ, sizeof(tern_cmd_modify_cq), 0, -1, -1},
    {TERN_CMD_QUERY_CQ, sizeof(tern_cmd_object), sizeof(tern_rsp_query_cq), -1, -1},
    {TERN_CMD_CREATE_MR, sizeof(tern_cmd_create_mr), 8, kKey, -1},
    {TERN_CMD_DESTROY_MR, sizeof(tern_cmd_object), 0, -1, kKey},
    {TERN_CMD_UPDATE_PAGES, sizeof(tern_cmd_update_pages), 0, -1, -1},
    {TERN_CMD_REREG_MR, sizeof(tern_cmd_rereg_mr), 0, -1, -1},
    {TERN_CMD_QUERY_MR, sizeof(tern_cmd_object), sizeof(tern_rsp_mr), -1, -1},
    {TERN_CMD_ALLOC_MW, sizeof(tern_cmd_alloc_mw), 8, kWindow, -1},
    {TERN_CMD_FREE_MW, sizeof(tern_cmd_object), 0, -1, kWindow},
    {TERN_CMD_ALLOC_DM, sizeof(tern_cmd_alloc_dm), sizeof(tern_rsp_alloc_dm), kDm, -1},
    {TERN_CMD_FREE_DM, sizeof(tern_cmd_object), 0, -1, kDm},
    {TERN_CMD_MAP_DM_OP, sizeof(tern_cmd_map_dm_op), 8, kUar, -1},
    {TERN_CMD_CREATE_QP, sizeof(tern_cmd_create_qp), 8, kQp, -1},
    {TERN_CMD_DESTROY_QP, sizeof(tern_cmd_object), 0, -1, kQp},
    {TERN_CMD_MODIFY_QP, sizeof(tern_cmd_modify_qp), 0, -1, -1},
    {TERN_CMD_QUERY_QP, sizeof(tern_cmd_object), sizeof(tern_rsp_query_qp), -1, -1},
    {TERN_CMD_RESUME_QP, sizeof(tern_cmd_resume_qp), 0, -1, -1},
    {TERN_CMD_CREATE_SRQ, sizeof(tern_cmd_create_srq), 8, kSrq, -1},
    {TERN_CMD_DESTROY_SRQ, sizeof(tern_cmd_object), 0, -1, kSrq},
    {TERN_CMD_MODIFY_SRQ, sizeof(tern_cmd_modify_srq), 0, -1, -1},
    {TERN_CMD_QUERY_SRQ, sizeof(tern_cmd_object), sizeof(tern_rsp_query_srq), -1, -1},
    {TERN_CMD_ATTACH_MCAST, sizeof(tern_cmd_mcast), 0, -1, -1},
    {TERN_CMD_DETACH_MCAST, sizeof(tern_cmd_mcast), 0, -1, -1},
    {TERN_CMD_CREATE_ETH_QUEUE, sizeof(tern_cmd_create_eth_queue), 8, kEth, -1},
    {TERN_CMD_DESTROY_ETH_QUEUE, sizeof(tern_cmd_object), 0, -1, kEth},
    {TERN_CMD_SET_RX_FILTER, sizeof(tern_cmd_set_rx_filter), 0, -1, -1},
    {TERN_CMD_SET_RX_DEFAULT, sizeof(tern_cmd_set_rx_default), 0, -1, -1},
    {TERN_CMD_CREATE_RSS, sizeof(tern_cmd_rss), 8, kRss, -1},
    {TERN_CMD_MODIFY_RSS, sizeof(tern_cmd_rss), 0, -1, -1},
    {TERN_CMD_DESTROY_RSS, sizeof(tern_cmd_object), 0, -1, kRss},
    {TERN_CMD_CREATE_FLOW, sizeof(tern_cmd_create_flow), 8, kFlow, -1},
    {TERN_CMD_DESTROY_FLOW, sizeof(tern_cmd_object), 0, -1, kFlow},
    {TERN_CMD_CREATE_FLOW_COUNTER, 0, 8, kFlowCounter, -1},
    {TERN_CMD_QUERY_FLOW_COUNTER, sizeof(tern_cmd_object), sizeof(tern_rsp_flow_counter), -1, -1},
    {TERN_CMD_DESTROY_FLOW_COUNTER, sizeof(tern_cmd_object), 0, -1, kFlowCounter},
    {TERN_CMD_CREATE_COUNTER_SET, 0, 8, kCounterSet, -1},
    {TERN_CMD_DESTROY_COUNTER_SET, sizeof(tern_cmd_object), 0, -1, kCounterSet},
    {TERN_CMD_QUERY_COUNTER_SET, sizeof(tern_cmd_object), 8 * TERN_CNT_RDMA_NUM, -1, -1},
    {TERN_CMD_BIND_COUNTER_SET, sizeof(tern_cmd_bind_counter_set), 0, -1, -1},
    {TERN_CMD_QUERY_CC, sizeof(tern_cmd_query_port), sizeof(tern_cc_params), -1, -1},
    {TERN_CMD_SET_CC, sizeof(tern_cmd_set_cc), 0, -1, -1},
    {TERN_CMD_CREATE_COMP_CNTR, sizeof(tern_cmd_create_comp_cntr), 8, kCompCounter, -1},
    {TERN_CMD_DESTROY_COMP_CNTR, sizeof(tern_cmd_object), 0, -1, kCompCounter},
    {TERN_CMD_MODIFY_COMP_CNTR, sizeof(tern_cmd_modify_comp_cntr), 0, -1, -1},
    {TERN_CMD_ATTACH_COMP_CNTR, sizeof(tern_cmd_attach_comp_cntr), 0, -1, -1},
};

using Bytes = std::vector<std::byte>;

template <class T>
Bytes bytes_of(const T& value) {
  const auto b = std::as_bytes(std::span(&value, 1));
  return {b.begin(), b.end()};
}

class AdminPlay {
 public:
  AdminPlay(World& w, Input& in) : w_(w), in_(in) {
    live_[kUar] = {w.uar};
    live_[kPd] = {w.pd, w.pd2};
    live_[kEq] = {w.async_eq, w.eq};
    live_[kCq] = {w.cqs.begin(), w.cqs.end()};
    live_[kKey] = {w.rw.key, w.ro.key, w.other.key};
    if (w.eth_tx != 0) live_[kEth] = {w.eth_tx, w.eth_rx};
    if (w.fast.key != 0) live_[kKey].push_back(w.fast.key);
    if (w.dm.key != 0) live_[kKey].push_back(w.dm.key);
    for (const DmPart& part : w.dm_parts) live_[kDm].push_back(part.number);
    w.grant_dm();
    for (const Region& mw : w.windows) live_[kWindow].push_back(mw.key);
    for (const FuzzQp& qp : w.qps) live_[kQp].push_back(qp.number);
    live_[kFlow] = {w.flows.begin(), w.flows.end()};
    for (const std::uint32_t srq : w.srqs) {
      if (srq != 0) live_[kSrq].push_back(srq);
    }
    if (w.xrcd != 0) live_[kXrcd].push_back(w.xrcd);
  }

  void command();
  void registers();
  // Destroys all objects and checks that none is left.
  void finish();

 private:
  std::uint32_t any(unsigned kind) {
    const auto& list = live_[kind];
    return list.empty() ? 0 : list[list.size() - 1 - in_.pick(static_cast<unsigned>(list.size()))];
  }
  tern_pages pages(std::uint64_t bytes);
  // An address for a record, rarely unaligned.
  std::uint64_t record(std::uint64_t align);
  [[nodiscard]] std::uint8_t port() { return in_.u8() % 16 == 15 ? in_.u8() : 1; }
  [[nodiscard]] Bytes good(const Shape& shape);
  [[nodiscard]] Bytes good_create(std::uint16_t opcode);
  [[nodiscard]] Bytes good_change(std::uint16_t opcode);
  [[nodiscard]] tern_cmd_rss good_rss();
  [[nodiscard]] tern_cmd_create_flow good_flow();
  // A destination of a group, flow or default, and the number of such an object.
  std::uint8_t destination(std::uint8_t kinds, std::uint32_t* id);
  void bend(Bytes& in);
  [[nodiscard]] std::uint64_t some_address();
  [[nodiscard]] bool too_big(const Shape& shape, const Bytes& in) const;
  void grant(const tern_pages& p, std::uint64_t bytes, unsigned rights = FuzzHost::kWrite);
  void grant(std::uint16_t opcode, const Bytes& in);
  void twist(tern_aq_entry& e);

  World& w_;
  Input& in_;
  std::array<std::vector<std::uint32_t>, kKinds> live_;
  bool nameless_ = false;
};

}  // namespace tern::fuzz

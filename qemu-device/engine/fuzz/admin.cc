// SPDX-License-Identifier: GPL-2.0-or-later
// The admin queue and the registers: nearly valid commands in any order, with traffic in between.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <vector>

#include "play.h"

namespace tern::fuzz {
namespace {

constexpr unsigned kMaxSteps = 48;

// Types of objects. live_ lists those that the input has created, newest last.
enum Kind : unsigned { kUar, kPd, kXrcd, kEq, kCq, kKey, kWindow, kDm, kQp, kSrq, kEth, kRss, kFlow, kFlowCounter, kKinds };

struct Shape {
  std::uint16_t opcode;
  std::uint16_t in_len;
  std::uint16_t out_len;
  int makes;    // Kind, or -1
  int destroys;
};

constexpr Shape kShapes[] = {
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

// A buffer of a few pages, as a page list or as one piece.
tern_pages AdminPlay::pages(std::uint64_t bytes) {
  tern_pages p{};
  const unsigned first = page::kFree + in_.pick(page::kEnd - page::kFree);
  const auto n = static_cast<std::uint32_t>(bytes / FuzzHost::kPage + 1);
  const std::uint8_t how = in_.u8();
  p.page_shift = 12;
  if (how % 4 == 0) {
    p.addr = FuzzHost::page(std::min(first, page::kEnd - n));
    p.kind = TERN_PAGES_DIRECT;
    return p;
  }
  std::uint64_t list = FuzzHost::page(page::kLists) + 64 * (how >> 2 & 31);
  p.num = n;
  p.kind = TERN_PAGES_LIST;
  for (std::uint32_t i = 0; i < n; ++i) {
    w_.host.put(list + 8 * i, FuzzHost::page(page::kFree + (first + 3 * i) % (page::kEnd - page::kFree)));
  }
  p.addr = list;
  if (how % 4 == 3) {
    w_.host.put(list + 2048, list);
    p.addr = list + 2048;
    p.kind = TERN_PAGES_INDIRECT;
  }
  return p;
}

std::uint64_t AdminPlay::record(std::uint64_t align) {
  const std::uint8_t how = in_.u8();
  const std::uint64_t at = FuzzHost::page(page::kFree + how % (page::kEnd - page::kFree)) + align * (how % 4);
  return how == 0xff ? at + in_.u8() : at;
}

std::uint8_t AdminPlay::destination(std::uint8_t kinds, std::uint32_t* id) {
  const std::uint8_t dest = in_.u8() % kinds;
  *id = dest == TERN_DEST_ETH_QUEUE ? any(kEth) : dest == TERN_DEST_RSS ? any(kRss) : dest == TERN_DEST_QP ? any(kQp) : 0;
  return dest;
}

tern_cmd_rss AdminPlay::good_rss() {
  tern_cmd_rss c{};
  const std::uint8_t how = in_.u8();
  c.port = port();
  c.log_entries = how % 4;
  c.kind = how & 0x80 ? TERN_DEST_QP : TERN_DEST_ETH_QUEUE;
  c.func = how >> 4 & 1;
  for (unsigned i = 0; i < 6; ++i) c.fields[i] = i < 2 ? in_.u8() & 3 : in_.u8() & 15;
  for (unsigned i = 0; i < 1U << c.log_entries; ++i) c.entries[i] = any(c.kind == TERN_DEST_QP ? kQp : kEth);
  return c;
}

tern_cmd_create_flow AdminPlay::good_flow() {
  constexpr std::array<std::uint16_t, 4> kLayers = {
      TERN_LAYER_ETH, TERN_LAYER_ETH | TERN_LAYER_IPV4, TERN_LAYER_ETH | TERN_LAYER_IPV4 | TERN_LAYER_UDP,
      TERN_LAYER_ETH | TERN_LAYER_VLAN | TERN_LAYER_IPV6 | TERN_LAYER_TCP};
  tern_cmd_create_flow c{};
  const std::uint8_t how = in_.u8();
  std::uint32_t id = 0;
  c.dest = destination(4, &id);
  c.dest_id = id;
  c.priority = how % 8;
  c.tag = in_.u8();
  c.counter = how & 8 ? any(kFlowCounter) : TERN_NO_COUNTER;
  c.port = port();
  c.kind = how & 0x80 ? in_.u8() % 4 : 0;
  c.flags = how >> 4 & 1;
  if (c.kind != TERN_FLOW_NORMAL) return c;
  c.layers = kLayers[how >> 5 & 3];
  std::ranges::copy(World::kMac, c.value.dmac);
  std::ranges::fill(c.mask.dmac, in_.u8() & 1 ? 0xff : 0);
  if (c.layers & TERN_LAYER_UDP) c.mask.dst_port = in_.u8();
  return c;
}

Bytes AdminPlay::good_create(std::uint16_t opcode) {
  switch (opcode) {
    case TERN_CMD_CREATE_RSS:
      return bytes_of(good_rss());
    case TERN_CMD_CREATE_FLOW:
      return bytes_of(good_flow());
    case TERN_CMD_ALLOC_PD:
      return bytes_of(tern_cmd_alloc_pd{in_.u8() & 1U, 0});
    case TERN_CMD_CREATE_EQ: {
      tern_cmd_create_eq c{};
      c.kind = in_.u8() % 4 == 3 ? static_cast<std::uint8_t>(1 + in_.pick(2)) : 0;
      c.pages = pages((c.kind == TERN_EQ_FAULT ? 64U : 16U) << 4);
      c.record = record(64);
      c.vector = static_cast<std::uint16_t>(in_.pick(4));
      c.log_size = 4;
      return bytes_of(c);
    }
    case TERN_CMD_CREATE_CQ: {
      tern_cmd_create_cq c{};
      c.log_size = static_cast<std::uint8_t>(1 + in_.pick(6));
      c.pages = pages(64U << c.log_size);
      c.record = record(sizeof(tern_cq_record));
      const std::uint8_t how = in_.u8();
      c.eqn = how & 1 ? TERN_NO_EQ : any(kEq);
      c.flags = how & 0x10 ? TERN_CQ_F_IGNORE_OVERRUN : 0;
      c.uar = any(kUar);
      return bytes_of(c);
    }
    case TERN_CMD_CREATE_MR: {
      tern_cmd_create_mr c{};
      c.kind = static_cast<std::uint8_t>(in_.u8() & 1 ? TERN_MR_MEMORY : in_.pick(3));
      c.pdn = any(kPd);
      if (c.kind == TERN_MR_FAST) {
        c.pages.num = in_.u8();
        return bytes_of(c);
      }
      c.length = in_.u16();
      c.iova = std::uint64_t{in_.u8()} << 32;
      c.offset = in_.u16() % 4096;
      c.access = in_.u8() & 0x3f;
      c.pages = pages(c.offset + c.length);
      if (c.kind == TERN_MR_DM) {
        c.pages = {};
        c.dmn = any(kDm);
      } else if (in_.u8() % 4 == 0) {
        c.flags = TERN_MR_F_INCOMPLETE;
        c.pages = {0, static_cast<std::uint32_t>((c.offset + c.length) / 4096 + 1), 12, TERN_PAGES_LIST, 0};
      }
      return bytes_of(c);
    }
    case TERN_CMD_ALLOC_MW: {
      tern_cmd_alloc_mw c{};
      c.pdn = any(kPd);
      c.type = 1 + in_.u8() % 2;
      return bytes_of(c);
    }
    case TERN_CMD_ALLOC_DM:
      return bytes_of(tern_cmd_alloc_dm{in_.u16() + 1U, in_.u8() % 20U, 0});
    case TERN_CMD_MAP_DM_OP:
      return bytes_of(tern_cmd_map_dm_op{in_.u8() % 4U * 4096U, any(kDm), static_cast<std::uint8_t>(in_.u8() % 4), {}});
    case TERN_CMD_CREATE_QP: {
      tern_cmd_create_qp c{};
      const std::uint8_t how = in_.u8();
      c.type = (how & 0x78) == 0x78 ? TERN_QPT_RAW : how % 6;
      c.pdn = any(kPd);
      c.uar = any(kUar);
      c.send_cqn = any(kCq);
      c.recv_cqn = any(kCq);
      c.log_sq_size = static_cast<std::uint8_t>(in_.pick(5));
      c.log_sq_stride = static_cast<std::uint8_t>(6 + in_.pick(3));
      c.log_rq_size = static_cast<std::uint8_t>(in_.pick(5));
      c.log_rq_stride = static_cast<std::uint8_t>(5 + in_.pick(3));
      c.rq_offset = 4096;
      c.record = record(256);
      c.pages = pages(8192);
      if (how & 0x80) {
        c.flags = TERN_QP_F_SRQ | TERN_QP_F_NO_RQ;
        c.srqn = any(kSrq);
      }
      if (c.type == TERN_QPT_RAW) c.flags |= in_.u8();
      if (c.type == TERN_QPT_XRC_INI) {
        c.flags = TERN_QP_F_NO_RQ;
        c.srqn = 0;
        c.recv_cqn = c.send_cqn;
      }
      if (c.type == TERN_QPT_XRC_TGT) {
        c = {};
        c.type = TERN_QPT_XRC_TGT;
        c.flags = TERN_QP_F_NO_RQ | TERN_QP_F_NO_SQ;
        c.xrcdn = any(kXrcd);
      }
      return bytes_of(c);
    }
    case TERN_CMD_CREATE_SRQ: {
      tern_cmd_create_srq c{};
      c.log_size = static_cast<std::uint8_t>(in_.pick(5));
      c.log_stride = static_cast<std::uint8_t>(5 + in_.pick(4));
      c.record = record(128);
      c.pages = pages(4096);
      c.pdn = any(kPd);
      if (in_.u8() & 1) {
        c.flags = TERN_SRQ_F_XRC;
        c.xrcdn = any(kXrcd);
        c.cqn = any(kCq);
      }
      return bytes_of(c);
    }
    default: {
      tern_cmd_create_eth_queue c{};
      c.pages = pages(256);
      c.record = record(64);
      c.port = port();
      c.cqn = any(kCq);
      c.uar = any(kUar);
      const std::uint8_t how = in_.u8();
      c.direction = how & 1;
      c.flags = how & 1 ? how >> 1 & 7 : 0;
      c.log_size = 4;
      return bytes_of(c);
    }
  }
}

Bytes AdminPlay::good_change(std::uint16_t opcode) {
  switch (opcode) {
    case TERN_CMD_MODIFY_PORT: {
      tern_cmd_modify_port c{};
      c.mask = in_.u8() & 7;
      c.mtu = 68 + in_.u16() % 9000;
      c.mac[5] = in_.u8();
      c.enable = !(in_.u8() & 1);
      c.port = port();
      return bytes_of(c);
    }
    case TERN_CMD_SET_GID: {
      tern_cmd_set_gid c{};
      c.index = in_.u8() % 4;
      c.valid = in_.u8() & 1;
      c.port = port();
      c.net_type = static_cast<std::uint8_t>(1 + in_.pick(2));
      c.vlan = in_.u8() & 1 ? std::uint16_t{TERN_VLAN_NONE} : in_.u16();
      std::ranges::copy(World::kMac, c.mac);
      std::ranges::copy(World::gid(in_.u8() % 4, c.net_type == TERN_NET_IPV4), c.gid);
      return bytes_of(c);
    }
    case TERN_CMD_RESIZE_CQ: {
      tern_cmd_resize_cq c{};
      c.log_size = static_cast<std::uint8_t>(1 + in_.pick(6));
      c.pages = pages(64U << c.log_size);
      c.cqn = any(kCq);
      return bytes_of(c);
    }
    case TERN_CMD_MODIFY_CQ:
      return bytes_of(tern_cmd_modify_cq{any(kCq), in_.u8(), in_.u8()});
    case TERN_CMD_UPDATE_PAGES: {
      tern_cmd_update_pages c{};
      c.pages = pages(in_.u16());
      c.first = in_.u8() & 3;
      c.key = any(kKey);
      c.flags = in_.u8() & 3;
      return bytes_of(c);
    }
    case TERN_CMD_REREG_MR: {
      tern_cmd_rereg_mr c{};
      c.length = in_.u16();
      c.offset = in_.u16() % 4096;
      c.pages = pages(c.offset + c.length);
      c.iova = in_.u16();
      c.key = any(kKey);
      c.mask = in_.u8() & 7;
      c.pdn = any(kPd);
      c.access = in_.u8() & 0x3f;
      return bytes_of(c);
    }
    case TERN_CMD_MODIFY_QP: {
      tern_cmd_modify_qp c{};
      constexpr std::uint32_t kPeer = TERN_QPA_AV | TERN_QPA_PATH_MTU | TERN_QPA_DEST_QPN | TERN_QPA_RQ_PSN;
      constexpr std::uint32_t kTarget = TERN_QPA_MAX_DEST_RD_ATOMIC | TERN_QPA_MIN_RNR_TIMER;
      constexpr std::array masks = {
          TERN_QPA_PKEY_INDEX | TERN_QPA_ACCESS | TERN_QPA_PORT, kPeer | kTarget,
          TERN_QPA_TIMEOUT | TERN_QPA_RETRY_CNT | TERN_QPA_RNR_RETRY | TERN_QPA_SQ_PSN | TERN_QPA_MAX_RD_ATOMIC,
          0U, kPeer, 0U + TERN_QPA_SQ_PSN, TERN_QPA_PKEY_INDEX | TERN_QPA_QKEY | TERN_QPA_PORT, TERN_QPA_TIMEOUT | TERN_QPA_SQ_PSN};
      const std::uint8_t how = in_.u8();
      c.qpn = any(kQp);
      c.mask = masks[how % masks.size()] | (how & 0x40 ? 0U : TERN_QPA_STATE);
      c.attr.state = in_.u8() % 8;
      c.attr.av = w_.av(how & 0x80);
      c.attr.path_mtu = w_.scene.log_mtu;
      c.attr.dest_qpn = any(kQp);
      c.attr.access = 0xf;
      c.attr.port = port();
      c.attr.max_rd_atomic = c.attr.max_dest_rd_atomic = in_.u8() % 17;
      c.attr.timeout = 8;
      c.attr.qkey = World::kQkey;
      c.attr.sq_psn = c.attr.rq_psn = World::kPsn;
      return bytes_of(c);
    }
    case TERN_CMD_MODIFY_SRQ: {
      tern_cmd_modify_srq c{};
      c.srqn = any(kSrq);
      c.mask = 1 + in_.u8() % 3U;
      c.limit = in_.u8() % 20;
      if (c.mask & TERN_SRQA_RESIZE) {
        c.log_size = static_cast<std::uint8_t>(in_.pick(5));
        c.pages = pages(4096);
      }
      return bytes_of(c);
    }
    case TERN_CMD_RESUME_QP: {
      tern_cmd_resume_qp c{};
      c.qpn = any(kQp);
      c.token = in_.u8();
      c.side = in_.u8() & 1;
      c.result = in_.u8() & 1;
      return bytes_of(c);
    }
    case TERN_CMD_QUERY_PORT:
      return bytes_of(tern_cmd_query_port{port(), {}});
    case TERN_CMD_QUERY_COUNTERS:
      return bytes_of(tern_cmd_query_counters{in_.u8() & 1U, port(), {}});
    case TERN_CMD_ATTACH_MCAST:
    case TERN_CMD_DETACH_MCAST: {
      tern_cmd_mcast c{};
      const bool ipv4 = in_.u8() & 1;
      std::ranges::copy(World::gid(in_.u8() % 4, ipv4), c.gid);
      c.gid[ipv4 ? 12 : 0] = ipv4 ? 0xe0 : 0xff;
      c.qpn = any(kQp);
      c.port = port();
      return bytes_of(c);
    }
    case TERN_CMD_MODIFY_RSS: {
      tern_cmd_rss c = good_rss();
      c.id = any(kRss);
      return bytes_of(c);
    }
    case TERN_CMD_SET_RX_DEFAULT: {
      tern_cmd_set_rx_default c{};
      std::uint32_t id = 0;
      c.dest = destination(3, &id);
      c.id = id;
      c.port = port();
      return bytes_of(c);
    }
    default: {
      tern_cmd_set_rx_filter c{};
      c.port = port();
      c.flags = in_.u8() & 7;
      c.num_macs = in_.u8() % 66;
      return bytes_of(c);
    }
  }
}

Bytes AdminPlay::good(const Shape& shape) {
  if (shape.in_len == 0) return {};
  if (shape.in_len == sizeof(tern_cmd_object) && shape.opcode != TERN_CMD_ALLOC_PD &&
      shape.opcode != TERN_CMD_ALLOC_MW && shape.opcode != TERN_CMD_MODIFY_CQ &&
      shape.opcode != TERN_CMD_QUERY_PORT && shape.opcode != TERN_CMD_QUERY_COUNTERS &&
      shape.opcode != TERN_CMD_SET_RX_DEFAULT) {
    unsigned kind = shape.destroys >= 0 ? static_cast<unsigned>(shape.destroys) : unsigned{kQp};
    if (shape.opcode == TERN_CMD_QUERY_MR) kind = in_.u8() & 1 ? kKey : kWindow;
    if (shape.opcode == TERN_CMD_QUERY_SRQ) kind = kSrq;
    if (shape.opcode == TERN_CMD_QUERY_FLOW_COUNTER) kind = kFlowCounter;
    return bytes_of(tern_cmd_object{any(kind), 0});
  }
  return shape.makes >= 0 ? good_create(shape.opcode) : good_change(shape.opcode);
}

std::uint64_t AdminPlay::some_address() {
  switch (in_.pick(6)) {
    case 0:
      return in_.u64();
    case 1:
      return FuzzHost::kBase - in_.u8();
    case 2:
      return FuzzHost::kBase + FuzzHost::kBytes - in_.u8();
    case 3:
      return UINT64_MAX - in_.u8();
    default:
      return FuzzHost::page(in_.pick(page::kAdmin)) + in_.u8() * 8U;
  }
}

// Changes fields of a valid command.
void AdminPlay::bend(Bytes& in) {
  const auto put = [&](std::size_t at, std::uint64_t value, std::size_t n) {
    for (std::size_t i = 0; i < n && at + i < in.size(); ++i) {
      in[at + i] = static_cast<std::byte>(value >> (8 * i));
    }
  };
  if (in.empty()) return;
  const std::size_t at = in_.u16() % in.size();
  switch (in_.pick(6)) {
    case 0:
      return put(at, in_.u8(), 1);
    case 1:
      return put(at & ~std::size_t{1}, in_.u16(), 2);
    case 2:
      return put(at & ~std::size_t{3}, in_.u32(), 4);
    case 3:
      return put(at & ~std::size_t{3}, any(in_.pick(kKinds)), 4);
    case 4:
      return put(at & ~std::size_t{7}, some_address(), 8);
    default:
      return put(at, 1ULL << in_.pick(64), 8);
  }
}

// Lists that the contract allows but that need more memory than the fuzzer has: hundreds of
// megabytes of zeros find no bugs.
bool AdminPlay::too_big(const Shape& shape, const Bytes& in) const {
  if (shape.opcode != TERN_CMD_CREATE_MR && shape.opcode != TERN_CMD_REREG_MR) return false;
  std::uint32_t num = 0;
  std::memcpy(&num, in.data() + offsetof(tern_pages, num), sizeof(num));
  return num > 65536 && num <= 1U << 26;
}


// ---- grants ----

// Allows access to the pages of a list.
void AdminPlay::grant(const tern_pages& p, std::uint64_t bytes, unsigned rights) {
  if (p.kind == TERN_PAGES_DIRECT) return w_.host.grant(p.addr, bytes, rights);
  const std::uint32_t num = std::min(p.num, 65536U);
  for (std::uint32_t i = 0; i < num; ++i) {
    std::uint64_t at = p.addr + 8ULL * i;
    if (p.kind == TERN_PAGES_INDIRECT) {
      at = w_.host.get<std::uint64_t>(p.addr + 8ULL * (i / TERN_PAGES_CHUNK)) +
           8ULL * (i % TERN_PAGES_CHUNK);
    }
    if (!FuzzHost::is_ram(at, 8)) return;
    w_.host.grant(w_.host.get<std::uint64_t>(at), 1ULL << (p.page_shift & 31), rights);
  }
}

void AdminPlay::grant(std::uint16_t opcode, const Bytes& in) {
  const auto as = [&]<class T>(T cmd) {
    std::memcpy(&cmd, in.data(), sizeof(cmd));
    return cmd;
  };
  // The device either writes or reads a ring; it does both to a record.
  const auto ring = [&](const auto& c, std::uint64_t bytes, unsigned rights) {
    grant(c.pages, bytes, rights);
    if constexpr (requires { c.record; }) w_.host.grant(c.record, 256, FuzzHost::kRead | FuzzHost::kWrite);
  };
  constexpr std::uint64_t kQp = std::uint64_t{1} << 33;  // as far as its offsets can reach
  switch (opcode) {
    case TERN_CMD_ALLOC_PD:
      if (as(tern_cmd_alloc_pd{}).flags & TERN_PD_PRIVILEGED) w_.host.grant_all();
      break;
    case TERN_CMD_CREATE_EQ: {
      const auto c = as(tern_cmd_create_eq{});
      return ring(c, sizeof(tern_fault) << (c.log_size & 31), FuzzHost::kWrite);
    }
    case TERN_CMD_CREATE_CQ: {
      const auto c = as(tern_cmd_create_cq{});
      return ring(c, sizeof(tern_cqe) << (c.log_size & 31), FuzzHost::kWrite);
    }
    case TERN_CMD_RESIZE_CQ: {
      const auto c = as(tern_cmd_resize_cq{});
      return ring(c, sizeof(tern_cqe) << (c.log_size & 31), FuzzHost::kWrite);
    }
    case TERN_CMD_CREATE_SRQ: {
      const auto c = as(tern_cmd_create_srq{});
      return ring(c, std::uint64_t{1} << ((c.log_size + c.log_stride) & 63), FuzzHost::kRead);
    }
    case TERN_CMD_MODIFY_SRQ:
      return ring(as(tern_cmd_modify_srq{}), std::uint64_t{1} << 25, FuzzHost::kRead);
    case TERN_CMD_CREATE_ETH_QUEUE:
      w_.host.grant_all();  // descriptors may contain any DMA address
      break;
    case TERN_CMD_CREATE_QP:
      return ring(as(tern_cmd_create_qp{}), kQp, FuzzHost::kRead);
    case TERN_CMD_CREATE_MR: {
      const auto c = as(tern_cmd_create_mr{});
      if (!(c.flags & TERN_MR_F_INCOMPLETE) && c.kind == TERN_MR_MEMORY) grant(c.pages, c.offset + c.length);
      break;
    }
    case TERN_CMD_REREG_MR: {
      const auto c = as(tern_cmd_rereg_mr{});
      if (c.mask & TERN_REREG_TRANS) grant(c.pages, c.offset + c.length);
      break;
    }
    case TERN_CMD_UPDATE_PAGES:
      return grant(as(tern_cmd_update_pages{}).pages, 0);
    default:
      break;
  }
}

// ---- one command ----

void AdminPlay::twist(tern_aq_entry& e) {
  switch (in_.pick(8)) {
    case 0:
      e.opcode = in_.u16();
      break;
    case 1:
      e.version = in_.u8();
      break;
    case 2:
      e.in_len = in_.u16();
      break;
    case 3:
      e.out_len = in_.u16();
      break;
    case 4:
      e.in_addr = some_address();
      break;
    case 5:
      e.out_addr = some_address();
      break;
    case 6:
      e.rsvd_c = in_.u8();
      break;
    default:
      e.in_len = static_cast<std::uint16_t>(e.in_len + in_.u8());
      break;
  }
}

void AdminPlay::command() {
  const Shape* shape = &kShapes[in_.u8() % std::size(kShapes)];
  const std::uint8_t how = in_.u8();
  Bytes in = good(*shape);
  for (unsigned n = how & 3; n > 0; --n) bend(in);
  tern_aq_entry e{};
  e.opcode = shape->opcode;
  e.version = TERN_CMD_VERSION;
  e.in_len = shape->in_len;
  e.out_len = shape->out_len;
  e.in_addr = World::input_addr();
  e.out_addr = World::reply_addr();
  in.resize(TERN_CMD_MAX_LEN);
  w_.host.store(World::input_addr(), in);
  if ((how & 0xc0) == 0xc0) twist(e);

  // The input that the device will read, wherever it is.
  in.assign(TERN_CMD_MAX_LEN, std::byte{0});
  w_.host.load(e.in_addr, std::span(in).first(std::min<std::size_t>(e.in_len, in.size())));
  const auto known = std::ranges::find(kShapes, e.opcode, &Shape::opcode);
  shape = known == std::end(kShapes) ? nullptr : known;
  if (shape != nullptr && too_big(*shape, in)) return;
  w_.host.grant(e.out_addr, std::min<std::uint64_t>(e.out_len, TERN_CMD_MAX_LEN), FuzzHost::kWrite);
  // The device may write to a queue during the command that creates it.
  const bool region = e.opcode == TERN_CMD_CREATE_MR || e.opcode == TERN_CMD_REREG_MR ||
                      e.opcode == TERN_CMD_UPDATE_PAGES;
  if (!region && shape != nullptr) grant(e.opcode, in);
  const auto status = w_.perform(e);
  if (status != TERN_ST_OK || shape == nullptr) return;
  if (region) grant(e.opcode, in);
  if (shape->makes >= 0) {
    const bool dm = shape->makes == kDm;
    const std::size_t at = dm ? offsetof(tern_rsp_alloc_dm, dmn) : 0;
    if (e.out_len < at + 4 || !FuzzHost::is_ram(e.out_addr + at, 4)) {
      nameless_ = true;  // the object exists, but its number is unknown
    } else {
      live_[static_cast<unsigned>(shape->makes)].push_back(w_.host.get<std::uint32_t>(e.out_addr + at));
    }
  }
  if (shape->destroys >= 0) {
    std::uint32_t id;
    std::memcpy(&id, in.data(), sizeof(id));
    // Any variant of the key destroys a FAST region or a window.
    const unsigned variant = shape->destroys == kKey || shape->destroys == kWindow ? TERN_KEY_VARIANT_MASK : 0;
    std::erase_if(live_[static_cast<unsigned>(shape->destroys)],
                  [&](std::uint32_t live) { return (live | variant) == (id | variant); });
  }
}

void AdminPlay::registers() {
  const std::uint8_t how = in_.u8();
  constexpr std::array offsets = {TERN_REG_CTRL, TERN_REG_PAGE_SHIFT, TERN_REG_AQ_BASE_LO,
                                  TERN_REG_ACQ_BASE_LO, TERN_REG_AQ_LOG_SIZE, TERN_REG_AQ_TAIL};
  const std::uint32_t offset = how & 0x80 ? in_.u16() & ~3U : offsets[how % offsets.size()];
  if (offset == TERN_REG_AQ_TAIL) w_.lose_dm();
  (void)w_.device->reg_read(offset);
  const std::uint32_t value = how & 0x40 ? how & 0x20 ? in_.u32() : in_.u8() : 0;
  if (how & 0x40) w_.device->reg_write(offset, value);
  if (how & 0x10) w_.device->dma_invalidate(in_.u64(), in_.u64());
  w_.settle();
  // The device executed old entries of the ring again, so the numbers of new objects are unknown.
  if (how & 0x40 && offset == TERN_REG_AQ_TAIL && w_.enabled()) {
    w_.follow_tail(value);
    nameless_ = true;
  }
}

// ---- the end ----

void AdminPlay::finish() {
  struct Step {
    std::uint16_t opcode;
    Kind kind;
  };
  // In this order no object is busy.
  constexpr Step steps[] = {
      {TERN_CMD_DESTROY_FLOW, kFlow}, {TERN_CMD_DESTROY_RSS, kRss}, {TERN_CMD_DESTROY_FLOW_COUNTER, kFlowCounter},
      {TERN_CMD_DESTROY_QP, kQp},    {TERN_CMD_DESTROY_ETH_QUEUE, kEth}, {TERN_CMD_DESTROY_SRQ, kSrq},
      {TERN_CMD_FREE_XRCD, kXrcd},   {TERN_CMD_FREE_MW, kWindow},        {TERN_CMD_DESTROY_MR, kKey},
      {TERN_CMD_DESTROY_CQ, kCq},    {TERN_CMD_DESTROY_EQ, kEq},         {TERN_CMD_FREE_PD, kPd},
      {TERN_CMD_FREE_UAR, kUar},     {TERN_CMD_FREE_DM, kDm},
  };
  if (nameless_) return;
  tern_cmd_set_rx_default none_set{};
  none_set.port = 1;
  (void)w_.command(TERN_CMD_SET_RX_DEFAULT, none_set);
  for (const Step& s : steps) {
    for (const std::uint32_t id : live_[s.kind]) {
      auto status = w_.on(s.opcode, id);
      // Work requests may have changed the variant of a key.
      for (std::uint32_t v = 0; status == TERN_ST_BAD_HANDLE && v < 256; ++v) {
        if (s.kind != kKey && s.kind != kWindow) break;
        status = w_.on(s.opcode, (id & ~TERN_KEY_VARIANT_MASK) | v);
      }
      if (!w_.enabled()) return;
      if (status != TERN_ST_OK) violation("an object cannot be destroyed", s.opcode, *status);
    }
  }
  for (std::uint16_t i = 0; i < w_.caps.gid_table_len; ++i) {
    tern_cmd_set_gid gid{};
    gid.index = i;
    gid.port = 1;
    if (w_.device->port.addresses.gid_count() != 0) (void)w_.command(TERN_CMD_SET_GID, gid);
  }
  const auto left = w_.objects();
  const tern_rsp_objects none{};
  if (left && std::memcmp(&*left, &none, sizeof(none)) != 0) violation("objects left behind");
}

constexpr Step kTraffic[] = {Step::kFrame, Step::kPostSend, Step::kPostRecv, Step::kRun,
                             Step::kTimer, Step::kPoll,     Step::kDoorbell, Step::kHole,
                             Step::kWqe,   Step::kArm,      Step::kEcho,     Step::kMemory};

int run(std::span<const std::uint8_t> bytes) {
  static FuzzHost host;
  static const tern_rsp_caps caps = [] {
    World w(host);
    w.plug(false);
    w.device.reset();
    return w.caps;
  }();
  if (bytes.size() < 4) return -1;
  Input in(bytes);
  World w(host);
  const Scene scene = read_scene(in, caps);
  const std::uint8_t end = in.u8();
  w.build(scene);
  // Commands may read any memory; the device may write only memory that a command gave it.
  host.grant_reads();
  w.trust_sent = false;
  Play play(w, in);
  AdminPlay admin(w, in);
  for (unsigned n = 0; n < kMaxSteps && !in.empty() && w.enabled(); ++n) {
    const std::uint8_t what = in.u8();
    if (what < 0xa0) {
      admin.command();
    } else if (what < 0xf8) {
      play.step(kTraffic[what % std::size(kTraffic)]);
    } else {
      admin.registers();
    }
  }
  host.mend_all();
  host.most = 0;
  if (w.enabled()) {
    w.settle();
    for (unsigned n = 0; n < 2 && w.next_timer(); ++n) {
    }
  }
  if ((end & 3) == 0 && w.enabled()) admin.finish();
  w.tear_down(true);
  return 0;
}

}  // namespace
}  // namespace tern::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return tern::fuzz::run({data, size});
}

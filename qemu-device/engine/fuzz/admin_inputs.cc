// SPDX-License-Identifier: GPL-2.0-or-later
// Inputs of admin commands: valid ones, and changes to them.
#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstring>

#include "admin_play.h"

namespace tern::fuzz {

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
    w_.host.put(list + 8 * i,
                FuzzHost::page(page::kFree + (first + 3 * i) % (page::kEnd - page::kFree)));
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
  const std::uint64_t at =
      FuzzHost::page(page::kFree + how % (page::kEnd - page::kFree)) + align * (how % 4);
  return how == 0xff ? at + in_.u8() : at;
}

std::uint8_t AdminPlay::destination(std::uint8_t kinds, std::uint32_t* id) {
  const std::uint8_t dest = in_.u8() % kinds;
  *id = dest == TERN_DEST_ETH_QUEUE ? any(kEth)
        : dest == TERN_DEST_RSS     ? any(kRss)
        : dest == TERN_DEST_QP      ? any(kQp)
                                    : 0;
  return dest;
}

tern_cmd_rss AdminPlay::good_rss() {
  tern_cmd_rss c{};
  const std::uint8_t how = in_.u8();
  c.port = port();
  c.log_entries = how % 4;
  c.kind = how & 0x80 ? TERN_DEST_QP : TERN_DEST_ETH_QUEUE;
  c.func = (how >> 4 & 1) | (how & 0x20 ? TERN_RSS_F_INNER : 0);
  for (unsigned i = 0; i < 8; ++i)
    c.fields[i] = i < 2 ? in_.u8() & 3 : i < 6 ? in_.u8() & 15 : in_.u8() & 0x13;
  for (unsigned i = 0; i < 1U << c.log_entries; ++i)
    c.entries[i] = any(c.kind == TERN_DEST_QP ? kQp : kEth);
  return c;
}

tern_cmd_create_flow AdminPlay::good_flow() {
  constexpr std::array<std::uint16_t, 4> kLayers = {
      TERN_LAYER_ETH, TERN_LAYER_ETH | TERN_LAYER_IPV4,
      TERN_LAYER_ETH | TERN_LAYER_IPV4 | TERN_LAYER_UDP,
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
  c.kind = how & 0x80 ? in_.u8() % 6 : 0;
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
    case TERN_CMD_CREATE_COMP_CNTR: {
      tern_cmd_create_comp_cntr c{};
      for (auto& value : c.value) value = record(8);
      c.type = in_.u8() % 3;
      return bytes_of(c);
    }
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
        c.pages = {0, static_cast<std::uint32_t>((c.offset + c.length) / 4096 + 1), 12,
                   TERN_PAGES_LIST, 0};
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
      return bytes_of(tern_cmd_map_dm_op{
          in_.u8() % 4U * 4096U, any(kDm), static_cast<std::uint8_t>(in_.u8() % 4), {}});
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
      if (c.type == TERN_QPT_RAW || c.type == TERN_QPT_UD) c.flags |= in_.u8();
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
      const unsigned kind = in_.u8();
      c.flags = kind & 1 ? TERN_SRQ_F_XRC : kind & TERN_SRQ_F_TM;
      if (c.flags != 0) c.cqn = any(kCq);
      if (c.flags == TERN_SRQ_F_XRC) c.xrcdn = any(kXrcd);
      if (c.flags == TERN_SRQ_F_TM) {
        c.ops_pages = pages(4096);
        c.uar = any(kUar);
        c.max_tags = kind & 4 ? in_.u32() : 1 + kind;
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
      constexpr std::uint32_t kPeer =
          TERN_QPA_AV | TERN_QPA_PATH_MTU | TERN_QPA_DEST_QPN | TERN_QPA_RQ_PSN;
      constexpr std::uint32_t kTarget = TERN_QPA_MAX_DEST_RD_ATOMIC | TERN_QPA_MIN_RNR_TIMER;
      constexpr std::array masks = {TERN_QPA_PKEY_INDEX | TERN_QPA_ACCESS | TERN_QPA_PORT,
                                    kPeer | kTarget,
                                    TERN_QPA_TIMEOUT | TERN_QPA_RETRY_CNT | TERN_QPA_RNR_RETRY |
                                        TERN_QPA_SQ_PSN | TERN_QPA_MAX_RD_ATOMIC,
                                    0U,
                                    kPeer,
                                    0U + TERN_QPA_SQ_PSN,
                                    TERN_QPA_PKEY_INDEX | TERN_QPA_QKEY | TERN_QPA_PORT,
                                    TERN_QPA_TIMEOUT | TERN_QPA_SQ_PSN};
      const std::uint8_t how = in_.u8();
      c.qpn = any(kQp);
      c.mask = masks[how % masks.size()] | (how & 0x40 ? 0U : TERN_QPA_STATE) |
               ((how & 0x30) == 0x30 ? TERN_QPA_ALT_PATH | TERN_QPA_MIG_STATE : 0U) |
               ((how & 0x30) == 0x20 ? TERN_QPA_RATE_LIMIT : 0U);
      c.attr.state = in_.u8() % 8;
      c.attr.av = c.alt.av = w_.av(how & 0x80);
      c.attr.path_mtu = w_.scene.log_mtu;
      c.attr.dest_qpn = any(kQp);
      c.attr.access = 0xf;
      c.attr.port = c.alt.port = port();
      c.alt.mig_state = how >> 3 & 1;
      c.attr.max_rd_atomic = c.attr.max_dest_rd_atomic = in_.u8() % 17;
      c.attr.timeout = 8;
      c.attr.rate_limit = how & 0x20 ? 100'000 : 0;
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
    case TERN_CMD_BIND_COUNTER_SET:
      return bytes_of(tern_cmd_bind_counter_set{any(kQp), in_.u8() % 4 ? any(kCounterSet) : 0});
    case TERN_CMD_MODIFY_COMP_CNTR: {
      tern_cmd_modify_comp_cntr c{};
      c.id = any(kCompCounter);
      c.entry = in_.u8() % 3;
      c.op = in_.u8() % 3;
      c.operand = in_.u64();
      return bytes_of(c);
    }
    case TERN_CMD_ATTACH_COMP_CNTR:
      return bytes_of(tern_cmd_attach_comp_cntr{any(kQp), any(kCompCounter), in_.u8() % 64U, 0});
    case TERN_CMD_SET_CC: {
      tern_cmd_set_cc c{};
      c.mask = 1U << in_.pick(TERN_CC_NUM);
      c.params.value[std::countr_zero(std::uint32_t{c.mask})] = in_.u8();
      c.port = port();
      return bytes_of(c);
    }
    case TERN_CMD_QUERY_CC:
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
      shape.opcode != TERN_CMD_QUERY_PORT && shape.opcode != TERN_CMD_QUERY_CC &&
      shape.opcode != TERN_CMD_QUERY_COUNTERS && shape.opcode != TERN_CMD_SET_RX_DEFAULT &&
      shape.opcode != TERN_CMD_BIND_COUNTER_SET) {
    unsigned kind = shape.destroys >= 0 ? static_cast<unsigned>(shape.destroys) : unsigned{kQp};
    if (shape.opcode == TERN_CMD_QUERY_MR) kind = in_.u8() & 1 ? kKey : kWindow;
    if (shape.opcode == TERN_CMD_QUERY_SRQ) kind = kSrq;
    if (shape.opcode == TERN_CMD_QUERY_CQ) kind = kCq;
    if (shape.opcode == TERN_CMD_QUERY_FLOW_COUNTER) kind = kFlowCounter;
    if (shape.opcode == TERN_CMD_QUERY_COUNTER_SET) kind = kCounterSet;
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

}  // namespace tern::fuzz

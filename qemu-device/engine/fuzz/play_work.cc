// SPDX-License-Identifier: GPL-2.0-or-later
// Posted work, valid and arbitrary; records, doorbells, Ethernet, and memory that goes away.
#include <algorithm>
#include <cstring>

#include "play.h"

namespace tern::fuzz {

namespace {

constexpr std::uint32_t kSendOffset = 3;  // in the region, of what valid SENDs send

template <class T>
void append(std::vector<std::byte>& to, const T& value) {
  const auto bytes = std::as_bytes(std::span(&value, 1));
  to.insert(to.end(), bytes.begin(), bytes.end());
}

}  // namespace

// ---- work ----

void Play::put_recv(FuzzQp& qp, std::span<const std::byte> slot) {
  if (!qp.has_rq) {
    const unsigned i = qp.type == TERN_QPT_XRC_TGT || qp.type == TERN_QPT_XRC_INI ? 1 : 0;
    const std::uint64_t buffer = FuzzHost::page(page::kSrq + i);
    const std::uint64_t record = record::srq(i);
    const auto pi = w_.host.get<std::uint32_t>(record);
    const std::uint32_t n = pi & ((1U << World::kLogSrq) - 1);
    w_.host.store(buffer + (n << World::kLogSrqStride),
                  slot.first(std::min<std::size_t>(slot.size(), 128)));
    w_.host.put(record, pi + 1);
    return;
  }
  const std::uint32_t n = qp.rq_pi & ((1U << qp.log_rq) - 1);
  const std::size_t room = std::size_t{1} << qp.log_rq_stride;
  w_.host.store(qp.buffer + qp.rq_offset + (n << qp.log_rq_stride),
                slot.first(std::min(slot.size(), room)));
  w_.host.put(qp.record + offsetof(tern_qp_record, rq_pi), ++qp.rq_pi);
}

void Play::post_recv() {
  FuzzQp& q = qp();
  if (w_.scene.tags && (in_.u8() & 1)) return post_tags();
  const unsigned n = 1 + in_.pick(8);
  const unsigned sges = in_.pick(4);
  const std::uint32_t len = length(0x1000);
  std::vector<std::byte> slot;
  append(slot, tern_rq_hdr{static_cast<std::uint8_t>(sges), {}, 0x5ec0});
  for (unsigned i = 0; i < sges; ++i) append(slot, tern_sge{w_.rw.iova + i * 16, len, w_.rw.key});
  for (unsigned i = 0; i < n; ++i) put_recv(q, slot);
}

// Posts operations on tags, mostly valid, and puts headers of messages where valid SENDs find their
// bytes.
void Play::post_tags() {
  const unsigned n = 1 + in_.pick(4);
  for (unsigned i = 0; i < n; ++i) {
    const std::uint8_t how = in_.u8();
    tern_tm_op op{};
    op.opcode = static_cast<std::uint8_t>(how >> 6 == 3 ? in_.u8() : 1 + (how >> 6) % 3);
    op.flags = how & 3;
    op.num_sge =
        static_cast<std::uint8_t>(how & 0x20 ? in_.pick(6) : in_.pick(TERN_TM_MAX_SGE + 1));
    op.handle = in_.pick(16);
    op.recv_wr_id = op.handle;
    op.tag = in_.pick(4);
    op.mask = how & 4 ? in_.u8() : 0xff;
    op.unexpected = in_.pick(8);
    const std::uint32_t len = length(0x1000);
    for (tern_sge& sge : op.sge)
      sge = {w_.rw.iova + in_.pick(64), len, how & 8 ? in_.u32() : w_.rw.key};
    const std::uint64_t record = record::srq(0) + offsetof(tern_srq_record, ops_pi);
    const auto pi = w_.host.get<std::uint32_t>(record);
    const std::uint32_t slot = pi & ((1U << World::kLogTagOps) - 1);
    w_.host.store(FuzzHost::page(page::kTags) + slot * sizeof(op),
                  std::as_bytes(std::span(&op, 1)));
    w_.host.put(record, pi + 1);
  }
  const std::uint8_t how = in_.u8();
  w_.host.put(FuzzHost::page(page::kRw) + (w_.rw.iova + kSendOffset) % FuzzHost::kPage,
              tag_headers(how));
  if (how & 16) return;
  w_.doorbell(w_.uar, how & 32 ? TERN_DB_CMD_PAGE : TERN_DB_CMD_TM, w_.srqs[0]);
  w_.collect();
  w_.check();
}

void Play::put_send(FuzzQp& qp, std::span<const std::byte> slot, bool ring) {
  if (!qp.has_sq) return;
  const std::uint32_t n = qp.sq_pi & ((1U << qp.log_sq) - 1);
  const std::size_t room = std::size_t{1} << qp.log_sq_stride;
  w_.host.store(qp.buffer + qp.sq_offset + (n << qp.log_sq_stride),
                slot.first(std::min(slot.size(), room)));
  w_.host.put(qp.record, ++qp.sq_pi);
  if (ring) w_.doorbell(w_.uar, TERN_DB_CMD_SQ, qp.number);
}

void Play::post_send() {
  FuzzQp& q = qp();
  const std::uint8_t opcode = static_cast<std::uint8_t>(in_.pick(TERN_WR_REG_MR + 1));
  const std::uint8_t flags = in_.u8();
  tern_sq_hdr hdr{};
  hdr.opcode = opcode;
  hdr.flags = flags & (TERN_WQE_F_SIGNALED | TERN_WQE_F_SOLICITED | TERN_WQE_F_FENCE);
  hdr.wr_id = 0x5e2d;
  hdr.imm = 0x04030201;
  hdr.inv_rkey = w_.fast.key != 0 || w_.windows.empty() ? w_.fast.key : w_.windows.back().key;
  hdr.xrc_srqn = w_.srqs[1];
  hdr.num_sge = 1;
  std::uint32_t len = length(0x1400);
  const bool datagram = q.type == TERN_QPT_UD || q.type == TERN_QPT_GSI;
  std::vector<std::byte> segment;
  switch (opcode) {
    case TERN_WR_NOP:
    case TERN_WR_LOCAL_INV:
      hdr.num_sge = 0;
      break;
    case TERN_WR_RDMA_WRITE:
    case TERN_WR_RDMA_WRITE_WITH_IMM:
    case TERN_WR_RDMA_READ:
      append(segment, tern_rdma_seg{w_.rw.iova + 5, w_.rw.key, 0});
      break;
    case TERN_WR_ATOMIC_WRITE:
      append(segment, tern_rdma_seg{w_.rw.iova + (8 - w_.rw.iova % 8), w_.rw.key, 0});
      len = 8;
      break;
    case TERN_WR_ATOMIC_CMP_AND_SWP:
    case TERN_WR_ATOMIC_FETCH_AND_ADD:
      append(segment, tern_atomic_seg{w_.rw.iova + (8 - w_.rw.iova % 8), w_.rw.key, 0, 1, 0});
      len = 8;
      break;
    case TERN_WR_FLUSH:
      append(segment, tern_flush_seg{w_.rw.iova + 3,
                                     w_.rw.key,
                                     TERN_FLUSH_GLOBAL,
                                     static_cast<std::uint8_t>(flags >> 4 & 1),
                                     {},
                                     len,
                                     0});
      hdr.num_sge = 0;
      break;
    case TERN_WR_BIND_MW: {
      tern_bind_seg bind{};
      bind.addr = w_.rw.iova;
      bind.length = 64;
      bind.lkey = w_.rw.key;
      if (!w_.windows.empty()) {
        const unsigned i = in_.pick(static_cast<unsigned>(w_.windows.size()));
        bind.rkey = bind.new_rkey = w_.windows[i].key;
        bind.type = static_cast<std::uint8_t>(i + 1);
      }
      append(segment, bind);
      hdr.num_sge = 0;
      break;
    }
    case TERN_WR_REG_MR: {
      const std::uint64_t array = FuzzHost::page(page::kFast);
      w_.host.put(array, FuzzHost::page(page::kFast + 1));
      tern_reg_seg reg{};
      reg.iova = 0x40'0000'0000;
      reg.length = 0x800;
      reg.pages = array;
      reg.num_pages = 1;
      reg.key = w_.fast.key;
      reg.access = TERN_ACCESS_LOCAL_WRITE | TERN_ACCESS_REMOTE_WRITE | TERN_ACCESS_REMOTE_READ;
      reg.page_shift = 12;
      append(segment, reg);
      hdr.num_sge = 0;
      break;
    }
    default:
      if (q.type == TERN_QPT_RAW) len = raw_frame_of(flags, segment);
      if (datagram) {
        tern_ud_seg ud{};
        ud.av = w_.av(w_.scene.loopback);
        ud.dqpn = w_.scene.loopback ? w_.qps.back().number : World::kPeerQpn;
        if (flags & 0x80) {
          std::ranges::copy(World::gid(9, w_.scene.ipv4), ud.av.dgid);
          ud.av.dgid[w_.scene.ipv4 ? 12 : 0] = w_.scene.ipv4 ? 0xe0 : 0xff;
          ud.dqpn = 0xffffff;
        }
        ud.qkey = World::kQkey;
        append(segment, ud);
      }
      break;
  }
  std::vector<std::byte> slot;
  if (flags & TERN_WQE_F_INLINE) {
    const std::size_t room = (std::size_t{1} << q.log_sq_stride) - sizeof(hdr);
    hdr.flags |= TERN_WQE_F_INLINE;
    hdr.num_sge = 0;
    hdr.length =
        static_cast<std::uint32_t>(room > segment.size() ? room - segment.size() : 0) % (len + 1);
  }
  append(slot, hdr);
  slot.insert(slot.end(), segment.begin(), segment.end());
  if (hdr.num_sge != 0) append(slot, tern_sge{w_.rw.iova + kSendOffset, len, w_.rw.key});
  put_send(q, slot, true);
}

// The segment of a raw QP's SEND, with the headers of a frame that is cut. Stores the frame or the
// headers in the region. Returns the bytes of the payload.
std::uint32_t Play::raw_frame_of(std::uint8_t flags, std::vector<std::byte>& segment) {
  constexpr std::array<Mac, 4> targets = {World::kPeerMac, World::kMac, World::kClaimedMac,
                                          Mac{1, 0, 0x5e, 0, 0, 1}};
  constexpr std::uint16_t kHead = 54;  // Ethernet, IPv4, TCP
  std::array<std::uint8_t, kHead> head{};
  std::ranges::copy(targets[flags >> 4 & 3], head.begin());
  std::ranges::copy(World::kMac, head.begin() + 6);
  head[12] = 0x08;
  head[14] = 0x45;
  head[22] = 64;
  head[23] = 6;
  head[46] = 0x50;
  tern_eth_offload eth{};
  const std::uint8_t how = in_.u8();
  eth.ops = how & (TERN_ETH_OP_IP_CSUM | TERN_ETH_OP_TSO | TERN_ETH_OP_VLAN);
  eth.csum_start = 34;
  eth.csum_offset = 16;
  eth.vlan = in_.u8();
  eth.mss = static_cast<std::uint16_t>(8 + in_.u8() * 8);
  eth.header_len = kHead;
  append(segment, eth);
  if (eth.ops & TERN_ETH_OP_TSO) {
    const auto bytes = std::as_bytes(std::span(head));
    segment.insert(segment.end(), bytes.begin(), bytes.end());
    segment.resize((segment.size() + 15) / 16 * 16);
    return length(0x1400);
  }
  const std::uint32_t len = kHead + length(1500);
  head[16] = static_cast<std::uint8_t>((len - 14) >> 8);
  head[17] = static_cast<std::uint8_t>(len - 14);
  w_.host.store(FuzzHost::page(page::kRw) + (w_.rw.iova + kSendOffset) % FuzzHost::kPage,
                std::as_bytes(std::span(head)));
  return len;
}

void Play::state() {
  FuzzQp& q = qp();
  const std::uint8_t how = in_.u8();
  if (how >= 0xe0) return rate(q);
  const unsigned what = how % 5;
  constexpr std::array states = {TERN_QPS_SQD, TERN_QPS_RTS, TERN_QPS_ERR, TERN_QPS_RESET,
                                 TERN_QPS_RESET};
  tern_cmd_modify_qp c{};
  c.qpn = q.number;
  c.mask = TERN_QPA_STATE;
  c.attr.state = static_cast<std::uint8_t>(states[what]);
  c.flags = what == 0 ? TERN_QPM_SQD_NOTIFY : 0;
  (void)w_.command(TERN_CMD_MODIFY_QP, c);
  if (what < 3 || !w_.enabled()) return;
  q.sq_pi = q.rq_pi = 0;
  w_.host.put(q.record, 0U);
  w_.host.put(q.record + offsetof(tern_qp_record, rq_pi), 0U);
  if (what == 3)
    (void)w_.connect(q, w_.scene.loopback ? w_.qps[0].number : World::kPeerQpn, w_.scene.loopback);
}

// A rate limit, mostly one that makes packets wait.
void Play::rate(const FuzzQp& q) {
  tern_cmd_modify_qp c{};
  const std::uint8_t how = in_.u8();
  c.qpn = q.number;
  c.mask = TERN_QPA_RATE_LIMIT;
  c.attr.rate_limit = how & 1 ? in_.u32() : in_.u8() * 1000U;
  if (how & 2) c.attr.max_burst = how & 4 ? in_.u32() : in_.u16();
  if (how & 8) c.attr.typical_packet = in_.u16();
  (void)w_.command(TERN_CMD_MODIFY_QP, c);
}

void Play::poll() {
  for (unsigned i = 0; i < w_.cqs.size(); ++i) {
    // The phase word of an entry shows whether the device has written it.
    const std::uint64_t buffer = FuzzHost::page(page::kCq + i);
    const std::uint64_t record = record::cq(i);
    auto ci = w_.host.get<std::uint32_t>(record);
    for (unsigned n = 0; n < 1U << World::kLogCq; ++n) {
      const std::uint64_t entry = buffer + std::uint64_t{ci & ((1U << World::kLogCq) - 1)} * 64;
      if ((w_.host.get<std::uint32_t>(entry + 60) & 1) != (~(ci >> World::kLogCq) & 1)) break;
      ++ci;
    }
    w_.host.put(record, ci);
  }
  for (unsigned i = 0; i < 2; ++i) {
    const std::uint64_t buffer = FuzzHost::page(page::kEqs) + 2048 * i;
    auto ci = w_.host.get<std::uint32_t>(record::eq(i));
    for (unsigned n = 0; n < 16; ++n) {
      if ((w_.host.get<std::uint32_t>(buffer + (ci & 15) * 16 + 12) & 1) != (~(ci >> 4) & 1)) break;
      ++ci;
    }
    w_.host.put(record::eq(i), ci);
  }
  w_.doorbell(TERN_UAR_KERNEL, TERN_DB_CMD_EQ_CI, 0);
  w_.collect();
}

void Play::arm() {
  const unsigned i = in_.pick(static_cast<unsigned>(w_.cqs.size()));
  const std::uint64_t record = record::cq(i);
  const std::uint8_t how = in_.u8();
  const auto ci = w_.host.get<std::uint32_t>(record);
  w_.host.put(record + 4, (ci & TERN_CQ_ARM_CI_MASK) | TERN_CQ_ARM_VALID |
                              (how & 1 ? TERN_CQ_ARM_SOLICITED : 0) |
                              field_prep(TERN_CQ_ARM_SEQ_MASK, how >> 6));
  // The device finds an arm without a doorbell after its next CQE.
  if ((how & 2) == 0) w_.doorbell(w_.uar, TERN_DB_CMD_CQ_ARM, w_.cqs[i]);
  w_.collect();
}

// ---- hostile queues ----

void Play::wqe() {
  FuzzQp& q = qp();
  tern_sq_hdr hdr{};
  const std::uint8_t how = in_.u8();
  hdr.opcode = how & 1 ? in_.u8() : static_cast<std::uint8_t>(in_.pick(TERN_WR_REG_MR + 1));
  hdr.flags = in_.u8() & (how & 2 ? 0xff : 0x0f);
  hdr.num_sge = how & 4 ? in_.u8() : static_cast<std::uint8_t>(in_.pick(4));
  hdr.length = how & 8 ? in_.u32() : in_.u8();
  hdr.wr_id = 0x5e2d;
  hdr.inv_rkey = key();
  hdr.xrc_srqn = how & 16 ? in_.u8() : w_.srqs[1];
  std::vector<std::byte> slot;
  append(slot, hdr);
  const std::uint8_t segment = how & 32 ? in_.u8() & 3 : 4;
  const bool datagram = q.type == TERN_QPT_UD || q.type == TERN_QPT_GSI;
  switch (segment == 4 ? hdr.opcode : segment) {
    case TERN_WR_SEND:
    case TERN_WR_SEND_WITH_IMM:
    case TERN_WR_SEND_WITH_INV:
      if (q.type == TERN_QPT_RAW) {
        tern_eth_offload eth{};
        eth.csum_start = how & 64 ? in_.u16() : in_.u8();
        eth.csum_offset = in_.u8();
        eth.mss = how & 128 ? in_.u16() : in_.u8();
        eth.header_len = how & 64 ? in_.u16() : in_.u8();
        eth.vlan = in_.u8();
        eth.ops = how & 128 ? in_.u16() : in_.u8() & 0x1f;
        eth.flags = how & 128 ? in_.u8() : 0;
        append(slot, eth);
        const auto headers = std::as_bytes(
            in_.bytes(eth.ops & (TERN_ETH_OP_TSO | TERN_ETH_OP_USO) ? eth.header_len % 128U : 0U));
        slot.insert(slot.end(), headers.begin(), headers.end());
        slot.resize((slot.size() + 15) / 16 * 16);
      }
      if (datagram) {
        tern_ud_seg ud{};
        ud.av = w_.av(how & 64);
        ud.av.sgid_index = in_.u8() & (how & 128 ? 0xff : 0);
        if (how & 128) ud.av.dgid[in_.pick(16)] = in_.u8();
        ud.dqpn = how & 64 ? q.number : in_.u32();
        ud.qkey = in_.u32();
        append(slot, ud);
      }
      break;
    case TERN_WR_ATOMIC_CMP_AND_SWP:
    case TERN_WR_ATOMIC_FETCH_AND_ADD: {
      const std::uint32_t k = key();
      append(slot, tern_atomic_seg{address(k), k, 0, in_.u16(), in_.u16()});
      break;
    }
    case TERN_WR_FLUSH: {
      tern_flush_seg f{};
      f.rkey = key();
      f.raddr = address(f.rkey);
      f.type = in_.u8();
      f.level = in_.u8();
      f.length = in_.u32();
      append(slot, f);
      break;
    }
    case TERN_WR_BIND_MW: {
      tern_bind_seg b{};
      b.lkey = key();
      b.addr = address(b.lkey);
      b.length = in_.u16();
      const std::uint8_t which = in_.u8();
      const bool window = which & 3 && !w_.windows.empty();
      const std::size_t i = window ? (which >> 2) % w_.windows.size() : 0;
      b.rkey = window ? w_.windows[i].key : key();
      b.new_rkey = (b.rkey & ~TERN_KEY_VARIANT_MASK) | in_.u8();
      b.access = which & 0x40 ? in_.u16() : in_.u8() & (kWindowRights & 0xff);
      b.type = which & 0x80 ? in_.u8() % 4 : static_cast<std::uint8_t>(i + 1);
      append(slot, b);
      break;
    }
    case TERN_WR_REG_MR: {
      tern_reg_seg r{};
      r.key = how & 64 ? key() : (w_.fast.key & ~TERN_KEY_VARIANT_MASK) | in_.u8();
      r.iova = address(r.key);
      r.length = in_.u16();
      r.pages = how & 128 ? in_.u64() : FuzzHost::page(page::kFast) + in_.u8();
      r.num_pages = in_.u8();
      r.access = in_.u16();
      r.page_shift = in_.u8() % 40;
      r.first_offset = in_.u16();
      for (unsigned i = 0; i < 4; ++i) {
        w_.host.put(FuzzHost::page(page::kFast) + 8 * i,
                    FuzzHost::page(in_.pick(FuzzHost::kPages)));
      }
      append(slot, r);
      break;
    }
    default: {
      const std::uint32_t k = key();
      append(slot, tern_rdma_seg{address(k), k, 0});
      break;
    }
  }
  for (unsigned i = 0; i < hdr.num_sge && slot.size() < 512; ++i) {
    const std::uint32_t k = key();
    append(slot, tern_sge{address(k), length(0x1500), k});
  }
  put_send(q, slot, !(hdr.flags & 0x80));
}

void Play::raw_wqe() {
  FuzzQp& q = qp();
  const std::uint8_t how = in_.u8();
  const auto bytes = std::as_bytes(in_.bytes(in_.u8()));
  if (how & 1) {
    put_send(q, bytes, how & 2);
  } else {
    put_recv(q, bytes);
  }
}

void Play::recv_wqe() {
  FuzzQp& q = qp();
  tern_rq_hdr hdr{};
  hdr.num_sge = in_.u8();
  hdr.wr_id = 0x5ec0;
  std::vector<std::byte> slot;
  append(slot, hdr);
  for (unsigned i = 0; i < hdr.num_sge && slot.size() < 256; ++i) {
    const std::uint32_t k = key();
    append(slot, tern_sge{address(k), length(0x1500), k});
  }
  put_recv(q, slot);
}

void Play::record() {
  FuzzQp& q = qp();
  const std::uint8_t how = in_.u8();
  const std::uint32_t raw =
      how & 0x80 ? in_.u32() : static_cast<std::uint32_t>(static_cast<std::int8_t>(in_.u8()));
  const std::uint64_t cq = record::cq(in_.pick(3));
  const std::uint64_t srq = record::srq(how >> 4 & 1);
  const auto move = [&](std::uint64_t at) {
    w_.host.put(at, how & 0x80 ? raw : w_.host.get<std::uint32_t>(at) + raw);
  };
  switch (how % 8) {
    case 0:
      move(q.record + offsetof(tern_qp_record, sq_pi));
      break;
    case 1:
      move(q.record + offsetof(tern_qp_record, rq_pi));
      break;
    case 2:
      move(q.record + offsetof(tern_qp_record, status));
      break;
    case 3:
      move(cq);
      break;
    case 4:
      move(cq + 4);
      break;
    case 5:
      move(srq);
      break;
    case 6:
      move(srq + 4);
      break;
    default:
      move(FuzzHost::page(page::kEqs) + 256 + (how & 0x40 ? 2048 : 0));
      break;
  }
}

void Play::scribble() {
  const unsigned n = page::kEqs + in_.pick(page::kRw - page::kEqs);
  const std::uint64_t at = FuzzHost::page(n) + in_.u16() % FuzzHost::kPage;
  w_.host.store(at, std::as_bytes(in_.bytes(in_.u8() % 64)));
}

void Play::doorbell() {
  const std::uint8_t how = in_.u8();
  std::uint32_t number = in_.u8();
  switch (how & 7) {
    case 0:
    case 1:
    case 2:
    case 3:
      number = w_.qps[number % w_.qps.size()].number;
      break;
    case 4:
      number = w_.cqs[number % w_.cqs.size()];
      break;
    case 5:
      number = w_.eth_tx;
      break;
    case 6:
      number = in_.u32();
      break;
    default:
      break;
  }
  const std::uint32_t uar = how & 0x40 ? in_.pick(32) : how & 0x20 ? TERN_UAR_KERNEL : w_.uar;
  const unsigned times = how & 0x80 ? 1 + in_.pick(32) : 1;
  const std::uint32_t command = how >> 3 & 3 ? in_.pick(16) : (number + in_.pick(7)) % 7;
  for (unsigned i = 0; i < times; ++i) {
    if ((how & 0x60) == 0x60) {
      w_.device->doorbell(in_.u32() % World::kUarBytes & ~3U, command << 28 | number);
      (void)w_.device->uar_read(in_.u16() & ~3U);
    } else {
      w_.doorbell(uar, command, number);
    }
  }
  w_.collect();
  w_.check();
}

void Play::eth() {
  if (w_.eth_tx == 0) return;
  const std::uint8_t how = in_.u8();
  const unsigned direction = how & 1;
  const std::uint64_t ring = FuzzHost::page(page::kEth + direction);
  const std::uint64_t record = record::eth(direction);
  auto pi = w_.host.get<std::uint32_t>(record);
  const unsigned n = how & 2 ? 1 + in_.pick(20) : 1;
  if (how & 128 && direction == TERN_ETH_QUEUE_TX) {
    // TCP over IPv4, or nearly, with offloads.
    tern_eth_offload offload{};
    offload.ops = in_.u8();
    offload.mss = in_.u16();
    offload.header_len = static_cast<std::uint16_t>(offload.mss & 1 ? in_.u8() : 54);
    offload.csum_start = offload.mss & 2 ? in_.u8() : 34;
    offload.csum_offset = 16;
    offload.flags = TERN_ETH_F_OFFLOAD;
    w_.host.put(ring + (pi++ & ((1U << World::kLogEth) - 1)) * 16, offload);
    constexpr std::array<std::uint8_t, 12> kIpv4 = {0x08, 0, 0x45, 0, 0, 0, 0, 0, 0, 0, 64, 6};
    w_.host.put(FuzzHost::page(page::kEthBuffers) + 12, kIpv4);
    w_.host.put(FuzzHost::page(page::kEthBuffers) + 46, std::uint8_t{0x50});
  }
  for (unsigned i = 0; i < n; ++i) {
    tern_eth_txd txd{};
    txd.addr = how & 4 ? in_.u64() % FuzzHost::kBase
                       : FuzzHost::page(page::kEthBuffers) + (how & 128 ? 0 : in_.u16() % 4096);
    txd.length = how & 8 ? in_.u32() : in_.u16() % 4096;
    txd.flags = how & 16 || i + 1 == n ? TERN_ETH_F_EOP : in_.u8();
    w_.host.put(ring + (pi++ & ((1U << World::kLogEth) - 1)) * 16, txd);
  }
  if (how & 32) pi += static_cast<std::uint32_t>(static_cast<std::int8_t>(in_.u8()));
  w_.host.put(record, pi);
  if (direction == TERN_ETH_QUEUE_TX) {
    // So often that the device polls the queue.
    for (unsigned i = how & 64 ? 200 : 1; i > 0; --i)
      w_.doorbell(w_.uar, TERN_DB_CMD_ETH_TX, w_.eth_tx);
    return;
  }
  std::vector<std::byte> frame(14 + in_.u8());
  std::ranges::copy(std::as_bytes(std::span(World::kMac)), frame.begin());
  frame[12] = std::byte{0x88};
  if (how & 64) frame[0] = std::byte{0xff};
  inject(frame, 0);
}

void Play::hole() {
  const std::uint8_t n = in_.u8();
  // Keeps the pages of the admin queue: without them the device executes nothing.
  constexpr unsigned first = page::kEqs;
  const unsigned page = first + n % (page::kFree - first);
  if (n & 0x80) {
    w_.host.restore_all();
  } else {
    w_.host.punch(page);
  }
}

}  // namespace tern::fuzz

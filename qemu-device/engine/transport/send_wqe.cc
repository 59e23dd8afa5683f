// SPDX-License-Identifier: GPL-2.0-or-later
#include "transport/send_wqe.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "core/limits.h"
#include "eth/outgoing.h"

namespace tern {

namespace {

constexpr std::uint8_t kKnownFlags =
    TERN_WQE_F_SIGNALED | TERN_WQE_F_SOLICITED | TERN_WQE_F_FENCE | TERN_WQE_F_INLINE;

template <class T>
T load(std::span<const std::byte> from, std::size_t offset) {
  T value;
  std::memcpy(&value, from.data() + offset, sizeof(value));
  return value;
}

// Unit of SendWqe::data_at: the header and all segments are multiples of it.
constexpr std::size_t kDataUnit = 16;

bool valid(const tern_eth_offload& offload) {
  constexpr unsigned sums = TERN_ETH_OP_CSUM | TERN_ETH_OP_IP_CSUM;
  constexpr unsigned known = sums | TERN_ETH_OP_TSO | TERN_ETH_OP_USO | TERN_ETH_OP_VLAN;
  const unsigned ops = le(std::uint16_t{offload.ops});
  return (ops & ~known) == 0 && (ops & sums) != sums && offload.flags == 0 && offload.rsvd_e == 0;
}

// Decodes the operation segment of a FLUSH, which has no data.
std::uint8_t decode_flush(std::span<const std::byte> slot, SendWqe& wqe) {
  const auto seg = load<tern_flush_seg>(slot, sizeof(tern_sq_hdr));
  constexpr std::uint8_t types = TERN_FLUSH_GLOBAL | TERN_FLUSH_PERSISTENT;
  if (seg.type == 0 || (seg.type & ~types) || seg.level > TERN_FLUSH_LEVEL_MR) {
    return TERN_CQE_LOC_QP_OP_ERR;
  }
  const bool whole = seg.level == TERN_FLUSH_LEVEL_MR;
  const std::uint64_t range = whole ? 0 : le(std::uint64_t{seg.length});
  if (range > kMaxMessage) return TERN_CQE_LOC_LEN_ERR;
  if (whole) wqe.raddr = 0;
  wqe.range = static_cast<std::uint32_t>(range);
  wqe.flush_type = seg.type;
  wqe.flush_level = seg.level;
  wqe.num_sge = 0;
  return TERN_CQE_SUCCESS;
}

constexpr WqeShape shape_of(Transport transport, std::uint8_t opcode) {
  if (transport == Transport::kRaw) {
    if (opcode == TERN_WR_SEND) return {true, true, false, sizeof(tern_eth_offload)};
    return {opcode == TERN_WR_NOP, false, opcode == TERN_WR_NOP, 0};
  }
  const bool datagram = transport == Transport::kUd;
  const std::uint8_t vector = datagram ? sizeof(tern_ud_seg) : 0;
  const bool reliable = !datagram && transport != Transport::kUc;
  switch (opcode) {
    case TERN_WR_NOP:
      return {true, false, true, 0};
    case TERN_WR_LOCAL_INV:
      return {!datagram, false, true, 0};
    case TERN_WR_BIND_MW:
      return {!datagram, false, true, sizeof(tern_bind_seg)};
    case TERN_WR_REG_MR:
      return {!datagram, false, true, sizeof(tern_reg_seg)};
    case TERN_WR_SEND:
    case TERN_WR_SEND_WITH_IMM:
      return {true, true, false, vector};
    case TERN_WR_SEND_WITH_INV:
      return {!datagram, true, false, 0};
    case TERN_WR_RDMA_WRITE:
    case TERN_WR_RDMA_WRITE_WITH_IMM:
      return {!datagram, true, false, sizeof(tern_rdma_seg)};
    case TERN_WR_RDMA_READ:
      return {reliable, false, false, sizeof(tern_rdma_seg)};
    case TERN_WR_ATOMIC_CMP_AND_SWP:
    case TERN_WR_ATOMIC_FETCH_AND_ADD:
      return {reliable, false, false, sizeof(tern_atomic_seg)};
    case TERN_WR_ATOMIC_WRITE:
      return {reliable, true, false, sizeof(tern_rdma_seg)};
    case TERN_WR_FLUSH:
      return {reliable, false, false, sizeof(tern_flush_seg)};
    default:
      return {false, false, false, 0};
  }
}

// A table: a look-up costs less than the branches of shape_of(), which the opcodes of a queue mix.
constexpr std::size_t kOpcodes = TERN_WR_REG_MR + 1;
constexpr unsigned kTransportShift = 5;
constexpr auto kShapes = [] {
  std::array<std::array<WqeShape, kOpcodes>, 8> shapes{};
  for (std::size_t t = 0; t < shapes.size(); ++t) {
    for (std::size_t op = 0; op < kOpcodes; ++op) {
      shapes[t][op] =
          shape_of(static_cast<Transport>(t << kTransportShift), static_cast<std::uint8_t>(op));
    }
  }
  return shapes;
}();

}  // namespace

WqeShape wqe_shape(Transport transport, std::uint8_t opcode) {
  if (opcode >= kOpcodes) return {};
  return kShapes[static_cast<std::size_t>(transport) >> kTransportShift][opcode];
}

std::size_t segment_bytes(Transport transport, const WqeShape& shape,
                          std::span<const std::byte> slot) {
  if (transport != Transport::kRaw || shape.segment == 0) return shape.segment;
  const auto offload = load<tern_eth_offload>(slot, sizeof(tern_sq_hdr));
  const std::size_t headers =
      eth::Outgoing::segments(offload) ? le(std::uint16_t{offload.header_len}) : 0;
  return shape.segment + (headers + kDataUnit - 1) / kDataUnit * kDataUnit;
}

std::uint8_t decode_wqe(Transport transport, std::span<const std::byte> slot, SendWqe& wqe,
                        std::span<const std::byte>& data) {
  const auto hdr = load<tern_sq_hdr>(slot, 0);
  wqe.opcode = hdr.opcode;
  wqe.flags = hdr.flags;
  wqe.num_sge = hdr.num_sge;
  wqe.wr_id = le(std::uint64_t{hdr.wr_id});
  wqe.imm = hdr.imm;
  wqe.inv_rkey = le(std::uint32_t{hdr.inv_rkey});
  wqe.xrc_srqn = le(std::uint32_t{hdr.xrc_srqn}) & 0xffffffU;

  const WqeShape shape = wqe_shape(transport, hdr.opcode);
  if (!shape.known || (hdr.flags & ~kKnownFlags)) return TERN_CQE_LOC_QP_OP_ERR;
  const std::size_t data_at = sizeof(tern_sq_hdr) + segment_bytes(transport, shape, slot);
  if (data_at > slot.size()) return TERN_CQE_LOC_QP_OP_ERR;
  data = slot.subspan(data_at);
  wqe.data_at = static_cast<std::uint8_t>(data_at / kDataUnit);
  wqe.local = shape.local;
  // A local WQE moves no data, so SGEs are ignored.
  if (wqe.local) return wqe.is_inline() ? TERN_CQE_LOC_QP_OP_ERR : TERN_CQE_SUCCESS;

  if (transport == Transport::kRaw) {
    if (!valid(load<tern_eth_offload>(slot, sizeof(tern_sq_hdr)))) return TERN_CQE_LOC_QP_OP_ERR;
  } else if (transport != Transport::kUd && shape.segment >= sizeof(tern_rdma_seg)) {
    const auto seg = load<tern_rdma_seg>(slot, sizeof(tern_sq_hdr));
    wqe.raddr = le(std::uint64_t{seg.raddr});
    wqe.rkey = le(std::uint32_t{seg.rkey});
  }

  if (wqe.is_inline()) {
    const std::uint32_t length = le(std::uint32_t{hdr.length});
    if (!shape.may_inline || length > data.size()) return TERN_CQE_LOC_QP_OP_ERR;
    if (wqe.atomic_write() && length != 8) return TERN_CQE_LOC_LEN_ERR;
    wqe.length = length;
    return TERN_CQE_SUCCESS;
  }
  if (wqe.flush()) return decode_flush(slot, wqe);
  if (std::size_t{hdr.num_sge} * sizeof(tern_sge) > data.size()) return TERN_CQE_LOC_QP_OP_ERR;
  std::uint64_t total = 0;
  for (unsigned i = 0; i < hdr.num_sge; ++i) {
    total += le(std::uint32_t{load<tern_sge>(data, i * sizeof(tern_sge)).length});
  }
  const bool word = wqe.atomic() || wqe.atomic_write();
  if (total > kMaxMessage || (word && total != 8)) return TERN_CQE_LOC_LEN_ERR;
  wqe.length = static_cast<std::uint32_t>(total);
  return TERN_CQE_SUCCESS;
}

void SendWindow::open(std::uint32_t sq_size, std::uint32_t stride) {
  release();
  capacity_ = std::min(sq_size, kMaxWqes);
  stride_ = stride;
}

void SendWindow::close() {
  release();
  capacity_ = 0;
}

void SendWindow::release() {
  if (wqes_ == nullptr) return;
  pool_->give(reinterpret_cast<std::byte*>(wqes_), block_bytes());
  wqes_ = nullptr;
}

void SendWindow::make_room(std::uint32_t first, std::uint32_t next) {
  const std::uint32_t had = wqes_ != nullptr ? mask_ + 1 : 0;
  if (next - first < had) return;
  const std::uint32_t few = pool_->scarce() ? 1 : std::min(kFewWqes, capacity_);
  // Without limit(), in a saved state, there is no more room than WQEs.
  const std::uint32_t most = pool_->scarce() ? std::bit_ceil(next - first + 1) : capacity_;
  const std::uint32_t size = next - first < few ? few : most;
  SendWqe* const old = wqes_;
  const std::byte* const old_slots = slots_;
  const std::uint32_t old_mask = mask_;
  const std::size_t old_bytes = old != nullptr ? block_bytes() : 0;
  mask_ = size - 1;
  wqes_ = reinterpret_cast<SendWqe*>(pool_->take(block_bytes()));
  slots_ = reinterpret_cast<std::byte*>(wqes_ + size);
  if (old == nullptr) return;
  for (std::uint32_t i = first; i != next; ++i) {
    at(i) = old[i & old_mask];
    std::memcpy(slot(i).data(), old_slots + std::size_t{i & old_mask} * stride_, stride_);
  }
  pool_->give(reinterpret_cast<std::byte*>(old), old_bytes);
}

std::span<const std::byte> SendWindow::data(std::uint32_t index) const {
  const std::size_t skip = at(index).data_at * kDataUnit;
  return {slots_ + std::size_t{index & mask_} * stride_ + skip, stride_ - skip};
}

tern_sge SendWindow::sge(std::uint32_t index, unsigned i) const {
  return load<tern_sge>(data(index), i * sizeof(tern_sge));
}

std::span<const std::byte> SendWindow::inline_data(std::uint32_t index) const {
  return data(index).first(at(index).length);
}

}  // namespace tern

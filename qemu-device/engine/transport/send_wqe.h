// SPDX-License-Identifier: GPL-2.0-or-later
// Send WQEs in flight. A WQE is copied out of the user's memory once. The requester uses only this
// copy, for retransmissions too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "core/block_pool.h"
#include "core/types.h"
#include "tern_hw.hpp"
#include "wire/packet.h"

namespace tern {

struct SendWqe {
  std::uint64_t wr_id = 0;
  std::uint64_t raddr = 0;
  std::uint32_t index = 0;   // free running
  std::uint32_t length = 0;  // bytes of the message
  std::uint32_t range = 0;   // FLUSH: bytes of the peer's memory
  std::uint32_t rkey = 0;
  std::uint32_t imm = 0;  // as on the wire
  std::uint32_t inv_rkey = 0;
  std::uint32_t xrc_srqn = 0;  // 24 bits
  Psn first_psn;
  std::uint32_t psns = 0;      // PSNs assigned to it; 0: none yet
  std::uint32_t received = 0;  // READ: response packets received
  std::uint8_t opcode = 0;
  std::uint8_t flags = 0;
  std::uint8_t num_sge = 0;
  std::uint8_t data_at =
      0;  // offset in the slot of its SGEs or inline payload, in units of 16 bytes
  std::uint8_t flush_type = 0;             // TERN_FLUSH_*
  std::uint8_t flush_level = 0;            // TERN_FLUSH_LEVEL_*
  std::uint8_t status = TERN_CQE_SUCCESS;  // an error completes it once it is the oldest
  bool done : 1 = false;
  bool local : 1 = false;  // takes no packet: NOP, LOCAL_INV, BIND_MW, REG_MR

  [[nodiscard]] bool read() const { return opcode == TERN_WR_RDMA_READ; }
  [[nodiscard]] bool atomic() const {
    return opcode == TERN_WR_ATOMIC_CMP_AND_SWP || opcode == TERN_WR_ATOMIC_FETCH_AND_ADD;
  }
  [[nodiscard]] bool flush() const { return opcode == TERN_WR_FLUSH; }
  [[nodiscard]] bool atomic_write() const { return opcode == TERN_WR_ATOMIC_WRITE; }
  // The peer answers with a READ response, which is empty for FLUSH and ATOMIC WRITE.
  [[nodiscard]] bool read_response() const { return read() || flush() || atomic_write(); }
  // The peer answers with a response, not an ACK, and keeps the response to repeat it.
  [[nodiscard]] bool responds() const { return read_response() || atomic(); }
  [[nodiscard]] bool is_inline() const { return flags & TERN_WQE_F_INLINE; }
  [[nodiscard]] bool failed() const { return status != TERN_CQE_SUCCESS; }
};
// One cache line: there may be many WQEs.
static_assert(sizeof(SendWqe) == 64);

// Layout of the WQE of an opcode. The other members are valid only if `known` is set.
struct WqeShape {
  bool known;  // QPs of this transport class support it
  bool may_inline;
  bool local;            // executed here, without a packet
  std::uint8_t segment;  // bytes of the operation segment
};
[[nodiscard]] WqeShape wqe_shape(Transport transport, std::uint8_t opcode);
// Bytes between the header and the SGEs or inline payload of a WQE with this shape: the segment
// and, for a raw QP that segments, inline headers. `slot` has at least 64 bytes of the slot.
[[nodiscard]] std::size_t segment_bytes(Transport transport, const WqeShape& shape,
                                        std::span<const std::byte> slot);

// Decodes a WQE from `slot`, a copy of its slot. Returns TERN_CQE_SUCCESS or the status that the
// WQE completes with. `data`: its SGEs or inline payload, inside `slot`.
[[nodiscard]] std::uint8_t decode_wqe(Transport transport, std::span<const std::byte> slot,
                                      SendWqe& wqe, std::span<const std::byte>& data);

// A ring of WQEs, from the oldest incomplete one to the newest fetched. It is open while the QP can
// send, and holds memory only while it contains WQEs.
class SendWindow {
 public:
  static constexpr std::uint32_t kMaxWqes = 64;
  static constexpr std::uint32_t kFewWqes = 8;  // room at first

  explicit SendWindow(BlockPool& pool) : pool_(&pool) {}
  ~SendWindow() { close(); }
  SendWindow(const SendWindow&) = delete;
  SendWindow& operator=(const SendWindow&) = delete;

  void open(std::uint32_t sq_size, std::uint32_t stride);
  void close();
  [[nodiscard]] bool is_open() const { return capacity_ != 0; }
  [[nodiscard]] std::uint32_t capacity() const { return capacity_; }
  // Limit of WQEs that it may hold now. It does not grow while the pool is scarce; one WQE is
  // enough to make progress.
  [[nodiscard]] std::uint32_t limit() const {
    return !pool_->scarce() ? capacity_ : wqes_ != nullptr ? mask_ + 1 : 1;
  }
  // Makes space for WQE `next` besides those in [first, next), which may move. `next - first` is
  // less than limit().
  void make_room(std::uint32_t first, std::uint32_t next);
  // The window belongs to another pool from now on.
  void move_to(BlockPool& pool) {
    if (wqes_ != nullptr) pool.adopt(*pool_, block_bytes());
    pool_ = &pool;
  }
  // Returns the memory to the pool. The window must be empty.
  void release();

  [[nodiscard]] SendWqe& at(std::uint32_t index) { return wqes_[index & mask_]; }
  [[nodiscard]] const SendWqe& at(std::uint32_t index) const { return wqes_[index & mask_]; }
  // The copy of slot `index`, stride bytes.
  [[nodiscard]] std::span<std::byte> slot(std::uint32_t index) {
    return {slots_ + std::size_t{index & mask_} * stride_, stride_};
  }
  [[nodiscard]] std::span<const std::byte> slot(std::uint32_t index) const {
    return {slots_ + std::size_t{index & mask_} * stride_, stride_};
  }
  // The operation segment of WQE `index`, whose opcode has one of type T.
  template <class T>
  [[nodiscard]] T segment(std::uint32_t index) const {
    T value;
    std::memcpy(&value, slots_ + std::size_t{index & mask_} * stride_ + sizeof(tern_sq_hdr),
                sizeof(value));
    return value;
  }
  // SGE `i` of WQE `index`, or its inline payload.
  [[nodiscard]] tern_sge sge(std::uint32_t index, unsigned i) const;
  [[nodiscard]] std::span<const std::byte> inline_data(std::uint32_t index) const;

 private:
  [[nodiscard]] std::span<const std::byte> data(std::uint32_t index) const;
  [[nodiscard]] std::size_t block_bytes() const {
    return (std::size_t{mask_} + 1) * (sizeof(SendWqe) + stride_);
  }
  BlockPool* pool_;
  SendWqe* wqes_ = nullptr;     // a block of the pool: WQEs,
  std::byte* slots_ = nullptr;  // ... followed by the copies of their slots
  std::uint32_t mask_ = 0;
  std::uint32_t stride_ = 0;
  std::uint32_t capacity_ = 0;
};

}  // namespace tern

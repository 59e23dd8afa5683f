// SPDX-License-Identifier: GPL-2.0-or-later
// Work requests of a test.
#pragma once

#include <span>
#include <utility>
#include <vector>

#include "testing/memory.h"

namespace tern::test {

struct SendWr {
  std::uint8_t opcode = TERN_WR_SEND;
  std::vector<tern_sge> sges;
  std::uint64_t wr_id = 0;
  std::uint8_t flags = TERN_WQE_F_SIGNALED;
  std::uint64_t raddr = 0;
  std::uint32_t rkey = 0;
  std::uint32_t imm = 0;  // as on the wire
  std::uint32_t xrc_srqn = 0;
  std::uint64_t swap_add = 0;
  std::uint64_t compare = 0;
  tern_flush_seg flush{};              // FLUSH: type, level and length, in host byte order
  std::vector<std::byte> inline_data;  // with TERN_WQE_F_INLINE
  std::uint32_t inv_rkey = 0;          // SEND_WITH_INV, LOCAL_INV
  tern_reg_seg reg{};                  // REG_MR; as in the WQE
  tern_bind_seg bind{};                // BIND_MW; as in the WQE
  tern_ud_seg ud{};                    // UD QPs; in host byte order
  tern_eth_offload eth{};              // raw QPs; as in the WQE
  std::vector<std::byte> headers;      // ... that segment

  SendWr&& id(std::uint64_t v) && { return wr_id = v, std::move(*this); }
  SendWr&& with(std::uint8_t more_flags) && { return flags |= more_flags, std::move(*this); }
  SendWr&& unsignaled() && { return flags &= ~TERN_WQE_F_SIGNALED & 0xff, std::move(*this); }
  SendWr&& to_srq(std::uint32_t srqn) && { return xrc_srqn = srqn, std::move(*this); }
  SendWr&& immediate(std::uint32_t v) &&;  // turns SEND and WRITE into their _WITH_IMM
};

// Common requests. `at`: offset in the remote region.
[[nodiscard]] SendWr send(std::vector<tern_sge> sges);
[[nodiscard]] SendWr send_inline(std::span<const std::byte> data);
[[nodiscard]] SendWr write(std::vector<tern_sge> sges, const TestMr& to, std::uint64_t at = 0);
[[nodiscard]] SendWr write_inline(std::span<const std::byte> data, const TestMr& to,
                                  std::uint64_t at = 0);
[[nodiscard]] SendWr read(std::vector<tern_sge> sges, const TestMr& from, std::uint64_t at = 0);
[[nodiscard]] SendWr fetch_add(const tern_sge& result, const TestMr& at_mr, std::uint64_t at,
                               std::uint64_t add);
[[nodiscard]] SendWr compare_swap(const tern_sge& result, const TestMr& at_mr, std::uint64_t at,
                                  std::uint64_t compare, std::uint64_t swap);
[[nodiscard]] SendWr flush(const TestMr& of, std::uint64_t at, std::uint64_t len,
                           std::uint8_t type = TERN_FLUSH_GLOBAL);
[[nodiscard]] SendWr flush_all(const TestMr& of, std::uint8_t type = TERN_FLUSH_GLOBAL);
// The value is inline data, or that in the SGE.
[[nodiscard]] SendWr atomic_write(std::uint64_t value, const TestMr& to, std::uint64_t at);
[[nodiscard]] SendWr atomic_write(const tern_sge& value, const TestMr& to, std::uint64_t at);

// A region of kind FAST and its memory: contiguous whole pages.
struct FastMr {
  TestMr mr;               // the key is that of the last reg_mr()
  std::uint64_t list = 0;  // DMA address of the page list
};
// Opens the whole region under the next variant, and stores the new key in fast.mr.
[[nodiscard]] SendWr reg_mr(FastMr& fast, std::uint32_t access = kAllAccess);
[[nodiscard]] SendWr local_inv(std::uint32_t key);
[[nodiscard]] SendWr send_inv(std::vector<tern_sge> sges, std::uint32_t key);
// A datagram from `from` to `to`, with the address vector and Q_Key from the options of `from`.
class TestQp;
[[nodiscard]] SendWr datagram(const TestQp& from, const TestQp& to, std::vector<tern_sge> sges);

}  // namespace tern::test

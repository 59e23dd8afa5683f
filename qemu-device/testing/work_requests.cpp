// SPDX-License-Identifier: GPL-2.0-or-later
#include "testing/work_requests.h"

#include "testing/queues.h"

namespace tern::test {

SendWr&& SendWr::immediate(std::uint32_t v) && {
  imm = v;
  if (opcode == TERN_WR_SEND) opcode = TERN_WR_SEND_WITH_IMM;
  if (opcode == TERN_WR_RDMA_WRITE) opcode = TERN_WR_RDMA_WRITE_WITH_IMM;
  return std::move(*this);
}

SendWr send(std::vector<tern_sge> sges) { return {.sges = std::move(sges)}; }

SendWr send_inline(std::span<const std::byte> data) {
  return {.flags = TERN_WQE_F_SIGNALED | TERN_WQE_F_INLINE,
          .inline_data = {data.begin(), data.end()}};
}

SendWr write(std::vector<tern_sge> sges, const TestMr& to, std::uint64_t at) {
  return {
      .opcode = TERN_WR_RDMA_WRITE, .sges = std::move(sges), .raddr = to.iova + at, .rkey = to.key};
}

SendWr write_inline(std::span<const std::byte> data, const TestMr& to, std::uint64_t at) {
  SendWr wr = write({}, to, at);
  wr.flags |= TERN_WQE_F_INLINE;
  wr.inline_data = {data.begin(), data.end()};
  return wr;
}

SendWr read(std::vector<tern_sge> sges, const TestMr& from, std::uint64_t at) {
  SendWr wr = write(std::move(sges), from, at);
  wr.opcode = TERN_WR_RDMA_READ;
  return wr;
}

SendWr fetch_add(const tern_sge& result, const TestMr& at_mr, std::uint64_t at, std::uint64_t add) {
  SendWr wr = write({result}, at_mr, at);
  wr.opcode = TERN_WR_ATOMIC_FETCH_AND_ADD;
  wr.swap_add = add;
  return wr;
}

SendWr compare_swap(const tern_sge& result, const TestMr& at_mr, std::uint64_t at,
                    std::uint64_t compare, std::uint64_t swap) {
  SendWr wr = write({result}, at_mr, at);
  wr.opcode = TERN_WR_ATOMIC_CMP_AND_SWP;
  wr.swap_add = swap;
  wr.compare = compare;
  return wr;
}

SendWr flush(const TestMr& of, std::uint64_t at, std::uint64_t len, std::uint8_t type) {
  SendWr wr = write({}, of, at);
  wr.opcode = TERN_WR_FLUSH;
  wr.flush.type = type;
  wr.flush.level = TERN_FLUSH_LEVEL_RANGE;
  wr.flush.length = len;
  return wr;
}

// The device ignores address and length.
SendWr flush_all(const TestMr& of, std::uint8_t type) {
  SendWr wr = flush(of, ~of.iova, ~std::uint64_t{0}, type);
  wr.flush.level = TERN_FLUSH_LEVEL_MR;
  return wr;
}

SendWr atomic_write(std::uint64_t value, const TestMr& to, std::uint64_t at) {
  SendWr wr = write_inline(std::as_bytes(std::span(&value, 1)), to, at);
  wr.opcode = TERN_WR_ATOMIC_WRITE;
  return wr;
}

SendWr atomic_write(const tern_sge& value, const TestMr& to, std::uint64_t at) {
  SendWr wr = write({value}, to, at);
  wr.opcode = TERN_WR_ATOMIC_WRITE;
  return wr;
}

SendWr reg_mr(FastMr& fast, std::uint32_t access) {
  const std::uint32_t index = fast.mr.key & ~std::uint32_t{TERN_KEY_VARIANT_MASK};
  fast.mr.key = index | ((fast.mr.key + 1) & TERN_KEY_VARIANT_MASK);
  SendWr wr{.opcode = TERN_WR_REG_MR};
  wr.reg.iova = le(fast.mr.iova);
  wr.reg.length = le(fast.mr.length);
  wr.reg.pages = le(fast.list);
  wr.reg.num_pages = le(static_cast<std::uint32_t>(fast.mr.length / QueueMemory::kPage));
  wr.reg.key = le(fast.mr.key);
  wr.reg.access = le(access);
  wr.reg.page_shift = 12;
  return wr;
}

SendWr local_inv(std::uint32_t key) { return {.opcode = TERN_WR_LOCAL_INV, .inv_rkey = key}; }

SendWr send_inv(std::vector<tern_sge> sges, std::uint32_t key) {
  return {.opcode = TERN_WR_SEND_WITH_INV, .sges = std::move(sges), .inv_rkey = key};
}

SendWr datagram(const TestQp& from, const TestQp& to, std::vector<tern_sge> sges) {
  SendWr wr = send(std::move(sges));
  wr.ud = {.av = from.av_to(to), .dqpn = to.number(), .qkey = from.options().qkey};
  return wr;
}

}  // namespace tern::test

// SPDX-License-Identifier: GPL-2.0-or-later
#include "transport/send_wqe.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>

namespace tern {
namespace {

struct Slot {
  std::array<std::byte, 256> bytes{};
  tern_sq_hdr hdr{};

  std::span<const std::byte> sealed(std::size_t stride = 256) {
    std::memcpy(bytes.data(), &hdr, sizeof(hdr));
    return std::span<const std::byte>(bytes).first(stride);
  }
  template <class T>
  void put(std::size_t offset, const T& value) {
    std::memcpy(bytes.data() + offset, &value, sizeof(value));
  }
};

TEST(SendWqe, DecodesAWriteOfTwoElements) {
  Slot slot;
  slot.hdr.opcode = TERN_WR_RDMA_WRITE;
  slot.hdr.flags = TERN_WQE_F_SIGNALED;
  slot.hdr.num_sge = 2;
  slot.hdr.wr_id = 0x1122334455667788;
  slot.put(32, tern_rdma_seg{.raddr = 0xabcd, .rkey = 77, .rsvd_c = 0});
  slot.put(48, tern_sge{.addr = 1, .length = 100, .lkey = 5});
  slot.put(64, tern_sge{.addr = 2, .length = 23, .lkey = 6});
  SendWqe wqe;
  std::span<const std::byte> data;
  ASSERT_EQ(decode_wqe(Transport::kRc, slot.sealed(), wqe, data), TERN_CQE_SUCCESS);
  EXPECT_EQ(wqe.length, 123U);
  EXPECT_EQ(wqe.raddr, 0xabcdU);
  EXPECT_EQ(wqe.rkey, 77U);
  EXPECT_EQ(wqe.wr_id, 0x1122334455667788U);
  EXPECT_EQ(data.size(), 256U - 48U);
}

TEST(SendWqe, RefusesWhatTheSlotCannotHold) {
  SendWqe wqe;
  std::span<const std::byte> data;
  Slot slot;
  slot.hdr.opcode = TERN_WR_SEND;
  slot.hdr.num_sge = 15;  // 32 + 15 * 16 > 256
  EXPECT_EQ(decode_wqe(Transport::kRc, slot.sealed(), wqe, data), TERN_CQE_LOC_QP_OP_ERR);
  slot.hdr.num_sge = 14;
  EXPECT_EQ(decode_wqe(Transport::kRc, slot.sealed(), wqe, data), TERN_CQE_SUCCESS);
  slot.hdr.num_sge = 0;
  slot.hdr.flags = TERN_WQE_F_INLINE;
  slot.hdr.length = 225;
  EXPECT_EQ(decode_wqe(Transport::kRc, slot.sealed(), wqe, data), TERN_CQE_LOC_QP_OP_ERR);
  slot.hdr.length = 224;
  EXPECT_EQ(decode_wqe(Transport::kRc, slot.sealed(), wqe, data), TERN_CQE_SUCCESS);
  EXPECT_EQ(wqe.length, 224U);
  slot.hdr.length = UINT32_MAX;
  EXPECT_EQ(decode_wqe(Transport::kRc, slot.sealed(), wqe, data), TERN_CQE_LOC_QP_OP_ERR);
}

TEST(SendWqe, RefusesUnknownOpcodesFlagsAndInlineReads) {
  SendWqe wqe;
  std::span<const std::byte> data;
  for (unsigned opcode = 0; opcode < 256; ++opcode) {
    Slot slot;
    slot.hdr.opcode = static_cast<__u8>(opcode);
    const bool known = wqe_shape(Transport::kRc, slot.hdr.opcode).known;
    const std::uint8_t status = decode_wqe(Transport::kRc, slot.sealed(), wqe, data);
    if (!known) {
      EXPECT_EQ(status, TERN_CQE_LOC_QP_OP_ERR) << opcode;
    }
    slot.hdr.flags = 0x80;
    EXPECT_EQ(decode_wqe(Transport::kRc, slot.sealed(), wqe, data), TERN_CQE_LOC_QP_OP_ERR)
        << opcode;
  }
  Slot slot;
  slot.hdr.opcode = TERN_WR_RDMA_READ;
  slot.hdr.flags = TERN_WQE_F_INLINE;
  EXPECT_EQ(decode_wqe(Transport::kRc, slot.sealed(), wqe, data), TERN_CQE_LOC_QP_OP_ERR);
}

TEST(SendWqe, AtomicsMoveEightBytesAndMessagesEndAtTwoGiB) {
  SendWqe wqe;
  std::span<const std::byte> data;
  Slot slot;
  slot.hdr.opcode = TERN_WR_ATOMIC_FETCH_AND_ADD;
  slot.hdr.num_sge = 1;
  slot.put(64, tern_sge{.addr = 0, .length = 4, .lkey = 1});
  EXPECT_EQ(decode_wqe(Transport::kRc, slot.sealed(), wqe, data), TERN_CQE_LOC_LEN_ERR);
  slot.put(64, tern_sge{.addr = 0, .length = 8, .lkey = 1});
  EXPECT_EQ(decode_wqe(Transport::kRc, slot.sealed(), wqe, data), TERN_CQE_SUCCESS);

  Slot write;
  write.hdr.opcode = TERN_WR_SEND;
  write.hdr.num_sge = 2;
  write.put(32, tern_sge{.addr = 0, .length = 0x80000000U, .lkey = 1});
  write.put(48, tern_sge{.addr = 0, .length = 0, .lkey = 1});
  EXPECT_EQ(decode_wqe(Transport::kRc, write.sealed(), wqe, data), TERN_CQE_SUCCESS);
  EXPECT_EQ(wqe.length, 0x80000000U);
  write.put(48, tern_sge{.addr = 0, .length = 1, .lkey = 1});
  EXPECT_EQ(decode_wqe(Transport::kRc, write.sealed(), wqe, data), TERN_CQE_LOC_LEN_ERR);
}

TEST(SendWqe, FlushNamesARangeOrAllOfARegion) {
  SendWqe wqe;
  std::span<const std::byte> data;
  Slot slot;
  slot.hdr.opcode = TERN_WR_FLUSH;
  slot.hdr.num_sge = 1;
  const auto decode = [&](const tern_flush_seg& seg) {
    slot.put(32, seg);
    wqe = SendWqe{};
    return decode_wqe(Transport::kRc, slot.sealed(), wqe, data);
  };
  const tern_flush_seg good{0xabcd,     77, TERN_FLUSH_GLOBAL, TERN_FLUSH_LEVEL_RANGE, {},
                            0x80000000, 0};
  ASSERT_EQ(decode(good), TERN_CQE_SUCCESS);
  EXPECT_EQ(wqe.raddr, 0xabcdU);
  EXPECT_EQ(wqe.rkey, 77U);
  EXPECT_EQ(wqe.range, 0x80000000U);
  EXPECT_EQ(wqe.length, 0U) << "no bytes of its own";
  EXPECT_EQ(wqe.num_sge, 0);
  EXPECT_EQ(wqe.flush_type, TERN_FLUSH_GLOBAL);
  tern_flush_seg seg = good;
  seg.length = 0x80000001;
  EXPECT_EQ(decode(seg), TERN_CQE_LOC_LEN_ERR);
  seg.level = TERN_FLUSH_LEVEL_MR;
  ASSERT_EQ(decode(seg), TERN_CQE_SUCCESS) << "of the length nobody asks";
  EXPECT_EQ(wqe.range, 0U);
  EXPECT_EQ(wqe.raddr, 0U);
  seg.level = 2;
  EXPECT_EQ(decode(seg), TERN_CQE_LOC_QP_OP_ERR);
  seg = good;
  seg.type = 0;
  EXPECT_EQ(decode(seg), TERN_CQE_LOC_QP_OP_ERR);
  seg.type = 4;
  EXPECT_EQ(decode(seg), TERN_CQE_LOC_QP_OP_ERR);
}

// The table of wqe.rst: the opcodes of each QP type, and the offset of the data.
TEST(SendWqe, EachTransportHasItsOpcodes) {
  for (const Transport transport :
       {Transport::kRc, Transport::kXrc, Transport::kUc, Transport::kUd}) {
    const bool datagram = transport == Transport::kUd;
    const bool reliable = transport == Transport::kRc || transport == Transport::kXrc;
    EXPECT_TRUE(wqe_shape(transport, TERN_WR_NOP).known);
    EXPECT_EQ(wqe_shape(transport, TERN_WR_SEND).segment, datagram ? 48 : 0);
    EXPECT_EQ(wqe_shape(transport, TERN_WR_SEND_WITH_IMM).segment, datagram ? 48 : 0);
    EXPECT_EQ(wqe_shape(transport, TERN_WR_RDMA_WRITE).known, !datagram);
    EXPECT_EQ(wqe_shape(transport, TERN_WR_RDMA_WRITE_WITH_IMM).known, !datagram);
    EXPECT_EQ(wqe_shape(transport, TERN_WR_RDMA_READ).known, reliable);
    EXPECT_EQ(wqe_shape(transport, TERN_WR_ATOMIC_CMP_AND_SWP).known, reliable);
    EXPECT_EQ(wqe_shape(transport, TERN_WR_ATOMIC_FETCH_AND_ADD).known, reliable);
    EXPECT_EQ(wqe_shape(transport, TERN_WR_ATOMIC_WRITE).known, reliable);
    EXPECT_EQ(wqe_shape(transport, TERN_WR_FLUSH).known, reliable);
    EXPECT_TRUE(wqe_shape(transport, TERN_WR_ATOMIC_WRITE).may_inline);
    EXPECT_FALSE(wqe_shape(transport, TERN_WR_FLUSH).may_inline);
  }
}

TEST(SendWqe, DatagramsHaveTheirVectorBeforeTheData) {
  SendWqe wqe;
  std::span<const std::byte> data;
  Slot slot;
  slot.hdr.opcode = TERN_WR_SEND;
  slot.hdr.num_sge = 11;  // 32 + 48 + 11 * 16 = 256
  EXPECT_EQ(decode_wqe(Transport::kUd, slot.sealed(), wqe, data), TERN_CQE_SUCCESS);
  EXPECT_EQ(wqe.data_at * 16, 80);
  slot.hdr.num_sge = 12;
  EXPECT_EQ(decode_wqe(Transport::kUd, slot.sealed(), wqe, data), TERN_CQE_LOC_QP_OP_ERR);
  slot.hdr.num_sge = 0;
  EXPECT_EQ(decode_wqe(Transport::kUd, slot.sealed(64), wqe, data), TERN_CQE_LOC_QP_OP_ERR)
      << "a slot without room for the vector";
}

TEST(SendWindow, KeepsSlotsApart) {
  BlockPool pool;
  SendWindow window(pool);
  window.open(4, 64);
  EXPECT_EQ(window.capacity(), 4U);
  window.make_room(0, 3);
  for (std::uint32_t i = 0; i < 4; ++i) {
    const auto slot = window.slot(i);
    std::fill(slot.begin(), slot.end(), std::byte(i));
    window.at(i) = SendWqe{};
    window.at(i).opcode = TERN_WR_SEND;
    window.at(i).flags = TERN_WQE_F_INLINE;
    window.at(i).length = 32;
  }
  for (std::uint32_t i = 0; i < 4; ++i) {
    for (const std::byte b : window.inline_data(i)) EXPECT_EQ(b, std::byte(i));
  }
  EXPECT_EQ(&window.at(4), &window.at(0));
  window.close();
  EXPECT_FALSE(window.is_open());
}

// A window that grows keeps its WQEs. An idle window holds no memory.
TEST(SendWindow, GrowsAndRests) {
  BlockPool pool;
  SendWindow window(pool);
  window.open(256, 64);
  ASSERT_EQ(window.capacity(), SendWindow::kMaxWqes);
  constexpr std::uint32_t kFirst = 0xfffffffb;  // indices wrap
  for (std::uint32_t n = 0; n < SendWindow::kMaxWqes; ++n) {
    window.make_room(kFirst, kFirst + n);
    window.at(kFirst + n) = SendWqe{};
    window.at(kFirst + n).wr_id = n;
    const auto slot = window.slot(kFirst + n);
    std::fill(slot.begin(), slot.end(), std::byte(n));
    for (std::uint32_t k = 0; k <= n; ++k) {
      ASSERT_EQ(window.at(kFirst + k).wr_id, k);
      ASSERT_EQ(window.slot(kFirst + k).back(), std::byte(k));
    }
  }
  const SendWqe* const held = &window.at(kFirst);
  window.release();
  SendWindow other(pool);
  other.open(256, 64);
  other.make_room(0, SendWindow::kMaxWqes - 1);
  EXPECT_EQ(&other.at(kFirst), held) << "the next one has the same memory";
}

// While the pool is scarce, a window that has memory keeps it, and one without holds a single WQE.
TEST(SendWindow, HoldsOneWhileThePoolIsScarce) {
  BlockPool pool;
  pool.set_plenty(1);
  SendWindow first(pool);
  first.open(256, 64);
  EXPECT_EQ(first.limit(), SendWindow::kMaxWqes);
  pool.set_plenty(BlockPool::kPlenty);
  first.make_room(0, 0);
  pool.set_plenty(1);
  EXPECT_EQ(first.limit(), SendWindow::kFewWqes);
  SendWindow second(pool);
  second.open(256, 64);
  const std::size_t before = pool.taken();
  EXPECT_EQ(second.limit(), 1U);
  second.make_room(7, 7);
  EXPECT_EQ(second.limit(), 1U);
  EXPECT_EQ(pool.taken() - before, sizeof(SendWqe) + 64);
  second.at(7) = SendWqe{};
  second.at(7).wr_id = 70;
  first.close();
  pool.set_plenty(BlockPool::kPlenty);
  EXPECT_EQ(second.limit(), SendWindow::kMaxWqes);
  second.make_room(7, 8);
  EXPECT_EQ(second.at(7).wr_id, 70U);
  second.close();
  EXPECT_EQ(pool.taken(), 0U);
}

}  // namespace
}  // namespace tern

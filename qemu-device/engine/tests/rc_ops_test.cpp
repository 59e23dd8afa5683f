// SPDX-License-Identifier: GPL-2.0-or-later
// Every operation of a reliable connection, over the wire and in loopback, at every path MTU and
// around every multiple of it.
#include <gtest/gtest.h>

#include <array>

#include "tests/path_test.h"

namespace tern {
namespace {

constexpr std::uint64_t kRegion = 3 * 4096 * 4 + 64;

class RcOps : public PathTest {
 protected:
  RcOps() : PathTest(TERN_QPT_RC, kRegion) {}
  void TearDown() override {
    PathTest::TearDown();
    for (TestNode* const n : {&a, &other}) {
      EXPECT_EQ(n->counter(TERN_CNT_LOCAL_ACK_TIMEOUT_ERR), 0U);
      EXPECT_EQ(n->counter(TERN_CNT_DUPLICATE_REQUEST), 0U);
      EXPECT_EQ(n->counter(TERN_CNT_RX_ICRC_ERRORS), 0U);
    }
  }
  [[nodiscard]] std::vector<std::uint32_t> sizes() const {
    return {0,   1,       2,           3,       4,       63,          mtu - 1,
            mtu, mtu + 1, 2 * mtu - 3, 2 * mtu, 3 * mtu, 3 * mtu + 5, 12 * mtu + 1};
  }
  // `to` begins with the first `len` bytes of `from`; the byte after them is unchanged.
  static void expect_copied(const TestMr& from, const TestMr& to, std::uint32_t len) {
    EXPECT_TRUE(same_bytes(to.bytes(0, len), from.bytes(0, len)));
    EXPECT_EQ(to.bytes()[len], kUntouched);
    std::ranges::fill(to.bytes(0, len), kUntouched);
  }
  void expect_sent(std::uint8_t opcode, std::uint64_t id) {
    const Wc wc = qa.wait_send();
    EXPECT_EQ(wc.status, TERN_CQE_SUCCESS) << status_name(wc.status);
    EXPECT_EQ(wc.opcode, opcode);
    EXPECT_EQ(le(wc.wr_id), id);
    EXPECT_EQ(le(wc.qpn), qa.number());
    EXPECT_EQ(wc.flags & TERN_CQE_F_RECV, 0);
  }
};

INSTANTIATE_TEST_SUITE_P(Mtus, RcOps,
                         ::testing::Values(PathParam{false, 8, 0}, PathParam{false, 9, 1},
                                           PathParam{false, 10, 2}, PathParam{false, 11, 3},
                                           PathParam{false, 12, 0}, PathParam{true, 8, 1},
                                           PathParam{true, 10, 0}, PathParam{true, 12, 1}),
                         name_of);

TEST_P(RcOps, Send) {
  std::uint64_t id = 0x1234567800000000;
  for (const std::uint32_t len : sizes()) {
    if (len + 40 > kRegion) continue;
    qb.post_recv({dst.sge(0, len + 40)}, ++id);
    qa.post(send({src.sge(0, len)}).id(id + 1000));
    expect_sent(TERN_WR_SEND, id + 1000);
    const Wc wc = qb.wait_recv();
    EXPECT_EQ(wc.status, TERN_CQE_SUCCESS);
    EXPECT_EQ(wc.opcode, TERN_RECV_SEND);
    EXPECT_EQ(wc.flags, TERN_CQE_F_RECV);
    EXPECT_EQ(le(wc.byte_len), len);
    EXPECT_EQ(le(wc.wr_id), id);
    EXPECT_EQ(le(wc.qpn), qb.number());
    EXPECT_EQ(le(wc.srqn), 0U);
    expect_copied(src, dst, len);
  }
}

TEST_P(RcOps, SendWithImmediate) {
  for (const std::uint32_t len : sizes()) {
    qb.post_recv({dst.sge(0, static_cast<std::uint32_t>(kRegion))}, 5);
    qa.post(send({src.sge(0, len)}).immediate(0xd4c3b2a1 + len).id(len));
    expect_sent(TERN_WR_SEND_WITH_IMM, len);
    const Wc wc = qb.wait_recv();
    EXPECT_EQ(wc.opcode, TERN_RECV_SEND);
    EXPECT_EQ(wc.flags, TERN_CQE_F_RECV | TERN_CQE_F_IMM);
    EXPECT_EQ(wc.imm, 0xd4c3b2a1 + len);
    EXPECT_EQ(le(wc.byte_len), len);
    expect_copied(src, dst, len);
  }
}

TEST_P(RcOps, Write) {
  for (const std::uint32_t len : sizes()) {
    qa.post(write({src.sge(0, len)}, dst).id(len));
    expect_sent(TERN_WR_RDMA_WRITE, len);
    expect_copied(src, dst, len);
  }
}

TEST_P(RcOps, WriteWithImmediate) {
  for (const std::uint32_t len : sizes()) {
    qb.post_recv({}, 5 + len);
    qa.post(write({src.sge(0, len)}, dst).immediate(7 + len).id(len));
    expect_sent(TERN_WR_RDMA_WRITE_WITH_IMM, len);
    const Wc wc = qb.wait_recv();
    EXPECT_EQ(wc.opcode, TERN_RECV_RDMA_WITH_IMM);
    EXPECT_EQ(wc.flags, TERN_CQE_F_RECV | TERN_CQE_F_IMM);
    EXPECT_EQ(wc.imm, 7 + len);
    EXPECT_EQ(le(wc.byte_len), len);
    EXPECT_EQ(le(wc.wr_id), 5 + len);
    expect_copied(src, dst, len);
  }
}

TEST_P(RcOps, Read) {
  for (const std::uint32_t len : sizes()) {
    dst.fill(len + 2);
    std::ranges::fill(src.bytes(), kUntouched);
    qa.post(read({src.sge(0, len)}, dst).id(len));
    const Wc wc = qa.wait_send();
    EXPECT_EQ(wc.status, TERN_CQE_SUCCESS);
    EXPECT_EQ(wc.opcode, TERN_WR_RDMA_READ);
    EXPECT_EQ(le(wc.byte_len), len);
    expect_copied(dst, src, len);
  }
}

TEST_P(RcOps, Atomics) {
  for (std::uint64_t i = 0; i < 20; ++i) {
    dst.put(i * 8, le(i));
    qa.post(fetch_add(src.sge(8 * i, 8), dst, i * 8, 0x100000000));
    expect_sent(TERN_WR_ATOMIC_FETCH_AND_ADD, 0);
    EXPECT_EQ(src.get<std::uint64_t>(8 * i), i);
    EXPECT_EQ(dst.get<std::uint64_t>(8 * i), i + 0x100000000);

    qa.post(compare_swap(src.sge(8 * i, 8), dst, i * 8, i + 0x100000000, ~i));
    expect_sent(TERN_WR_ATOMIC_CMP_AND_SWP, 0);
    EXPECT_EQ(src.get<std::uint64_t>(8 * i), i + 0x100000000);
    EXPECT_EQ(dst.get<std::uint64_t>(8 * i), ~i);

    qa.post(compare_swap(src.sge(8 * i, 8), dst, i * 8, i, 5));
    const Wc wc = qa.wait_send();
    EXPECT_EQ(wc.status, TERN_CQE_SUCCESS);
    EXPECT_EQ(le(wc.byte_len), 8U);
    EXPECT_EQ(src.get<std::uint64_t>(8 * i), ~i);
    EXPECT_EQ(dst.get<std::uint64_t>(8 * i), ~i);
  }
}

TEST_P(RcOps, AtomicWrite) {
  for (std::uint64_t i = 0; i < 20; ++i) {
    qa.post(atomic_write(~i, dst, i * 8).id(i));
    expect_sent(TERN_WR_ATOMIC_WRITE, i);
    EXPECT_EQ(dst.get<std::uint64_t>(8 * i), ~i);
    src.put(0, i + 77);
    qa.post(atomic_write(src.sge(0, 8), dst, i * 8).id(i));
    expect_sent(TERN_WR_ATOMIC_WRITE, i);
    EXPECT_EQ(dst.get<std::uint64_t>(8 * i), i + 77);
  }
}

TEST_P(RcOps, Flush) {
  for (const std::uint32_t len : sizes()) {
    qa.post(write({src.sge(0, len)}, dst).unsignaled());
    qa.post(flush(dst, 0, len).id(len));
    expect_sent(TERN_WR_FLUSH, len);
    expect_copied(src, dst, len);
    qa.post(flush_all(dst).id(len + 1));
    expect_sent(TERN_WR_FLUSH, len + 1);
  }
}

TEST_P(RcOps, Inline) {
  for (const std::size_t len : {0, 1, 7, 64, 200, 208}) {  // up to the room in a slot of 256 bytes
    const auto data = src.bytes(0, len);
    qa.post(write_inline(data, dst));
    expect_sent(TERN_WR_RDMA_WRITE, 0);
    expect_copied(src, dst, static_cast<std::uint32_t>(len));
    qb.post_recv({dst.sge()});
    qa.post(send_inline(data));
    expect_sent(TERN_WR_SEND, 0);
    EXPECT_EQ(le(qb.wait_recv().byte_len), len);
    expect_copied(src, dst, static_cast<std::uint32_t>(len));
  }
}

TEST_P(RcOps, GatherAndScatter) {
  // Twelve pieces of odd lengths, some of them empty, in reverse order in memory.
  const auto cut = [](const TestMr& mr, std::initializer_list<std::uint32_t> lens) {
    std::vector<tern_sge> sges;
    std::uint64_t at = mr.length;
    for (const std::uint32_t n : lens) {
      at -= n;
      sges.push_back(mr.sge(at, n));
    }
    return sges;
  };
  const auto contents = [](const TestMr& mr, const std::vector<tern_sge>& sges) {
    std::vector<std::byte> all;
    for (const tern_sge& s : sges) {
      const auto part = mr.bytes(s.addr - mr.iova, s.length);
      all.insert(all.end(), part.begin(), part.end());
    }
    return all;
  };
  const auto from = cut(src, {1, 0, mtu - 1, 3, 2 * mtu + 1, 17, 0, 5, 255, 64, 1, 333});
  const auto to = cut(dst, {7, 129, mtu, 0, 1, 1, 4 * mtu, 33});
  const auto want = contents(src, from);

  qb.post_recv(to);
  qa.post(send(from));
  expect_sent(TERN_WR_SEND, 0);
  EXPECT_EQ(le(qb.wait_recv().byte_len), want.size());
  auto got = contents(dst, to);
  got.resize(want.size());
  EXPECT_TRUE(same_bytes(got, want));

  std::ranges::fill(dst.bytes(), kUntouched);
  qa.post(write(from, dst, 11));
  expect_sent(TERN_WR_RDMA_WRITE, 0);
  EXPECT_TRUE(same_bytes(dst.bytes(11, want.size()), want));

  // READ back into the scatter list.
  std::ranges::fill(src.bytes(), kUntouched);
  qa.post(read(from, dst, 11));
  expect_sent(TERN_WR_RDMA_READ, 0);
  EXPECT_TRUE(same_bytes(contents(src, from), want));
}

TEST_P(RcOps, NothingAtAllNeedsNoKey) {
  qa.post(write({}, TestMr{}));
  expect_sent(TERN_WR_RDMA_WRITE, 0);
  qa.post(read({}, TestMr{}));
  expect_sent(TERN_WR_RDMA_READ, 0);
  qb.post_recv({});
  qa.post(send({}));
  expect_sent(TERN_WR_SEND, 0);
  EXPECT_EQ(le(qb.wait_recv().byte_len), 0U);
  qb.post_recv({{0, 0, 0}});  // a length of 0 needs no key
  qa.post(send({{0, 0, 0}}));
  expect_sent(TERN_WR_SEND, 0);
  EXPECT_EQ(le(qb.wait_recv().byte_len), 0U);
}

TEST_P(RcOps, UnsignaledWorkIsSilent) {
  for (std::uint64_t i = 0; i < 10; ++i) {
    qa.post(write({src.sge(i * 64, 64)}, dst, i * 64).id(i).unsignaled());
    qa.post(read({src.sge(4096 + i * 64, 64)}, dst, i * 64).id(i).unsignaled());
  }
  qa.post(write({src.sge(0, 1)}, dst, 0).id(77));
  expect_sent(TERN_WR_RDMA_WRITE, 77);
  EXPECT_TRUE(same_bytes(dst.bytes(0, 640), src.bytes(0, 640)));
  EXPECT_TRUE(same_bytes(src.bytes(4096, 640), src.bytes(0, 640)));
  EXPECT_EQ(le(qa.query().sq_ci), 21U);
}

TEST_P(RcOps, CompletesInOrder) {
  // More than fit the queue at once; slow requests before fast ones.
  std::uint64_t next = 0;
  for (std::uint64_t i = 0; i < 300; ++i) {
    if (qa.sq_free() == 0)
      expect_sent(next % 3 ? TERN_WR_RDMA_WRITE : TERN_WR_RDMA_READ, next), ++next;
    if (i % 3) {
      qa.post(write({src.sge(i, 8)}, dst, i * 8).id(i));
    } else {
      qa.post(read({src.sge(20000, 5000)}, dst, 0).id(i));
    }
  }
  for (; next < 300; ++next) expect_sent(next % 3 ? TERN_WR_RDMA_WRITE : TERN_WR_RDMA_READ, next);
}

TEST_P(RcOps, NopCompletesInItsTurn) {
  qa.post(write({src.sge(0, 5000)}, dst).id(1));
  qa.post(SendWr{.opcode = TERN_WR_NOP, .wr_id = 2});
  qa.post(SendWr{.opcode = TERN_WR_NOP, .wr_id = 3}.unsignaled());
  qa.post(SendWr{.opcode = TERN_WR_NOP, .wr_id = 4});
  expect_sent(TERN_WR_RDMA_WRITE, 1);
  expect_sent(TERN_WR_NOP, 2);
  expect_sent(TERN_WR_NOP, 4);
  expect_copied(src, dst, 5000);
}

TEST_P(RcOps, BothWaysAtOnce) {
  TestMr& back_from = b.reg(kRegion);
  TestMr& back_to = a.reg(kRegion);
  back_from.fill(9);
  for (std::uint64_t i = 0; i < 32; ++i) {
    qa.post(write({src.sge(i * 1000, 1000)}, dst, i * 1000));
    qb.post(write({back_from.sge(i * 1000, 1000)}, back_to, i * 1000));
    qb.post_recv({dst.sge(40000, 500)});
    qa.post(send({src.sge(40000, 500)}));
  }
  for (int i = 0; i < 64; ++i) EXPECT_EQ(qa.wait_send().status, TERN_CQE_SUCCESS);
  for (int i = 0; i < 32; ++i) EXPECT_EQ(qb.wait_send().status, TERN_CQE_SUCCESS);
  for (int i = 0; i < 32; ++i) EXPECT_EQ(qb.wait_recv().status, TERN_CQE_SUCCESS);
  EXPECT_TRUE(same_bytes(dst.bytes(0, 32000), src.bytes(0, 32000)));
  EXPECT_TRUE(same_bytes(back_to.bytes(0, 32000), back_from.bytes(0, 32000)));
}

TEST_P(RcOps, ReceivesMayBePostedInAdvance) {
  for (std::uint64_t i = 0; i < 64; ++i) qb.post_recv({dst.sge(i * 100, 100)}, i);
  for (std::uint64_t i = 0; i < 64; ++i) qa.post(send({src.sge(i * 100, 100)}).id(i));
  for (std::uint64_t i = 0; i < 64; ++i) {
    expect_sent(TERN_WR_SEND, i);
    EXPECT_EQ(le(qb.wait_recv().wr_id), i);
  }
  EXPECT_TRUE(same_bytes(dst.bytes(0, 6400), src.bytes(0, 6400)));
}

TEST_P(RcOps, UnalignedAddressesAndPageSizes) {
  for (const unsigned shift : {12U, 14U, 21U}) {
    for (const std::uint8_t kind :
         std::array<std::uint8_t, 3>{TERN_PAGES_LIST, TERN_PAGES_INDIRECT, TERN_PAGES_DIRECT}) {
      const RegOptions options{
          .iova = 0x7f0000000123, .offset = 0x123, .page_shift = shift, .kind = kind};
      TestMr& s = a.reg(20001, options);
      TestMr& d = b.reg(20001, options);
      s.fill(shift + kind);
      qa.post(write({s.sge()}, d));
      expect_sent(TERN_WR_RDMA_WRITE, 0);
      EXPECT_TRUE(same_bytes(d.bytes(), s.bytes()));
      s.fill(0);
      qa.post(read({s.sge(1, 20000)}, d, 1));
      expect_sent(TERN_WR_RDMA_READ, 0);
      EXPECT_TRUE(same_bytes(s.bytes(1, 20000), d.bytes(1, 20000)));
    }
  }
}

// Mappings may have any length and position.
TEST_P(RcOps, ShortMappings) {
  a.host.short_span = 129;
  b.host.short_span = 129;
  qa.post(write({src.sge(0, 9001)}, dst));
  expect_sent(TERN_WR_RDMA_WRITE, 0);
  expect_copied(src, dst, 9001);
  qa.post(read({src.sge(10000, 9001)}, dst));
  expect_sent(TERN_WR_RDMA_READ, 0);
  a.host.short_span = b.host.short_span = 0;
}

}  // namespace
}  // namespace tern

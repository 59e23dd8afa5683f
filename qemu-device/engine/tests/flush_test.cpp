// SPDX-License-Identifier: GPL-2.0-or-later
// FLUSH (IBTA annex A19): permissions, ranges, and ordering.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "tests/answered.h"
#include "tests/windows.h"

namespace tern {
namespace {

using ::testing::Contains;

class Flush : public AnsweredTest {
 protected:
  static constexpr std::uint32_t kFlushRights =
      kAllAccess | TERN_ACCESS_FLUSH_PERSISTENT;  // of a QP; no region can have all
  void expect_denied(const SendWr& wr) {
    connect();
    qa->post(wr);
    expect_refused(TERN_CQE_REM_ACCESS_ERR, TERN_EV_QP_ACCESS_ERR);
  }
  void expect_done(const SendWr& wr) {
    qa->post(wr);
    const Wc wc = qa->wait_send();
    EXPECT_EQ(wc.status, TERN_CQE_SUCCESS) << status_name(wc.status);
    EXPECT_EQ(wc.opcode, TERN_WR_FLUSH);
    EXPECT_EQ(le(wc.byte_len), 0U);
  }
};

// ---- range ----

TEST_F(Flush, RangeIsCheckedToTheByte) {
  expect_done(flush(dst, 0, dst.length));
  expect_done(flush(dst, dst.length - 1, 1));
  expect_done(flush(dst, 4097, 11));
  expect_denied(flush(dst, 0, dst.length + 1));
  expect_denied(flush(dst, dst.length - 1, 2));
  expect_denied(flush(dst, dst.length, 1));
  expect_denied(flush(dst, ~std::uint64_t{0}, 2));
  expect_denied(flush(dst, ~std::uint64_t{0} - dst.iova, 0x80000000));
  EXPECT_EQ(b.counter(TERN_CNT_RESP_REMOTE_ACCESS_ERRORS), 5U);
  EXPECT_EQ(a.counter(TERN_CNT_REQ_REMOTE_ACCESS_ERRORS), 5U);
}

// Unlike a WRITE or READ of no bytes (C9-88).
TEST_F(Flush, NoBytesNeedAKeyAndAnAddressAllTheSame) {
  expect_done(flush(dst, 0, 0));
  expect_done(flush(dst, dst.length, 0));
  expect_denied(flush(dst, dst.length + 1, 0));
  TestMr wrong = dst;
  wrong.key ^= 1;
  expect_denied(flush(wrong, 0, 0));
}

TEST_F(Flush, AllOfARegion) {
  expect_done(flush_all(dst));
  TestMr wrong = dst;
  wrong.key ^= 1;
  expect_denied(flush_all(wrong));
  TestMr& large = b.reg(16384, {.iova = 0x7f0000000123, .offset = 0x123, .alias = 4096});
  connect();
  expect_done(flush_all(large));
}

TEST_F(Flush, KeysThatAreNone) {
  TestMr wrong = dst;
  for (const std::uint32_t key : {std::uint32_t{TERN_KEY_INVALID}, std::uint32_t{TERN_LKEY_DMA},
                                  dst.key + 0x100, dst.key + 1, 0xffffffffU}) {
    wrong.key = key;
    expect_denied(flush(wrong, 0, 8));
    expect_denied(flush_all(wrong));
  }
  TestMr& gone = b.reg(4096);
  b.dereg(gone);
  expect_denied(flush(gone, 0, 8));
  TestMr& foreign = b.reg(4096, {.pd = b.alloc_pd()});
  expect_denied(flush(foreign, 0, 8));
  expect_denied(flush_all(foreign));
}

// ---- rights ----

TEST_F(Flush, RegionMustGrantIt) {
  TestMr& mr = b.reg(4096, {.access = kAllAccess & ~TERN_ACCESS_FLUSH_GLOBAL});
  expect_denied(flush(mr, 0, 8));
  expect_denied(flush_all(mr));
  // FLUSH needs no other right, and its right implies no other.
  TestMr& only = b.reg(4096, {.access = TERN_ACCESS_FLUSH_GLOBAL});
  connect();
  expect_done(flush(only, 0, 8));
  expect_done(flush_all(only));
  qa->post(read({src.sge(0, 8)}, only));
  expect_refused(TERN_CQE_REM_ACCESS_ERR, TERN_EV_QP_ACCESS_ERR);
}

TEST_F(Flush, QueuePairMustGrantIt) {
  for (const SendWr& wr : {flush(dst, 0, 8), flush_all(dst)}) {
    connect({.access = kAllAccess & ~TERN_ACCESS_FLUSH_GLOBAL});
    qa->post(wr);
    expect_refused(TERN_CQE_REM_INV_REQ_ERR, TERN_EV_QP_REQ_ERR);
  }
  connect({.access = TERN_ACCESS_FLUSH_GLOBAL});
  expect_done(flush(dst, 0, 8));
}

// No region can grant it. A QP with the right is refused by the region, a QP without it by itself.
TEST_F(Flush, PersistenceIsRefused) {
  TestMr none;
  EXPECT_EQ(b.try_reg(4096, {.access = TERN_ACCESS_FLUSH_PERSISTENT}, &none),
            TERN_ST_NOT_SUPPORTED);
  for (const std::uint8_t type : {std::uint8_t{TERN_FLUSH_PERSISTENT},
                                  std::uint8_t{TERN_FLUSH_PERSISTENT | TERN_FLUSH_GLOBAL}}) {
    for (const SendWr& wr : {flush(dst, 0, 8, type), flush_all(dst, type)}) {
      connect({.access = kFlushRights});
      qa->post(wr);
      expect_refused(TERN_CQE_REM_ACCESS_ERR, TERN_EV_QP_ACCESS_ERR);
      connect();
      qa->post(wr);
      expect_refused(TERN_CQE_REM_INV_REQ_ERR, TERN_EV_QP_REQ_ERR);
    }
  }
}

TEST_F(Flush, RightsOfARegionMayChange) {
  expect_done(flush(dst, 0, 8));
  ASSERT_EQ(b.rereg(dst, TERN_REREG_ACCESS, {.access = kAllAccess & ~TERN_ACCESS_FLUSH_GLOBAL}),
            TERN_ST_OK);
  expect_denied(flush(dst, 0, 8));
  ASSERT_EQ(b.rereg(dst, TERN_REREG_ACCESS, {.access = TERN_ACCESS_FLUSH_GLOBAL}), TERN_ST_OK);
  connect();
  expect_done(flush(dst, 0, 8));
}

TEST_F(Flush, FastRegionWhileItIsOpen) {
  const std::uint32_t pd = b.alloc_pd(true);
  FastMr fast = b.alloc_fast(2, pd);
  const auto join = [&] {
    qa = &a.create_qp();
    qb = &b.create_qp({.pd = pd});
    qa->connect(*qb);
    qb->connect(*qa);
  };
  const auto work = [&](const SendWr& wr) {
    qb->post(wr);
    EXPECT_EQ(qb->wait_send().status, TERN_CQE_SUCCESS);
  };
  join();
  work(reg_mr(fast));
  expect_done(flush(fast.mr, 0, fast.mr.length));
  work(local_inv(fast.mr.key));
  qa->post(flush_all(fast.mr));
  expect_refused(TERN_CQE_REM_ACCESS_ERR, TERN_EV_QP_ACCESS_ERR);
  join();
  work(reg_mr(fast, TERN_ACCESS_REMOTE_READ));
  qa->post(flush(fast.mr, 0, 8));
  expect_refused(TERN_CQE_REM_ACCESS_ERR, TERN_EV_QP_ACCESS_ERR);
}

TEST_F(Flush, DeviceMemory) {
  const TestDm dm = b.alloc_dm(8192);
  TestMr& mr = b.reg_dm(dm, 100, 5000);
  expect_done(flush(mr, 0, 5000));
  expect_done(flush_all(mr));
  expect_denied(flush(mr, 1, 5000));
}

// FLUSH does not access the pages: a WRITE stores its data when it executes.
TEST_F(Flush, OfMemoryThatIsGone) {
  b.host.punch(dst.dma, 4096);
  expect_done(flush(dst, 0, 4096));
  b.host.restore(dst.dma);
}

// ---- invalid requests ----

TEST_F(Flush, RequesterRefuses) {
  for (const std::uint8_t type : std::array<std::uint8_t, 5>{0, 4, 5, 8, 0x80}) {
    expect_local(flush(dst, 0, 8, type), TERN_CQE_LOC_QP_OP_ERR);
  }
  for (const std::uint8_t level : std::array<std::uint8_t, 4>{2, 3, 0x10, 0xff}) {
    SendWr wr = flush(dst, 0, 8);
    wr.flush.level = level;
    expect_local(wr, TERN_CQE_LOC_QP_OP_ERR);
  }
  expect_local(flush(dst, 0, 0x80000001), TERN_CQE_LOC_LEN_ERR);
  expect_local(flush(dst, 0, ~std::uint64_t{0}), TERN_CQE_LOC_LEN_ERR);
  expect_local(flush(dst, 0, 8).with(TERN_WQE_F_INLINE), TERN_CQE_LOC_QP_OP_ERR);
  // SGEs are ignored.
  SendWr wr = flush(dst, 0, 8);
  wr.sges.assign(1, {.addr = 0, .length = 4096, .lkey = 0xdead});
  expect_local(wr, TERN_CQE_SUCCESS);
}

TEST_F(Flush, ResponderRefusesWhatTheWireMayBring) {
  const auto bad = [&](auto spoil) {
    connect({.access = kFlushRights});
    forge([spoil](Packet& p) {
      EXPECT_EQ(p.op, Op::kFlush);
      spoil(p);
    });
    qa->post(flush(dst, 0, 8));
    expect_refused(TERN_CQE_REM_INV_REQ_ERR, TERN_EV_QP_REQ_ERR);
    sim.pass = nullptr;
  };
  for (const std::uint8_t type : std::array<std::uint8_t, 5>{0, 4, 5, 8, 15}) {
    bad([type](Packet& p) { p.flush_type = type; });
  }
  bad([](Packet& p) { p.flush_level = 2; });
  bad([](Packet& p) { p.flush_level = 3; });
  bad([](Packet& p) { p.dma_len = 0x80000001; });
}

// FETH: placement type in bits 3 to 0, selectivity in bits 5 and 4. RETH follows.
TEST_F(Flush, OnTheWire) {
  unsigned requests = 0, responses = 0;
  sim.pass = [&](unsigned from, std::span<const std::byte> f) {
    const std::size_t bth = 62;
    if (from == 0) {
      EXPECT_EQ(f[bth], std::byte{0x1c});
      EXPECT_EQ(f[bth + 12], std::byte{0});
      EXPECT_EQ(f[bth + 15], requests == 0 ? std::byte{0x01} : std::byte{0x11});
      EXPECT_EQ(f.size(), bth + 12 + 4 + 16 + 4);
      ++requests;
    } else {
      EXPECT_EQ(f[bth], std::byte{0x10}) << "READ response ONLY";
      EXPECT_EQ(f.size(), bth + 12 + 4 + 4) << "AETH and nothing else";
      ++responses;
    }
    return true;
  };
  expect_done(flush(dst, 0, 8));
  expect_done(flush_all(dst));
  EXPECT_EQ(requests, 2U);
  EXPECT_EQ(responses, 2U);
}

// ---- ordering ----

TEST_F(Flush, WhatWasWrittenBeforeIsThere) {
  for (int round = 0; round < 20; ++round) {
    src.fill(static_cast<unsigned>(round));
    qa->post(write({src.sge(0, 30000)}, dst).unsignaled());
    qa->post(write({src.sge(30000, 5)}, dst, 30000).unsignaled());
    expect_done(flush(dst, 0, 30005));
    EXPECT_TRUE(same_bytes(dst.bytes(0, 30005), src.bytes(0, 30005)));
  }
}

TEST_F(Flush, EvenWhenWritesAreLost) {
  sim.wire.loss = 0.05;
  sim.wire.reorder = 0.05;
  connect({.timeout = 8});
  for (int round = 0; round < 40; ++round) {
    src.fill(static_cast<unsigned>(round));
    qa->post(write({src.sge(0, 30000)}, dst).unsignaled());
    expect_done(flush_all(dst));
    EXPECT_TRUE(same_bytes(dst.bytes(0, 30000), src.bytes(0, 30000)));
  }
  EXPECT_GT(sim.stats.lost, 10U);
}

TEST_F(Flush, IsADuplicateEvenWhenTheKeyHasGone) {
  connect({.timeout = 8});
  int answers = 0;
  sim.pass = [&](unsigned from, std::span<const std::byte> f) {
    if (from != 1 || opcode_of(f) != 0x10) return true;
    return ++answers > 3;
  };
  qa->post(flush(dst, 0, 8));
  sim.run_until([&] { return answers > 0; });
  b.dereg(dst);
  EXPECT_EQ(qa->wait_send().status, TERN_CQE_SUCCESS);
  EXPECT_EQ(b.counter(TERN_CNT_DUPLICATE_REQUEST), 3U);
  EXPECT_EQ(qb->query().attr.state, TERN_QPS_RTS);
}

TEST_F(Flush, LostRequestComesAgain) {
  connect({.timeout = 8});
  lose(0, Op::kFlush, 2);
  expect_done(flush(dst, 0, 8));
  EXPECT_EQ(a.counter(TERN_CNT_LOCAL_ACK_TIMEOUT_ERR), 2U);
  EXPECT_EQ(b.counter(TERN_CNT_DUPLICATE_REQUEST), 0U);
}

// Only a READ response without payload answers a FLUSH.
TEST_F(Flush, ResponsesThatAreNone) {
  for (const bool bytes : {false, true}) {
    connect();
    forge_back([bytes](Packet& p) {
      EXPECT_EQ(p.op, Op::kReadResponseOnly);
      static std::array<std::byte, 4> data{};
      if (bytes) {
        p.payload.append_plain(std::span<const std::byte>(data));
      } else {
        p.op = Op::kAtomicAck;
      }
    });
    qa->post(flush(dst, 0, 8));
    EXPECT_EQ(qa->wait_send().status, TERN_CQE_BAD_RESP_ERR);
    sim.pass = nullptr;
    sim.run_until_idle();
  }
}

// ---- limits ----

TEST_F(Flush, SharesTheLimitOfReads) {
  for (const std::uint8_t most : {std::uint8_t{1}, std::uint8_t{2}, std::uint8_t{5}}) {
    connect({.max_rd_atomic = most, .max_dest_rd_atomic = most});
    unsigned open = 0, highest = 0;
    sim.pass = [&](unsigned from, std::span<const std::byte> f) {
      const std::uint8_t op = opcode_of(f);
      if (from == 0 && op != 0x0a) highest = std::max(highest, ++open);
      if (from == 1 && (op == 0x0f || op == 0x10 || op == 0x12)) --open;
      return true;
    };
    for (std::uint64_t i = 0; i < 12; ++i) {
      qa->post(flush(dst, 0, 8));
      qa->post(read({src.sge(0, 3000)}, dst));
      qa->post(atomic_write(i, dst, 40000));
      qa->post(fetch_add(src.sge(8192, 8), dst, 40008, 1));
      qa->post(write({src.sge(0, 8)}, dst, 1000));
    }
    for (int i = 0; i < 60; ++i) EXPECT_EQ(qa->wait_send().status, TERN_CQE_SUCCESS);
    EXPECT_EQ(highest, most);
    EXPECT_EQ(open, 0U);
    sim.pass = nullptr;
  }
}

TEST_F(Flush, NeedsAResponderResource) {
  connect({.max_dest_rd_atomic = 0});
  qa->post(flush(dst, 0, 8));
  expect_refused(TERN_CQE_REM_INV_REQ_ERR, TERN_EV_QP_REQ_ERR);
  connect({.max_rd_atomic = 0});
  qa->post(flush(dst, 0, 8));
  EXPECT_EQ(qa->wait_send().status, TERN_CQE_LOC_QP_OP_ERR);
  // The only responder resource is still in use by a READ.
  connect({.max_dest_rd_atomic = 1});
  sim.budget = 4096;
  sim.turn_time = 1000;
  qa->post(read({src.sge(0, 60000)}, dst));
  for (int i = 0; i < 4; ++i) qa->post(flush(dst, 0, 8));
  std::vector<std::uint8_t> seen;
  for (int i = 0; i < 5; ++i) seen.push_back(qa->wait_send().status);
  EXPECT_THAT(seen, Contains(TERN_CQE_REM_INV_REQ_ERR));
}

TEST_F(Flush, FenceWaitsForIt) {
  std::vector<std::uint8_t> order;
  sim.pass = [&](unsigned, std::span<const std::byte> f) {
    order.push_back(opcode_of(f));
    return true;
  };
  qa->post(flush(dst, 0, 8), false);
  qa->post(write({src.sge(0, 8)}, dst).with(TERN_WQE_F_FENCE));
  for (int i = 0; i < 2; ++i) EXPECT_EQ(qa->wait_send().status, TERN_CQE_SUCCESS);
  EXPECT_THAT(order, ::testing::ElementsAre(0x1c, 0x10, 0x0a, 0x11));
  order.clear();
  qa->post(flush(dst, 0, 8), false);
  qa->post(write({src.sge(0, 8)}, dst));
  for (int i = 0; i < 2; ++i) EXPECT_EQ(qa->wait_send().status, TERN_CQE_SUCCESS);
  EXPECT_THAT(order, ::testing::ElementsAre(0x1c, 0x0a, 0x10, 0x11));
}

TEST_F(Flush, FlushedInTheErrorState) {
  sim.pass = [](unsigned, std::span<const std::byte>) { return false; };
  qa->post(flush(dst, 0, 8).id(1));
  qa->post(atomic_write(1, dst, 0).id(2));
  sim.run_for(10'000);
  ASSERT_EQ(qa->to_state(TERN_QPS_ERR), TERN_ST_OK);
  qa->post(flush(dst, 0, 8).id(3));
  for (std::uint64_t id = 1; id <= 3; ++id) {
    const Wc wc = qa->wait_send();
    EXPECT_EQ(wc.status, TERN_CQE_WR_FLUSH_ERR);
    EXPECT_EQ(le(wc.wr_id), id);
  }
}

// Unreliable QPs have neither FLUSH nor ATOMIC WRITE.
TEST_F(Flush, UnreliableConnectionsHaveNone) {
  for (const SendWr& wr : {flush(dst, 0, 8), atomic_write(1, dst, 0)}) {
    const auto [x, y] = rc_pair(a, b, {.type = TERN_QPT_UC});
    (void)y;
    x.post(wr);
    EXPECT_EQ(x.wait_send().status, TERN_CQE_LOC_QP_OP_ERR);
  }
}

}  // namespace
}  // namespace tern

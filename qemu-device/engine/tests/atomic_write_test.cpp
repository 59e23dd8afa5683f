// SPDX-License-Identifier: GPL-2.0-or-later
// ATOMIC WRITE (IBTA annex A19): a reader sees all 8 bytes or none, and they are written once.
#include <array>

#include "tests/answered.h"
#include "tests/window_world.h"

namespace tern {
namespace {

constexpr std::uint64_t kOld = 0x1111111111111111;
constexpr std::uint64_t kNew = 0x8877665544332211;

class AtomicWrite : public AnsweredTest {
 protected:
  void SetUp() override {
    AnsweredTest::SetUp();
    dst.put(0, kOld);
  }
  void expect_done(const SendWr& wr) {
    qa->post(wr);
    const Wc wc = qa->wait_send();
    EXPECT_EQ(wc.status, TERN_CQE_SUCCESS) << status_name(wc.status);
    EXPECT_EQ(wc.opcode, TERN_WR_ATOMIC_WRITE);
    EXPECT_EQ(le(wc.byte_len), 8U);
  }
};

TEST_F(AtomicWrite, ValueFromTheWqeOrFromMemory) {
  expect_done(atomic_write(kNew, dst, 8));
  EXPECT_EQ(dst.get<std::uint64_t>(8), kNew) << "the bytes in their order";
  EXPECT_EQ(dst.get<std::uint64_t>(0), kOld);
  EXPECT_EQ(dst.get<std::uint64_t>(16), 0U);
  src.put(101, kNew + 1);
  expect_done(atomic_write(src.sge(101, 8), dst, dst.length - 8));
  EXPECT_EQ(dst.get<std::uint64_t>(dst.length - 8), kNew + 1);
  // From two pieces, neither of them aligned.
  src.put(201, kNew + 2);
  SendWr wr = atomic_write(src.sge(201, 3), dst, 24);
  wr.sges.push_back(src.sge(204, 5));
  expect_done(wr);
  EXPECT_EQ(dst.get<std::uint64_t>(24), kNew + 2);
  EXPECT_EQ(b.counter(TERN_CNT_RX_WRITE_REQUESTS), 3U);
}

TEST_F(AtomicWrite, OnTheWire) {
  unsigned requests = 0, responses = 0;
  sim.pass = [&](unsigned from, std::span<const std::byte> f) {
    const std::size_t bth = 62;
    if (from == 0) {
      EXPECT_EQ(f[bth], std::byte{0x1d});
      EXPECT_EQ(f[bth + 12 + 15], std::byte{8}) << "the length in the RETH";
      EXPECT_EQ(f[bth + 12 + 16], std::byte{0x11}) << "the payload as it was in memory";
      EXPECT_EQ(f.size(), bth + 12 + 16 + 8 + 4);
      ++requests;
    } else {
      EXPECT_EQ(f[bth], std::byte{0x10}) << "READ response ONLY";
      EXPECT_EQ(f.size(), bth + 12 + 4 + 4) << "AETH and nothing else";
      ++responses;
    }
    return true;
  };
  expect_done(atomic_write(kNew, dst, 0));
  EXPECT_EQ(requests, 1U);
  EXPECT_EQ(responses, 1U);
}

// ---- permissions and addresses ----

TEST_F(AtomicWrite, Refusals) {
  TestMr wrong_key = dst;
  wrong_key.key ^= 1;
  TestMr& foreign = b.reg(4096, {.pd = b.alloc_pd()});
  TestMr& fixed = b.reg(4096, {.access = kAllAccess & ~TERN_ACCESS_REMOTE_WRITE});
  const std::pair<SendWr, std::uint8_t> rows[] = {
      {atomic_write(kNew, wrong_key, 0), TERN_CQE_REM_ACCESS_ERR},
      {atomic_write(kNew, foreign, 0), TERN_CQE_REM_ACCESS_ERR},
      {atomic_write(kNew, fixed, 0), TERN_CQE_REM_ACCESS_ERR},
      {atomic_write(kNew, dst, dst.length), TERN_CQE_REM_ACCESS_ERR},
      {atomic_write(kNew, dst, ~std::uint64_t{7}), TERN_CQE_REM_ACCESS_ERR},
      {atomic_write(kNew, dst, 1), TERN_CQE_REM_INV_REQ_ERR},
      {atomic_write(kNew, dst, 4), TERN_CQE_REM_INV_REQ_ERR},
      {atomic_write(kNew, dst, dst.length - 4), TERN_CQE_REM_INV_REQ_ERR},
  };
  for (const auto& [wr, status] : rows) {
    connect();
    qa->post(wr);
    expect_refused(status,
                   status == TERN_CQE_REM_ACCESS_ERR ? TERN_EV_QP_ACCESS_ERR : TERN_EV_QP_REQ_ERR);
  }
  // It needs the right to WRITE, not the right to atomics.
  connect({.access = kAllAccess & ~TERN_ACCESS_REMOTE_WRITE});
  qa->post(atomic_write(kNew, dst, 0));
  expect_refused(TERN_CQE_REM_INV_REQ_ERR, TERN_EV_QP_REQ_ERR);
  EXPECT_EQ(dst.get<std::uint64_t>(0), kOld);
  TestMr& plain = b.reg(64, {.access = TERN_ACCESS_LOCAL_WRITE | TERN_ACCESS_REMOTE_WRITE});
  connect({.access = TERN_ACCESS_REMOTE_WRITE});
  expect_done(atomic_write(kNew, plain, 56));
  EXPECT_EQ(plain.get<std::uint64_t>(56), kNew);
}

TEST_F(AtomicWrite, EndOfARegionThatIsNotAligned) {
  TestMr& mr = b.reg(4095);
  expect_done(atomic_write(kNew, mr, 4080));
  qa->post(atomic_write(kNew, mr, 4088));
  expect_refused(TERN_CQE_REM_ACCESS_ERR, TERN_EV_QP_ACCESS_ERR);
}

TEST_F(AtomicWrite, RequesterRefuses) {
  const auto expect_local = [&](const SendWr& wr, std::uint8_t status) {
    AtomicWrite::expect_local(wr, status);
    EXPECT_EQ(dst.get<std::uint64_t>(0), kOld);
  };
  for (const std::uint32_t len : {0U, 1U, 4U, 7U, 9U, 16U, 4096U}) {
    expect_local(atomic_write(src.sge(0, len), dst, 0), TERN_CQE_LOC_LEN_ERR);
  }
  for (const std::size_t len : {0U, 7U, 9U, 64U}) {
    SendWr wr = atomic_write(kNew, dst, 0);
    wr.inline_data.resize(len);
    expect_local(wr, TERN_CQE_LOC_LEN_ERR);
  }
  tern_sge sge = src.sge(0, 8);
  sge.lkey += 1;
  expect_local(atomic_write(sge, dst, 0), TERN_CQE_LOC_PROT_ERR);
}

TEST_F(AtomicWrite, ResponderRefusesWhatTheWireMayBring) {
  for (const std::uint32_t len : {0U, 7U, 9U, 16U, 0x80000001U}) {
    connect();
    forge([len](Packet& p) { p.dma_len = len; });
    qa->post(atomic_write(kNew, dst, 0));
    expect_refused(TERN_CQE_REM_INV_REQ_ERR, TERN_EV_QP_REQ_ERR);
    sim.pass = nullptr;
  }
  EXPECT_EQ(dst.get<std::uint64_t>(0), kOld);
}

TEST_F(AtomicWrite, MemoryThatIsGone) {
  b.host.punch(dst.dma, 4096);
  qa->post(atomic_write(kNew, dst, 8));
  expect_refused(TERN_CQE_REM_OP_ERR, TERN_EV_QP_FATAL);
  EXPECT_EQ(b.counter(TERN_CNT_DMA_ERRORS), 1U);
  b.host.restore(dst.dma);
  EXPECT_EQ(dst.get<std::uint64_t>(8), 0U);
}

TEST_F(AtomicWrite, AcrossPiecesOfMemory) {
  b.host.short_span = 5;
  expect_done(atomic_write(kNew, dst, 0));
  b.host.short_span = 0;
  EXPECT_EQ(dst.get<std::uint64_t>(0), kNew);
}

TEST_F(AtomicWrite, DeviceMemory) {
  const TestDm dm = b.alloc_dm(4096);
  TestMr& mr = b.reg_dm(dm, 0, 4096);
  expect_done(atomic_write(kNew, mr, 4088));
  qa->post(read({src.sge(0, 8)}, mr, 4088));
  EXPECT_EQ(qa->wait_send().status, TERN_CQE_SUCCESS);
  EXPECT_EQ(src.get<std::uint64_t>(0), kNew);
}

// ---- duplicates ----

// A duplicate does not write the value again: a WRITE behind it has executed in between.
TEST_F(AtomicWrite, LostResponseIsRepeatedNotExecuted) {
  connect({.timeout = 8});
  lose(1, Op::kReadResponseOnly, 3);
  src.put(0, ~kNew);
  qa->post(atomic_write(kNew, dst, 0));
  qa->post(write({src.sge(0, 8)}, dst));
  for (int i = 0; i < 2; ++i) EXPECT_EQ(qa->wait_send().status, TERN_CQE_SUCCESS);
  EXPECT_EQ(dst.get<std::uint64_t>(0), ~kNew);
  EXPECT_EQ(b.counter(TERN_CNT_RX_WRITE_REQUESTS), 2U);
  EXPECT_GE(b.counter(TERN_CNT_DUPLICATE_REQUEST), 3U);
}

TEST_F(AtomicWrite, LostRequestComesAgain) {
  connect({.timeout = 8});
  lose(0, Op::kAtomicWrite, 2);
  expect_done(atomic_write(kNew, dst, 0));
  EXPECT_EQ(dst.get<std::uint64_t>(0), kNew);
  EXPECT_EQ(b.counter(TERN_CNT_DUPLICATE_REQUEST), 0U);
}

// A duplicate must equal the stored request, which must still be stored; otherwise it gets no
// answer.
TEST_F(AtomicWrite, DuplicatesThatAreNone) {
  connect({.max_rd_atomic = 2, .max_dest_rd_atomic = 2});
  std::vector<std::byte> request;
  unsigned answers = 0;
  sim.pass = [&](unsigned from, std::span<const std::byte> f) {
    if (from == 0 && request.empty()) request.assign(f.begin(), f.end());
    answers += from == 1;
    return true;
  };
  expect_done(atomic_write(kNew, dst, 0));
  dst.put(0, kOld);
  answers = 0;
  const auto repeat = [&](const std::function<void(Packet&)>& change) {
    b.receive(forged(request, change));
    b.wake();
    sim.run_until_idle();
    EXPECT_EQ(dst.get<std::uint64_t>(0), kOld);
    return std::exchange(answers, 0);
  };
  EXPECT_EQ(repeat([](Packet&) {}), 1U);
  EXPECT_EQ(repeat([](Packet& p) { p.va += 8; }), 0U);
  EXPECT_EQ(repeat([](Packet& p) { p.rkey ^= 1; }), 0U);
  EXPECT_EQ(repeat([](Packet& p) { p.dma_len = 9; }), 0U);
  EXPECT_EQ(repeat([](Packet& p) { p.psn = p.psn.prev(); }), 0U);
  EXPECT_EQ(repeat([](Packet& p) {
              p.op = Op::kFlush;
              p.flush_type = TERN_FLUSH_GLOBAL;
              p.payload.clear();
            }),
            0U);
  EXPECT_EQ(repeat([](Packet& p) {
              p.op = Op::kReadRequest;
              p.payload.clear();
            }),
            0U);
  EXPECT_EQ(repeat([](Packet&) {}), 1U);
  for (int i = 0; i < 2; ++i) expect_done(atomic_write(kNew, dst, 8));
  answers = 0;
  EXPECT_EQ(repeat([](Packet&) {}), 0U) << "two later ones have its place";
  EXPECT_EQ(qb->query().attr.state, TERN_QPS_RTS);
}

TEST_F(AtomicWrite, InOrderOnABadWire) {
  sim.wire.loss = sim.wire.duplicate = sim.wire.reorder = 0.03;
  connect({.max_rd_atomic = 4, .max_dest_rd_atomic = 4, .timeout = 8});
  // Each round writes the same word in two ways by turns; the last write must win.
  for (std::uint64_t i = 1; i <= 300; ++i) {
    src.put(0, i * 2);
    qa->post(atomic_write(i * 2 - 1, dst, 0).unsignaled());
    qa->post(flush(dst, 0, 8).unsignaled());
    if (i % 2) {
      qa->post(write({src.sge(0, 8)}, dst));
    } else {
      qa->post(atomic_write(i * 2, dst, 0));
    }
    EXPECT_EQ(qa->wait_send().status, TERN_CQE_SUCCESS);
    ASSERT_EQ(dst.get<std::uint64_t>(0), i * 2);
  }
  sim.run_until_idle();
  EXPECT_EQ(dst.get<std::uint64_t>(0), 600U);
  EXPECT_EQ(b.counter(TERN_CNT_RX_WRITE_REQUESTS), 600U);
  EXPECT_GT(sim.stats.lost, 10U);
}

TEST_F(AtomicWrite, NeedsAResponderResource) {
  connect({.max_dest_rd_atomic = 0});
  qa->post(atomic_write(kNew, dst, 0));
  expect_refused(TERN_CQE_REM_INV_REQ_ERR, TERN_EV_QP_REQ_ERR);
  connect({.max_rd_atomic = 0});
  qa->post(atomic_write(kNew, dst, 0));
  EXPECT_EQ(qa->wait_send().status, TERN_CQE_LOC_QP_OP_ERR);
  EXPECT_EQ(dst.get<std::uint64_t>(0), kOld);
}

// ---- windows ----

TEST(AtomicWriteWindow, NeedsTheRightToWrite) {
  for (const MwKind kind : {MwKind::kType1, MwKind::kType2A, MwKind::kType2B}) {
    WindowWorld w(kind, Path::kRc);
    const TestMw mw = w.window(TERN_ACCESS_REMOTE_WRITE);
    w.link().peer->post(atomic_write(kNew, mw.view, 4));
    EXPECT_EQ(w.link().peer->wait_send().status, TERN_CQE_SUCCESS);
    EXPECT_EQ(w.mr.get<std::uint64_t>(WindowWorld::kFirst + 4), kNew);
    const TestMw closed = w.window(TERN_ACCESS_REMOTE_READ | TERN_ACCESS_REMOTE_ATOMIC);
    EXPECT_EQ(w.refused(w.link(), atomic_write(kNew, closed.view, 4)), "");
  }
}

}  // namespace
}  // namespace tern

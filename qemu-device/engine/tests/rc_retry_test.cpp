// SPDX-License-Identifier: GPL-2.0-or-later
// A reliable connection when the peer is not ready or does not answer, and when the wire loses,
// duplicates, delays and corrupts frames.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/rc_pair_test.h"
#include "wire/codec.h"

namespace tern {
namespace {

using ::testing::IsEmpty;

class RcRetry : public RcPairTest {
 protected:
  // Opcode and syndrome of a frame in these tests, which use untagged IPv6.
  static std::uint8_t opcode_of(std::span<const std::byte> frame) {
    return std::to_integer<std::uint8_t>(frame[62]);
  }
  static std::uint8_t syndrome_of(std::span<const std::byte> frame) {
    return std::to_integer<std::uint8_t>(frame[74]);
  }
  // Loses `count` frames of `from` with this opcode, after the first `skip` of them.
  void lose(unsigned from, Op op, int count, int skip = 0) {
    sim.pass = [=, this](unsigned node, std::span<const std::byte> f) mutable {
      if (node != from || opcode_of(f) != static_cast<std::uint8_t>(op)) return true;
      if (skip-- > 0) return true;
      return count-- <= 0;
    };
  }
};

// ---- receiver not ready ----

TEST_F(RcRetry, WaitsForAReceive) {
  connect({.min_rnr_timer = 14});  // 1.28 ms
  qa->post(send({src.sge(0, 3000)}));
  sim.run_for(500'000);
  EXPECT_FALSE(qa->send_cq().poll());
  qb->post_recv({dst.sge()});
  const Nanos before = sim.now();
  expect_status(TERN_CQE_SUCCESS);
  EXPECT_GE(sim.now() - before, 700'000U);
  EXPECT_LE(sim.now() - before, 900'000U);
  EXPECT_EQ(qb->wait_recv().status, TERN_CQE_SUCCESS);
  EXPECT_TRUE(same_bytes(dst.bytes(0, 3000), src.bytes(0, 3000)));
  EXPECT_EQ(b.counter(TERN_CNT_OUT_OF_BUFFER), 1U);
  sim.run_until_idle();
}

TEST_F(RcRetry, TheTimerIsTheReceiversWord) {
  // IBTA table 45, in nanoseconds.
  const std::pair<std::uint8_t, Nanos> codes[] = {
      {0, 655'360'000}, {1, 10'000},      {5, 60'000},      {13, 960'000},
      {16, 2'560'000},  {24, 40'960'000}, {31, 491'520'000}};
  for (const auto& [code, wait] : codes) {
    connect({.min_rnr_timer = code});
    qa->post(send({src.sge(0, 8)}));
    const Nanos before = sim.now();
    const std::uint64_t refused = b.counter(TERN_CNT_OUT_OF_BUFFER);
    sim.run_until([&] { return b.counter(TERN_CNT_OUT_OF_BUFFER) >= refused + 2; });
    EXPECT_GE(sim.now() - before, wait);
    EXPECT_LE(sim.now() - before, wait + 100'000) << unsigned{code};
    b.destroy(*qb);
    a.destroy(*qa);
  }
}

TEST_F(RcRetry, SevenMeansForEver) {
  connect({.min_rnr_timer = 1, .rnr_retry = 7});
  qa->post(send({src.sge(0, 8)}));
  sim.run_for(1'000'000'000);
  EXPECT_GT(b.counter(TERN_CNT_OUT_OF_BUFFER), 10'000U);
  EXPECT_FALSE(qa->send_cq().poll());
  qb->post_recv({dst.sge()});
  expect_status(TERN_CQE_SUCCESS);
}

TEST_F(RcRetry, GivesUpAfterTheAgreedRetries) {
  for (const std::uint8_t retries : {std::uint8_t{0}, std::uint8_t{1}, std::uint8_t{6}}) {
    connect({.rnr_retry = retries});
    const std::uint64_t before = b.counter(TERN_CNT_OUT_OF_BUFFER);
    qa->post(send({src.sge(0, 8)}));
    qa->post(send({src.sge(0, 8)}));
    expect_status(TERN_CQE_RNR_RETRY_EXC_ERR);
    expect_status(TERN_CQE_WR_FLUSH_ERR);
    EXPECT_EQ(b.counter(TERN_CNT_OUT_OF_BUFFER) - before, retries + 1U);
    EXPECT_EQ(qa->query().attr.state, TERN_QPS_ERR);
    EXPECT_EQ(qb->query().attr.state, TERN_QPS_RTS);
    sim.run_until_idle();
  }
  EXPECT_EQ(a.counter(TERN_CNT_RNR_NAK_RETRY_ERR), 3U);
}

TEST_F(RcRetry, WorkBehindWaitsAndEverythingBeforeIsDone) {
  connect({.min_rnr_timer = 14});
  qa->post(write({src.sge(0, 5000)}, dst).id(1));
  qa->post(read({src.sge(100000, 5000)}, dst).id(2));
  qa->post(send({src.sge(0, 5000)}).id(3));
  qa->post(write({src.sge(5000, 5000)}, dst, 5000).id(4));
  qa->post(fetch_add(src.sge(0, 8), dst, 200000, 5).id(5));
  sim.run_for(200'000);
  EXPECT_EQ(le(qa->wait_send().wr_id), 1U);
  EXPECT_EQ(le(qa->wait_send().wr_id), 2U);
  EXPECT_FALSE(qa->send_cq().poll());
  EXPECT_EQ(dst.get<std::uint64_t>(200000), 0U);
  qb->post_recv({dst.sge(20000, 5000)});
  for (std::uint64_t i = 3; i <= 5; ++i) {
    const Wc wc = qa->wait_send();
    EXPECT_EQ(wc.status, TERN_CQE_SUCCESS);
    EXPECT_EQ(le(wc.wr_id), i);
  }
  EXPECT_EQ(dst.get<std::uint64_t>(200000), 5U);
  EXPECT_TRUE(same_bytes(dst.bytes(5000, 5000), src.bytes(5000, 5000)));
  sim.run_until_idle();
}

TEST_F(RcRetry, WriteWithImmediateNeedsAReceiveToo) {
  connect({.min_rnr_timer = 14});
  qa->post(write({src.sge(0, 5000)}, dst).immediate(3));
  sim.run_for(500'000);
  EXPECT_FALSE(qa->send_cq().poll());
  qb->post_recv({});
  expect_status(TERN_CQE_SUCCESS);
  EXPECT_EQ(qb->wait_recv().imm, 3U);
  EXPECT_TRUE(same_bytes(dst.bytes(0, 5000), src.bytes(0, 5000)));
}

TEST_F(RcRetry, ReceiverNotReadyInside) {
  TestQp& x = a.create_qp({.min_rnr_timer = 10});
  TestQp& y = a.create_qp({.min_rnr_timer = 10});
  x.connect(y);
  y.connect(x);
  x.post(send({src.sge(0, 3000)}));
  sim.run_for(1'000'000);
  EXPECT_FALSE(x.send_cq().poll());
  y.post_recv({src.sge(100000, 3000)});
  EXPECT_EQ(x.wait_send().status, TERN_CQE_SUCCESS);
  EXPECT_TRUE(same_bytes(src.bytes(100000, 3000), src.bytes(0, 3000)));
  EXPECT_EQ(sim.stats.sent, 0U);
}

// ---- no answer ----

TEST_F(RcRetry, TimesOutAfterTheAgreedRetries) {
  for (const std::uint8_t retries : {std::uint8_t{0}, std::uint8_t{1}, std::uint8_t{7}}) {
    connect({.timeout = 14, .retry_cnt = retries});
    sim.pass = [](unsigned, std::span<const std::byte>) { return false; };
    const Nanos before = sim.now();
    qa->post(write({src.sge(0, 8)}, dst).id(1));
    qa->post(write({src.sge(0, 8)}, dst).id(2));
    expect_status(TERN_CQE_RETRY_EXC_ERR);
    expect_status(TERN_CQE_WR_FLUSH_ERR);
    // 67.1 ms per try; up to four times as long is allowed.
    const Nanos timeout = Nanos{4096} << 14;
    EXPECT_GE(sim.now() - before, timeout * (retries + 1U));
    EXPECT_LE(sim.now() - before, 4 * timeout * (retries + 1U));
    EXPECT_EQ(qa->query().attr.state, TERN_QPS_ERR);
    EXPECT_EQ(qb->query().attr.state, TERN_QPS_RTS);
    sim.pass = nullptr;
  }
  EXPECT_EQ(a.counter(TERN_CNT_LOCAL_ACK_TIMEOUT_ERR), 1U + 2U + 8U);
  EXPECT_THAT(a.async_events(), IsEmpty());
}

TEST_F(RcRetry, ZeroMeansNoTimeout) {
  connect({.timeout = 0});
  sim.pass = [](unsigned, std::span<const std::byte>) { return false; };
  qa->post(write({src.sge(0, 8)}, dst));
  sim.run_until_idle();
  EXPECT_FALSE(qa->send_cq().poll());
  EXPECT_EQ(qa->query().attr.state, TERN_QPS_RTS);
}

TEST_F(RcRetry, PeerThatWentAwayIsNoticed) {
  connect({.timeout = 12, .retry_cnt = 2});
  b.destroy(*qb);
  qa->post(send({src.sge(0, 8)}));
  expect_status(TERN_CQE_RETRY_EXC_ERR);
  EXPECT_GE(b.counter(TERN_CNT_RX_QP_MISMATCH), 3U);
}

TEST_F(RcRetry, LinkThatComesBackInTime) {
  connect({.timeout = 14, .retry_cnt = 7});
  b.device.set_link(false);
  qa->post(write({src.sge(0, 100000)}, dst));
  sim.run_for(200'000'000);
  b.device.set_link(true);
  expect_status(TERN_CQE_SUCCESS);
  EXPECT_TRUE(same_bytes(dst.bytes(0, 100000), src.bytes(0, 100000)));
}

TEST_F(RcRetry, RetriesStartAnewAfterProgress) {
  connect({.timeout = 10, .retry_cnt = 1});
  // Every second frame of the requester is lost.
  bool odd = false;
  sim.pass = [&](unsigned node, std::span<const std::byte>) { return node != 0 || (odd = !odd); };
  for (int i = 0; i < 20; ++i) {
    qa->post(write({src.sge(0, 8)}, dst));
    expect_status(TERN_CQE_SUCCESS);
  }
}

// An RNR NAK does not reset the retry count: the losses before and after it are consecutive.
TEST_F(RcRetry, RnrNakIsNoProgress) {
  connect({.min_rnr_timer = 14, .timeout = 8, .retry_cnt = 1});
  int sent = 0;
  sim.pass = [&](unsigned node, std::span<const std::byte>) { return node != 0 || ++sent == 2; };
  qa->post(send({src.sge(0, 8)}));
  expect_status(TERN_CQE_RETRY_EXC_ERR);
  EXPECT_EQ(sent, 3);
  EXPECT_EQ(b.counter(TERN_CNT_OUT_OF_BUFFER), 1U);
  EXPECT_EQ(a.counter(TERN_CNT_LOCAL_ACK_TIMEOUT_ERR), 2U);
}

// An RNR NAK acknowledges the requests before its PSN, which resets the retry count.
TEST_F(RcRetry, WhatAnRnrNakAcknowledgesIsProgress) {
  connect({.min_rnr_timer = 14, .timeout = 8, .retry_cnt = 1});
  int sent = 0;
  sim.pass = [&](unsigned node, std::span<const std::byte> f) {
    if (node == 0) return ++sent == 3 || sent == 4 || sent == 6;
    return (syndrome_of(f) & kSyndromeKindMask) == kSyndromeKindRnr || sent == 6;
  };
  qa->post(write({src.sge(0, 8)}, dst), false);
  qa->post(send({src.sge(0, 8)}));
  sim.run_until([&] { return sent == 5; });
  qb->post_recv({dst.sge()});
  expect_status(TERN_CQE_SUCCESS);
  expect_status(TERN_CQE_SUCCESS);
  EXPECT_EQ(sent, 6);
  EXPECT_EQ(b.counter(TERN_CNT_OUT_OF_BUFFER), 1U);
  EXPECT_EQ(a.counter(TERN_CNT_LOCAL_ACK_TIMEOUT_ERR), 2U);
}

// ---- single losses ----

TEST_F(RcRetry, LostRequestIsAskedForAtOnce) {
  connect();
  lose(0, Op::kWriteMiddle, 1, 3);
  const Nanos before = sim.now();
  qa->post(write({src.sge(0, 100000)}, dst));
  expect_status(TERN_CQE_SUCCESS);
  EXPECT_LE(sim.now() - before, 1'000'000U);  // by NAK, not by timeout
  EXPECT_TRUE(same_bytes(dst.bytes(0, 100000), src.bytes(0, 100000)));
  EXPECT_EQ(b.counter(TERN_CNT_OUT_OF_SEQUENCE), 1U);
  EXPECT_EQ(a.counter(TERN_CNT_PACKET_SEQ_ERR), 1U);
  EXPECT_EQ(a.counter(TERN_CNT_LOCAL_ACK_TIMEOUT_ERR), 0U);
}

TEST_F(RcRetry, LostLastPacketIsFoundByTimeout) {
  connect();
  lose(0, Op::kSendLast, 1);
  qb->post_recv({dst.sge()});
  qa->post(send({src.sge(0, 100000)}));
  expect_status(TERN_CQE_SUCCESS);
  EXPECT_TRUE(same_bytes(dst.bytes(0, 100000), src.bytes(0, 100000)));
  EXPECT_EQ(a.counter(TERN_CNT_LOCAL_ACK_TIMEOUT_ERR), 1U);
  EXPECT_EQ(qb->wait_recv().status, TERN_CQE_SUCCESS);
}

TEST_F(RcRetry, LostAcknowledgementRepeatsNothingVisible) {
  connect();
  lose(1, Op::kAck, 1);
  qb->post_recv({dst.sge(0, 100)}, 1);
  qb->post_recv({dst.sge(100, 100)}, 2);
  qa->post(send({src.sge(0, 100)}));
  expect_status(TERN_CQE_SUCCESS);
  EXPECT_EQ(le(qb->wait_recv().wr_id), 1U);
  EXPECT_GE(b.counter(TERN_CNT_DUPLICATE_REQUEST), 1U);
  sim.run_until_idle();
  EXPECT_FALSE(qb->recv_cq().poll());
}

TEST_F(RcRetry, LostAtomicResponseIsRepeatedNotExecuted) {
  connect();
  lose(1, Op::kAtomicAck, 3);
  dst.put(0, std::uint64_t{100});
  qa->post(fetch_add(src.sge(0, 8), dst, 0, 1));
  expect_status(TERN_CQE_SUCCESS);
  EXPECT_EQ(src.get<std::uint64_t>(0), 100U);
  EXPECT_EQ(dst.get<std::uint64_t>(0), 101U);
  EXPECT_EQ(b.counter(TERN_CNT_RX_ATOMIC_REQUESTS), 1U);
}

TEST_F(RcRetry, AnyLostReadResponseIsAskedForAgain) {
  for (const Op op : {Op::kReadRequest, Op::kReadResponseFirst, Op::kReadResponseMiddle,
                      Op::kReadResponseLast, Op::kReadResponseOnly}) {
    connect();
    const std::uint32_t len = op == Op::kReadResponseOnly ? 1000 : 50000;
    dst.fill(static_cast<unsigned>(op));
    lose(op == Op::kReadRequest ? 0 : 1, op, 1, op == Op::kReadResponseMiddle ? 7 : 0);
    qa->post(read({src.sge(0, len)}, dst));
    expect_status(TERN_CQE_SUCCESS);
    EXPECT_TRUE(same_bytes(src.bytes(0, len), dst.bytes(0, len)));
  }
}

TEST_F(RcRetry, LostNakIsMadeUpFor) {
  connect();
  int dropped = 0;
  sim.pass = [&](unsigned node, std::span<const std::byte> f) {
    if (node == 0 && opcode_of(f) == 0x07 && dropped == 0) return ++dropped, false;
    if (node == 1 && opcode_of(f) == 0x11 && syndrome_of(f) == kNakSequence && dropped == 1) {
      return ++dropped, false;
    }
    return true;
  };
  qa->post(write({src.sge(0, 100000)}, dst));
  expect_status(TERN_CQE_SUCCESS);
  EXPECT_EQ(dropped, 2);
  EXPECT_TRUE(same_bytes(dst.bytes(0, 100000), src.bytes(0, 100000)));
}

// ---- a bad wire ----

struct Wire {
  const char* name;
  double loss, duplicate, reorder, corrupt;
};
class RcBadWire : public RcRetry, public ::testing::WithParamInterface<Wire> {};
INSTANTIATE_TEST_SUITE_P(
    Each, RcBadWire,
    ::testing::Values(Wire{"Loss1", 0.01, 0, 0, 0}, Wire{"Loss5", 0.05, 0, 0, 0},
                      Wire{"Duplicates", 0, 0.1, 0, 0}, Wire{"Reorder", 0, 0, 0.05, 0},
                      Wire{"Corrupt", 0, 0, 0, 0.02}, Wire{"All", 0.01, 0.02, 0.02, 0.01}),
    [](const auto& p) { return p.param.name; });

TEST_P(RcBadWire, EverythingArrivesOnceAndInOrder) {
  connect({.max_rd_atomic = 4, .max_dest_rd_atomic = 4, .timeout = 8});
  const Wire w = GetParam();
  sim.wire.loss = w.loss;
  sim.wire.duplicate = w.duplicate;
  sim.wire.reorder = w.reorder;
  sim.wire.corrupt = w.corrupt;
  // Each message has its own slot, so that the result can be checked at the end.
  constexpr std::uint64_t kSlot = 6000;
  std::uint64_t done = 0, received = 0;
  const auto reap = [&] {
    while (const auto wc = qa->send_cq().poll()) {
      ASSERT_EQ(wc->status, TERN_CQE_SUCCESS) << status_name(wc->status) << " of " << done;
      ASSERT_EQ(le(wc->wr_id), done++);
    }
    while (const auto wc = qb->recv_cq().poll()) {
      ASSERT_EQ(wc->status, TERN_CQE_SUCCESS);
      ASSERT_EQ(le(wc->wr_id), received++);
    }
  };
  constexpr std::uint64_t kRounds = 400;
  for (std::uint64_t i = 0; i < kRounds; ++i) {
    const std::uint64_t at = i % 30 * kSlot;
    qb->post_recv({dst.sge(at, kSlot)}, i);
    qa->post(send({src.sge(at, static_cast<std::uint32_t>(kSlot))}).id(3 * i));
    qa->post(read({src.sge(at, static_cast<std::uint32_t>(kSlot))}, dst, at).id(3 * i + 1));
    qa->post(fetch_add(src.sge(200000, 8), dst, 200000, 1).id(3 * i + 2));
    while (qa->sq_free() < 3 || qb->rq_free() < 1) {
      if (!sim.step()) break;
      reap();
      if (HasFatalFailure()) return;
    }
  }
  sim.run_until([&] {
    reap();
    return done == 3 * kRounds || HasFatalFailure();
  });
  EXPECT_EQ(done, 3 * kRounds);
  EXPECT_EQ(received, kRounds);
  EXPECT_EQ(dst.get<std::uint64_t>(200000), kRounds);
  EXPECT_TRUE(same_bytes(dst.bytes(0, 30 * kSlot), src.bytes(0, 30 * kSlot)));
  EXPECT_EQ(src.get<std::uint64_t>(200000), kRounds - 1);
  EXPECT_EQ(w.corrupt > 0, b.counter(TERN_CNT_RX_ICRC_ERRORS) > 0);
}

}  // namespace
}  // namespace tern

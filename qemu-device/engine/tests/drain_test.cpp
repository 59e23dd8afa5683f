// SPDX-License-Identifier: GPL-2.0-or-later
// SQD: the event SQ_DRAINED is raised once, when all WQEs begun before are complete, also when
// packets have to be retransmitted.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "tests/rc_pair_test.h"
#include "wire/codec.h"

namespace tern {
namespace {

class Drain : public RcPairTest {
 protected:
  void connect(const QpOptions& options = {}) {
    RcPairTest::connect(options);
    (void)a.async_events();
  }
  void drain() { ASSERT_EQ(qa->to_state(TERN_QPS_SQD, TERN_QPM_SQD_NOTIFY), TERN_ST_OK); }
  unsigned drained_events() {
    unsigned n = 0;
    for (const tern_eqe& e : a.async_events()) {
      if (le(std::uint16_t{e.type}) != TERN_EV_SQ_DRAINED) continue;
      EXPECT_EQ(le(std::uint32_t{e.id}), qa->number());
      ++n;
    }
    return n;
  }
  void expect_draining() {
    EXPECT_EQ(drained_events(), 0U);
    EXPECT_EQ(qa->query().attr.sq_draining, 1);
    EXPECT_FALSE(qa->send_cq().poll());
  }
  void expect_drained() {
    EXPECT_EQ(drained_events(), 1U);
    EXPECT_EQ(qa->query().attr.sq_draining, 0);
  }
};

TEST_F(Drain, AReceiverThatIsNotReadyHoldsItUp) {
  connect({.min_rnr_timer = 14});
  qa->post(send({src.sge(0, 3000)}).id(1));
  sim.run_for(200'000);
  EXPECT_EQ(b.counter(TERN_CNT_OUT_OF_BUFFER), 1U);
  drain();
  qa->post(send({src.sge(0, 10)}).id(2));
  sim.run_for(5'000'000);
  EXPECT_GE(b.counter(TERN_CNT_OUT_OF_BUFFER), 3U);
  expect_draining();
  qb->post_recv({dst.sge()});
  qb->post_recv({dst.sge()});
  EXPECT_EQ(le(qa->wait_send().wr_id), 1U);
  expect_drained();
  sim.run_until_idle();
  EXPECT_FALSE(qa->send_cq().poll());
  ASSERT_EQ(qa->to_state(TERN_QPS_RTS), TERN_ST_OK);
  EXPECT_EQ(le(qa->wait_send().wr_id), 2U);
  EXPECT_EQ(drained_events(), 0U);
}

TEST_F(Drain, ALostAcknowledgementHoldsItUp) {
  connect();
  bool lose = true;
  sim.pass = [&](unsigned from, std::span<const std::byte>) { return from != 1 || !lose; };
  qa->post(write({src.sge(0, 5000)}, dst).id(1));
  sim.run_for(1'000'000);
  drain();
  sim.run_until([&] { return a.counter(TERN_CNT_LOCAL_ACK_TIMEOUT_ERR) >= 2; });
  expect_draining();
  lose = false;
  EXPECT_EQ(le(qa->wait_send().wr_id), 1U);
  expect_drained();
}

TEST_F(Drain, ReadsHoldItUp) {
  connect();
  int lose = 2;
  sim.pass = [&](unsigned from, std::span<const std::byte>) { return from != 1 || lose-- <= 0; };
  for (std::uint64_t i = 0; i < 3; ++i) {
    qa->post(read({src.sge(10000 * i, 10000)}, dst, 10000 * i).id(i + 1));
  }
  qa->post(fetch_add(src.sge(0, 8), dst, 200000, 5).id(4));
  sim.step();
  drain();
  expect_draining();
  // Two packets of the first response are lost: an implied NAK, and the READ is repeated.
  EXPECT_EQ(le(qa->wait_send().wr_id), 1U);
  EXPECT_GE(a.counter(TERN_CNT_IMPLIED_NAK_SEQ_ERR), 1U);
  for (std::uint64_t i = 2; i <= 4; ++i) {
    EXPECT_EQ(drained_events(), 0U);
    EXPECT_EQ(qa->query().attr.sq_draining, 1);
    EXPECT_EQ(le(qa->wait_send().wr_id), i);
  }
  expect_drained();
}

// Back to RTS before the queue is drained: the event is cancelled, and a later SQD raises its own.
TEST_F(Drain, ToRtsBeforeItIsDrained) {
  connect({.min_rnr_timer = 14});
  qa->post(send({src.sge(0, 3000)}).id(1));
  sim.run_for(200'000);
  drain();
  expect_draining();
  ASSERT_EQ(qa->to_state(TERN_QPS_RTS), TERN_ST_OK);
  EXPECT_EQ(qa->query().attr.sq_draining, 0);
  qb->post_recv({dst.sge()});
  EXPECT_EQ(qa->wait_send().status, TERN_CQE_SUCCESS);
  sim.run_until_idle();
  EXPECT_EQ(drained_events(), 0U);
  drain();
  expect_drained();
}

// ---- at random ----

class DrainStorm : public ::testing::TestWithParam<unsigned> {};

TEST_P(DrainStorm, OnceAndNotBeforeTheLastOne) {
  constexpr unsigned kQps = 4;
  constexpr unsigned kRounds = 60;
  constexpr std::uint32_t kPiece = 8192;
  std::mt19937_64 random(GetParam());
  Sim sim(GetParam());
  TestNode a(sim);
  TestNode b(sim);
  struct Link {
    TestQp* qa;
    TestQp* qb;
    std::uint64_t posted = 0;
    std::uint64_t completed = 0;
    std::uint64_t receives_owed = 0;
    unsigned events = 0;
  };
  TestMr& src = a.reg(kPiece * kQps);
  TestMr& dst = b.reg(kPiece * kQps);
  TestMr& landing = a.reg(kPiece * kQps);  // not `src`: retransmitted data must not change
  std::vector<Link> links;
  for (unsigned i = 0; i < kQps; ++i) {
    const auto [x, y] = rc_pair(a, b, {.log_sq_size = 7, .min_rnr_timer = 5, .timeout = 1});
    links.push_back({&x, &y});
  }
  (void)a.async_events();
  const auto collect = [&] {
    for (Link& l : links) {
      while (const auto wc = l.qa->send_cq().poll()) {
        EXPECT_EQ(wc->status, TERN_CQE_SUCCESS) << status_name(wc->status);
        EXPECT_EQ(le(wc->wr_id), ++l.completed);
      }
      (void)l.qb->recv_cq().poll_all();
    }
    for (const tern_eqe& e : a.async_events()) {
      if (le(std::uint16_t{e.type}) != TERN_EV_SQ_DRAINED) continue;
      for (Link& l : links) l.events += le(std::uint32_t{e.id}) == l.qa->number();
    }
  };
  const auto post = [&](Link& l, unsigned piece) {
    const auto len = static_cast<std::uint32_t>(random() % kPiece);
    const std::uint64_t at = std::uint64_t{piece} * kPiece;
    const tern_sge sge = src.sge(at, len);
    const std::uint64_t id = ++l.posted;
    switch (random() % 4) {
      case 0:
        ++l.receives_owed;
        return l.qa->post(send({sge}).id(id));
      case 1:
        return l.qa->post(write({sge}, dst, at).id(id));
      case 2:
        return l.qa->post(read({landing.sge(at, len)}, dst, at).id(id));
      default:
        return l.qa->post(fetch_add(landing.sge(at, 8), dst, at, 1).id(id));
    }
  };
  const auto receive = [&](Link& l) {
    for (; l.receives_owed > 0; --l.receives_owed) l.qb->post_recv({dst.sge(0, kPiece)});
  };
  sim.budget = 4096;
  sim.turn_time = 1000;
  unsigned waited = 0;  // rounds in which the event had to wait
  for (unsigned round = 0; round < kRounds; ++round) {
    sim.wire.loss = round % 3 == 0 ? 0.05 : 0;
    Link& l = links[random() % kQps];
    const auto piece = static_cast<unsigned>(&l - links.data());
    for (std::uint64_t n = 1 + random() % 6; n > 0; --n) post(l, piece);
    if (random() % 2) receive(l);
    sim.run_for(random() % 40'000);
    collect();
    l.events = 0;
    ASSERT_EQ(l.qa->to_state(TERN_QPS_SQD, TERN_QPM_SQD_NOTIFY), TERN_ST_OK);
    collect();
    if (l.events == 0) ++waited;
    // Posted in SQD: it must not begin.
    post(l, piece);
    for (unsigned i = 0; i < 8000 && l.events == 0; ++i) {
      sim.run_for(random() % 100'000);
      if (i == 8) receive(l);
      collect();
      const bool before = l.events != 0;
      const bool draining = l.qa->query().attr.sq_draining != 0;
      collect();
      EXPECT_FALSE(before && draining);
      EXPECT_TRUE(draining || l.events == 1) << "QUERY_QP was earlier than the event";
    }
    EXPECT_EQ(l.events, 1U) << "round " << round;
    EXPECT_EQ(l.qa->query().attr.sq_draining, 0);
    // All WQEs that were begun are complete, so none completes now.
    const std::uint64_t done = l.completed;
    receive(l);
    sim.run_for(50'000'000);
    collect();
    EXPECT_EQ(l.completed, done) << "a WQE completed behind the event";
    EXPECT_LT(l.completed, l.posted);
    EXPECT_EQ(l.events, 1U);
    sim.wire.loss = 0;
    ASSERT_EQ(l.qa->to_state(TERN_QPS_RTS), TERN_ST_OK);
    EXPECT_TRUE(sim.run_until([&] { return collect(), l.completed == l.posted; }));
    EXPECT_EQ(l.events, 1U);
  }
  EXPECT_GT(waited, kRounds / 4);
}

INSTANTIATE_TEST_SUITE_P(Seeds, DrainStorm, ::testing::Range(1U, 7U));

}  // namespace
}  // namespace tern

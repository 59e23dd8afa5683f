// SPDX-License-Identifier: GPL-2.0-or-later
// Documentation/spec/doorbells.rst, "Queues that the device polls": send queues.
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "testing/eth_queue.h"
#include "tests/mini_driver.h"

namespace tern {
namespace {

// More doorbells than it takes to be polled, and more idle polls than it takes to be dropped.
constexpr int kOften = 200;
constexpr int kForgotten = 10'000;
constexpr std::size_t kMost = 16;

struct SqPolling : ::testing::Test {
  Sim sim;
  TestNode node{sim, {.lanes = 1}};
  TestMr& from = node.reg(4096);
  TestMr& to = node.reg(4096);

  void SetUp() override { node.device.datapath.sq_poller.allow(0); }

  static bool polled(const TestQp& qp) { return (qp.record_status() & TERN_QP_ST_SQ_POLLED) != 0; }
  // Posts a WRITE of 8 bytes and runs the device once; it would be busy while it polls a queue.
  void write_one(TestQp& qp, bool ring) {
    qp.post(write({from.sge(0, 8)}, to, 8), ring);
    (void)node.device.run(1 << 16);
  }
  void write_often(TestQp& qp) {
    for (int i = 0; i < kOften && !polled(qp); ++i) {
      write_one(qp, true);
      (void)qp.send_cq().poll_all();
    }
  }
  // A QP whose send queue the device polls.
  TestQp& polled_qp(const QpOptions& options = {}) {
    TestQp& qp = rc_pair(node, node, options).first;
    EXPECT_FALSE(polled(qp));
    write_often(qp);
    EXPECT_TRUE(polled(qp));
    return qp;
  }
  // Like the host's worker: looks for work, and runs the device if there is any.
  void idle() {
    for (int i = 0; i < kForgotten && !(node.device.poll() && !node.device.run(1 << 16)); ++i) {
    }
  }
};

TEST_F(SqPolling, BusyQueueNeedsNoDoorbell) {
  auto [qp, peer] = rc_pair(node, node);
  EXPECT_FALSE(polled(qp));
  write_often(qp);
  ASSERT_TRUE(polled(qp));
  EXPECT_FALSE(polled(peer));
  for (int i = 0; i < 100; ++i) {
    write_one(qp, false);
    ASSERT_EQ(qp.send_cq().poll_all().size(), 1U);
  }
  // An unnecessary doorbell does no harm.
  write_one(qp, true);
  EXPECT_EQ(qp.send_cq().poll_all().size(), 1U);
}

// Where a doorbell is a message to another process, rarer doorbells are worth polling for, and for
// longer.
TEST(SqPollingCost, CostlyDoorbellsMakeRareOnesWorthPolling) {
  struct {
    Nanos cost, spacing;
    bool worth;
    int polls;  // without work, after which the queue is still polled
  } const cases[] = {
      {1'000, 100'000, false, 0},
      {50'000, 100'000, true, 25'000},
      {200'000, 700'000, true, 51'000},
      {200'000, 900'000, false, 0},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(testing::Message()
                 << "a doorbell of " << c.cost << " ns each " << c.spacing << " ns");
    Sim sim;
    TestNode node(sim, {.lanes = 1, .doorbell_cost = c.cost});
    node.device.datapath.sq_poller.allow(0);
    TestMr& from = node.reg(4096);
    TestMr& to = node.reg(4096);
    auto [qp, peer] = rc_pair(node, node);
    const auto polled = [&q = qp] { return (q.record_status() & TERN_QP_ST_SQ_POLLED) != 0; };
    for (int i = 0; i < kOften && !polled(); ++i) {
      sim.run_for(c.spacing);
      qp.post(write({from.sge(0, 8)}, to, 8));
      (void)node.device.run(1 << 16);
      (void)qp.send_cq().poll_all();
    }
    ASSERT_EQ(polled(), c.worth);
    if (!polled()) continue;
    for (int i = 0; i < c.polls; ++i) node.device.datapath.sq_poller.poll();
    EXPECT_TRUE(polled());
    for (int i = 0; i < c.polls / 10; ++i) node.device.datapath.sq_poller.poll();
    EXPECT_FALSE(polled());
  }
}

TEST_F(SqPolling, LookFindsWhatWasPosted) {
  TestQp& qp = polled_qp();
  EXPECT_FALSE(node.device.poll());
  qp.post(write({from.sge(0, 8)}, to, 8), false);
  EXPECT_TRUE(node.device.poll());
  EXPECT_TRUE(node.device.poll()) << "still not run";
  (void)node.device.run(1 << 16);
  EXPECT_EQ(qp.send_cq().poll_all().size(), 1U);
  EXPECT_FALSE(node.device.poll());
}

// The device does other work while it polls a queue.
TEST_F(SqPolling, OtherWorkGoesOn) {
  auto [qp, peer] = rc_pair(node, node);
  TestEthQueue tx(node, TERN_ETH_QUEUE_TX, node.create_cq());
  write_often(qp);
  ASSERT_TRUE(polled(qp));
  const auto frame = eth_frame(node.mac(), node.mac(), 1000);
  for (int i = 0; i < 8; ++i) tx.send(frame);
  (void)node.device.run(1);
  EXPECT_TRUE(node.device.poll());
  while (node.device.poll() && tx.cq().poll_all().empty()) (void)node.device.run(1);
  (void)node.device.run(1 << 16);
  EXPECT_FALSE(node.device.poll());
  EXPECT_TRUE(polled(qp));
}

TEST_F(SqPolling, NobodyUnlessTheHostAllows) {
  node.device.datapath.sq_poller.allow(kNever);
  auto [qp, peer] = rc_pair(node, node);
  write_often(qp);
  EXPECT_FALSE(polled(qp));
  EXPECT_FALSE(node.device.run(1 << 16));
  EXPECT_TRUE(node.device.poll()) << "there is nothing to look at";
}

TEST_F(SqPolling, NobodyBeforeTheHostAllows) {
  TestQp& qp = polled_qp();
  node.device.datapath.sq_poller.allow(node.host.clock + 1000);
  EXPECT_FALSE(polled(qp));
  write_often(qp);
  EXPECT_FALSE(polled(qp));
  node.host.advance(1000);
  write_often(qp);
  EXPECT_TRUE(polled(qp));
}

TEST_F(SqPolling, NobodyWhoRingsRarely) {
  auto [qp, peer] = rc_pair(node, node);
  for (int i = 0; i < 2 * kOften; ++i) {
    node.host.advance(10'000);
    write_one(qp, true);
    (void)qp.send_cq().poll_all();
  }
  EXPECT_FALSE(polled(qp));
  EXPECT_FALSE(node.device.run(1 << 16));
}

TEST_F(SqPolling, WhoIsIdleHasToRingAgain) {
  TestQp& qp = polled_qp();
  idle();
  EXPECT_FALSE(polled(qp));
  EXPECT_FALSE(node.device.run(1 << 16)) << "the host may sleep";
  write_one(qp, false);
  EXPECT_EQ(qp.send_cq().poll_all().size(), 0U);
  qp.ring();
  node.pump();
  EXPECT_EQ(qp.send_cq().poll_all().size(), 1U);
}

// An occasional message does not justify a processor that only polls.
TEST_F(SqPolling, WhoPostsRarelyIsLetGo) {
  TestQp& qp = polled_qp();
  for (int i = 0; i < 20 && polled(qp); ++i) {
    for (int look = 0; look < 400; ++look) (void)node.device.poll();
    write_one(qp, !polled(qp));
    ASSERT_EQ(qp.send_cq().poll_all().size(), 1U);
  }
  EXPECT_FALSE(polled(qp));
}

// The index is stored after the device's last poll, and the status is read before it changes.
TEST_F(SqPolling, WhatIsPostedMeanwhileIsFound) {
  TestQp& qp = polled_qp();
  bool posted = false;
  node.host.stored = [&](std::byte*) {
    if (std::exchange(posted, true)) return;
    EXPECT_FALSE(polled(qp)) << "something else was stored";
    qp.post(write({from.sge(0, 8)}, to, 8), false);
  };
  idle();
  node.host.stored = nullptr;
  ASSERT_TRUE(posted);
  EXPECT_FALSE(polled(qp));
  EXPECT_EQ(qp.send_cq().poll_all().size(), 1U);
}

TEST_F(SqPolling, WhatIsPostedWhenTheHostForbidsIsFound) {
  TestQp& qp = polled_qp();
  qp.post(write({from.sge(0, 8)}, to, 8), false);
  node.device.datapath.sq_poller.allow(kNever);
  EXPECT_FALSE(polled(qp));
  node.pump();
  EXPECT_EQ(qp.send_cq().poll_all().size(), 1U);
}

// The device polls in RTS only, and a change of state ends polling.
TEST_F(SqPolling, OnlyInRts) {
  TestQp& qp = polled_qp();
  EXPECT_EQ(qp.to_state(TERN_QPS_SQD), TERN_ST_OK);
  EXPECT_EQ(qp.record_status(), 0U);
  for (int i = 0; i < kOften; ++i) qp.ring();
  EXPECT_FALSE(polled(qp));
  EXPECT_EQ(qp.to_state(TERN_QPS_RTS), TERN_ST_OK);

  write_often(qp);
  ASSERT_TRUE(polled(qp));
  EXPECT_EQ(qp.to_state(TERN_QPS_ERR), TERN_ST_OK);
  EXPECT_EQ(qp.record_status(), TERN_QP_ST_RQ_KICK);
  write_one(qp, true);
  const auto flushed = qp.send_cq().poll_all();
  ASSERT_EQ(flushed.size(), 1U);
  EXPECT_EQ(flushed[0].status, TERN_CQE_WR_FLUSH_ERR);
  EXPECT_FALSE(node.device.run(1 << 16));
}

// Also from RESET: a receive posted in ERR needs its doorbell.
TEST_F(SqPolling, ErrorFromResetTells) {
  TestQp& qp = node.create_qp();
  EXPECT_EQ(qp.to_state(TERN_QPS_ERR), TERN_ST_OK);
  EXPECT_EQ(qp.record_status(), TERN_QP_ST_RQ_KICK);
}

TEST_F(SqPolling, ResetTakesTheStatusBack) {
  TestQp& qp = polled_qp();
  EXPECT_EQ(qp.to_state(TERN_QPS_RESET), TERN_ST_OK);
  EXPECT_EQ(qp.record_status(), 0U);
  EXPECT_FALSE(node.device.run(1 << 16));
}

TEST_F(SqPolling, DestroyedAndNobodyLooks) {
  TestQp& qp = polled_qp();
  node.destroy(qp);
  EXPECT_FALSE(node.device.run(1 << 16));
  EXPECT_TRUE(node.device.poll());
}

// UD and UC QPs enter SQE and wait there for software.
TEST_F(SqPolling, SendQueueErrorEndsIt) {
  TestQp& qp = polled_qp({.type = TERN_QPT_UC});
  qp.post(write({{.addr = 0, .length = 8, .lkey = 0x12345600}}, to, 8), false);
  (void)node.device.run(1 << 16);
  EXPECT_EQ(qp.record_status(), 0U);
  EXPECT_FALSE(node.device.run(1 << 16));
  (void)qp.send_cq().poll_all();
  write_one(qp, true);
  EXPECT_EQ(qp.send_cq().poll_all().size(), 1U) << "flushed";
}

TEST_F(SqPolling, AnIndexThatJumpsIsAnErrorOnce) {
  TestQp& qp = polled_qp();
  (void)node.async_events();
  qp.store_sq_pi(0x7000'0000);
  idle();
  EXPECT_EQ(qp.record_status(), TERN_QP_ST_RQ_KICK);
  const auto events = node.async_events();
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(le(events[0].type), TERN_EV_QP_FATAL);
  EXPECT_FALSE(node.device.run(1 << 16));
}

// A record that is not RAM any more: the same as if the doorbell had been rung.
TEST_F(SqPolling, ARecordThatIsGone) {
  TestQp& qp = polled_qp();
  node.host.punch(qp.record(), sizeof(tern_qp_record));
  idle();
  node.host.restore(qp.record());
  EXPECT_FALSE(node.device.run(1 << 16));
  const auto events = node.async_events();
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(le(events[0].type), TERN_EV_QP_FATAL);
}

TEST_F(SqPolling, SoManyAtMost) {
  std::vector<TestQp*> qps;
  for (std::size_t i = 0; i < 2 * kMost; ++i) qps.push_back(&rc_pair(node, node).first);
  const auto count = [&] {
    return static_cast<std::size_t>(
        std::ranges::count_if(qps, [](const TestQp* q) { return polled(*q); }));
  };
  for (int i = 0; i < kOften; ++i) {
    for (std::size_t q = 0; q < kMost; ++q) {
      write_one(*qps[q], true);
      (void)qps[q]->send_cq().poll_all();
    }
  }
  EXPECT_GT(count(), 0U);
  for (std::size_t q = kMost; q < qps.size(); ++q) write_often(*qps[q]);
  EXPECT_LE(count(), kMost);
  // Every QP makes progress, polled or not.
  for (TestQp* const qp : qps) {
    write_one(*qp, !polled(*qp));
    EXPECT_EQ(qp->send_cq().poll_all().size(), 1U);
  }
  idle();
  EXPECT_EQ(count(), 0U);
}

// Many QPs ring in turn: none of them rings often enough.
TEST_F(SqPolling, NobodyOfMany) {
  std::vector<TestQp*> qps;
  for (std::size_t i = 0; i < 64; ++i) qps.push_back(&rc_pair(node, node).first);
  for (int i = 0; i < 20; ++i) {
    for (TestQp* const qp : qps) {
      write_one(*qp, true);
      (void)qp->send_cq().poll_all();
    }
  }
  for (const TestQp* const qp : qps) EXPECT_FALSE(polled(*qp));
}

}  // namespace
}  // namespace tern

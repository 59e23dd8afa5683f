// SPDX-License-Identifier: GPL-2.0-or-later
// Documentation/spec/doorbells.rst, "Queues that the device polls": transmit queues. sq_poller_test
// has what they share with send queues.
#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "testing/eth_queue.h"
#include "tests/mini_driver.h"

namespace tern {
namespace {

// More doorbells than it takes to be polled, and more idle polls than it takes to be dropped.
constexpr int kOften = 200;
constexpr int kForgotten = 10'000;

class TxPolling : public ::testing::Test {
 protected:
  Sim sim;
  TestNode node{sim, {.lanes = 1}};
  TestEthQueue tx{node, TERN_ETH_QUEUE_TX, node.create_cq(10), 8};
  const std::vector<std::byte> frame = eth_frame(node.mac(), node.mac(), 100);

  void SetUp() override { node.device.datapath.allow_polling(0); }

  void run() { (void)node.device.run(1 << 16); }
  // Runs the device once; it would be busy while it polls a queue.
  void send(TestEthQueue& q, bool ring) {
    q.post(frame);
    if (ring) q.kick();
    run();
  }
  void send_often(TestEthQueue& q) {
    for (int i = 0; i < kOften && !q.polled(); ++i) {
      send(q, true);
      (void)q.cq().poll_all();
    }
  }
  void poll_it() {
    send_often(tx);
    ASSERT_TRUE(tx.polled());
  }
  // Like the host's worker: looks for work, and runs the device if there is any.
  void idle() {
    for (int i = 0; i < kForgotten && !(node.device.poll() && !node.device.run(1 << 16)); ++i) {
    }
  }
};

TEST_F(TxPolling, BusyQueueNeedsNoDoorbell) {
  EXPECT_FALSE(tx.polled());
  poll_it();
  for (int i = 0; i < 100; ++i) {
    send(tx, false);
    ASSERT_EQ(tx.cq().poll_all().size(), 1U);
  }
  // An unnecessary doorbell does no harm.
  send(tx, true);
  EXPECT_EQ(tx.cq().poll_all().size(), 1U);
}

TEST_F(TxPolling, LookFindsWhatWasPosted) {
  poll_it();
  EXPECT_FALSE(node.device.poll());
  tx.post(frame);
  EXPECT_TRUE(node.device.poll());
  EXPECT_TRUE(node.device.poll()) << "still not run";
  run();
  EXPECT_EQ(tx.cq().poll_all().size(), 1U);
  EXPECT_FALSE(node.device.poll());
}

// The last descriptor of a frame may be posted later.
TEST_F(TxPolling, AFrameWithoutItsEndIsNoWorkUntilItComes) {
  poll_it();
  const std::uint64_t bytes = node.host.alloc(frame.size());
  tx.put(bytes, 60, 0);
  tx.publish();
  EXPECT_TRUE(node.device.poll());
  run();
  EXPECT_FALSE(node.device.poll());
  tx.put(bytes + 60, 40, TERN_ETH_F_EOP);
  tx.publish();
  EXPECT_TRUE(node.device.poll());
  run();
  EXPECT_EQ(tx.cq().poll_all().size(), 1U);
}

TEST_F(TxPolling, NobodyUnlessTheHostAllows) {
  node.device.datapath.allow_polling(kNever);
  send_often(tx);
  EXPECT_FALSE(tx.polled());
  EXPECT_FALSE(node.device.run(1 << 16));
}

TEST_F(TxPolling, NobodyWhoRingsRarely) {
  for (int i = 0; i < 2 * kOften; ++i) {
    node.host.advance(10'000);
    send(tx, true);
    (void)tx.cq().poll_all();
  }
  EXPECT_FALSE(tx.polled());
}

TEST_F(TxPolling, AReceiveQueueHasNoDoorbell) {
  TestEthQueue rx(node, TERN_ETH_QUEUE_RX, node.create_cq());
  for (int i = 0; i < kOften; ++i) rx.kick();
  EXPECT_FALSE(rx.polled());
  EXPECT_EQ(node.counter(TERN_CNT_BAD_DOORBELL), unsigned{kOften});
}

TEST_F(TxPolling, WhoIsIdleHasToRingAgain) {
  poll_it();
  idle();
  EXPECT_FALSE(tx.polled());
  EXPECT_FALSE(node.device.run(1 << 16)) << "the host may sleep";
  send(tx, false);
  EXPECT_EQ(tx.cq().poll_all().size(), 0U);
  tx.kick();
  node.pump();
  EXPECT_EQ(tx.cq().poll_all().size(), 1U);
}

// The index is stored after the device's last poll, and the status is read before it changes.
TEST_F(TxPolling, WhatIsPostedMeanwhileIsFound) {
  poll_it();
  bool posted = false;
  node.host.stored = [&](std::byte*) {
    if (std::exchange(posted, true)) return;
    EXPECT_FALSE(tx.polled()) << "something else was stored";
    tx.post(frame);
  };
  idle();
  node.host.stored = nullptr;
  ASSERT_TRUE(posted);
  EXPECT_FALSE(tx.polled());
  EXPECT_EQ(tx.cq().poll_all().size(), 1U);
}

TEST_F(TxPolling, WhatIsPostedWhenTheHostForbidsIsFound) {
  poll_it();
  tx.post(frame);
  node.device.datapath.allow_polling(kNever);
  EXPECT_FALSE(tx.polled());
  node.pump();
  EXPECT_EQ(tx.cq().poll_all().size(), 1U);
}

// The device does other work while it polls, and polls queues of both kinds.
TEST_F(TxPolling, SendQueuesBesides) {
  TestMr& mr = node.reg(4096);
  auto [qp, peer] = rc_pair(node, node);
  poll_it();
  for (int i = 0; i < kOften; ++i) {
    qp.post(write({mr.sge(0, 8)}, mr, 8));
    send(tx, false);
    ASSERT_EQ(qp.send_cq().poll_all().size(), 1U);
    ASSERT_EQ(tx.cq().poll_all().size(), 1U);
  }
  EXPECT_NE(qp.record_status() & TERN_QP_ST_SQ_POLLED, 0U);
  EXPECT_TRUE(tx.polled());
  qp.post(write({mr.sge(0, 8)}, mr, 8), false);
  tx.post(frame);
  EXPECT_TRUE(node.device.poll());
  run();
  EXPECT_EQ(qp.send_cq().poll_all().size(), 1U);
  EXPECT_EQ(tx.cq().poll_all().size(), 1U);
}

// A record may be reused without preparation but for the poster's words.
TEST_F(TxPolling, ANewQueueIsNotPolled) {
  poll_it();
  ASSERT_EQ(node.command(TERN_CMD_DESTROY_ETH_QUEUE, tern_cmd_object{le(tx.number()), 0}),
            TERN_ST_OK);
  EXPECT_FALSE(node.device.run(1 << 16));
  EXPECT_TRUE(node.device.poll()) << "there is nothing to look at";
  EXPECT_TRUE(tx.polled()) << "a destroyed queue's record is software's";
  ASSERT_EQ(tx.create_again(), TERN_ST_OK);
  EXPECT_FALSE(tx.polled());
}

TEST_F(TxPolling, ResetEndsIt) {
  poll_it();
  node.device.reset();
  EXPECT_FALSE(node.device.run(1 << 16));
  EXPECT_TRUE(node.device.poll());
}

TEST_F(TxPolling, AnIndexThatJumpsIsAnErrorOnce) {
  poll_it();
  tx.store_pi(0x7000'0000);
  idle();
  EXPECT_FALSE(tx.polled());
  const auto all = tx.cq().poll_all();
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].status, TERN_CQE_LOC_QP_OP_ERR);
  EXPECT_FALSE(node.device.run(1 << 16));
  for (int i = 0; i < kOften; ++i) tx.kick();
  EXPECT_FALSE(tx.polled());
}

// A record that is not RAM any more: the same as if the doorbell had been rung.
TEST_F(TxPolling, ARecordThatIsGone) {
  poll_it();
  node.host.punch(tx.record(), sizeof(tern_eth_record));
  idle();
  node.host.restore(tx.record());
  EXPECT_FALSE(node.device.run(1 << 16));
  const auto all = tx.cq().poll_all();
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].status, TERN_CQE_LOC_QP_OP_ERR);
}

TEST_F(TxPolling, ADeadCqEndsIt) {
  TestEthQueue other(node, TERN_ETH_QUEUE_TX, node.create_cq(1), 8);
  for (int i = 0; i < kOften; ++i) other.kick();
  ASSERT_TRUE(other.polled());
  for (int i = 0; i < 8; ++i) send(other, false);
  EXPECT_FALSE(other.polled());
  EXPECT_FALSE(node.device.run(1 << 16));
}

TEST_F(TxPolling, ManyQueuesAllMakeProgress) {
  std::vector<std::unique_ptr<TestEthQueue>> queues;
  for (int i = 1; i < Ethernet::kMaxQueues; ++i) {
    queues.push_back(std::make_unique<TestEthQueue>(node, TERN_ETH_QUEUE_TX, node.create_cq(), 4));
    ASSERT_EQ(queues.back()->created(), TERN_ST_OK);
  }
  for (int i = 0; i < kOften; ++i) {
    for (auto& q : queues) {
      send(*q, !q->polled());
      ASSERT_EQ(q->cq().poll_all().size(), 1U);
    }
  }
  idle();
  for (auto& q : queues) EXPECT_FALSE(q->polled());
}

}  // namespace
}  // namespace tern

// SPDX-License-Identifier: GPL-2.0-or-later
// The page doorbell, which refers to no queue: the device looks at all queues of the page
// (Documentation/spec/doorbells.rst).
#include <gtest/gtest.h>

#include <vector>

#include "testing/eth_queue.h"
#include "tests/mini_driver.h"

namespace tern {
namespace {

struct PageDoorbell : ::testing::Test {
  Sim sim;
  TestNode node{sim, {.lanes = 1}};
  TestMr& from = node.reg(4096);
  TestMr& to = node.reg(4096);

  void ring_page(std::uint32_t uar) { node.doorbell(uar, TERN_DB_CMD_PAGE, 0xabcdef); }
};

TEST_F(PageDoorbell, SendQueue) {
  auto [qp, peer] = rc_pair(node, node);
  auto [other, its_peer] = rc_pair(node, node);
  from.fill(1);
  qp.post(write({from.sge(0, 64)}, to), false);
  sim.run_until_idle();
  EXPECT_FALSE(qp.send_cq().poll());
  ring_page(node.uar());
  EXPECT_EQ(qp.wait_send().status, TERN_CQE_SUCCESS);
  EXPECT_FALSE(other.send_cq().poll());
  EXPECT_EQ(node.counter(TERN_CNT_BAD_DOORBELL), 0U);
}

TEST_F(PageDoorbell, ReceiveQueueInError) {
  auto [qp, peer] = rc_pair(node, node);
  ASSERT_EQ(qp.to_state(TERN_QPS_ERR), TERN_ST_OK);
  // Long after the device's own last look.
  sim.run_for(100'000'000);
  ASSERT_TRUE(qp.record_status() & TERN_QP_ST_RQ_KICK);
  qp.store_rq_pi(1);
  sim.run_until_idle();
  EXPECT_FALSE(qp.recv_cq().poll());
  ring_page(node.uar());
  EXPECT_EQ(qp.wait_recv().status, TERN_CQE_WR_FLUSH_ERR);
}

TEST_F(PageDoorbell, Arm) {
  auto [qp, peer] = rc_pair(node, node);
  (void)node.take_interrupts(TestNode::kCompletionVector);
  sim.lost_values = 256;
  qp.send_cq().arm();
  qp.post(write({from.sge(0, 64)}, to));
  sim.run_until_idle();
  EXPECT_EQ(node.take_interrupts(TestNode::kCompletionVector), 1U);
  // The arm word has not changed. It has fired already, so it must not fire again.
  ring_page(node.uar());
  sim.run_until_idle();
  EXPECT_EQ(node.take_interrupts(TestNode::kCompletionVector), 0U);
}

TEST_F(PageDoorbell, EthernetTransmitQueue) {
  TestEthQueue tx(node, TERN_ETH_QUEUE_TX, node.create_cq());
  const auto frame = eth_frame(node.mac(), node.mac(), 100);
  sim.lost_values = 256;
  tx.send(frame);
  sim.run_until_idle();
  EXPECT_TRUE(tx.cq().poll());
}

TEST_F(PageDoorbell, AsynchronousEventQueue) {
  QpOptions options;
  options.send_cq = options.recv_cq = &node.create_cq(10);
  std::vector<TestQp*> qps;
  for (int n = 0; n < 128; ++n) qps.push_back(&rc_pair(node, node, options).first);
  sim.lost_values = 256;
  // Twice as many events as the queue has entries.
  for (TestQp* const qp : qps) {
    qp->store_sq_pi(1000);
    qp->ring();
  }
  sim.run_until_idle();
  std::size_t fatal = 0;
  for (const tern_eqe& eqe : node.async_events()) fatal += le(eqe.type) == TERN_EV_QP_FATAL;
  EXPECT_EQ(fatal, qps.size()) << "what waited came after ci had moved";
}

TEST_F(PageDoorbell, AnotherPageAndNone) {
  auto [qp, peer] = rc_pair(node, node);
  const std::uint32_t page = node.alloc_uar();
  qp.post(write({from.sge(0, 64)}, to), false);
  ring_page(page);
  ring_page(TERN_UAR_KERNEL);
  sim.run_until_idle();
  EXPECT_FALSE(qp.send_cq().poll()) << "not of that page";
  node.destroy(TERN_CMD_FREE_UAR, page);
  ring_page(page);
  sim.run_until_idle();
  EXPECT_EQ(node.counter(TERN_CNT_BAD_DOORBELL), 1U);
}

// A page with many queues: a run looks at some and reports that there are more. QPs may be
// destroyed meanwhile.
TEST_F(PageDoorbell, ManyQueuesInSlices) {
  constexpr int kMany = 300;
  std::vector<TestQp*> qps;
  QpOptions options;
  options.send_cq = options.recv_cq = &node.create_cq(12);
  for (int i = 0; i < kMany; ++i) qps.push_back(&node.create_qp(options));
  for (int i = 0; i + 1 < kMany; i += 2) {
    qps[i]->connect(*qps[i + 1]);
    qps[i + 1]->connect(*qps[i]);
  }
  for (TestQp* const qp : qps) qp->post(write({from.sge(0, 8)}, to), false);
  ring_page(node.uar());
  // The budget bounds a run to 2 looks.
  EXPECT_TRUE(node.device.run(4 * 256));
  EXPECT_TRUE(node.device.poll()) << "it knows of the rest";
  ASSERT_TRUE(node.device.datapath.uars.pending());
  for (int i = 0; i < kMany; i += 3) node.destroy(*qps[i]);
  sim.run_until_idle();
  EXPECT_FALSE(node.device.datapath.uars.pending());
  std::size_t done = 0;
  for (const Wc& wc : options.send_cq->poll_all()) done += wc.status == TERN_CQE_SUCCESS;
  // QPs whose peer is destroyed do not complete.
  EXPECT_GE(done, static_cast<std::size_t>(kMany) / 3 - 2);
}

// Pages take turns: a page with many queues does not delay one with few.
TEST_F(PageDoorbell, PagesTakeTurns) {
  UarPages pages;
  pages.enable(4);
  std::uint32_t big = 0;
  std::uint32_t small = 0;
  ASSERT_EQ(pages.alloc(UarPages::Use::kQueues, &big), TERN_ST_OK);
  ASSERT_EQ(pages.alloc(UarPages::Use::kQueues, &small), TERN_ST_OK);
  int looked = 0;
  int looked_small = 0;
  const auto count = [](void* n) { ++*static_cast<int*>(n); };
  std::vector<std::unique_ptr<PageQueue>> queues;
  for (int i = 0; i < 1000; ++i) {
    queues.push_back(std::make_unique<PageQueue>(count, &looked));
    pages.add(big, *queues.back());
  }
  PageQueue only(count, &looked_small);
  pages.add(small, only);
  EXPECT_TRUE(pages.ring(big));
  EXPECT_TRUE(pages.ring(small));
  EXPECT_TRUE(pages.ring(big)) << "once more: it is on the list already";
  EXPECT_EQ(pages.run(100), 100U);
  EXPECT_EQ(looked_small, 1);
  EXPECT_EQ(pages.free(big), TERN_ST_BUSY);
  EXPECT_EQ(pages.free(small), TERN_ST_BUSY);
  // Some queues are destroyed while others still wait for a look.
  queues.resize(500);
  while (pages.pending()) (void)pages.run(7);
  EXPECT_EQ(looked, 500 + 0);
  queues.clear();
  EXPECT_EQ(pages.free(big), TERN_ST_OK);
  EXPECT_FALSE(pages.ring(big));
}

// Ordinary traffic while half of the doorbells lose their value.
TEST_F(PageDoorbell, TrafficGoesOnWithoutValues) {
  sim.lost_values = 128;
  TestNode other(sim);
  auto [qp, peer] = rc_pair(node, other);
  TestMr& far = other.reg(1 << 16);
  TestMr& near = node.reg(1 << 16);
  near.fill(3);
  for (int i = 0; i < 500; ++i) {
    qp.post(write({near.sge(0, 4096)}, far));
    ASSERT_EQ(qp.wait_send().status, TERN_CQE_SUCCESS) << i;
  }
  EXPECT_TRUE(same_bytes(far.bytes(0, 4096), near.bytes(0, 4096)));
}

}  // namespace
}  // namespace tern

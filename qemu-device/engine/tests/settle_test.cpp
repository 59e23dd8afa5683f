// SPDX-License-Identifier: GPL-2.0-or-later
// A receive posted while its QP enters the error state, by software that has not noticed yet.
#include <gtest/gtest.h>

#include "tests/mini_driver.h"

namespace tern {
namespace {

class RqSettle : public ::testing::Test {
 protected:
  Sim sim{1};
  TestNode a{sim};
  TestQp& qp = a.create_qp();
  void SetUp() override { qp.connect(); }
};

TEST_F(RqSettle, TheIndexIsReadOnceMore) {
  ASSERT_EQ(qp.to_state(TERN_QPS_ERR), TERN_ST_OK);
  sim.run_for(TERN_RQ_SETTLE_NS / 2);
  qp.store_rq_pi(2);  // becomes visible now, without a doorbell
  sim.run_for(TERN_RQ_SETTLE_NS / 4);
  EXPECT_FALSE(qp.recv_cq().poll());
  sim.run_for(TERN_RQ_SETTLE_NS / 2);
  for (int i = 0; i < 2; ++i) {
    const auto wc = qp.recv_cq().poll();
    ASSERT_TRUE(wc);
    EXPECT_EQ(wc->status, TERN_CQE_WR_FLUSH_ERR);
  }
  // After that, the poster has to ring.
  qp.store_rq_pi(3);
  sim.run_for(10 * TERN_RQ_SETTLE_NS);
  EXPECT_FALSE(qp.recv_cq().poll());
  qp.ring(TERN_DB_CMD_RQ);
  sim.run_until_idle();
  EXPECT_TRUE(qp.recv_cq().poll());
}

TEST_F(RqSettle, NotAfterReset) {
  ASSERT_EQ(qp.to_state(TERN_QPS_ERR), TERN_ST_OK);
  ASSERT_EQ(qp.to_state(TERN_QPS_RESET), TERN_ST_OK);
  qp.store_rq_pi(2);
  sim.run_for(10 * TERN_RQ_SETTLE_NS);
  EXPECT_FALSE(qp.recv_cq().poll());
  EXPECT_EQ(qp.query().rq_ci, 0U);
}

TEST_F(RqSettle, NotAfterItsEnd) {
  ASSERT_EQ(qp.to_state(TERN_QPS_ERR), TERN_ST_OK);
  a.destroy(qp);
  sim.run_for(10 * TERN_RQ_SETTLE_NS);
}

}  // namespace
}  // namespace tern

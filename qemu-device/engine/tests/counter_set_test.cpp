// SPDX-License-Identifier: GPL-2.0-or-later
// Counter sets: what a bound QP counts, and where.
#include <gtest/gtest.h>

#include <array>

#include "tests/mini_driver.h"

namespace tern {
namespace {

using Values = std::array<std::uint64_t, TERN_CNT_RDMA_NUM>;

class CounterSets : public ::testing::Test {
 protected:
  Sim sim{3};
  TestNode a{sim};
  TestNode b{sim};
  TestMr& src = a.reg(4096);
  TestMr& dst = b.reg(4096);

  static std::uint32_t create(TestNode& node) { return node.make(TERN_CMD_CREATE_COUNTER_SET); }
  static Status bind(TestNode& node, std::uint32_t qpn, std::uint32_t set) {
    return node.command(TERN_CMD_BIND_COUNTER_SET, tern_cmd_bind_counter_set{le(qpn), le(set)});
  }
  static Values values(TestNode& node, std::uint32_t set) {
    Values v{};
    EXPECT_EQ(node.command(TERN_CMD_QUERY_COUNTER_SET, tern_cmd_object{le(set), 0}, &v),
              TERN_ST_OK);
    return v;
  }
  static Status destroy(TestNode& node, std::uint32_t set) {
    return node.command(TERN_CMD_DESTROY_COUNTER_SET, tern_cmd_object{le(set), 0});
  }
};

TEST_F(CounterSets, ABoundQpCountsInItsSetOnly) {
  const auto [x, y] = rc_pair(a, b);
  const auto [v, w] = rc_pair(a, b);
  const std::uint32_t set = create(b);
  ASSERT_EQ(bind(b, y.number(), set), TERN_ST_OK);
  for (TestQp* const qp : {&x, &x, &v}) {
    qp->post(write({src.sge(0, 8)}, dst));
    EXPECT_EQ(qp->wait_send().status, TERN_CQE_SUCCESS);
  }
  EXPECT_EQ(values(b, set)[TERN_CNT_RX_WRITE_REQUESTS], 2U);
  EXPECT_EQ(b.counter(TERN_CNT_RX_WRITE_REQUESTS), 1U);
  EXPECT_EQ(values(b, set)[TERN_CNT_RX_RDMA_PACKETS], 0U) << "packets count for the device";
  EXPECT_EQ(b.counter(TERN_CNT_RX_RDMA_PACKETS), 3U);
  // Unbound again, the set keeps what it has.
  ASSERT_EQ(bind(b, y.number(), 0), TERN_ST_OK);
  x.post(write({src.sge(0, 8)}, dst));
  EXPECT_EQ(x.wait_send().status, TERN_CQE_SUCCESS);
  EXPECT_EQ(values(b, set)[TERN_CNT_RX_WRITE_REQUESTS], 2U);
  EXPECT_EQ(b.counter(TERN_CNT_RX_WRITE_REQUESTS), 2U);
}

TEST_F(CounterSets, BothHalvesAndErrors) {
  const auto [x, y] = rc_pair(a, b);
  const std::uint32_t sx = create(a);
  const std::uint32_t sy = create(b);
  ASSERT_EQ(bind(a, x.number(), sx), TERN_ST_OK);
  ASSERT_EQ(bind(b, y.number(), sy), TERN_ST_OK);
  SendWr wrong = write({src.sge(0, 8)}, dst);
  wrong.rkey += 1;
  x.post(wrong);
  x.post(write({src.sge(0, 8)}, dst));
  EXPECT_EQ(x.wait_send().status, TERN_CQE_REM_ACCESS_ERR);
  EXPECT_EQ(x.wait_send().status, TERN_CQE_WR_FLUSH_ERR);
  sim.run_until_idle();
  EXPECT_EQ(values(a, sx)[TERN_CNT_REQ_REMOTE_ACCESS_ERRORS], 1U);
  EXPECT_EQ(values(a, sx)[TERN_CNT_REQ_CQE_ERROR], 1U);
  EXPECT_EQ(values(a, sx)[TERN_CNT_REQ_CQE_FLUSH_ERROR], 1U);
  EXPECT_EQ(values(b, sy)[TERN_CNT_RESP_REMOTE_ACCESS_ERRORS], 1U);
  for (unsigned i = 0; i < TERN_CNT_RX_QP_MISMATCH; ++i) {
    EXPECT_EQ(a.counter(i), 0U) << i;
    EXPECT_EQ(b.counter(i), 0U) << i;
  }
  EXPECT_EQ(values(b, sy)[TERN_CNT_RX_QP_MISMATCH], 0U);
  EXPECT_EQ(b.counter(TERN_CNT_RX_QP_MISMATCH), 1U) << "the WRITE that found the QP in error";
}

TEST_F(CounterSets, SharedAndKeptByReset) {
  const std::uint32_t set = create(b);
  TestQp& q = b.create_qp({.type = TERN_QPT_UD});
  TestQp& r = b.create_qp({.type = TERN_QPT_UD});
  ASSERT_EQ(bind(b, q.number(), set), TERN_ST_OK) << "in RESET";
  ASSERT_EQ(bind(b, r.number(), set), TERN_ST_OK);
  TestQp& from = a.create_qp({.type = TERN_QPT_UD});
  from.connect();
  q.connect();
  r.connect();
  ASSERT_EQ(q.to_state(TERN_QPS_RESET), TERN_ST_OK);
  q.connect();
  for (TestQp* const to : {&q, &r}) {
    from.post(datagram(from, *to, {src.sge(0, 8)}));
    EXPECT_EQ(from.wait_send().status, TERN_CQE_SUCCESS);
  }
  sim.run_until_idle();
  EXPECT_EQ(values(b, set)[TERN_CNT_OUT_OF_BUFFER], 2U);
  EXPECT_EQ(b.counter(TERN_CNT_OUT_OF_BUFFER), 0U);
}

TEST_F(CounterSets, References) {
  TestQp& q = a.create_qp();
  const std::uint32_t set = create(a);
  const std::uint32_t other = create(a);
  EXPECT_EQ(le(a.objects().counter_set), 2U);
  EXPECT_EQ(bind(a, q.number(), 77), TERN_ST_BAD_HANDLE);
  EXPECT_EQ(bind(a, 999, set), TERN_ST_BAD_HANDLE);
  EXPECT_EQ(bind(a, 999, 0), TERN_ST_BAD_HANDLE);
  ASSERT_EQ(bind(a, q.number(), set), TERN_ST_OK);
  ASSERT_EQ(bind(a, q.number(), set), TERN_ST_OK);
  EXPECT_EQ(destroy(a, set), TERN_ST_BUSY);
  ASSERT_EQ(bind(a, q.number(), other), TERN_ST_OK);
  EXPECT_EQ(destroy(a, set), TERN_ST_OK);
  EXPECT_EQ(destroy(a, set), TERN_ST_BAD_HANDLE);
  EXPECT_EQ(destroy(a, other), TERN_ST_BUSY);
  a.destroy(q);
  EXPECT_EQ(destroy(a, other), TERN_ST_OK);
  EXPECT_EQ(le(a.objects().counter_set), 0U);
  tern_rsp_object rsp{};
  for (std::uint32_t i = 0; i < le(a.caps().max_counter_sets); ++i) (void)create(a);
  EXPECT_EQ(a.command(TERN_CMD_CREATE_COUNTER_SET, {}, std::as_writable_bytes(std::span(&rsp, 1))),
            TERN_ST_NO_RESOURCE);
  EXPECT_TRUE(le(a.caps().flags) & TERN_CAP_COUNTER_SETS);
}

}  // namespace
}  // namespace tern

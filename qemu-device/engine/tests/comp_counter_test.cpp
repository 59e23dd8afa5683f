// SPDX-License-Identifier: GPL-2.0-or-later
// Completion counters: which completions of an attached QP they count, and what they refuse.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <deque>
#include <utility>
#include <vector>

#include "tests/mini_driver.h"
#include "tests/tag_fixture.h"

namespace tern {
namespace {

using ::testing::ElementsAre;
using Values = std::array<std::uint64_t, 2>;  // succeeded, failed

// A counter and its values in the memory of a node.
struct Counter {
  Counter(TestNode& n, std::uint8_t type = TERN_COMP_CNTR_WRS) : node(n), addr(n.alloc(16, 8)) {
    number = n.make(TERN_CMD_CREATE_COMP_CNTR, command(type));
  }
  tern_cmd_create_comp_cntr command(std::uint8_t type = TERN_COMP_CNTR_WRS) const {
    return {.value = {le(addr), le(addr + 8)}, .type = type};
  }
  Values values() const {
    Values v;
    std::memcpy(v.data(), node.at(addr, sizeof(v)), sizeof(v));
    return {le(v[0]), le(v[1])};
  }
  Status attach(const TestQp& qp, std::uint32_t ops) const {
    return node.command(TERN_CMD_ATTACH_COMP_CNTR,
                        tern_cmd_attach_comp_cntr{le(qp.number()), le(number), le(ops), 0});
  }
  Status modify(std::uint8_t entry, std::uint8_t op, std::uint64_t operand) const {
    return node.command(TERN_CMD_MODIFY_COMP_CNTR,
                        tern_cmd_modify_comp_cntr{le(number), entry, op, 0, le(operand)});
  }
  Status destroy() const {
    return node.command(TERN_CMD_DESTROY_COMP_CNTR, tern_cmd_object{le(number), 0});
  }
  TestNode& node;
  std::uint64_t addr;
  std::uint32_t number = 0;
};

class CompCounters : public ::testing::Test {
 protected:
  Sim sim{3};
  TestNode a{sim};
  TestNode b{sim};
  TestMr& src = a.reg(1 << 16);
  TestMr& dst = b.reg(1 << 16);

  static void link(TestQp& x, TestQp& y) {
    x.connect(y);
    y.connect(x);
  }
  // Posts one request of each kind to a QP with two receive WQEs.
  void post_all(TestQp& x, TestQp& y) {
    for (unsigned i = 0; i < 2; ++i) y.post_recv({dst.sge(1 << 15, 5000)});
    x.post(send({src.sge(0, 3000)}).unsignaled());
    x.post(write({src.sge(0, 5000)}, dst).unsignaled());
    x.post(write({src.sge(0, 40)}, dst).immediate(7).unsignaled());
    x.post(read({src.sge(1 << 15, 2000)}, dst).unsignaled());
    x.post(fetch_add(src.sge(1 << 14, 8), dst, 0, 1));
    EXPECT_EQ(x.wait_send().status, TERN_CQE_SUCCESS);
    sim.run_until_idle();
  }
};

TEST_F(CompCounters, EachOperationHasItsOwn) {
  TestQp& x = a.create_qp();
  TestQp& y = b.create_qp();
  const std::array local{TERN_COMP_OP_SEND, TERN_COMP_OP_RDMA_READ, TERN_COMP_OP_RDMA_WRITE,
                         TERN_COMP_OP_RECV};
  const std::array remote{TERN_COMP_OP_RECV, TERN_COMP_OP_REMOTE_READ, TERN_COMP_OP_REMOTE_WRITE,
                          TERN_COMP_OP_SEND};
  std::vector<Counter> at_a, at_b, bytes_b;
  for (unsigned i = 0; i < 4; ++i) {
    EXPECT_EQ(at_a.emplace_back(a).attach(x, local[i]), TERN_ST_OK);
    EXPECT_EQ(at_b.emplace_back(b, TERN_COMP_CNTR_BYTES).attach(y, remote[i]), TERN_ST_OK);
  }
  link(x, y);
  post_all(x, y);
  EXPECT_THAT(at_a[0].values(), ElementsAre(1, 0)) << "SEND";
  EXPECT_THAT(at_a[1].values(), ElementsAre(1, 0)) << "READ";
  EXPECT_THAT(at_a[2].values(), ElementsAre(2, 0)) << "WRITE";
  EXPECT_THAT(at_a[3].values(), ElementsAre(0, 0)) << "received nothing";
  EXPECT_THAT(at_b[0].values(), ElementsAre(3040, 0)) << "bytes received";
  EXPECT_THAT(at_b[1].values(), ElementsAre(2000, 0)) << "bytes that the peer read";
  EXPECT_THAT(at_b[2].values(), ElementsAre(5040, 0)) << "bytes that the peer wrote";
  EXPECT_THAT(at_b[3].values(), ElementsAre(0, 0)) << "sent nothing";
}

TEST_F(CompCounters, QpsAndOperationsShareOne) {
  const Counter sent(a);
  const Counter received(b);
  std::vector<std::pair<TestQp*, TestQp*>> pairs;
  for (unsigned i = 0; i < 2; ++i) {
    TestQp& x = a.create_qp();
    TestQp& y = b.create_qp();
    EXPECT_EQ(sent.attach(x, TERN_COMP_OP_SEND | TERN_COMP_OP_RDMA_READ | TERN_COMP_OP_RDMA_WRITE),
              TERN_ST_OK);
    EXPECT_EQ(received.attach(y, TERN_COMP_OP_RECV), TERN_ST_OK);
    EXPECT_EQ(received.attach(y, TERN_COMP_OP_REMOTE_WRITE), TERN_ST_OK) << "another operation";
    link(x, y);
    pairs.emplace_back(&x, &y);
  }
  for (const auto& [x, y] : pairs) post_all(*x, *y);
  EXPECT_THAT(sent.values(), ElementsAre(8, 0));
  EXPECT_THAT(received.values(), ElementsAre(8, 0));
}

TEST_F(CompCounters, ErrorsAndFlushes) {
  TestQp& x = a.create_qp();
  TestQp& y = b.create_qp();
  const Counter writes(a), sends(a, TERN_COMP_CNTR_BYTES), received(b), written(b);
  EXPECT_EQ(writes.attach(x, TERN_COMP_OP_RDMA_WRITE), TERN_ST_OK);
  EXPECT_EQ(sends.attach(x, TERN_COMP_OP_SEND), TERN_ST_OK);
  EXPECT_EQ(received.attach(y, TERN_COMP_OP_RECV), TERN_ST_OK);
  EXPECT_EQ(written.attach(y, TERN_COMP_OP_REMOTE_WRITE), TERN_ST_OK);
  link(x, y);
  for (unsigned i = 0; i < 3; ++i) y.post_recv({dst.sge(0, 8)});
  SendWr wrong = write({src.sge(0, 8)}, dst);
  wrong.rkey += 1;
  x.post(wrong);
  x.post(write({src.sge(0, 8)}, dst).unsignaled());
  x.post(send({src.sge(0, 800)}).unsignaled());
  EXPECT_EQ(x.wait_send().status, TERN_CQE_REM_ACCESS_ERR);
  sim.run_until_idle();
  EXPECT_THAT(writes.values(), ElementsAre(0, 2)) << "the refused one and the flushed one";
  EXPECT_THAT(sends.values(), ElementsAre(0, 1)) << "failures are requests, not bytes";
  EXPECT_THAT(received.values(), ElementsAre(0, 3)) << "flushed";
  EXPECT_THAT(written.values(), ElementsAre(0, 0)) << "nothing was stored";
}

TEST_F(CompCounters, OtherTransports) {
  constexpr std::array<std::uint8_t, 2> kOthers{TERN_QPT_UC, TERN_QPT_UD};
  for (const std::uint8_t type : kOthers) {
    TestQp& x = a.create_qp({.type = type});
    TestQp& y = b.create_qp({.type = type});
    const Counter sent(a), received(b, TERN_COMP_CNTR_BYTES), written(b);
    EXPECT_EQ(sent.attach(x, TERN_COMP_OP_SEND | TERN_COMP_OP_RDMA_WRITE), TERN_ST_OK);
    EXPECT_EQ(received.attach(y, TERN_COMP_OP_RECV), TERN_ST_OK);
    EXPECT_EQ(written.attach(y, TERN_COMP_OP_REMOTE_WRITE), TERN_ST_OK);
    link(x, y);
    y.post_recv({dst.sge(0, 4096)});
    const bool ud = type == TERN_QPT_UD;
    x.post(ud ? datagram(x, y, {src.sge(0, 100)}) : send({src.sge(0, 100)}));
    if (!ud) x.post(write({src.sge(0, 9000)}, dst));
    for (unsigned i = 0; i < (ud ? 1U : 2U); ++i) EXPECT_EQ(x.wait_send().status, TERN_CQE_SUCCESS);
    sim.run_until_idle();
    EXPECT_THAT(sent.values(), ElementsAre(ud ? 1 : 2, 0));
    EXPECT_THAT(received.values(), ElementsAre(100, 0)) << "without the GRH";
    EXPECT_THAT(written.values(), ElementsAre(ud ? 0 : 1, 0));
  }
}

// Requests and responses are repeated; each counts once.
TEST_F(CompCounters, RepetitionsCountOnce) {
  TestQp& x = a.create_qp();
  TestQp& y = b.create_qp();
  const Counter sent(a), received(b);
  constexpr unsigned kEach = 40;
  EXPECT_EQ(sent.attach(x, TERN_COMP_OP_SEND | TERN_COMP_OP_RDMA_READ | TERN_COMP_OP_RDMA_WRITE),
            TERN_ST_OK);
  EXPECT_EQ(
      received.attach(y, TERN_COMP_OP_RECV | TERN_COMP_OP_REMOTE_READ | TERN_COMP_OP_REMOTE_WRITE),
      TERN_ST_OK);
  link(x, y);
  sim.wire.loss = 0.1;
  for (unsigned i = 0; i < kEach; ++i) {
    y.post_recv({dst.sge(0, 4096)});
    x.post(send({src.sge(0, 4000)}).unsignaled());
    x.post(write({src.sge(0, 9000)}, dst).unsignaled());
    x.post(read({src.sge(1 << 15, 9000)}, dst));
    EXPECT_EQ(x.wait_send().status, TERN_CQE_SUCCESS);
  }
  sim.wire.loss = 0;
  sim.run_until_idle();
  EXPECT_GT(b.counter(TERN_CNT_DUPLICATE_REQUEST), 0U);
  EXPECT_THAT(sent.values(), ElementsAre(3 * kEach, 0));
  EXPECT_THAT(received.values(), ElementsAre(3 * kEach, 0));
}

TEST_F(CompCounters, SetAndAdd) {
  const Counter c(a);
  EXPECT_EQ(c.modify(TERN_COMP_CNTR_COMP, TERN_COMP_CNTR_SET, 41), TERN_ST_OK);
  EXPECT_EQ(c.modify(TERN_COMP_CNTR_COMP, TERN_COMP_CNTR_ADD, 2), TERN_ST_OK);
  EXPECT_EQ(c.modify(TERN_COMP_CNTR_ERR, TERN_COMP_CNTR_SET, UINT64_MAX), TERN_ST_OK);
  EXPECT_THAT(c.values(), ElementsAre(43, UINT64_MAX));
  EXPECT_EQ(c.modify(TERN_COMP_CNTR_ERR, TERN_COMP_CNTR_ADD, 3), TERN_ST_OK);
  EXPECT_THAT(c.values(), ElementsAre(43, 2)) << "it wraps";
  // What software writes there has no effect.
  a.put(c.addr, std::uint64_t{1000});
  EXPECT_EQ(c.modify(TERN_COMP_CNTR_COMP, TERN_COMP_CNTR_ADD, 1), TERN_ST_OK);
  EXPECT_THAT(c.values(), ElementsAre(44, 2));
  EXPECT_EQ(c.modify(2, TERN_COMP_CNTR_SET, 1), TERN_ST_BAD_PARAM);
  EXPECT_EQ(c.modify(TERN_COMP_CNTR_COMP, 2, 1), TERN_ST_BAD_PARAM);
}

TEST_F(CompCounters, References) {
  TestQp& qp = a.create_qp();
  const Counter c(a), other(a);
  EXPECT_EQ(le(a.objects().comp_cntr), 2U);
  EXPECT_EQ(c.attach(qp, 0), TERN_ST_BAD_PARAM);
  EXPECT_EQ(c.attach(qp, 1U << TERN_COMP_OP_NUM), TERN_ST_BAD_PARAM);
  EXPECT_EQ(a.command(TERN_CMD_ATTACH_COMP_CNTR,
                      tern_cmd_attach_comp_cntr{le(qp.number()), 999, le(1U), 0}),
            TERN_ST_BAD_HANDLE);
  EXPECT_EQ(
      a.command(TERN_CMD_ATTACH_COMP_CNTR, tern_cmd_attach_comp_cntr{999, le(c.number), le(1U), 0}),
      TERN_ST_BAD_HANDLE);
  ASSERT_EQ(c.attach(qp, TERN_COMP_OP_SEND), TERN_ST_OK);
  EXPECT_EQ(c.attach(qp, TERN_COMP_OP_SEND), TERN_ST_BUSY);
  EXPECT_EQ(other.attach(qp, TERN_COMP_OP_SEND | TERN_COMP_OP_RECV), TERN_ST_BUSY);
  ASSERT_EQ(qp.to_init(), TERN_ST_OK);
  EXPECT_EQ(other.attach(qp, TERN_COMP_OP_RECV), TERN_ST_OK) << "in INIT";
  qp.connect(qp);
  EXPECT_EQ(other.attach(qp, TERN_COMP_OP_RDMA_READ), TERN_ST_BAD_STATE);
  EXPECT_EQ(c.destroy(), TERN_ST_BUSY);
  ASSERT_EQ(qp.to_state(TERN_QPS_RESET), TERN_ST_OK);
  EXPECT_EQ(c.destroy(), TERN_ST_BUSY) << "until the QP is destroyed";
  a.destroy(qp);
  EXPECT_EQ(c.destroy(), TERN_ST_OK);
  EXPECT_EQ(c.destroy(), TERN_ST_BAD_HANDLE);
  EXPECT_EQ(other.destroy(), TERN_ST_OK);
  EXPECT_EQ(le(a.objects().comp_cntr), 0U);
}

TEST_F(CompCounters, Memory) {
  const Counter c(a);
  std::uint32_t number = 0;
  tern_cmd_create_comp_cntr cmd = c.command();
  cmd.value[TERN_COMP_CNTR_ERR] += 4;
  EXPECT_EQ(a.try_make(TERN_CMD_CREATE_COMP_CNTR, cmd, number), TERN_ST_BAD_PARAM);
  cmd = c.command(2);
  EXPECT_EQ(a.try_make(TERN_CMD_CREATE_COMP_CNTR, cmd, number), TERN_ST_BAD_PARAM);
  cmd = c.command();
  cmd.value[TERN_COMP_CNTR_COMP] = le(std::uint64_t{1} << 60);
  EXPECT_EQ(a.try_make(TERN_CMD_CREATE_COMP_CNTR, cmd, number), TERN_ST_DMA_ERROR);
  EXPECT_EQ(le(a.objects().comp_cntr), 1U);
  // A change that cannot be stored is none.
  a.host.punch(c.addr, 8);
  EXPECT_EQ(c.modify(TERN_COMP_CNTR_COMP, TERN_COMP_CNTR_ADD, 5), TERN_ST_DMA_ERROR);
  a.host.restore(c.addr);
  EXPECT_EQ(c.modify(TERN_COMP_CNTR_COMP, TERN_COMP_CNTR_ADD, 1), TERN_ST_OK);
  EXPECT_THAT(c.values(), ElementsAre(1, 0));
  EXPECT_EQ(c.modify(TERN_COMP_CNTR_COMP, TERN_COMP_CNTR_SET, 0), TERN_ST_OK);
  // Memory that is gone later costs its owner the values, and nothing else.
  TestQp& x = a.create_qp();
  TestQp& y = b.create_qp();
  EXPECT_EQ(c.attach(x, TERN_COMP_OP_RDMA_WRITE), TERN_ST_OK);
  link(x, y);
  a.host.punch(c.addr, 8);
  x.post(write({src.sge(0, 8)}, dst));
  EXPECT_EQ(x.wait_send().status, TERN_CQE_SUCCESS);
  EXPECT_EQ(a.counter(TERN_CNT_DMA_ERRORS), 1U);
  a.host.restore(c.addr);
  x.post(write({src.sge(0, 8)}, dst));
  EXPECT_EQ(x.wait_send().status, TERN_CQE_SUCCESS);
  EXPECT_THAT(c.values(), ElementsAre(2, 0));
}

// Counters of QPs in several PDs gather these in one lane.
TEST(CompCounterLanes, CounterJoins) {
  Sim sim{5};
  TestNode a(sim, {.lanes = 4});
  const Counter c(a);
  std::vector<TestQp*> qps;
  std::vector<TestMr*> mrs;
  for (unsigned i = 0; i < 4; ++i) {
    const std::uint32_t pd = a.alloc_pd();
    mrs.push_back(&a.reg(4096, {.pd = pd}));
    qps.push_back(&a.create_qp({.pd = pd}));
    EXPECT_EQ(c.attach(*qps.back(), TERN_COMP_OP_RDMA_WRITE | TERN_COMP_OP_REMOTE_WRITE),
              TERN_ST_OK);
  }
  const auto lane_of = [&](const TestQp* qp) {
    return a.device.registry.qps.find(qp->number())->context().lane;
  };
  for (const TestQp* const qp : qps) EXPECT_EQ(lane_of(qp), lane_of(qps[0]));
  for (unsigned i = 0; i < 4; ++i) qps[i]->connect(*qps[i ^ 1]);
  for (unsigned i = 0; i < 4; ++i) {
    qps[i]->post(write({mrs[i]->sge(0, 8)}, *mrs[i ^ 1]));
    EXPECT_EQ(qps[i]->wait_send().status, TERN_CQE_SUCCESS);
  }
  EXPECT_THAT(c.values(), ElementsAre(8, 0));
}

// Counters without QPs come back to lane 0 as well while it has to see all frames.
TEST(CompCounterLanes, LonelyCountersComeBack) {
  Sim sim{5};
  TestNode a(sim, {.lanes = 4});
  const auto lane_of = [&](const TestQp& qp) {
    return a.device.registry.qps.find(qp.number())->context().lane;
  };
  std::deque<Counter> counters;
  for (unsigned i = 0; i < 10; ++i) counters.emplace_back(a);
  std::uint32_t pd = a.alloc_pd();
  TestQp* qp = &a.create_qp({.pd = pd});
  while (lane_of(*qp) == 0) qp = &a.create_qp({.pd = pd = a.alloc_pd()});
  for (const Counter& c : counters) {
    TestQp& other = a.create_qp({.pd = pd});
    EXPECT_EQ(c.attach(other, TERN_COMP_OP_SEND), TERN_ST_OK);
    EXPECT_NE(lane_of(other), 0U);
    a.destroy(other);
    a.destroy(other.send_cq());
    a.destroy(other.recv_cq());
  }
  a.destroy(*qp);
  a.destroy(qp->send_cq());
  a.destroy(qp->recv_cq());
  a.destroy(TERN_CMD_FREE_PD, pd);
  a.device.set_capture(true);
  TestQp& late = a.create_qp({.pd = a.alloc_pd()});
  EXPECT_EQ(counters[0].attach(late, TERN_COMP_OP_SEND), TERN_ST_OK);
  EXPECT_EQ(lane_of(late), 0U);
}

// A tagged message counts when its data are there, whoever fetches them; the READs and messages
// by which the device does so are no requests of the program.
TEST_F(TagTest, CompletionCountersCountEachMessageOnce) {
  make();
  const Counter received(b), sent(b);
  for (TestQp* const qp : {qa[0], qb[0]}) ASSERT_EQ(qp->to_state(TERN_QPS_RESET), TERN_ST_OK);
  ASSERT_EQ(received.attach(*qb[0], TERN_COMP_OP_RECV), TERN_ST_OK);
  ASSERT_EQ(sent.attach(*qb[0], TERN_COMP_OP_SEND | TERN_COMP_OP_RDMA_READ), TERN_ST_OK);
  qa[0]->connect(*qb[0]);
  qb[0]->connect(*qa[0]);
  qa[0]->post_recv({src.sge(0x80000, 4096)});
  for (std::uint64_t tag = 5; tag < 8; ++tag) add(tag, tag, 100, 60000);
  const auto next = [&] { return cq->wait().status; };
  send_eager(0, 5, 100);
  EXPECT_EQ(next(), TERN_CQE_SUCCESS);
  EXPECT_THAT(received.values(), ElementsAre(1, 0));
  send_request(0, 6, src, 300, 50000);
  EXPECT_EQ(next(), TERN_CQE_SUCCESS) << "the match";
  EXPECT_EQ(next(), TERN_CQE_SUCCESS) << "the data";
  EXPECT_THAT(received.values(), ElementsAre(2, 0));
  send_eager(0, 99, 100);
  EXPECT_EQ(next(), TERN_CQE_SUCCESS) << "unexpected";
  EXPECT_THAT(received.values(), ElementsAre(3, 0));
  const TestMr& closed = a.reg(4096, {.access = TERN_ACCESS_LOCAL_WRITE});
  send_request(0, 7, closed, 0, 50);
  EXPECT_EQ(next(), TERN_CQE_SUCCESS) << "the match";
  EXPECT_EQ(next(), TERN_CQE_REM_ACCESS_ERR);
  EXPECT_THAT(received.values(), ElementsAre(3, 1));
  EXPECT_THAT(sent.values(), ElementsAre(0, 0));
}

}  // namespace
}  // namespace tern

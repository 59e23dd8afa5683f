// SPDX-License-Identifier: GPL-2.0-or-later
// A device with several lanes: which lane serves a QP, what QPs of different lanes do to each other
// in one device and over the wire, and QPs that move between lanes with messages in flight.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "tests/mini_driver.h"
#include "tests/pager.h"

namespace tern {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr std::uint32_t kLen = 1 << 18;

// A process of a node, with a PD of its own.
struct Process {
  explicit Process(TestNode& n) : node(n), pd(n.alloc_pd()), mr(n.reg(kLen, {.pd = pd})) {}
  TestQp& qp(QpOptions options = {}) {
    options.pd = pd;
    TestQp& made = node.create_qp(options);
    EXPECT_EQ(made.created(), TERN_ST_OK);
    return made;
  }
  TestNode& node;
  std::uint32_t pd;
  TestMr& mr;
};

void connect(TestQp& x, TestQp& y) {
  x.connect(y);
  y.connect(x);
}

// A QP of each process, connected.
std::pair<TestQp&, TestQp&> linked(Process& p, Process& q, const QpOptions& options = {}) {
  TestQp& x = p.qp(options);
  TestQp& y = q.qp(options);
  connect(x, y);
  return {x, y};
}

unsigned lane_of(const TestQp& qp) {
  return node_of(qp).device.registry.qps.find(qp.number())->context().lane;
}

class Lanes : public ::testing::TestWithParam<std::uint64_t> {
 protected:
  static constexpr unsigned kLanes = 4;
  Sim sim{GetParam()};
  TestNode a{sim, {.unfinished_frames = true, .lanes = kLanes}};
  TestNode b{sim, {.lanes = kLanes}};
  Process p{a};
  Process q{a};
  Process r{b};

  // Posts messages of every kind from `x` to `y`, whose processes are `from` and `to`. Returns how
  // many completions `x` gets.
  static unsigned post_all(TestQp& x, const Process& from, TestQp& y, const Process& to) {
    unsigned n = 0;
    for (const std::uint32_t size : {0U, 1U, 1024U, 1025U, 20'000U}) {
      y.post_recv({to.mr.sge(0, 1 << 15)}, n);
      x.post(send({from.mr.sge(100, size)}).id(n++));
      x.post(write({from.mr.sge(200, size)}, to.mr, 1 << 16).id(n++));
      x.post(read({from.mr.sge((1 << 16) + n, size)}, to.mr, 300).id(n++));
    }
    x.post(fetch_add(from.mr.sge(1 << 17, 8), to.mr, 1 << 17, 7).id(n++));
    return n;
  }
  void expect_all(TestQp& x, unsigned n, TestQp& y) {
    for (unsigned i = 0; i < n; ++i) {
      const Wc wc = x.wait_send();
      ASSERT_EQ(wc.status, TERN_CQE_SUCCESS) << status_name(wc.status) << " of " << i;
      ASSERT_EQ(le(wc.wr_id), i) << "in order";
    }
    for (unsigned i = 0; i < 5; ++i) ASSERT_EQ(y.wait_recv().status, TERN_CQE_SUCCESS);
  }
  void expect_idle() {
    sim.run_until_idle();
    for (TestNode* const n : {&a, &b}) {
      EXPECT_THAT(n->async_events(), IsEmpty());
      EXPECT_EQ(n->counter(TERN_CNT_OUT_OF_SEQUENCE), 0U);
      EXPECT_EQ(n->counter(TERN_CNT_LOCAL_ACK_TIMEOUT_ERR), 0U);
      EXPECT_EQ(n->counter(TERN_CNT_RX_QP_MISMATCH), 0U);
    }
  }
};

INSTANTIATE_TEST_SUITE_P(Seeds, Lanes, ::testing::Range<std::uint64_t>(1, 9));

TEST_P(Lanes, EachProcessHasALane) {
  std::set<unsigned> lanes;
  for (unsigned i = 0; i < kLanes; ++i) {
    Process other(a);
    const unsigned lane = lane_of(other.qp());
    EXPECT_EQ(lane_of(other.qp()), lane) << "the QPs of a PD share a lane";
    lanes.insert(lane);
  }
  EXPECT_THAT(lanes, SizeIs(kLanes));
}

TEST_P(Lanes, Loopback) {
  const auto [x, y] = linked(p, q);
  ASSERT_NE(lane_of(x), lane_of(y));
  p.mr.fill(3);
  q.mr.fill(4);
  const auto bytes = p.mr.bytes(200, 20'000);
  const std::vector<std::byte> sent(bytes.begin(), bytes.end());
  const unsigned n = post_all(x, p, y, q);
  expect_all(x, n, y);
  EXPECT_TRUE(same_bytes(q.mr.bytes(1 << 16, 20'000), sent));
  const unsigned m = post_all(y, q, x, p);
  const unsigned l = post_all(x, p, y, q);
  expect_all(y, m, x);
  expect_all(x, l, y);
  expect_idle();
  EXPECT_EQ(sim.stats.sent, 0U);
  EXPECT_EQ(a.counter(TERN_CNT_TX_RDMA_PACKETS), a.counter(TERN_CNT_RX_RDMA_PACKETS));
}

TEST_P(Lanes, Wire) {
  const auto [x, y] = linked(p, r);
  const auto [x2, y2] = linked(q, r);
  const unsigned n = post_all(x, p, y, r);
  const unsigned m = post_all(y2, r, x2, q);
  expect_all(x, n, y);
  expect_all(y2, m, x2);
  expect_idle();
  EXPECT_EQ(a.counter(TERN_CNT_TX_RDMA_PACKETS), b.counter(TERN_CNT_RX_RDMA_PACKETS));
}

TEST_P(Lanes, ATrainComesToItsLane) {
  sim.whole_trains = true;
  const auto [x, y] = linked(p, r);
  ASSERT_NE(lane_of(y), 0U);
  unsigned trains = 0;
  sim.pass = [&](unsigned from, std::span<const std::byte> frame) {
    if (from != a.index() || frame.size() < 8192) return true;
    ++trains;
    EXPECT_EQ(b.device.lane_of(frame), lane_of(y));
    return true;
  };
  x.post(write({p.mr.sge(0, 100'000)}, r.mr));
  EXPECT_EQ(x.wait_send().status, TERN_CQE_SUCCESS);
  EXPECT_NE(trains, 0U);
}

TEST_P(Lanes, LossyWire) {
  sim.wire.loss = 0.02;
  sim.wire.duplicate = 0.02;
  sim.wire.reorder = 0.02;
  const QpOptions options{.timeout = 8};
  const auto [x, y] = linked(p, r, options);
  for (int i = 0; i < 3; ++i) {
    const unsigned n = post_all(x, p, y, r);
    expect_all(x, n, y);
  }
}

// A CQ that both processes use brings their QPs together, with messages in flight.
TEST_P(Lanes, SharedCqJoins) {
  const auto [x, y] = linked(p, q);
  const auto [x2, z] = linked(p, r);
  ASSERT_NE(lane_of(x), lane_of(y));
  const unsigned n = post_all(x, p, y, q);
  const unsigned m = post_all(x2, p, z, r);
  for (std::uint64_t i = 0; i < GetParam(); ++i) sim.step();
  TestQp& both = p.qp({.send_cq = &y.send_cq()});
  EXPECT_EQ(lane_of(x), lane_of(y));
  EXPECT_EQ(lane_of(x2), lane_of(y));
  EXPECT_EQ(lane_of(both), lane_of(y));
  expect_all(x, n, y);
  expect_all(x2, m, z);
  const unsigned l = post_all(x, p, y, q);
  expect_all(x, l, y);
  expect_idle();
}

TEST_P(Lanes, TheSmallerGroupMoves) {
  TestQp& x = p.qp();
  const TestQp& y = q.qp();
  (void)p.qp();
  const unsigned larger = lane_of(x);
  ASSERT_NE(lane_of(y), larger);
  (void)q.qp({.send_cq = &x.send_cq()});
  EXPECT_EQ(lane_of(y), larger);
}

// The same with timers: retransmission, RNR, pacing, and an interrupt that is moderated.
TEST_P(Lanes, TimersMove) {
  sim.pass = [](unsigned, std::span<const std::byte>) { return false; };
  TestQp& lost = p.qp({.timeout = 10});
  TestQp& y = r.qp();
  connect(lost, y);
  const auto [rnr, to] = linked(p, q, {.min_rnr_timer = 20});
  lost.post(write({p.mr.sge(0, 100)}, r.mr));
  rnr.post(send({p.mr.sge(0, 100)}));
  sim.run_for(20'000);
  TestQp& both = q.qp({.recv_cq = &rnr.recv_cq()});
  EXPECT_EQ(lane_of(lost), lane_of(both));
  EXPECT_EQ(lane_of(rnr), lane_of(to));
  sim.pass = nullptr;
  to.post_recv({q.mr.sge()});
  EXPECT_EQ(lost.wait_send().status, TERN_CQE_SUCCESS);
  EXPECT_EQ(rnr.wait_send().status, TERN_CQE_SUCCESS);
  EXPECT_EQ(to.wait_recv().status, TERN_CQE_SUCCESS);
  EXPECT_EQ(a.counter(TERN_CNT_LOCAL_ACK_TIMEOUT_ERR), 1U);
}

TEST_P(Lanes, SrqOfAnotherPd) {
  TestSrq& srq = a.create_srq({.pd = q.pd});
  TestQp& own = q.qp();
  TestQp& x = p.qp({.srq = &srq});
  EXPECT_EQ(lane_of(own), lane_of(x));
  TestQp& y = r.qp();
  connect(x, y);
  srq.post({q.mr.sge(0, 1000)}, 9);
  r.mr.fill(8);
  y.post(send({r.mr.sge(0, 1000)}));
  EXPECT_EQ(le(x.wait_recv().wr_id), 9U);
  EXPECT_TRUE(same_bytes(q.mr.bytes(0, 1000), r.mr.bytes(0, 1000)));
  expect_idle();
}

TEST_P(Lanes, XrcDomainJoins) {
  const std::uint32_t xrcd = a.alloc_xrcd();
  TestQp& target = a.create_qp({.xrcd = xrcd, .type = TERN_QPT_XRC_TGT});
  TestQp& initiator = r.qp({.type = TERN_QPT_XRC_INI});
  connect(initiator, target);
  TestQp& x = p.qp();
  TestCq& cq = a.create_cq();
  TestSrq& srq = a.create_srq({.pd = p.pd, .xrcd = xrcd, .cq = &cq});
  EXPECT_EQ(lane_of(target), lane_of(x));
  TestQp& y = q.qp();
  TestCq& other_cq = a.create_cq();
  TestSrq& other = a.create_srq({.pd = q.pd, .xrcd = xrcd, .cq = &other_cq});
  EXPECT_EQ(lane_of(x), lane_of(y));
  EXPECT_EQ(lane_of(target), lane_of(x));
  srq.post({p.mr.sge(0, 100)}, 1);
  other.post({q.mr.sge(0, 100)}, 2);
  initiator.post(send({r.mr.sge(0, 100)}).to_srq(srq.number()));
  initiator.post(send({r.mr.sge(0, 100)}).to_srq(other.number()));
  EXPECT_EQ(le(cq.wait().wr_id), 1U);
  EXPECT_EQ(le(other_cq.wait().wr_id), 2U);
  expect_idle();
}

TEST_P(Lanes, KeysOfAnotherLaneAreRefused) {
  const auto run = [&](const SendWr& wr, std::uint8_t status) {
    const auto [x, y] = linked(p, q);
    ASSERT_NE(lane_of(x), lane_of(y));
    x.post(wr);
    const Wc wc = x.wait_send();
    EXPECT_EQ(wc.status, status) << status_name(wc.status);
  };
  run(write({q.mr.sge(0, 8)}, q.mr), TERN_CQE_LOC_PROT_ERR);
  run(write({p.mr.sge(0, 8)}, p.mr), TERN_CQE_REM_ACCESS_ERR);
  run(read({p.mr.sge(0, 8)}, p.mr), TERN_CQE_REM_ACCESS_ERR);
  run(write({p.mr.sge(0, 8)}, q.mr), TERN_CQE_SUCCESS);
}

TEST_P(Lanes, NullKeyInEachLane) {
  const auto [x, y] = linked(p, q);
  const tern_sge null{
      .addr = 0, .length = le(std::uint32_t{5000}), .lkey = le(std::uint32_t{TERN_LKEY_NULL})};
  q.mr.fill(1);
  y.post_recv({null});
  x.post(write({null}, q.mr));
  x.post(send({p.mr.sge(0, 5000)}));
  EXPECT_EQ(x.wait_send().status, TERN_CQE_SUCCESS);
  EXPECT_EQ(x.wait_send().status, TERN_CQE_SUCCESS);
  EXPECT_EQ(y.wait_recv().status, TERN_CQE_SUCCESS);
  EXPECT_EQ(q.mr.get<std::uint64_t>(4000), 0U);
}

// Who sees all frames brings all QPs to lane 0, and lets them go.
TEST_P(Lanes, WatchedFramesComeFromOneLane) {
  const auto [x, y] = linked(p, q);
  const auto [x2, z] = linked(p, r);
  std::string error;
  for (int i = 0; i < 3; ++i) {
    SCOPED_TRACE(i);
    const unsigned n = post_all(x, p, y, q);
    const unsigned m = post_all(z, r, x2, p);
    for (std::uint64_t k = 0; k < GetParam(); ++k) sim.step();
    i == 0 ? a.device.set_capture(true) : (void)a.device.set_faults("delay=1us rx", error);
    EXPECT_EQ(lane_of(x), 0U);
    EXPECT_EQ(lane_of(y), 0U);
    EXPECT_EQ(lane_of(p.qp()), 0U);
    expect_all(x, n, y);
    expect_all(z, m, x2);
    i == 0 ? a.device.set_capture(false) : (void)a.device.set_faults("", error);
    EXPECT_NE(lane_of(x), lane_of(y));
  }
  expect_idle();
}

TEST_P(Lanes, Multicast) {
  constexpr Gid kGroup = {0xff, 0x0e, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x77, 0x11, 0x22, 0x33};
  constexpr Mac kMac = {0x33, 0x33, 0x77, 0x11, 0x22, 0x33};
  const auto ud = [](Process& process) -> TestQp& {
    TestQp& qp = process.qp({.type = TERN_QPT_UD});
    qp.connect();
    return qp;
  };
  TestQp& x = ud(p);
  TestQp& y = ud(q);
  TestQp& z = ud(r);
  for (TestQp* const member : {&y, &z}) {
    tern_cmd_mcast cmd{};
    cmd.port = 1;
    std::ranges::copy(kGroup, cmd.gid);
    cmd.qpn = le(member->number());
    ASSERT_EQ(member->node().command(TERN_CMD_ATTACH_MCAST, cmd), TERN_ST_OK);
    member->post_recv({(member == &y ? q : r).mr.sge(0, 500)});
  }
  EXPECT_EQ(lane_of(y), 0U);
  EXPECT_NE(lane_of(x), 0U);
  SendWr wr = datagram(x, x, {p.mr.sge(0, 100)});
  std::ranges::copy(kGroup, wr.ud.av.dgid);
  std::ranges::copy(kMac, wr.ud.av.dmac);
  wr.ud.dqpn = 0xffffff;
  x.post(wr);
  EXPECT_EQ(x.wait_send().status, TERN_CQE_SUCCESS);
  EXPECT_EQ(le(y.wait_recv().byte_len), 140U);
  EXPECT_EQ(le(z.wait_recv().src_qp), x.number());
  expect_idle();
}

TEST_P(Lanes, EventsOfAllLanes) {
  const auto [x, y] = linked(p, q, {.eq = &a.eq()});
  (void)a.eq().take_all();
  for (TestQp* const qp : {&x, &y}) qp->send_cq().arm();
  x.post(write({p.mr.sge(0, 8)}, q.mr));
  y.post(write({q.mr.sge(0, 8)}, p.mr));
  sim.run_until_idle();
  std::set<std::uint32_t> cqs;
  for (const tern_eqe& e : a.eq().take_all()) cqs.insert(le(e.id));
  EXPECT_EQ(cqs, (std::set{x.send_cq().number(), y.send_cq().number()}));
  EXPECT_EQ(x.wait_send().status, TERN_CQE_SUCCESS);
  (void)a.async_events();
  x.post(write({p.mr.sge(0, 8)}, p.mr));
  EXPECT_EQ(x.wait_send().status, TERN_CQE_REM_ACCESS_ERR);
  sim.run_until_idle();
  std::set<std::uint32_t> qps;
  for (const tern_eqe& e : a.async_events()) qps.insert(le(e.id));
  EXPECT_EQ(qps, std::set{y.number()});
}

TEST_P(Lanes, PageFaults) {
  OnDemandMr source(a, 1 << 16, p.pd);
  Pager pager(a);
  pager.add(source);
  const auto [x, y] = linked(p, r);
  EXPECT_NE(lane_of(x), 0U);
  x.post(write({source.mr.sge(0, 1 << 16)}, r.mr));
  for (int i = 0; i < 40; ++i) {
    sim.run_for(100'000);
    pager.resolve_all();
  }
  EXPECT_EQ(x.wait_send().status, TERN_CQE_SUCCESS);
}

TEST_P(Lanes, CounterSetJoins) {
  const auto [x, y] = linked(p, q);
  const std::uint32_t set = a.make(TERN_CMD_CREATE_COUNTER_SET);
  for (TestQp* const qp : {&x, &y})
    a.run(TERN_CMD_BIND_COUNTER_SET,
          tern_cmd_bind_counter_set{.qpn = le(qp->number()), .set = le(set)});
  EXPECT_EQ(lane_of(x), lane_of(y));
  const unsigned n = post_all(x, p, y, q);
  expect_all(x, n, y);
}

TEST_P(Lanes, DoorbellOfAllQueues) {
  const auto [x, y] = linked(p, q);
  x.post(write({p.mr.sge(0, 8)}, q.mr), false);
  y.post(write({q.mr.sge(0, 8)}, p.mr), false);
  a.ring(a.uar(), field_prep(TERN_DB_CMD_MASK, TERN_DB_CMD_PAGE));
  EXPECT_EQ(x.wait_send().status, TERN_CQE_SUCCESS);
  EXPECT_EQ(y.wait_send().status, TERN_CQE_SUCCESS);
}

// A store to an operation page may look like a doorbell of a queue in any lane.
TEST_P(Lanes, OperationPagesHaveNoDoorbells) {
  TestQp& x = p.qp();
  EXPECT_NE(lane_of(x), 0U);
  const TestDm dm = a.alloc_dm(4096);
  tern_rsp_object rsp{};
  EXPECT_EQ(
      a.command(TERN_CMD_MAP_DM_OP, tern_cmd_map_dm_op{0, le(dm.number), TERN_DM_OP_ADD, {}}, &rsp),
      TERN_ST_OK);
  const std::uint64_t page = std::uint64_t{le(std::uint32_t{rsp.id})} << 12;
  std::uint32_t sum = 0;
  for (const std::uint32_t value :
       {field_prep(TERN_DB_CMD_MASK, TERN_DB_CMD_SQ) | x.number(), x.number()}) {
    a.device.doorbell(page + TERN_UAR_DB, value);
    sum += value;
  }
  EXPECT_EQ(le(a.host.get<std::uint32_t>(FakeHost::kDm + dm.offset + TERN_UAR_DB)), sum);
  EXPECT_EQ(a.counter(TERN_CNT_BAD_DOORBELL), 0U);
}

TEST_P(Lanes, PagesInUseInAnyLane) {
  TestQp& x = p.qp();
  EXPECT_NE(lane_of(x), 0U);
  EXPECT_EQ(a.command(TERN_CMD_FREE_UAR, tern_cmd_object{le(a.uar()), 0}), TERN_ST_BUSY);
}

// An XRC target holds a receive WQE whose CQ fails, and moves before its lane has told it.
TEST_P(Lanes, FailedXrcCqMoves) {
  sim.budget = 1100;  // a packet a turn
  sim.turn_time = 500;
  const std::uint32_t xrcd = a.alloc_xrcd();
  std::vector<TestQp*> targets, initiators;
  for (int i = 0; i < 2; ++i) {
    targets.push_back(&a.create_qp({.xrcd = xrcd, .type = TERN_QPT_XRC_TGT}));
    initiators.push_back(&r.qp({.type = TERN_QPT_XRC_INI}));
    connect(*initiators[i], *targets[i]);
  }
  (void)p.qp();
  TestCq& cq = a.create_cq(1);
  TestSrq& srq = a.create_srq({.pd = p.pd, .xrcd = xrcd, .cq = &cq});
  for (std::uint64_t i = 0; i < 4; ++i) srq.post({p.mr.sge(0, 1 << 16)}, i);
  // The CQ has two entries.
  for (int i = 0; i < 2; ++i) {
    initiators[1]->post(send({r.mr.sge(0, 10)}).to_srq(srq.number()));
    EXPECT_EQ(initiators[1]->wait_send().status, TERN_CQE_SUCCESS);
  }
  initiators[0]->post(send({r.mr.sge(0, 1 << 16)}).to_srq(srq.number()));
  ASSERT_TRUE(sim.run_until([&] { return srq.taken() == 3; }));
  initiators[1]->post(send({r.mr.sge(0, 10)}).to_srq(srq.number()));
  ASSERT_TRUE(sim.run_until([&] { return a.device.registry.cqs.find(cq.number())->broken(); }));
  a.device.set_capture(true);
  sim.run_for(1'000'000'000);
  for (TestQp* const target : targets) EXPECT_EQ(target->query().attr.state, TERN_QPS_ERR);
}

TEST_P(Lanes, ResetInTheMiddle) {
  const auto [x, y] = linked(p, q);
  (void)post_all(x, p, y, q);
  for (std::uint64_t i = 0; i < GetParam(); ++i) sim.step();
  a.reg_write(TERN_REG_CTRL, TERN_CTRL_RESET);
  sim.run_until_idle();
  a.bring_up();
  Process again(a);
  Process other(a);
  const auto [u, v] = linked(again, other);
  const unsigned n = post_all(u, again, v, other);
  expect_all(u, n, v);
}

}  // namespace
}  // namespace tern

// SPDX-License-Identifier: GPL-2.0-or-later
// Properties of a whole device: QP transitions from every state to every state, order and limits of
// requests, CQ overflow, scheduling, the largest message, and determinism.
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "tests/mini_driver.h"

namespace tern {
namespace {

// ---- state machine ----

constexpr std::array kStates = {TERN_QPS_RESET, TERN_QPS_INIT, TERN_QPS_RTR, TERN_QPS_RTS,
                                TERN_QPS_SQD,   TERN_QPS_SQE,  TERN_QPS_ERR};

class RcStates : public ::testing::TestWithParam<std::tuple<int, int>> {
 protected:
  Sim sim;
  TestNode a{sim};
  TestNode b{sim};
  TestQp& qp = a.create_qp();
  TestQp& peer = b.create_qp();

  void bring_to(int state) {
    if (state == TERN_QPS_RESET) return;
    ASSERT_EQ(qp.to_init(), TERN_ST_OK);
    if (state == TERN_QPS_INIT) return;
    ASSERT_EQ(qp.to_rtr(peer), TERN_ST_OK);
    if (state == TERN_QPS_RTR) return;
    ASSERT_EQ(qp.to_rts(), TERN_ST_OK);
    if (state == TERN_QPS_RTS) return;
    ASSERT_EQ(qp.to_state(static_cast<std::uint8_t>(state)), TERN_ST_OK);
  }
  Status go(int state) {
    switch (state) {
      case TERN_QPS_INIT:
        return qp.to_init();
      case TERN_QPS_RTR:
        return qp.to_rtr(peer);
      case TERN_QPS_RTS:
        // From RTR with its attributes; otherwise only the state.
        return qp.query().attr.state == TERN_QPS_RTR ? qp.to_rts() : qp.to_state(TERN_QPS_RTS);
      default:
        return qp.to_state(static_cast<std::uint8_t>(state));
    }
  }
};

// IBTA 10.3.1. Reliable connections do not have SQE.
bool allowed(int from, int to) {
  if (to == TERN_QPS_RESET || to == TERN_QPS_ERR) return true;
  static const std::map<int, std::vector<int>> next = {
      {TERN_QPS_RESET, {TERN_QPS_INIT}},
      {TERN_QPS_INIT, {TERN_QPS_INIT, TERN_QPS_RTR}},
      {TERN_QPS_RTR, {TERN_QPS_RTS}},
      {TERN_QPS_RTS, {TERN_QPS_RTS, TERN_QPS_SQD}},
      {TERN_QPS_SQD, {TERN_QPS_RTS, TERN_QPS_SQD}}};
  const auto it = next.find(from);
  return it != next.end() && std::ranges::count(it->second, to) > 0;
}

TEST_P(RcStates, OnlyWhatTheTableAllows) {
  const auto [from, to] = GetParam();
  if (from == TERN_QPS_SQE) {
    ASSERT_NE(qp.to_state(TERN_QPS_SQE), TERN_ST_OK) << "nobody enters SQE on a connection";
    return;
  }
  bring_to(from);
  ASSERT_EQ(qp.query().attr.state, from);
  const Status status = go(to);
  if (allowed(from, to)) {
    EXPECT_EQ(status, TERN_ST_OK);
    EXPECT_EQ(qp.query().attr.state, to);
  } else {
    EXPECT_NE(status, TERN_ST_OK);
    EXPECT_EQ(qp.query().attr.state, from) << "a refusal changes nothing";
  }
}

INSTANTIATE_TEST_SUITE_P(All, RcStates,
                         ::testing::Combine(::testing::ValuesIn(kStates),
                                            ::testing::ValuesIn(kStates)));

class RcSystem : public ::testing::Test {
 protected:
  Sim sim;
  TestNode a{sim};
  TestNode b{sim};
};

TEST_F(RcSystem, CurrentStateIsCompared) {
  TestQp& qp = a.create_qp();
  tern_qp_attr attr{};
  attr.state = TERN_QPS_ERR;
  EXPECT_EQ(qp.modify(attr, TERN_QPA_STATE | TERN_QPA_CUR_STATE, 0, TERN_QPS_RTS),
            TERN_ST_BAD_STATE);
  EXPECT_EQ(qp.query().attr.state, TERN_QPS_RESET);
  EXPECT_EQ(qp.modify(attr, TERN_QPA_STATE | TERN_QPA_CUR_STATE, 0, TERN_QPS_RESET), TERN_ST_OK);
}

// ---- order ----

// A fenced WRITE after a READ of the same bytes must not change what the READ returns.
TEST_F(RcSystem, FenceWaitsForReads) {
  const auto [qa, qb] = rc_pair(a, b);
  (void)qb;
  TestMr& src = a.reg(65536);
  TestMr& into = a.reg(65536);
  TestMr& dst = b.reg(65536);
  dst.fill(1);
  const std::vector<std::byte> before(dst.bytes().begin(), dst.bytes().end());
  src.fill(2);
  sim.budget = 2048;
  sim.turn_time = 1000;
  qa.post(read({into.sge()}, dst));
  qa.post(write({src.sge()}, dst).with(TERN_WQE_F_FENCE));
  EXPECT_EQ(qa.wait_send().status, TERN_CQE_SUCCESS);
  EXPECT_TRUE(same_bytes(into.bytes(), before));
  EXPECT_EQ(qa.wait_send().status, TERN_CQE_SUCCESS);
  EXPECT_TRUE(same_bytes(dst.bytes(), src.bytes()));
}

TEST_F(RcSystem, OutstandingReadsStayWithinWhatWasAgreed) {
  const auto [qa, qb] = rc_pair(a, b, {.max_rd_atomic = 2, .max_dest_rd_atomic = 2});
  (void)qb;
  TestMr& into = a.reg(65536);
  TestMr& dst = b.reg(65536);
  dst.fill(9);
  for (std::uint32_t i = 0; i < 16; ++i) qa.post(read({into.sge(i * 4096, 4096)}, dst, i * 4096));
  for (int i = 0; i < 16; ++i) ASSERT_EQ(qa.wait_send().status, TERN_CQE_SUCCESS);
  EXPECT_TRUE(same_bytes(into.bytes(), dst.bytes()));
}

// ---- CQ overflow ----

// A message of which nobody learns is not acknowledged.
TEST_F(RcSystem, AMessageWithoutACompletionIsRefused) {
  TestCq& small = b.create_cq(1);
  TestQp& qa = a.create_qp();
  TestQp& qb = b.create_qp({.recv_cq = &small});
  qa.connect(qb);
  qb.connect(qa);
  TestMr& src = a.reg(4096);
  TestMr& dst = b.reg(4096);
  for (int i = 0; i < 4; ++i) qb.post_recv({dst.sge()});
  for (int i = 0; i < 2; ++i) {
    qa.post(send({src.sge(0, 8)}));
    EXPECT_EQ(qa.wait_send().status, TERN_CQE_SUCCESS);
  }
  qa.post(send({src.sge(0, 8)}));
  EXPECT_EQ(qa.wait_send().status, TERN_CQE_REM_OP_ERR);
  sim.run_until_idle();
  EXPECT_EQ(qb.query().attr.state, TERN_QPS_ERR);
}

TEST_F(RcSystem, OverflowBreaksTheQueueAndItsQpsOnly) {
  TestCq& small = a.create_cq(1);
  TestQp& qa = a.create_qp({.send_cq = &small});
  TestQp& qb = b.create_qp();
  qa.connect(qb);
  qb.connect(qa);
  const auto [other, other_peer] = rc_pair(a, b);
  (void)other_peer;
  TestMr& src = a.reg(4096);
  TestMr& dst = b.reg(4096);
  for (int i = 0; i < 4; ++i) qa.post(write({src.sge(0, 8)}, dst));
  sim.run_until_idle();
  EXPECT_EQ(qa.query().attr.state, TERN_QPS_ERR);
  EXPECT_EQ(a.counter(TERN_CNT_CQ_OVERRUNS), 1U);
  std::map<std::uint16_t, std::uint32_t> events;
  for (const tern_eqe& e : a.async_events()) events[le(e.type)] = le(e.id);
  EXPECT_EQ(events.size(), 2U);
  EXPECT_EQ(events[TERN_EV_CQ_ERR], small.number());
  EXPECT_EQ(events[TERN_EV_QP_FATAL], qa.number());
  // Earlier completions are still there, and other QPs are not affected.
  EXPECT_EQ(small.poll_all().size(), 2U);
  other.post(write({src.sge(0, 8)}, dst));
  EXPECT_EQ(other.wait_send().status, TERN_CQE_SUCCESS);
}

// ---- scheduling ----

// A short message waits for at most one turn of each other QP, however much the others have to
// send.
TEST_F(RcSystem, LongMessagesDoNotHoldShortOnes) {
  constexpr unsigned kBusy = 4;
  constexpr std::uint64_t kTurn = 16 * 1024;
  TestMr& src = a.reg(8 << 20);
  TestMr& dst = b.reg(8 << 20);
  std::vector<TestQp*> busy;
  for (unsigned i = 0; i < kBusy; ++i) {
    const auto [x, y] = rc_pair(a, b);
    (void)y;
    busy.push_back(&x);
  }
  const auto [quick, quick_peer] = rc_pair(a, b);
  (void)quick_peer;
  sim.budget = 4096;
  sim.turn_time = 1000;
  for (TestQp* qp : busy) qp->post(write({src.sge()}, dst));
  sim.run_for(50'000);
  const std::uint64_t before = a.counter(TERN_CNT_TX_RDMA_BYTES);
  std::uint64_t others = 0;
  bool sent = false;
  sim.pass = [&](unsigned, std::span<const std::byte> frame) {
    // The 8-byte WRITE is the only short data frame that a sends.
    if (!sent) {
      if (frame.size() > 200) others += frame.size();
    }
    if (frame.size() > 80 && frame.size() < 120) sent = true;
    return true;
  };
  quick.post(write({src.sge(0, 8)}, dst));
  ASSERT_EQ(quick.wait_send().status, TERN_CQE_SUCCESS);
  EXPECT_TRUE(sent);
  EXPECT_GT(a.counter(TERN_CNT_TX_RDMA_BYTES), before);
  EXPECT_LE(others, (kBusy + 1) * (kTurn + 8192));
  for (TestQp* qp : busy) EXPECT_EQ(qp->wait_send().status, TERN_CQE_SUCCESS);
}

// ---- the largest message ----

TEST_F(RcSystem, TwoGibibytesAndNotOneByteMore) {
  constexpr std::uint64_t kMax = std::uint64_t{1} << 31;
  const auto [qa, qb] = rc_pair(a, b, {.log_mtu = 12});
  (void)qb;
  RegOptions aliased{.alias = 1 << 20, .page_shift = 20};
  TestMr& src = a.reg(kMax, aliased);
  TestMr& dst = b.reg(kMax, aliased);
  src.fill(6);
  qa.post(write({{src.iova, static_cast<std::uint32_t>(kMax), src.key}}, dst));
  const Wc wc = qa.wait_send();
  EXPECT_EQ(wc.status, TERN_CQE_SUCCESS);
  EXPECT_TRUE(same_bytes(dst.bytes(), src.bytes()));
  qa.post(write({{src.iova, static_cast<std::uint32_t>(kMax), src.key}, src.sge(0, 1)}, dst));
  EXPECT_EQ(qa.wait_send().status, TERN_CQE_LOC_LEN_ERR);
}

// ---- determinism ----

// Random traffic of every kind, in both directions and in loopback. The pieces are disjoint so that
// the data can be verified. Returns the trace.
std::vector<TraceEntry> random_traffic(std::uint64_t seed) {
  Sim sim(seed);
  sim.tracing = true;
  sim.budget = 8192;
  sim.turn_time = 500;
  TestNode a(sim);
  TestNode b(sim);
  std::mt19937_64 random(seed);
  constexpr unsigned kPairs = 6;
  constexpr std::uint32_t kPiece = 20000;
  constexpr unsigned kRounds = 8;
  for (unsigned round = 0; round < kRounds; ++round) {
    struct Job {
      TestQp* qp;
      TestMr* from;
      TestMr* to;
      std::uint32_t len;
    };
    std::vector<Job> jobs;
    for (unsigned i = 0; i < kPairs; ++i) {
      TestNode& x = i % 2 ? a : b;
      TestNode& y = i % 3 ? b : a;
      const auto [q, r] = rc_pair(x, y, {.log_mtu = static_cast<unsigned>(8 + random() % 5)});
      TestMr& near = x.reg(kPiece);
      TestMr& far = y.reg(kPiece);
      const auto len = static_cast<std::uint32_t>(random() % kPiece);
      const auto cut = static_cast<std::uint32_t>(len ? random() % len : 0);
      switch (random() % 3) {
        case 0:
          near.fill(static_cast<unsigned>(random()));
          q.post(write({near.sge(0, cut), near.sge(cut, len - cut)}, far));
          jobs.push_back({&q, &near, &far, len});
          break;
        case 1:
          far.fill(static_cast<unsigned>(random()));
          q.post(read({near.sge(0, cut), near.sge(cut, len - cut)}, far));
          jobs.push_back({&q, &far, &near, len});
          break;
        default:
          near.fill(static_cast<unsigned>(random()));
          r.post_recv({far.sge(0, cut), far.sge(cut, kPiece - cut)});
          q.post(send({near.sge(0, len)}));
          jobs.push_back({&q, &near, &far, len});
          break;
      }
    }
    for (const Job& job : jobs) {
      EXPECT_EQ(job.qp->wait_send().status, TERN_CQE_SUCCESS);
    }
    sim.run_until_idle();
    for (const Job& job : jobs) {
      EXPECT_TRUE(same_bytes(job.to->bytes(0, job.len), job.from->bytes(0, job.len)));
    }
  }
  return sim.trace();
}

class RcRandom : public ::testing::TestWithParam<std::uint64_t> {};

TEST_P(RcRandom, SameSeedSameTrace) {
  const auto first = random_traffic(GetParam());
  EXPECT_GT(first.size(), 100U);
  EXPECT_TRUE(first == random_traffic(GetParam()));
}

INSTANTIATE_TEST_SUITE_P(Seeds, RcRandom, ::testing::Range(std::uint64_t{1}, std::uint64_t{13}));

// While block memory is scarce, each QP copies one WQE at a time, and all of them make progress.
TEST(ScarceMemory, EveryQueuePairGetsOn) {
  Sim sim{3};
  TestNode a{sim};
  TestNode b{sim};
  TestMr& src = a.reg(1 << 16);
  TestMr& landing = a.reg(1 << 16);
  TestMr& dst = b.reg(1 << 16);
  a.device.datapath.blocks.set_plenty(0);
  constexpr unsigned kQps = 8;
  constexpr unsigned kWrs = 16;
  std::vector<TestQp*> qps;
  for (unsigned i = 0; i < kQps; ++i) {
    const auto [x, y] = rc_pair(a, b, {.log_sq_size = 4});
    qps.push_back(&x);
  }
  std::size_t most = 0;
  sim.pass = [&](unsigned, std::span<const std::byte>) {
    most = std::max(most, a.device.datapath.blocks.taken());
    return true;
  };
  for (unsigned k = 0; k < kWrs; ++k) {
    for (TestQp* const qp : qps) {
      if (k % 4 == 3) {
        qp->post(read({landing.sge(0, 6000)}, dst).id(k));
      } else if (k % 4 == 2) {
        qp->post(fetch_add(landing.sge(0, 8), dst, 0, 1).with(TERN_WQE_F_FENCE).id(k));
      } else {
        qp->post(write({src.sge(0, 9000)}, dst).id(k));
      }
    }
  }
  for (TestQp* const qp : qps) {
    for (unsigned k = 0; k < kWrs; ++k) {
      const Wc wc = qp->wait_send();
      EXPECT_EQ(wc.status, TERN_CQE_SUCCESS);
      EXPECT_EQ(le(wc.wr_id), k);
    }
  }
  sim.run_until_idle();
  EXPECT_LE(most, kQps * 512U) << "one WQE each";
  EXPECT_EQ(a.device.datapath.blocks.taken(), 0U);
}

}  // namespace
}  // namespace tern

// SPDX-License-Identifier: GPL-2.0-or-later
// Congestion notification packets: the notification point sends one per flow and interval for
// packets with a mark; the reaction point slows the QP that one is addressed to and drops malformed
// ones.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <vector>

#include "tests/mini_driver.h"
#include "tests/packet_samples.h"

namespace tern {
namespace {

// SET_CC of one parameter.
void set(TestNode& node, unsigned index, std::uint32_t value) {
  tern_cmd_set_cc cmd{.mask = le(1U << index), .port = 1};
  cmd.params.value[index] = le(value);
  ASSERT_EQ(node.command(TERN_CMD_SET_CC, cmd), TERN_ST_OK);
}

class Congestion : public ::testing::Test {
 protected:
  Sim sim;
  TestNode a{sim};
  TestNode b{sim};
  std::vector<std::byte> reserved = std::vector<std::byte>(kCnpPayload);
  Route from_peer;

  // Learns the route of packets from `qp`.
  void learn_route(TestQp& qp) {
    TestMr& src = a.reg(4096);
    sim.pass = [this](unsigned from, std::span<const std::byte> frame) {
      if (from == 0) {
        EXPECT_EQ(parse_route(frame, from_peer), ParseResult::kOk);
      }
      return true;
    };
    qp.post(send({src.sge(0, 8)}));
    (void)qp.wait_send();
    sim.run_until_idle();
    sim.pass = nullptr;
  }
  void notify(std::uint32_t qpn, const std::function<void(Packet&)>& change = {}) {
    Packet p(b.host);
    p.transport = Transport::kCnp;
    p.op = kCnpOp;
    p.dest_qp = Qpn(qpn);
    p.pkey = 0xffff;
    p.becn = true;
    p.mig_req = false;
    p.route = from_peer;
    if (change) change(p);
    p.payload.append_plain(std::as_bytes(std::span(reserved)));
    b.receive(encode(p));
    p.payload.clear();
  }
  // The affected counters of b: handled, malformed, mismatch.
  void expect(std::uint64_t handled, std::uint64_t malformed, std::uint64_t mismatch) {
    EXPECT_EQ(b.counter(TERN_CNT_RP_CNP_HANDLED), handled);
    EXPECT_EQ(b.counter(TERN_CNT_RX_MALFORMED), malformed);
    EXPECT_EQ(b.counter(TERN_CNT_RX_QP_MISMATCH), mismatch);
    EXPECT_EQ(b.counter(TERN_CNT_NP_CNP_SENT), 0U);
  }
};

TEST_F(Congestion, NotificationsAreCountedForEveryClassThatIsConnected) {
  std::uint64_t n = 0;
  for (const auto type : {std::uint8_t{TERN_QPT_RC}, std::uint8_t{TERN_QPT_UC}}) {
    const auto [x, y] = rc_pair(a, b, {.type = type});
    y.post_recv({b.reg(4096).sge()});
    learn_route(x);
    const tern_rsp_query_qp before = y.query();
    const auto sent = b.counter(TERN_CNT_TX_RDMA_PACKETS);
    for (int i = 0; i < 3; ++i) notify(y.number());
    sim.run_until_idle();
    expect(n += 3, 0, 0);
    const tern_rsp_query_qp after = y.query();
    EXPECT_EQ(std::memcmp(&before.attr, &after.attr, sizeof(after.attr)), 0);
    EXPECT_EQ(le(before.rate), 0U);
    EXPECT_LT(le(after.rate), 51'000'000U) << "half of the port's rate";
    EXPECT_EQ(b.counter(TERN_CNT_TX_RDMA_PACKETS), sent) << "nothing answers it";
  }
}

TEST_F(Congestion, WhatIsNoNotificationIsMalformed) {
  const auto [x, y] = rc_pair(a, b);
  y.post_recv({b.reg(4096).sge()});
  learn_route(x);
  notify(y.number(), [](Packet& p) { p.becn = false; });
  expect(0, 1, 0);
  for (const std::size_t at : {0U, 7U, 15U}) {
    reserved[at] = std::byte{1};
    notify(y.number());
    reserved[at] = std::byte{0};
  }
  expect(0, 4, 0);
  for (const std::size_t length : {0U, 12U, 20U}) {
    reserved.resize(length);
    notify(y.number());
  }
  expect(0, 7, 0);
  reserved.assign(kCnpPayload, std::byte{0});
  notify(y.number());
  expect(1, 7, 0);
}

TEST_F(Congestion, ForNoPeerOfAConnectedQpIsAMismatch) {
  const auto [x, y] = rc_pair(a, b);
  y.post_recv({b.reg(4096).sge()});
  learn_route(x);
  notify(y.number() + 77);
  notify(y.number(), [](Packet& p) { p.pkey = 0x1234; });
  notify(y.number(), [](Packet& p) { p.route.sgid[15] ^= 9; });
  TestQp& alone = b.create_qp({});
  notify(alone.number());
  expect(0, 0, 4);
  ASSERT_EQ(y.to_state(TERN_QPS_ERR), TERN_ST_OK);
  notify(y.number());
  expect(0, 0, 5);
}

TEST_F(Congestion, IgnoredForAPriorityThatIsOff) {
  const auto [x, y] = rc_pair(a, b, {.sl = 3});
  y.post_recv({b.reg(4096).sge()});
  learn_route(x);
  set(b, TERN_CC_RP_ENABLE, 0xff & ~(1U << 3));
  notify(y.number());
  expect(0, 0, 0);
  EXPECT_EQ(b.counter(TERN_CNT_RP_CNP_IGNORED), 1U);
  EXPECT_EQ(le(y.query().rate), 0U);
  set(b, TERN_CC_RP_ENABLE, 1U << 3);
  notify(y.number());
  expect(1, 0, 0);
}

// A peer that floods the QP with notifications slows it to the least rate, and no other QP.
TEST_F(Congestion, AFloodSlowsOneQueuePair) {
  const auto [x, y] = rc_pair(a, b);
  const auto [other, peer] = rc_pair(b, a);
  y.post_recv({b.reg(4096).sge()});
  learn_route(x);
  for (int i = 0; i < 10'000; ++i) {
    notify(y.number());
    sim.run_for(5'000);
  }
  EXPECT_EQ(le(y.query().rate), 1'000U);
  EXPECT_EQ(le(other.query().rate), 0U);
  TestMr& mr = b.reg(64);
  TestMr& to = a.reg(64);
  other.post(write({mr.sge()}, to));
  const Nanos begin = sim.now();
  EXPECT_EQ(other.wait_send().status, TERN_CQE_SUCCESS);
  EXPECT_LT(sim.now() - begin, 50'000U);
  y.post(write({mr.sge()}, to));
  EXPECT_EQ(y.wait_send().status, TERN_CQE_SUCCESS);
}

class NotificationPoint : public ::testing::Test {
 protected:
  Sim sim;
  TestNode a{sim};
  TestNode b{sim, {.lanes = 1}};
  std::uint64_t notifications = 0;
  Route last;
  std::uint8_t ecn_seen = 0xff;

  void watch() {
    sim.queue = [this](unsigned to, std::span<std::byte> frame) {
      Route route;
      EXPECT_EQ(parse_route(frame, route), ParseResult::kOk);
      const auto at = find_parts(frame);
      if (to == b.index() && at) {
        ecn_seen = route.traffic_class & 3;
        mark_congestion(frame, *at);
      }
      if (to == a.index() && at && frame[at->bth] == std::byte{0x81}) {
        ++notifications;
        last = route;
      }
      return sim.now();
    };
  }
};

class NotificationOfType : public NotificationPoint,
                           public ::testing::WithParamInterface<std::uint8_t> {};

TEST_P(NotificationOfType, OneInAnInterval) {
  const auto [x, y] = rc_pair(a, b, {.type = GetParam(), .gid_index = 2, .traffic_class = 0x60});
  TestMr& src = a.reg(1 << 16);
  TestMr& dst = b.reg(1 << 16);
  watch();
  for (int i = 0; i < 10; ++i) x.post(write({src.sge(0, 1024)}, dst));
  sim.run_for(40'000);
  EXPECT_EQ(ecn_seen, 2) << "ECT(0)";
  EXPECT_EQ(b.counter(TERN_CNT_NP_ECN_MARKED), 10U);
  EXPECT_EQ(b.counter(TERN_CNT_NP_CNP_SENT), 1U);
  EXPECT_EQ(notifications, 1U);
  EXPECT_EQ(last.traffic_class, 48 << 2) << "np_cnp_dscp, and not ECN capable";
  EXPECT_EQ(last.sl, 6) << "np_cnp_prio";
  EXPECT_EQ(a.counter(TERN_CNT_RP_CNP_HANDLED), 1U);
  EXPECT_LT(le(x.query().rate), 60'000'000U);
  sim.run_for(20'000);
  x.post(write({src.sge(0, 1024)}, dst));
  sim.run_for(20'000);
  EXPECT_EQ(notifications, 2U);
  EXPECT_EQ(a.counter(TERN_CNT_RX_MALFORMED), 0U);
}

INSTANTIATE_TEST_SUITE_P(Types, NotificationOfType, ::testing::Values(TERN_QPT_RC, TERN_QPT_UC));

TEST_F(NotificationPoint, OffSendsNoneAndIsNotEcnCapable) {
  set(a, TERN_CC_RP_ENABLE, 0);
  set(b, TERN_CC_NP_ENABLE, 0);
  const auto [x, y] = rc_pair(a, b);
  TestMr& src = a.reg(4096);
  TestMr& dst = b.reg(4096);
  watch();
  x.post(write({src.sge()}, dst));
  EXPECT_EQ(x.wait_send().status, TERN_CQE_SUCCESS);
  EXPECT_EQ(ecn_seen, 0);
  EXPECT_GT(b.counter(TERN_CNT_NP_ECN_MARKED), 0U);
  EXPECT_EQ(b.counter(TERN_CNT_NP_CNP_SENT), 0U);
}

TEST_F(NotificationPoint, DatagramsHaveNoFlow) {
  QpOptions ud{.type = TERN_QPT_UD};
  TestQp& x = a.create_qp(ud);
  TestQp& y = b.create_qp(ud);
  x.connect();
  y.connect();
  y.post_recv({b.reg(4096).sge()});
  watch();
  x.post(datagram(x, y, {a.reg(512).sge()}));
  (void)y.wait_recv();
  EXPECT_EQ(b.counter(TERN_CNT_NP_ECN_MARKED), 1U);
  EXPECT_EQ(b.counter(TERN_CNT_NP_CNP_SENT), 0U);
}

// The responder of READs is the reaction point of its responses.
TEST_F(NotificationPoint, ResponsesOfReadsAreSlowed) {
  const auto [x, y] = rc_pair(a, b);
  TestMr& here = a.reg(1 << 16);
  TestMr& there = b.reg(1 << 16);
  watch();
  y.post(read({there.sge()}, here));
  EXPECT_EQ(y.wait_send().status, TERN_CQE_SUCCESS);
  EXPECT_GT(b.counter(TERN_CNT_NP_CNP_SENT), 0U);
  EXPECT_GT(a.counter(TERN_CNT_RP_CNP_HANDLED), 0U);
  EXPECT_NE(le(x.query().rate), 0U);
}

TEST_F(NotificationPoint, AQueuePairMayGoBeforeItsNotification) {
  const auto [x, y] = rc_pair(a, b);
  TestMr& src = a.reg(4096);
  TestMr& dst = b.reg(4096);
  std::vector<std::byte> marked;
  sim.pass = [&](unsigned from, std::span<const std::byte> frame) {
    if (from == a.index()) marked.assign(frame.begin(), frame.end());
    return false;
  };
  x.post(write({src.sge(0, 64)}, dst));
  sim.run_for(10'000);
  mark_congestion(marked, *find_parts(marked));
  b.receive(marked);
  ASSERT_EQ(y.to_state(TERN_QPS_RESET), TERN_ST_OK);
  sim.run_for(10'000);
  EXPECT_EQ(b.counter(TERN_CNT_NP_CNP_SENT), 0U);
  y.connect(x);
  b.receive(marked);
  b.destroy(y);
  sim.run_for(10'000);
  EXPECT_EQ(b.counter(TERN_CNT_RX_QP_MISMATCH), 0U);
}

TEST_F(Congestion, ParametersAreChecked) {
  tern_cc_params params{};
  ASSERT_EQ(a.command(TERN_CMD_QUERY_CC, tern_cmd_query_port{1, {}}, &params), TERN_ST_OK);
  EXPECT_EQ(le(std::uint32_t{params.value[TERN_CC_RP_AI_RATE]}), 40U);
  EXPECT_EQ(a.command(TERN_CMD_QUERY_CC, tern_cmd_query_port{2, {}}, &params), TERN_ST_BAD_PARAM);
  tern_cmd_set_cc cmd{.mask = le(1U << TERN_CC_RP_AI_RATE | 1U << TERN_CC_RP_GD), .port = 1};
  cmd.params.value[TERN_CC_RP_AI_RATE] = le(5U);
  cmd.params.value[TERN_CC_RP_GD] = le(16U);
  EXPECT_EQ(a.command(TERN_CMD_SET_CC, cmd), TERN_ST_BAD_PARAM);
  cmd.params.value[TERN_CC_RP_GD] = le(15U);
  cmd.params.value[TERN_CC_NP_CNP_DSCP] = le(1U);
  EXPECT_EQ(a.command(TERN_CMD_SET_CC, cmd), TERN_ST_BAD_PARAM) << "a value without its bit";
  cmd.params.value[TERN_CC_NP_CNP_DSCP] = 0;
  cmd.mask |= le(1U << TERN_CC_NUM);
  EXPECT_EQ(a.command(TERN_CMD_SET_CC, cmd), TERN_ST_BAD_PARAM);
  ASSERT_EQ(a.command(TERN_CMD_QUERY_CC, tern_cmd_query_port{1, {}}, &params), TERN_ST_OK);
  EXPECT_EQ(le(std::uint32_t{params.value[TERN_CC_RP_AI_RATE]}), 40U)
      << "what was refused changed nothing";
  cmd.mask = le(1U << TERN_CC_RP_AI_RATE | 1U << TERN_CC_RP_GD);
  EXPECT_EQ(a.command(TERN_CMD_SET_CC, cmd), TERN_ST_OK);
  ASSERT_EQ(a.command(TERN_CMD_QUERY_CC, tern_cmd_query_port{1, {}}, &params), TERN_ST_OK);
  EXPECT_EQ(le(std::uint32_t{params.value[TERN_CC_RP_AI_RATE]}), 5U);
  EXPECT_EQ(le(std::uint32_t{params.value[TERN_CC_RP_GD]}), 15U);
}

}  // namespace
}  // namespace tern

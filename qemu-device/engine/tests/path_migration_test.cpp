// SPDX-License-Identifier: GPL-2.0-or-later
// Automatic path migration (IBTA 17.2.8): how a pair of QPs arms, when it migrates, and that no
// message is lost or executed twice when a path dies.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "tests/mini_driver.h"
#include "wire/codec.h"

namespace tern {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Paths are pairs of GIDs with the same index: see QpOptions::gid_index.
constexpr std::uint16_t kPrimary = 0;
constexpr std::uint16_t kAlternate = 1;
constexpr std::uint16_t kTagged = 2;
constexpr std::uint8_t kAltTimeout = 13;

class PathMigrationTest : public ::testing::Test {
 protected:
  Sim sim{17};
  TestNode a{sim};
  TestNode b{sim};
  TestMr& src = a.reg(1 << 16);
  TestMr& dst = b.reg(1 << 16);
  TestQp* qa = nullptr;
  TestQp* qb = nullptr;

  void connect(const QpOptions& options = {}) {
    const auto [x, y] = rc_pair(a, b, options);
    qa = &x;
    qb = &y;
    src.fill(9);
  }
  static tern_qp_alt path_to(const TestQp& from, const TestQp& peer, std::uint16_t path) {
    tern_qp_alt alt{};
    alt.av = from.av_to(peer);
    alt.av.sgid_index = le(path);
    std::ranges::copy(peer.node().gid(path), alt.av.dgid);
    alt.port = 1;
    alt.timeout = kAltTimeout;
    return alt;
  }
  static Status modify(const TestQp& qp, std::uint32_t mask, const tern_qp_alt& alt) {
    tern_cmd_modify_qp cmd{.qpn = le(qp.number()), .mask = le(mask), .alt = alt};
    return qp.node().command(TERN_CMD_MODIFY_QP, cmd);
  }
  static Status load(const TestQp& from, const TestQp& peer, std::uint16_t path = kAlternate) {
    return modify(from, TERN_QPA_ALT_PATH, path_to(from, peer, path));
  }
  static Status request(const TestQp& qp, std::uint8_t state) {
    tern_qp_alt alt{};
    alt.mig_state = state;
    return modify(qp, TERN_QPA_MIG_STATE, alt);
  }
  static Status rearm(const TestQp& from, const TestQp& peer, std::uint16_t path = kAlternate) {
    tern_qp_alt alt = path_to(from, peer, path);
    alt.mig_state = TERN_MIG_REARM;
    return modify(from, TERN_QPA_ALT_PATH | TERN_QPA_MIG_STATE, alt);
  }
  static std::uint8_t state_of(TestQp& qp) { return qp.query().alt.mig_state; }
  // The GID index of the QP's primary path.
  static std::uint16_t path_of(TestQp& qp) {
    return le(std::uint16_t{qp.query().attr.av.sgid_index});
  }
  void arm(std::uint16_t path = kAlternate) {
    ASSERT_EQ(rearm(*qa, *qb, path), TERN_ST_OK);
    ASSERT_EQ(rearm(*qb, *qa, path), TERN_ST_OK);
    exchange();
    ASSERT_EQ(state_of(*qa), TERN_MIG_ARMED);
    ASSERT_EQ(state_of(*qb), TERN_MIG_ARMED);
  }
  void exchange() {
    qa->post(write({src.sge(0, 8)}, dst));
    EXPECT_EQ(qa->wait_send().status, TERN_CQE_SUCCESS);
  }
  static std::vector<std::uint16_t> events(TestNode& node) {
    std::vector<std::uint16_t> types;
    for (const tern_eqe& e : node.async_events()) {
      if (le(e.type) == TERN_EV_COMM_EST) continue;
      node.check_generation(e);
      types.push_back(le(e.type));
    }
    return types;
  }
  // The path of a frame, by what distinguishes the GIDs of these tests on the wire.
  static std::uint16_t path_of(std::span<const std::byte> frame) {
    if (frame[12] == std::byte{0x86}) return kPrimary;
    return frame[12] == std::byte{0x81} ? kTagged : kAlternate;
  }
  static bool mig_req(std::span<const std::byte> frame) {
    const auto parts = find_parts(frame);
    return parts && (frame[parts->bth + 1] & std::byte{0x40}) != std::byte{0};
  }
  void kill(std::uint16_t path) {
    sim.pass = [path](unsigned, std::span<const std::byte> frame) {
      return path_of(frame) != path;
    };
  }
  // A request from the peer of `to`, at its address `path`.
  void forge(TestNode& from, TestQp& to, std::uint16_t path, bool mig, Psn psn) {
    Packet packet(a.host);
    packet.op = Op::kSendOnly;
    packet.dest_qp = Qpn(to.number());
    packet.psn = psn;
    packet.mig_req = mig;
    packet.route.sgid = from.gid(path);
    packet.route.dgid = to.node().gid(path);
    packet.route.ipv4 = path == 1 || path == 2;
    packet.route.vlan = path >= 2 ? TestNode::kVlan : std::uint16_t{TERN_VLAN_NONE};
    packet.route.dmac = to.node().mac();
    packet.route.smac = from.mac();
    packet.route.udp_sport = 0xc000;
    std::vector<std::byte> frame(kMaxFrameOverhead);
    frame.resize(serialize(packet, 1, frame));
    sim.inject(from, frame);
    sim.run_until_idle();
  }
};

// ---- arming ----

TEST_F(PathMigrationTest, ArmsWhenBothEndsAreReady) {
  std::vector<std::pair<unsigned, bool>> seen;
  sim.pass = [&](unsigned from, std::span<const std::byte> frame) {
    seen.emplace_back(from, mig_req(frame));
    return true;
  };
  connect();
  EXPECT_EQ(state_of(*qa), TERN_MIG_MIGRATED);
  exchange();
  EXPECT_THAT(seen, ElementsAre(std::pair(0U, true), std::pair(1U, true)));
  seen.clear();
  ASSERT_EQ(rearm(*qa, *qb), TERN_ST_OK);
  exchange();
  EXPECT_THAT(seen, ElementsAre(std::pair(0U, false), std::pair(1U, true)));
  EXPECT_EQ(state_of(*qa), TERN_MIG_REARM) << "the peer has no alternate path yet";
  seen.clear();
  ASSERT_EQ(rearm(*qb, *qa), TERN_ST_OK);
  exchange();
  EXPECT_THAT(seen, ElementsAre(std::pair(0U, false), std::pair(1U, false)));
  EXPECT_EQ(state_of(*qa), TERN_MIG_ARMED);
  EXPECT_EQ(state_of(*qb), TERN_MIG_ARMED);
  EXPECT_EQ(path_of(*qa), kPrimary);
  EXPECT_THAT(events(a), IsEmpty());
  EXPECT_THAT(events(b), IsEmpty());
}

TEST_F(PathMigrationTest, WhatAQueryReturns) {
  connect({.timeout = 15});
  tern_rsp_query_qp q = qa->query();
  EXPECT_EQ(q.alt.port, 0U);
  const tern_qp_alt alt = path_to(*qa, *qb, kAlternate);
  ASSERT_EQ(load(*qa, *qb), TERN_ST_OK);
  q = qa->query();
  EXPECT_EQ(std::memcmp(&q.alt, &alt, sizeof(alt)), 0);
  EXPECT_EQ(q.attr.timeout, 15U);
  ASSERT_EQ(rearm(*qb, *qa), TERN_ST_OK);
  ASSERT_EQ(request(*qa, TERN_MIG_REARM), TERN_ST_OK) << "the path is loaded already";
  exchange();
  ASSERT_EQ(request(*qa, TERN_MIG_MIGRATED), TERN_ST_OK);
  q = qa->query();
  EXPECT_EQ(std::memcmp(&q.attr.av, &alt.av, sizeof(alt.av)), 0);
  EXPECT_EQ(q.attr.timeout, kAltTimeout);
  EXPECT_EQ(q.alt.port, 0U) << "the alternate path is used up";
  EXPECT_EQ(q.alt.mig_state, TERN_MIG_MIGRATED);
}

TEST_F(PathMigrationTest, RefusesWhatIsNoPath) {
  connect();
  tern_qp_alt alt = path_to(*qa, *qb, kAlternate);
  const auto refused = [&](const auto& change) {
    tern_qp_alt bad = alt;
    change(bad);
    return modify(*qa, TERN_QPA_ALT_PATH, bad);
  };
  EXPECT_EQ(refused([](tern_qp_alt& p) { p.port = 2; }), TERN_ST_BAD_PARAM);
  EXPECT_EQ(refused([](tern_qp_alt& p) { p.port = 0; }), TERN_ST_BAD_PARAM);
  EXPECT_EQ(refused([](tern_qp_alt& p) { p.av.port = 0; }), TERN_ST_BAD_PARAM);
  EXPECT_EQ(refused([](tern_qp_alt& p) { p.timeout = 32; }), TERN_ST_BAD_PARAM);
  EXPECT_EQ(refused([](tern_qp_alt& p) { p.pkey_index = le(std::uint16_t{1}); }),
            TERN_ST_BAD_PARAM);
  EXPECT_EQ(refused([](tern_qp_alt& p) { p.av.sgid_index = le(std::uint16_t{9}); }),
            TERN_ST_BAD_PARAM);
  EXPECT_EQ(refused([](tern_qp_alt& p) { p.rsvd_2d[2] = 1; }), TERN_ST_BAD_PARAM);
  EXPECT_EQ(refused([](tern_qp_alt& p) { p.av.rsvd_23[0] = 1; }), TERN_ST_BAD_PARAM);
  EXPECT_EQ(qa->query().alt.port, 0U);
}

TEST_F(PathMigrationTest, RefusesStatesThatDoNotFollow) {
  connect();
  EXPECT_EQ(request(*qa, TERN_MIG_MIGRATED), TERN_ST_OK);
  EXPECT_EQ(request(*qa, TERN_MIG_REARM), TERN_ST_BAD_STATE) << "no path is loaded";
  EXPECT_EQ(request(*qa, TERN_MIG_ARMED), TERN_ST_BAD_PARAM) << "only the device arms a QP";
  ASSERT_EQ(load(*qa, *qb), TERN_ST_OK);
  EXPECT_EQ(request(*qa, TERN_MIG_MIGRATED), TERN_ST_OK);
  EXPECT_EQ(path_of(*qa), kPrimary) << "it was not armed";
  EXPECT_EQ(request(*qa, TERN_MIG_ARMED), TERN_ST_BAD_PARAM);
  EXPECT_EQ(request(*qa, 3), TERN_ST_BAD_PARAM);
  ASSERT_EQ(request(*qa, TERN_MIG_REARM), TERN_ST_OK);
  EXPECT_EQ(request(*qa, TERN_MIG_REARM), TERN_ST_OK);
  EXPECT_EQ(request(*qa, TERN_MIG_MIGRATED), TERN_ST_BAD_STATE) << "the peer may be armed";
  ASSERT_EQ(rearm(*qb, *qa), TERN_ST_OK);
  exchange();
  ASSERT_EQ(state_of(*qa), TERN_MIG_ARMED);
  EXPECT_EQ(request(*qa, TERN_MIG_REARM), TERN_ST_BAD_STATE);
  EXPECT_THAT(events(a), IsEmpty());
}

TEST_F(PathMigrationTest, TheTransitionsThatTakeIt) {
  TestQp& x = a.create_qp();
  TestQp& y = b.create_qp();
  const auto with = [&](TestQp& qp, std::uint8_t state, std::uint32_t mask) {
    tern_cmd_modify_qp cmd{.qpn = le(qp.number()), .mask = le(mask | TERN_QPA_STATE)};
    cmd.attr.state = state;
    cmd.attr.av = qp.av_to(y);
    cmd.attr.path_mtu = 10;
    cmd.attr.dest_qpn = le(y.number());
    cmd.attr.min_rnr_timer = 1;
    cmd.attr.timeout = 14;
    cmd.attr.port = 1;
    cmd.alt = path_to(qp, y, kAlternate);
    cmd.alt.mig_state = TERN_MIG_REARM;
    return a.command(TERN_CMD_MODIFY_QP, cmd);
  };
  constexpr std::uint32_t kInit = TERN_QPA_PKEY_INDEX | TERN_QPA_ACCESS | TERN_QPA_PORT;
  constexpr std::uint32_t kRtr = TERN_QPA_AV | TERN_QPA_PATH_MTU | TERN_QPA_DEST_QPN |
                                 TERN_QPA_RQ_PSN | TERN_QPA_MAX_DEST_RD_ATOMIC |
                                 TERN_QPA_MIN_RNR_TIMER;
  constexpr std::uint32_t kRts = TERN_QPA_TIMEOUT | TERN_QPA_RETRY_CNT | TERN_QPA_RNR_RETRY |
                                 TERN_QPA_SQ_PSN | TERN_QPA_MAX_RD_ATOMIC;
  EXPECT_EQ(with(x, TERN_QPS_INIT, kInit | TERN_QPA_ALT_PATH), TERN_ST_BAD_PARAM);
  EXPECT_EQ(with(x, TERN_QPS_INIT, kInit), TERN_ST_OK);
  EXPECT_EQ(with(x, TERN_QPS_RTR, kRtr | TERN_QPA_ALT_PATH | TERN_QPA_MIG_STATE),
            TERN_ST_BAD_PARAM);
  EXPECT_EQ(with(x, TERN_QPS_RTR, kRtr | TERN_QPA_ALT_PATH), TERN_ST_OK);
  EXPECT_EQ(x.query().alt.port, 1U);
  EXPECT_EQ(with(x, TERN_QPS_RTS, kRts | TERN_QPA_MIG_STATE), TERN_ST_OK);
  EXPECT_EQ(state_of(x), TERN_MIG_REARM);
  EXPECT_EQ(with(x, TERN_QPS_SQD, TERN_QPA_ALT_PATH), TERN_ST_BAD_PARAM);
  EXPECT_EQ(with(x, TERN_QPS_SQD, 0), TERN_ST_OK);
  EXPECT_EQ(with(x, TERN_QPS_SQD, TERN_QPA_ALT_PATH | TERN_QPA_MIG_STATE), TERN_ST_OK);
  EXPECT_EQ(with(x, TERN_QPS_RTS, TERN_QPA_ALT_PATH | TERN_QPA_MIG_STATE), TERN_ST_OK);
  EXPECT_EQ(x.to_state(TERN_QPS_ERR), TERN_ST_OK);
  EXPECT_EQ(with(x, TERN_QPS_ERR, TERN_QPA_ALT_PATH), TERN_ST_BAD_PARAM);
  EXPECT_EQ(x.to_state(TERN_QPS_RESET), TERN_ST_OK);
  EXPECT_EQ(x.query().alt.port, 0U) << "RESET forgets it";
  EXPECT_EQ(state_of(x), TERN_MIG_MIGRATED);
  TestQp& ud = a.create_qp({.type = TERN_QPT_UD});
  ud.connect(ud);
  EXPECT_EQ(load(ud, ud), TERN_ST_BAD_PARAM);
}

// ---- migrating ----

TEST_F(PathMigrationTest, MigratesWhenThePathDies) {
  connect({.retry_cnt = 2});
  dst.put<std::uint64_t>(32768, 100);
  arm();
  kill(kPrimary);
  qb->post_recv({dst.sge(8192, 4096)});
  qa->post(write({src.sge(0, 3000)}, dst));
  qa->post(send({src.sge(3000, 2000)}));
  qa->post(fetch_add(src.sge(60000, 8), dst, 32768, 7));
  qa->post(read({src.sge(40000, 3000)}, dst));
  for (int i = 0; i < 4; ++i) EXPECT_EQ(qa->wait_send().status, TERN_CQE_SUCCESS);
  EXPECT_EQ(qb->wait_recv().status, TERN_CQE_SUCCESS);
  EXPECT_TRUE(same_bytes(dst.bytes(0, 3000), src.bytes(0, 3000)));
  EXPECT_TRUE(same_bytes(dst.bytes(8192, 2000), src.bytes(3000, 2000)));
  EXPECT_TRUE(same_bytes(src.bytes(40000, 3000), src.bytes(0, 3000)));
  EXPECT_EQ(dst.get<std::uint64_t>(32768), 107U);
  EXPECT_EQ(a.counter(TERN_CNT_LOCAL_ACK_TIMEOUT_ERR), 3U)
      << "the retries of the old path come first";
  EXPECT_THAT(events(a), ElementsAre(TERN_EV_PATH_MIG));
  EXPECT_THAT(events(b), ElementsAre(TERN_EV_PATH_MIG));
  EXPECT_EQ(path_of(*qa), kAlternate);
  EXPECT_EQ(path_of(*qb), kAlternate);
  // Back again, after both ends have loaded the first path as the alternate one.
  sim.pass = nullptr;
  arm(kPrimary);
  kill(kAlternate);
  exchange();
  EXPECT_EQ(path_of(*qb), kPrimary);
  EXPECT_EQ(events(a).size() + events(b).size(), 2U);
  sim.run_until_idle();
}

TEST_F(PathMigrationTest, TheTimerAndTheRetriesOfTheNewPath) {
  connect({.timeout = 14, .retry_cnt = 1});
  arm();
  sim.pass = [](unsigned, std::span<const std::byte>) { return false; };
  qa->post(write({src.sge(0, 8)}, dst));
  const Nanos start = sim.now();
  const Wc wc = qa->wait_send();
  EXPECT_EQ(wc.status, TERN_CQE_RETRY_EXC_ERR);
  // Each path has its first transmission and one retry.
  const Nanos old_timeout = 4 * (Nanos{4096} << 14);
  const Nanos new_timeout = 4 * (Nanos{4096} << kAltTimeout);
  const Nanos took = sim.now() - start;
  EXPECT_GE(took, 2 * old_timeout + 2 * new_timeout);
  EXPECT_LE(took, 2 * old_timeout + 2 * new_timeout + 1'000'000);
  EXPECT_THAT(events(a), ElementsAre(TERN_EV_PATH_MIG));
}

TEST_F(PathMigrationTest, RetryCountZeroMigratesAtTheFirstTimeout) {
  connect({.retry_cnt = 0});
  arm();
  kill(kPrimary);
  exchange();
  EXPECT_EQ(a.counter(TERN_CNT_LOCAL_ACK_TIMEOUT_ERR), 1U);
}

TEST_F(PathMigrationTest, WithoutAnArmedPeerThePathIsLost) {
  connect({.retry_cnt = 1});
  ASSERT_EQ(rearm(*qa, *qb), TERN_ST_OK);
  exchange();
  kill(kPrimary);
  qa->post(write({src.sge(0, 8)}, dst));
  EXPECT_EQ(qa->wait_send().status, TERN_CQE_RETRY_EXC_ERR);
  EXPECT_EQ(path_of(*qa), kPrimary);
  EXPECT_THAT(events(a), IsEmpty());
}

TEST_F(PathMigrationTest, APathWhoseAddressIsGone) {
  connect({.retry_cnt = 1});
  arm();
  tern_cmd_set_gid gone{.index = le(kAlternate), .port = 1};
  ASSERT_EQ(a.command(TERN_CMD_SET_GID, gone), TERN_ST_OK);
  EXPECT_EQ(request(*qa, TERN_MIG_MIGRATED), TERN_ST_BAD_PARAM);
  EXPECT_THAT(events(a), IsEmpty());
  kill(kPrimary);
  qa->post(write({src.sge(0, 8)}, dst));
  EXPECT_EQ(qa->wait_send().status, TERN_CQE_RETRY_EXC_ERR);
  EXPECT_THAT(events(a), ElementsAre(TERN_EV_PATH_MIG_ERR));
}

// ---- on request ----

TEST_F(PathMigrationTest, MigratesOnRequestWithoutLoss) {
  for (const bool at_requester : {true, false}) {
    connect();
    arm();
    TestQp& leaves = at_requester ? *qa : *qb;
    std::vector<std::uint16_t> paths;
    sim.pass = [&](unsigned, std::span<const std::byte> frame) {
      paths.push_back(path_of(frame));
      return true;
    };
    ASSERT_EQ(request(leaves, TERN_MIG_MIGRATED), TERN_ST_OK);
    EXPECT_EQ(path_of(leaves), kAlternate);
    exchange();
    exchange();
    // The request reaches a responder that has left by the old path; its answer takes the new one.
    EXPECT_THAT(paths, ElementsAre(at_requester ? kAlternate : kPrimary, kAlternate, kAlternate,
                                   kAlternate));
    EXPECT_THAT(events(a), ElementsAre(TERN_EV_PATH_MIG));
    EXPECT_THAT(events(b), ElementsAre(TERN_EV_PATH_MIG));
    EXPECT_EQ(a.counter(TERN_CNT_LOCAL_ACK_TIMEOUT_ERR), 0U);
    sim.pass = nullptr;
  }
}

TEST_F(PathMigrationTest, InTheMiddleOfAMessage) {
  connect({.log_mtu = 8});
  arm();
  sim.budget = 4096;
  sim.turn_time = 3000;
  qa->post(write({src.sge(0, 60000)}, dst));
  qa->post(read({src.sge(0, 60000)}, dst));
  sim.run_for(60'000);
  ASSERT_EQ(request(*qb, TERN_MIG_MIGRATED), TERN_ST_OK);
  EXPECT_EQ(qa->wait_send().status, TERN_CQE_SUCCESS);
  EXPECT_EQ(qa->wait_send().status, TERN_CQE_SUCCESS);
  EXPECT_EQ(path_of(*qa), kAlternate);
  EXPECT_TRUE(same_bytes(dst.bytes(0, 60000), src.bytes(0, 60000)));
  EXPECT_EQ(a.counter(TERN_CNT_LOCAL_ACK_TIMEOUT_ERR), 0U);
}

TEST_F(PathMigrationTest, ToAVlan) {
  connect();
  arm(kTagged);
  ASSERT_EQ(request(*qa, TERN_MIG_MIGRATED), TERN_ST_OK);
  kill(kPrimary);
  exchange();
  EXPECT_EQ(path_of(*qb), kTagged);
}

// The same addresses with another flow label, which gives another UDP source port.
TEST_F(PathMigrationTest, ToAnotherSourcePort) {
  connect();
  for (auto [from, to] : {std::pair(qa, qb), std::pair(qb, qa)}) {
    tern_qp_alt alt = path_to(*from, *to, kPrimary);
    alt.av.flow_label = le(std::uint32_t{0x12345});
    alt.mig_state = TERN_MIG_REARM;
    ASSERT_EQ(modify(*from, TERN_QPA_ALT_PATH | TERN_QPA_MIG_STATE, alt), TERN_ST_OK);
  }
  exchange();
  std::vector<std::uint16_t> ports;
  sim.pass = [&](unsigned, std::span<const std::byte> frame) {
    Route route;
    EXPECT_EQ(parse_route(frame, route), ParseResult::kOk);
    ports.push_back(route.udp_sport);
    return true;
  };
  exchange();
  ASSERT_EQ(request(*qa, TERN_MIG_MIGRATED), TERN_ST_OK);
  exchange();
  ASSERT_EQ(ports.size(), 4U);
  EXPECT_NE(ports[0], ports[2]);
  EXPECT_NE(ports[1], ports[3]);
  EXPECT_THAT(events(b), ElementsAre(TERN_EV_PATH_MIG));
}

TEST_F(PathMigrationTest, TheNewPathIsEcnCapable) {
  connect();
  arm();
  std::vector<unsigned> ecn;
  sim.pass = [&](unsigned, std::span<const std::byte> frame) {
    Route route;
    EXPECT_EQ(parse_route(frame, route), ParseResult::kOk);
    ecn.push_back(route.traffic_class & 3U);
    return true;
  };
  exchange();
  ASSERT_EQ(request(*qa, TERN_MIG_MIGRATED), TERN_ST_OK);
  exchange();
  EXPECT_EQ(path_of(*qa), kAlternate);
  EXPECT_THAT(ecn, ElementsAre(2U, 2U, 2U, 2U)) << "WRITE and ACK, on both paths";
}

TEST_F(PathMigrationTest, InsideOneDevice) {
  TestQp& x = a.create_qp();
  TestQp& y = a.create_qp();
  x.connect(y);
  y.connect(x);
  TestMr& to = a.reg(65536);
  ASSERT_EQ(rearm(x, y), TERN_ST_OK);
  ASSERT_EQ(rearm(y, x), TERN_ST_OK);
  x.post(write({src.sge(0, 8)}, to));
  EXPECT_EQ(x.wait_send().status, TERN_CQE_SUCCESS);
  x.post(write({src.sge(0, 60000)}, to));
  ASSERT_EQ(request(y, TERN_MIG_MIGRATED), TERN_ST_OK);
  x.post(write({src.sge(0, 8)}, to));
  EXPECT_EQ(x.wait_send().status, TERN_CQE_SUCCESS);
  EXPECT_EQ(x.wait_send().status, TERN_CQE_SUCCESS);
  EXPECT_EQ(path_of(x), kAlternate);
  EXPECT_EQ(path_of(y), kAlternate);
  EXPECT_TRUE(same_bytes(to.bytes(0, 60000), src.bytes(0, 60000)));
  EXPECT_THAT(events(a), ElementsAre(TERN_EV_PATH_MIG, TERN_EV_PATH_MIG));
}

// ---- other types ----

TEST_F(PathMigrationTest, UnreliableConnections) {
  connect({.type = TERN_QPT_UC});
  ASSERT_EQ(rearm(*qa, *qb), TERN_ST_OK);
  ASSERT_EQ(rearm(*qb, *qa), TERN_ST_OK);
  const auto message = [&](TestQp& from, TestQp& to) {
    from.post(send_inline({}));
    to.post_recv({});
    EXPECT_EQ(from.wait_send().status, TERN_CQE_SUCCESS);
    EXPECT_EQ(to.wait_recv().status, TERN_CQE_SUCCESS);
  };
  for (TestQp* qp : {qa, qb}) qp->post_recv({});
  message(*qa, *qb);
  EXPECT_EQ(state_of(*qb), TERN_MIG_ARMED);
  EXPECT_EQ(state_of(*qa), TERN_MIG_REARM) << "it has heard nothing";
  message(*qb, *qa);
  EXPECT_EQ(state_of(*qa), TERN_MIG_ARMED);
  ASSERT_EQ(request(*qa, TERN_MIG_MIGRATED), TERN_ST_OK);
  message(*qb, *qa);  // the peer has not heard of it
  EXPECT_EQ(path_of(*qb), kPrimary);
  message(*qa, *qb);
  EXPECT_EQ(path_of(*qb), kAlternate);
  kill(kPrimary);
  message(*qb, *qa);
  EXPECT_THAT(events(a), ElementsAre(TERN_EV_PATH_MIG));
  EXPECT_THAT(events(b), ElementsAre(TERN_EV_PATH_MIG));
}

TEST_F(PathMigrationTest, ExtendedConnections) {
  const std::uint32_t xrcd = b.alloc_xrcd();
  TestCq& cq = b.create_cq();
  TestSrq& srq = b.create_srq({.pd = b.pd(), .xrcd = xrcd, .cq = &cq});
  qa = &a.create_qp({.type = TERN_QPT_XRC_INI, .retry_cnt = 1});
  qb = &b.create_qp({.xrcd = xrcd, .type = TERN_QPT_XRC_TGT});
  qa->connect(*qb);
  qb->connect(*qa);
  const auto message = [&] {
    srq.post({dst.sge(0, 64)});
    qa->post(send({src.sge(0, 64)}).to_srq(srq.number()));
    EXPECT_EQ(qa->wait_send().status, TERN_CQE_SUCCESS);
    EXPECT_EQ(cq.wait().status, TERN_CQE_SUCCESS);
  };
  ASSERT_EQ(rearm(*qa, *qb), TERN_ST_OK);
  ASSERT_EQ(rearm(*qb, *qa), TERN_ST_OK);
  message();
  ASSERT_EQ(state_of(*qb), TERN_MIG_ARMED);
  kill(kPrimary);
  message();
  EXPECT_EQ(path_of(*qb), kAlternate);
  EXPECT_THAT(events(b), ElementsAre(TERN_EV_PATH_MIG));
  // The target can request it, too.
  sim.pass = nullptr;
  ASSERT_EQ(rearm(*qa, *qb, kTagged), TERN_ST_OK);
  ASSERT_EQ(rearm(*qb, *qa, kTagged), TERN_ST_OK);
  message();
  ASSERT_EQ(request(*qb, TERN_MIG_MIGRATED), TERN_ST_OK);
  message();
  EXPECT_EQ(path_of(*qa), kTagged);
}

// ---- what a stranger can do ----

TEST_F(PathMigrationTest, OnlyTheAlternateAddressMovesAnArmedQp) {
  connect();
  arm();
  const Psn old = Psn(qb->query().attr.rq_psn).prev();  // a duplicate
  const std::uint64_t before = b.counter(TERN_CNT_RX_QP_MISMATCH);
  forge(a, *qb, kTagged, true, old);
  forge(a, *qb, 3, true, old);
  forge(a, *qb, kAlternate, false, old);  // not a request to migrate
  EXPECT_EQ(b.counter(TERN_CNT_RX_QP_MISMATCH) - before, 3U);
  EXPECT_EQ(state_of(*qb), TERN_MIG_ARMED);
  EXPECT_THAT(events(b), IsEmpty());
  // MigReq on the primary path: the peer went to a path that is not the alternate one.
  for (int i = 0; i < 100; ++i) forge(a, *qb, kPrimary, true, old);
  EXPECT_EQ(state_of(*qb), TERN_MIG_ARMED);
  EXPECT_THAT(events(b), ElementsAre(TERN_EV_PATH_MIG_ERR)) << "once";
  exchange();
  EXPECT_EQ(path_of(*qb), kPrimary);
}

TEST_F(PathMigrationTest, AQpThatIsNotArmedStays) {
  connect();
  const Psn old(0x100);
  ASSERT_EQ(load(*qb, *qa), TERN_ST_OK);
  forge(a, *qb, kAlternate, true, old);
  EXPECT_THAT(events(b), IsEmpty());
  ASSERT_EQ(request(*qb, TERN_MIG_REARM), TERN_ST_OK);
  for (int i = 0; i < 100; ++i) forge(a, *qb, kAlternate, true, old);
  EXPECT_EQ(path_of(*qb), kPrimary);
  EXPECT_EQ(state_of(*qb), TERN_MIG_REARM);
  EXPECT_THAT(events(b), ElementsAre(TERN_EV_PATH_MIG_ERR));
  exchange();
  ASSERT_EQ(qb->to_state(TERN_QPS_ERR), TERN_ST_OK);
  forge(a, *qb, kAlternate, true, old);
  EXPECT_EQ(path_of(*qb), kPrimary);
}

TEST_F(PathMigrationTest, AQpThatLeftTakesNoRequestToReturn) {
  connect();
  arm();
  ASSERT_EQ(request(*qb, TERN_MIG_MIGRATED), TERN_ST_OK);
  EXPECT_THAT(events(b), ElementsAre(TERN_EV_PATH_MIG));
  const std::uint64_t before = b.counter(TERN_CNT_RX_QP_MISMATCH);
  forge(a, *qb, kPrimary, true, Psn(0x100));
  EXPECT_EQ(b.counter(TERN_CNT_RX_QP_MISMATCH) - before, 1U);
  exchange();
  // A new alternate path ends the time in which the old one is good.
  ASSERT_EQ(load(*qb, *qa, kTagged), TERN_ST_OK);
  forge(a, *qb, kPrimary, false, Psn(0x100));
  EXPECT_EQ(b.counter(TERN_CNT_RX_QP_MISMATCH) - before, 2U);
  EXPECT_THAT(events(b), IsEmpty());
}

// Who knows the addresses can forge a packet, but must know the PSNs as well to let a connection
// migrate or arm.
TEST_F(PathMigrationTest, AStrayPacketMigratesNothing) {
  connect();
  arm();
  const Psn next(qb->query().attr.rq_psn);
  forge(a, *qb, kAlternate, true, next.plus(1U << 20));
  EXPECT_EQ(state_of(*qb), TERN_MIG_ARMED);
  forge(a, *qb, kAlternate, true, next.plus(0x1000000U - (1U << 20)));
  EXPECT_EQ(state_of(*qb), TERN_MIG_ARMED);
  forge(a, *qb, kPrimary, true, next.plus(1U << 20));
  EXPECT_EQ(path_of(*qb), kPrimary);
  EXPECT_THAT(events(b), IsEmpty());
  exchange();
  // Neither does the first packet of a peer that is not armed.
  ASSERT_EQ(request(*qb, TERN_MIG_MIGRATED), TERN_ST_OK);
  EXPECT_THAT(events(b), ElementsAre(TERN_EV_PATH_MIG));
  ASSERT_EQ(rearm(*qb, *qa, kPrimary), TERN_ST_OK);
  forge(a, *qb, kAlternate, false, next.plus(1U << 20));
  EXPECT_EQ(state_of(*qb), TERN_MIG_REARM);
}

// ---- exactly once ----

class PathMigrationSeeds : public PathMigrationTest,
                           public ::testing::WithParamInterface<unsigned> {};

// Paths die in one or both directions at random times, also with requests in flight. Both ends load
// the path that died as the alternate one when it is back.
TEST_P(PathMigrationSeeds, EveryMessageExactlyOnce) {
  std::mt19937 engine(GetParam());
  const auto random = [&engine] { return static_cast<std::uint32_t>(engine()); };
  sim.wire.loss = random() % 2 == 0 ? 0 : 0.01;
  sim.wire.reorder = random() % 2 == 0 ? 0 : 0.01;
  sim.budget = 8192;
  sim.turn_time = 2000;
  connect({.log_mtu = 9, .timeout = 8, .retry_cnt = 3});
  constexpr unsigned kRounds = 6;
  constexpr unsigned kMessages = 40;
  std::uint64_t sum = 0, received = 0, migrations = 0;
  std::uint16_t now = kPrimary;
  for (unsigned round = 0; round < kRounds; ++round) {
    const std::uint16_t next = now == kPrimary ? kAlternate : kPrimary;
    arm(next);
    unsigned posted = 0, done = 0;
    const unsigned dies = random() % kMessages;
    const unsigned direction = random() % 3;
    const bool asked = random() % 4 == 0;
    while (done < kMessages) {
      if (posted < kMessages && posted - done < 8) {
        const std::uint32_t len = 1 + random() % 3000;
        switch (random() % 3) {
          case 0:
            qa->post(
                fetch_add(src.sge(32768 + 8 * (posted % 8), 8), dst, 65528, 1 + posted).id(posted));
            sum += 1 + posted;
            break;
          case 1:
            qb->post_recv({dst.sge(0, 4096)}, received++);
            qa->post(send({src.sge(random() % 1000, len)})
                         .immediate(static_cast<std::uint32_t>(received))
                         .id(posted));
            break;
          default:
            qa->post(read({src.sge(40000, len)}, dst).id(posted));
        }
        if (posted++ == dies) {
          if (asked) {
            ASSERT_EQ(request(random() % 2 ? *qa : *qb, TERN_MIG_MIGRATED), TERN_ST_OK);
          } else {
            sim.pass = [=](unsigned from, std::span<const std::byte> frame) {
              return path_of(frame) != now || (direction != 2 && from != direction);
            };
          }
        }
      }
      sim.run_for(random() % 30'000);
      while (const auto wc = qa->send_cq().poll()) {
        ASSERT_EQ(wc->status, TERN_CQE_SUCCESS) << status_name(wc->status) << " in round " << round;
        ASSERT_EQ(le(wc->wr_id), done++);
      }
    }
    sim.pass = nullptr;
    // The requests may have been done before the path died.
    if (state_of(*qa) == TERN_MIG_ARMED) {
      ASSERT_EQ(request(*qa, TERN_MIG_MIGRATED), TERN_ST_OK);
    }
    exchange();
    ASSERT_EQ(path_of(*qb), next);
    migrations += events(a).size();
    ASSERT_EQ(dst.get<std::uint64_t>(65528), sum);
    now = next;
    if (::testing::Test::HasFailure()) return;
  }
  EXPECT_EQ(migrations, kRounds);
  for (std::uint64_t i = 0; i < received; ++i) {
    const Wc wc = qb->wait_recv();
    ASSERT_EQ(wc.status, TERN_CQE_SUCCESS);
    ASSERT_EQ(le(wc.wr_id), i);
    ASSERT_EQ(wc.imm, i + 1);
  }
  EXPECT_FALSE(qb->recv_cq().poll());
}

INSTANTIATE_TEST_SUITE_P(Seeds, PathMigrationSeeds, ::testing::Range(1U, 41U));

}  // namespace
}  // namespace tern

// SPDX-License-Identifier: GPL-2.0-or-later
// Congestion notification packets: counted for the QP that they are addressed to, dropped if they
// are malformed, and never sent.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <vector>

#include "tests/mini_driver.h"
#include "tests/packet_samples.h"

namespace tern {
namespace {

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
    b.device.receive(encode(p));
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
    EXPECT_EQ(std::memcmp(&before, &after, sizeof(after)), 0);
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

}  // namespace
}  // namespace tern

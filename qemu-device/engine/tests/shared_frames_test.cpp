// SPDX-License-Identifier: GPL-2.0-or-later
// Frames that refer to their payload in the sender's memory (Device::share_payload()): software may
// reuse the memory, or take it away, as soon as it could without sharing, and the peer gets the
// bytes that were sent. The storm compares whole traces with and without.
#include <gtest/gtest.h>

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "tests/mini_driver.h"
#include "wire/codec.h"

namespace tern {
namespace {

class SharedFrames : public ::testing::Test {
 protected:
  static constexpr std::uint32_t kBytes = 100'000;  // several trains
  static constexpr std::uint32_t kPackets = (kBytes + 1023) / 1024;
  const NodeOptions options{.unfinished_frames = true, .share_payload = true};

  void SetUp() override {
    sim.whole_trains = true;
    connect();
    src.fill(1);
    sent.assign(src.bytes().begin(), src.bytes().end());
  }
  void connect(std::uint8_t type = TERN_QPT_RC) {
    qa = &a.create_qp({.pd = pd_a, .type = type});
    qb = &b.create_qp({.pd = pd_b, .type = type});
    qa->connect(*qb);
    qb->connect(*qa);
  }
  // Another connection, whose end at `a` has opened `fast`.
  std::pair<TestQp&, TestQp&> other_pair(FastMr& fast) {
    TestQp& other = a.create_qp({.pd = pd_a});
    TestQp& peer = b.create_qp({.pd = pd_b});
    other.connect(peer);
    peer.connect(other);
    other.post(reg_mr(fast));
    EXPECT_EQ(other.wait_send().status, TERN_CQE_SUCCESS);
    return {other, peer};
  }
  // Posts a WRITE. Its frames are on the wire afterwards.
  void write_all() {
    qa->post(write({src.sge(0, kBytes)}, dst).id(1));
    a.pump();
    ASSERT_EQ(sim.stats.trains != 0, trains());
    ASSERT_FALSE(arrived());
  }
  // The memory has a new use.
  void reuse() { src.fill(2); }
  [[nodiscard]] bool arrived() {
    return static_cast<bool>(same_bytes(dst.bytes(0, kBytes), std::span(sent).first(kBytes)));
  }
  // Whether a frame still refers to memory of `a`.
  [[nodiscard]] bool shares() {
    for (unsigned i = 0; i < a.device.lanes(); ++i)
      if (a.device.lane(i).shares()) return true;
    return false;
  }
  // A capture sees all packets: then there are no trains.
  [[nodiscard]] bool trains() const { return a.device.datapath.allows_trains(); }
  void expect_arrival() {
    reuse();
    sim.run_until_idle();
    EXPECT_TRUE(arrived());
    EXPECT_EQ(sim.stats.shared != 0, trains());
  }
  // The PSN of a packet of the WRITE.
  [[nodiscard]] Psn psn_of(std::uint32_t packet) const {
    return Psn(qa->options().sq_psn).plus(packet);
  }
  // An ACK or NAK that b has not sent.
  void forge(Psn psn, std::uint8_t syndrome) {
    Packet packet(b.host);
    packet.op = Op::kAck;
    packet.dest_qp = Qpn(qa->number());
    packet.psn = psn;
    packet.syndrome = syndrome;
    packet.route.sgid = b.gid(0);
    packet.route.dgid = a.gid(0);
    packet.route.vlan = TERN_VLAN_NONE;
    packet.route.dmac = a.mac();
    packet.route.smac = b.mac();
    packet.route.udp_sport = 0xc000;
    std::vector<std::byte> frame(kMaxFrameOverhead);
    frame.resize(serialize(packet, 1, frame));
    a.device.receive(frame);
    a.pump();
  }

  Sim sim;
  TestNode a{sim, options};
  TestNode b{sim, options};
  std::uint32_t pd_a = a.alloc_pd(true);
  std::uint32_t pd_b = b.alloc_pd(true);
  TestMr& src = a.reg(kBytes, {.pd = pd_a});
  TestMr& dst = b.reg(kBytes, {.pd = pd_b});
  std::vector<std::byte> sent;
  TestQp* qa = nullptr;
  TestQp* qb = nullptr;
};

TEST_F(SharedFrames, TheReceiverCopiesFromTheSendersMemory) {
  write_all();
  sim.run_until_idle();
  EXPECT_TRUE(arrived());
  EXPECT_EQ(qa->wait_send().status, TERN_CQE_SUCCESS);
  EXPECT_EQ(sim.stats.shared != 0, trains());
  EXPECT_FALSE(shares());
}

TEST_F(SharedFrames, AForgedAckEndsIt) {
  write_all();
  forge(psn_of(kPackets - 1), kSyndromeAck);
  ASSERT_EQ(qa->send_cq().poll_all().size(), 1U);
  expect_arrival();
}

TEST_F(SharedFrames, AForgedAckOfSomePacketsEndsIt) {
  write_all();
  EXPECT_EQ(shares(), trains());
  forge(psn_of(kPackets / 2), kSyndromeAck);
  EXPECT_EQ(shares(), trains()) << "the later packets are not acknowledged";
  forge(psn_of(kPackets - 1), kSyndromeAck);
  EXPECT_FALSE(shares());
  expect_arrival();
}

TEST_F(SharedFrames, AnErrorEndsItBeforeSoftwareLearnsOfIt) {
  write_all();
  forge(psn_of(0), kNakRemoteAccess);
  const auto wcs = qa->send_cq().poll_all();
  ASSERT_EQ(wcs.size(), 1U);
  EXPECT_EQ(wcs[0].status, TERN_CQE_REM_ACCESS_ERR);
  expect_arrival();
}

TEST_F(SharedFrames, CommandsEndIt) {
  write_all();
  a.dereg(src);
  expect_arrival();
}

TEST_F(SharedFrames, ADestroyedQpEndsIt) {
  write_all();
  a.destroy(*qa);
  expect_arrival();
}

TEST_F(SharedFrames, MemoryThatGoesAwayEndsIt) {
  write_all();
  a.device.dma_invalidate(src.iova, kBytes);
  expect_arrival();
}

TEST_F(SharedFrames, AResetEndsIt) {
  write_all();
  a.device.reset();
  expect_arrival();
}

TEST_F(SharedFrames, AFatalErrorEndsItBeforeSoftwareLearnsOfIt) {
  write_all();
  a.device.datapath.fatal(TERN_FATAL_EQ_DMA);
  EXPECT_NE(a.device.reg_read(TERN_REG_STATUS) & TERN_STATUS_FATAL, 0U);
  EXPECT_FALSE(shares());
  expect_arrival();
}

// Those without a queue for it copy.
TEST_F(SharedFrames, ManyRequestersShare) {
  std::vector<std::pair<TestQp*, TestQp*>> pairs;
  for (unsigned i = 0; i < 100; ++i) {
    pairs.emplace_back(&a.create_qp({.pd = pd_a}), &b.create_qp({.pd = pd_b}));
    pairs.back().first->connect(*pairs.back().second);
    pairs.back().second->connect(*pairs.back().first);
  }
  for (unsigned round = 0; round < 3; ++round) {
    for (const auto& [x, y] : pairs) x->post(write({src.sge(0, 20'000)}, dst));
    sim.run_until_idle();
    for (const auto& [x, y] : pairs) EXPECT_EQ(x->wait_send().status, TERN_CQE_SUCCESS);
    EXPECT_FALSE(shares());
  }
  EXPECT_EQ(sim.stats.shared != 0, trains());
  EXPECT_TRUE(same_bytes(dst.bytes(0, 20'000), src.bytes(0, 20'000)));
}

// Other QPs may have sent from the region.
TEST_F(SharedFrames, AnInvalidatedKeyEndsIt) {
  FastMr fast = a.alloc_fast(1, pd_a);
  TestQp& other = other_pair(fast).first;
  write_all();
  other.post(local_inv(fast.mr.key));
  a.pump();
  EXPECT_FALSE(shares());
  expect_arrival();
}

// As the previous test, but the peer invalidates.
TEST_F(SharedFrames, AKeyThatThePeerInvalidatesEndsIt) {
  FastMr fast = a.alloc_fast(1, pd_a);
  const auto [other, peer] = other_pair(fast);
  other.post_recv({});
  sim.wire.latency = 1'000'000;
  peer.post(send_inv({}, fast.mr.key));
  b.pump();
  sim.run_for(500'000);
  write_all();
  sim.run_for(700'000);  // the SEND has arrived, the WRITE has not
  EXPECT_FALSE(shares());
  EXPECT_EQ(other.recv_cq().poll_all().size(), 1U);
  expect_arrival();
}

TEST_F(SharedFrames, WhatWasLostIsSentAgain) {
  // Everything is lost once; the retransmission has single packets, which are not shared.
  sim.pass = [](unsigned, std::span<const std::byte>) { return false; };
  write_all();
  sim.pass = nullptr;
  sim.run_until_idle();
  EXPECT_TRUE(arrived());
  EXPECT_EQ(qa->wait_send().status, TERN_CQE_SUCCESS);
  EXPECT_FALSE(shares());
}

TEST_F(SharedFrames, OnlyRequestsOfReliableConnectionsShare) {
  write_all();
  sim.run_until_idle();
  const std::uint64_t before = sim.stats.shared;
  TestMr& back = b.reg(kBytes, {.pd = pd_b});
  qb->post(read({back.sge(0, kBytes)}, src));
  sim.run_until_idle();
  EXPECT_TRUE(same_bytes(back.bytes(), src.bytes()));
  connect(TERN_QPT_UC);
  qa->post(write({src.sge(0, kBytes)}, dst));
  qa->post(write({src.sge(0, 2000)}, dst));
  sim.run_until_idle();
  EXPECT_EQ(sim.stats.shared, before);
}

}  // namespace
}  // namespace tern

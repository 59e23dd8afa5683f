// SPDX-License-Identifier: GPL-2.0-or-later
// Rate limits of QPs and static rates of addresses: when packets leave, to the nanosecond.
#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <string>
#include <vector>

#include "tests/raw_fixture.h"

namespace tern {
namespace {

constexpr std::uint64_t kMbit = 1'000'000;

// A packet on the wire: when it left, and its bytes.
struct Left {
  Nanos time;
  std::uint64_t bytes;
};

class Rate : public ::testing::Test {
 protected:
  Sim sim;
  TestNode a{sim};
  TestNode b{sim};
  std::vector<Left> left;   // the long frames of node a
  std::vector<Left> other;  // its other frames

  void SetUp() override {
    sim.pass = [this](unsigned from, std::span<const std::byte> frame) {
      if (from == a.index())
        (frame.size() > 300 ? left : other).push_back({sim.now(), frame.size()});
      return true;
    };
  }
  static tern_qp_attr limit(std::uint32_t kbit, std::uint32_t burst = 0,
                            std::uint16_t typical = 0) {
    tern_qp_attr attr{
        .rate_limit = le(kbit), .max_burst = le(burst), .typical_packet = le(typical)};
    return attr;
  }
  static void set_limit(TestQp& qp, std::uint32_t kbit, std::uint32_t burst = 0,
                        std::uint16_t typical = 0) {
    ASSERT_EQ(qp.modify(limit(kbit, burst, typical), TERN_QPA_RATE_LIMIT), TERN_ST_OK);
  }
  // Each packet left in the first nanosecond in which the rate had allowed all before it.
  void expect_exact(std::uint64_t rate, std::size_t least) const {
    ASSERT_GE(left.size(), least);
    std::uint64_t before = 0;  // 1e-9 bit
    for (std::size_t i = 1; i < left.size(); ++i) {
      before += left[i - 1].bytes * 8'000'000'000;
      const Nanos elapsed = left[i].time - left[0].time;
      ASSERT_LE(before, rate * elapsed) << "packet " << i << " left early";
      ASSERT_GT(before, rate * (elapsed - 1)) << "packet " << i << " left late";
    }
  }
};

TEST_F(Rate, WritesOfAReliableConnection) {
  const auto [x, y] = rc_pair(a, b);
  TestMr& src = a.reg(1 << 18);
  TestMr& dst = b.reg(1 << 18);
  src.fill(3);
  set_limit(x, 100'000);
  EXPECT_EQ(le(x.query().rate), 100'000U);
  EXPECT_EQ(le(x.query().attr.rate_limit), 100'000U);
  x.post(write({src.sge()}, dst));
  EXPECT_EQ(x.wait_send().status, TERN_CQE_SUCCESS);
  expect_exact(100 * kMbit, 256);
  EXPECT_TRUE(same_bytes(dst.bytes(), src.bytes()));
  EXPECT_EQ(a.counter(TERN_CNT_LOCAL_ACK_TIMEOUT_ERR), 0U);
}

TEST_F(Rate, IsExactForOddValues) {
  const auto [x, y] = rc_pair(a, b);
  TestMr& src = a.reg(1 << 16);
  TestMr& dst = b.reg(1 << 16);
  for (const std::uint32_t kbit : {1'000U, 33'333U, 777'777U, 9'999'999U, 99'999'999U}) {
    set_limit(x, kbit);
    sim.run_for(1'000'000'000);
    left.clear();
    x.post(write({src.sge()}, dst));
    EXPECT_EQ(x.wait_send().status, TERN_CQE_SUCCESS);
    expect_exact(std::uint64_t{kbit} * 1'000, 64);
  }
  EXPECT_EQ(a.counter(TERN_CNT_LOCAL_ACK_TIMEOUT_ERR), 0U) << "slow, but no packet was lost";
}

TEST_F(Rate, StaticRateOfAConnection) {
  const auto [x, y] = rc_pair(a, b, {.static_rate = 2});  // 2.5 Gbit/s
  TestMr& src = a.reg(1 << 18);
  TestMr& dst = b.reg(1 << 18);
  x.post(write({src.sge()}, dst));
  EXPECT_EQ(x.wait_send().status, TERN_CQE_SUCCESS);
  expect_exact(2'500 * kMbit, 256);
  left.clear();
  set_limit(x, 1'000'000);  // the lower one counts
  sim.run_for(1'000'000);
  x.post(write({src.sge()}, dst));
  EXPECT_EQ(x.wait_send().status, TERN_CQE_SUCCESS);
  expect_exact(1'000 * kMbit, 256);
  set_limit(x, 0);
  EXPECT_EQ(le(x.query().rate), 2'500'000U);
}

TEST_F(Rate, ResponsesToReadsShareTheRate) {
  const auto [x, y] = rc_pair(a, b);
  TestMr& here = a.reg(1 << 18);
  TestMr& there = b.reg(1 << 18);
  here.fill(4);
  set_limit(x, 500'000);
  y.post(read({there.sge()}, here));
  EXPECT_EQ(y.wait_send().status, TERN_CQE_SUCCESS);
  expect_exact(500 * kMbit, 256);
  EXPECT_TRUE(same_bytes(there.bytes(), here.bytes()));
  // Both at once: each half gets its share.
  left.clear();
  sim.run_for(1'000'000);
  y.post(read({there.sge()}, here));
  x.post(write({here.sge()}, there));
  Nanos read_done = 0;
  Nanos write_done = 0;
  sim.run_until([&] {
    if (read_done == 0 && y.send_cq().poll()) read_done = sim.now();
    if (write_done == 0 && x.send_cq().poll()) write_done = sim.now();
    return read_done != 0 && write_done != 0;
  });
  ASSERT_TRUE(read_done != 0 && write_done != 0);
  expect_exact(500 * kMbit, 512);
  const Nanos took = std::max(read_done, write_done) - left[0].time;
  EXPECT_GT(std::min(read_done, write_done) - left[0].time, took * 9 / 10)
      << "one half waited for the other";
}

TEST_F(Rate, AcknowledgementsAreFree) {
  const auto [x, y] = rc_pair(a, b);
  TestMr& here = a.reg(1 << 18);
  TestMr& there = b.reg(1 << 18);
  set_limit(x, 10'000);
  x.post(write({here.sge()}, there));
  sim.run_for(3'000'000);
  const Nanos begin = sim.now();
  y.post(write({there.sge()}, here));
  EXPECT_EQ(y.wait_send().status, TERN_CQE_SUCCESS);
  EXPECT_LT(sim.now() - begin, 1'000'000U);
}

TEST_F(Rate, UnreliableConnectionsAndBursts) {
  const auto [x, y] = rc_pair(a, b, {.type = TERN_QPT_UC});
  TestMr& src = a.reg(1 << 17);
  TestMr& dst = b.reg(1 << 17);
  x.post(write({src.sge()}, dst));
  EXPECT_EQ(x.wait_send().status, TERN_CQE_SUCCESS);
  left.clear();
  set_limit(x, 40'000);
  sim.run_for(1'000'000);
  x.post(write({src.sge()}, dst));
  EXPECT_EQ(x.wait_send().status, TERN_CQE_SUCCESS);
  expect_exact(40 * kMbit, 128);

  const std::uint64_t frame = left[1].bytes;
  for (const std::uint64_t packets : {1U, 4U, 16U}) {
    set_limit(x, 40'000, static_cast<std::uint32_t>(packets * frame),
              static_cast<std::uint16_t>(frame));
    sim.run_for(100'000'000);
    left.clear();
    x.post(write({src.sge()}, dst));
    EXPECT_EQ(x.wait_send().status, TERN_CQE_SUCCESS);
    std::size_t together = 1;
    while (together < left.size() && left[together].time == left[0].time) ++together;
    EXPECT_NEAR(static_cast<double>(together), static_cast<double>(packets), 1) << packets;
    EXPECT_LE(together, packets);
    const double took = static_cast<double>(left.back().time - left.front().time);
    const double expected = static_cast<double>((left.size() - together) * frame * 8) / 0.04;
    EXPECT_NEAR(took, expected, static_cast<double>(frame) * 8 / 0.04);
  }
}

TEST_F(Rate, DatagramsByTheirAddress) {
  QpOptions ud{.type = TERN_QPT_UD};
  TestQp& x = a.create_qp(ud);
  TestQp& y = b.create_qp(ud);
  x.connect();
  y.connect();
  TestMr& src = a.reg(1024);
  const auto send_all = [&](std::uint8_t code) {
    left.clear();
    sim.run_for(10'000'000);
    for (unsigned i = 0; i < 32; ++i) {
      SendWr wr = datagram(x, y, {src.sge()});
      wr.ud.av.static_rate = code;
      x.post(wr, i == 31);
    }
    for (unsigned i = 0; i < 32; ++i) EXPECT_EQ(x.wait_send().status, TERN_CQE_SUCCESS);
  };
  send_all(0);
  EXPECT_EQ(left.front().time, left.back().time);
  send_all(5);
  expect_exact(5'000 * kMbit, 32);
  send_all(0);
  EXPECT_EQ(left.front().time, left.back().time);
  SendWr wrong = datagram(x, y, {src.sge()});
  wrong.ud.av.static_rate = 1;
  x.post(wrong);
  EXPECT_EQ(x.wait_send().status, TERN_CQE_LOC_QP_OP_ERR);
}

TEST_F(Rate, ValuesAreChecked) {
  const auto [x, y] = rc_pair(a, b);
  const std::uint32_t most = le(a.caps().max_rate);
  EXPECT_EQ(most, 100'000'000U);
  EXPECT_EQ(x.modify(limit(most), TERN_QPA_RATE_LIMIT), TERN_ST_OK);
  EXPECT_EQ(x.modify(limit(most + 1), TERN_QPA_RATE_LIMIT), TERN_ST_BAD_PARAM);
  EXPECT_EQ(x.modify(limit(1, 1 << 24), TERN_QPA_RATE_LIMIT), TERN_ST_OK);
  EXPECT_EQ(x.modify(limit(1, (1 << 24) + 1), TERN_QPA_RATE_LIMIT), TERN_ST_BAD_PARAM);
  EXPECT_EQ(x.modify(limit(0, 1), TERN_QPA_RATE_LIMIT), TERN_ST_BAD_PARAM);
  EXPECT_EQ(x.modify(limit(0, 0, 1), TERN_QPA_RATE_LIMIT), TERN_ST_BAD_PARAM);
  EXPECT_EQ(le(x.query().attr.max_burst), 1U << 24) << "what was refused changed nothing";
  ASSERT_EQ(x.to_state(TERN_QPS_SQD), TERN_ST_OK);
  EXPECT_EQ(x.modify(limit(2), TERN_QPA_RATE_LIMIT), TERN_ST_OK);
  ASSERT_EQ(x.to_state(TERN_QPS_RESET), TERN_ST_OK);
  EXPECT_EQ(le(x.query().rate), 0U);
  EXPECT_EQ(x.modify(limit(2), TERN_QPA_RATE_LIMIT), TERN_ST_BAD_PARAM);

  for (const std::uint8_t code :
       std::to_array<std::uint8_t>({7, 16, 25})) {  // 40 Gbit/s and more: no limit
    const auto [v, w] = rc_pair(a, b, {.static_rate = code});
    EXPECT_EQ(le(v.query().rate), 0U);
  }
  TestQp& z = a.create_qp({.static_rate = 1});
  ASSERT_EQ(z.to_init(), TERN_ST_OK);
  EXPECT_EQ(z.to_rtr(y), TERN_ST_BAD_PARAM);
}

// 1 kbit/s: the next packet is due in seconds, and nothing else waits for it.
TEST_F(Rate, AHeldQueuePairFlushesAndResetsAtOnce) {
  const auto [x, y] = rc_pair(a, b);
  TestMr& src = a.reg(1 << 14);
  TestMr& dst = b.reg(1 << 14);
  set_limit(x, 1);
  x.post(write({src.sge()}, dst));
  sim.run_for(1'000'000);
  ASSERT_EQ(left.size(), 1U);
  x.post(write({src.sge()}, dst));
  ASSERT_EQ(x.to_state(TERN_QPS_ERR), TERN_ST_OK);
  x.post(write({src.sge()}, dst));
  sim.run_for(1'000'000);
  for (int i = 0; i < 3; ++i) {
    const auto wc = x.send_cq().poll();
    ASSERT_TRUE(wc);
    EXPECT_EQ(wc->status, TERN_CQE_WR_FLUSH_ERR);
  }
  ASSERT_EQ(x.to_state(TERN_QPS_RESET), TERN_ST_OK);
  EXPECT_EQ(a.next_deadline(), kNever) << "no timer is left";
}

TEST_F(Rate, RaisingTheLimitTakesEffectAtOnce) {
  const auto [x, y] = rc_pair(a, b);
  TestMr& src = a.reg(1 << 16);
  TestMr& dst = b.reg(1 << 16);
  set_limit(x, 1);
  x.post(write({src.sge()}, dst));
  sim.run_for(1'000'000);
  EXPECT_EQ(left.size(), 1U);
  set_limit(x, 0);
  const Nanos begin = sim.now();
  EXPECT_EQ(x.wait_send().status, TERN_CQE_SUCCESS);
  EXPECT_LT(sim.now() - begin, 1'000'000U);
}

// The packet that a limit held goes when the limit ends; nothing waits for the time that was its.
TEST_F(Rate, ALimitThatEndsHoldsNothingMore) {
  const auto [x, y] = rc_pair(a, b);
  TestMr& src = a.reg(1 << 14);
  TestMr& dst = b.reg(1 << 14);
  set_limit(x, 1);
  x.post(write({src.sge()}, dst));
  sim.run_for(1'000'000);
  set_limit(x, 0);
  EXPECT_EQ(x.wait_send().status, TERN_CQE_SUCCESS);
  sim.run_for(1'000'000);
  const Nanos begin = sim.now();
  x.post(write({src.sge()}, dst));
  EXPECT_EQ(x.wait_send().status, TERN_CQE_SUCCESS);
  EXPECT_LT(sim.now() - begin, 1'000'000U);
}

// Many paced QPs and one without a limit: each keeps its rate, and the last one its speed.
TEST_F(Rate, ManyAtOnce) {
  constexpr unsigned kQps = 100;
  TestMr& src = a.reg(1 << 16);
  TestMr& dst = b.reg(1 << 16);
  std::vector<TestQp*> slow;
  for (unsigned i = 0; i < kQps; ++i) {
    auto [x, y] = rc_pair(a, b, {.log_sq_size = 2, .log_rq_size = 2, .log_cq_size = 3});
    slow.push_back(&x);
    set_limit(x, 10'000 + i);
  }
  const auto [fast, peer] = rc_pair(a, b);
  for (TestQp* const qp : slow) qp->post(write({src.sge()}, dst));
  const Nanos begin = sim.now();
  fast.post(write({src.sge()}, dst));
  EXPECT_EQ(fast.wait_send().status, TERN_CQE_SUCCESS);
  EXPECT_LT(sim.now() - begin, 100'000U);
  for (unsigned i = 0; i < kQps; ++i) {
    EXPECT_EQ(slow[kQps - 1 - i]->wait_send().status, TERN_CQE_SUCCESS);
  }
  const double bits = 63.0 * 1102 * 8;
  EXPECT_NEAR(static_cast<double>(sim.now() - begin), bits / 10e6 * 1e9, 2e6);
}

// Loopback has no wire; the rate holds all the same.
TEST_F(Rate, LoopbackToo) {
  const auto [x, y] = rc_pair(a, a);
  TestMr& src = a.reg(1 << 16);
  TestMr& dst = a.reg(1 << 16);
  set_limit(x, 100'000);
  const Nanos begin = sim.now();
  x.post(write({src.sge()}, dst));
  EXPECT_EQ(x.wait_send().status, TERN_CQE_SUCCESS);
  EXPECT_NEAR(static_cast<double>(sim.now() - begin), 63.0 * 1102 * 8 / 0.1, 2e5);
}

// A host that serves the device late: the QP catches up, and the rate is kept.
TEST_F(Rate, ALateHostLosesNoBandwidth) {
  const auto [x, y] = rc_pair(a, b);
  TestMr& src = a.reg(1 << 18);
  TestMr& dst = b.reg(1 << 18);
  set_limit(x, 1'000'000);
  sim.turn_time = 200'000;  // a packet is due every 9 us
  x.post(write({src.sge()}, dst));
  const Nanos begin = sim.now();
  EXPECT_EQ(x.wait_send().status, TERN_CQE_SUCCESS);
  EXPECT_LT(sim.now() - begin, 5'000'000U) << "2.3 ms at the rate";
}

class RawRate : public RawTest {};

TEST_F(RawRate, FramesAndSegments) {
  tern_qp_attr attr{};
  attr.rate_limit = le(std::uint32_t{100'000});
  ASSERT_EQ(qa.modify(attr, TERN_QPA_RATE_LIMIT), TERN_ST_OK);
  std::vector<Left> left;
  sim.pass = [&](unsigned from, std::span<const std::byte> f) {
    if (from == a.index()) left.push_back({sim.now(), f.size()});
    return true;
  };
  const Bytes frame = ip_packet(b.mac(), a.mac(), 1000);
  for (int i = 0; i < 16; ++i) qa.post(frame_wr(frame));
  for (int i = 0; i < 16; ++i) EXPECT_EQ(qa.wait_send().status, TERN_CQE_SUCCESS);
  ASSERT_EQ(left.size(), 16U);
  const Nanos gap = (frame.size() * 80 + 0);  // 100 Mbit/s: 10 ns a bit
  for (std::size_t i = 1; i < left.size(); ++i) EXPECT_EQ(left[i].time - left[i - 1].time, gap);
}

}  // namespace
}  // namespace tern

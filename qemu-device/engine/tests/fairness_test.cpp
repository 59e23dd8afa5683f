// SPDX-License-Identifier: GPL-2.0-or-later
// How long a short message waits behind long ones, counted in packets that the device sends
// meanwhile: the bound in Documentation/spec/limits.rst.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/mini_driver.h"

namespace tern {
namespace {

constexpr std::uint64_t kMessage = std::uint64_t{1} << 31;

// Packets in one turn of a QP that sends messages longer than a path MTU.
constexpr std::uint64_t turn_packets(std::uint32_t mtu) { return 16384 / (mtu + 64) + 3; }

enum class Load { kWrites, kReadResponses, kBoth };

// Number of busy QPs, log2 of the path MTU, budget of a run, and the load.
using Param = std::tuple<unsigned, unsigned, std::uint32_t, Load>;

std::uint32_t dest_qp(std::span<const std::byte> frame, std::size_t bth) {
  const auto at = [&](std::size_t i) { return std::to_integer<std::uint32_t>(frame[bth + i]); };
  return at(5) << 16 | at(6) << 8 | at(7);
}

class Fairness : public ::testing::TestWithParam<Param> {
 protected:
  static constexpr std::size_t kBth = 14 + 40 + 8;

  Sim sim;
  TestNode a{sim};
  TestNode b{sim};
  TestQp* quick = nullptr;
  TestQp* peer = nullptr;
  TestMr* from = nullptr;
  TestMr* to = nullptr;

  // Commands come before work: a command runs the device until it is idle, which takes long then.
  void SetUp() override {
    const auto& [busy, log_mtu, budget, load] = GetParam();
    sim.budget = budget;
    // The device is slower than the wire, so that a message finds the other QPs ready to send.
    sim.turn_time = std::max(500U, budget / 8);
    sim.wire.latency = 200;
    sim.wire.bits_per_ns = 400;
    RegOptions aliased{.alias = 1 << 16, .page_shift = 16};
    TestMr& ours = a.reg(kMessage, aliased);
    TestMr& theirs = b.reg(kMessage, aliased);
    const auto len = static_cast<std::uint32_t>(kMessage);
    const auto [q, p] = rc_pair(a, b, {.log_mtu = log_mtu});
    quick = &q;
    peer = &p;
    from = &a.reg(4096);
    to = &b.reg(4096);
    std::vector<std::pair<TestQp*, TestQp*>> pairs;
    for (unsigned i = 0; i < busy; ++i) {
      const auto [x, y] = rc_pair(a, b, {.log_mtu = log_mtu});
      pairs.emplace_back(&x, &y);
    }
    for (const auto& [x, y] : pairs) {
      if (load != Load::kReadResponses) x->post(write({{ours.iova, len, ours.key}}, theirs));
      if (load != Load::kWrites) y->post(read({{theirs.iova, len, theirs.key}}, ours));
    }
    sim.run_for(10 * sim.turn_time * busy);
  }
};

TEST_P(Fairness, EightBytesWaitForOneTurnOfEachOther) {
  const auto& [busy, log_mtu, budget, load] = GetParam();
  const std::uint64_t bound = busy * turn_packets(1U << log_mtu);
  std::uint64_t worst = 0;
  std::uint64_t total = 0;
  constexpr unsigned kTrials = 24;
  for (unsigned trial = 0; trial < kTrials; ++trial) {
    sim.run_for(1'000 + trial * sim.turn_time / 7);
    peer->post_recv({to->sge(0, 8)});
    std::uint64_t between = 0;
    bool sent = false;
    sim.pass = [&](unsigned node, std::span<const std::byte> frame) {
      if (node != 0 || sent) return true;
      if (dest_qp(frame, kBth) == peer->number()) {
        sent = true;
      } else {
        ++between;
      }
      return true;
    };
    quick->post(send({from->sge(0, 8)}));
    ASSERT_TRUE(sim.run_until([&] { return sent; })) << "the send never went out";
    sim.pass = nullptr;
    ASSERT_EQ(quick->wait_send().status, TERN_CQE_SUCCESS);
    ASSERT_EQ(peer->wait_recv().status, TERN_CQE_SUCCESS);
    worst = std::max(worst, between);
    total += between;
  }
  std::printf(
      "           %u busy, MTU %u, budget %u: %.1f packets on average, at most %llu, bound %llu\n",
      busy, 1U << log_mtu, budget, static_cast<double>(total) / kTrials,
      static_cast<unsigned long long>(worst), static_cast<unsigned long long>(bound));
  EXPECT_LE(worst, bound);
  EXPECT_GT(total, 0U) << "the others were not busy: nothing was measured";
}

std::string name_of(const ::testing::TestParamInfo<Param>& info) {
  const auto& [busy, log_mtu, budget, load] = info.param;
  const char* const what = load == Load::kWrites ? "Writes"
                           : load == Load::kBoth ? "Both"
                                                 : "ReadResponses";
  return std::string(what) + std::to_string(busy) + "Mtu" + std::to_string(1U << log_mtu) +
         "Budget" + std::to_string(budget);
}

INSTANTIATE_TEST_SUITE_P(
    Loads, Fairness,
    ::testing::Combine(::testing::Values(1U, 4U, 16U), ::testing::Values(8U, 10U, 12U),
                       ::testing::Values(4096U, 65536U),
                       ::testing::Values(Load::kWrites, Load::kReadResponses, Load::kBoth)),
    name_of);
// A busy host gives the device tiny budgets, an idle one large ones.
INSTANTIATE_TEST_SUITE_P(Budgets, Fairness,
                         ::testing::Combine(::testing::Values(4U), ::testing::Values(12U),
                                            ::testing::Values(1U, 100U, 1U << 20),
                                            ::testing::Values(Load::kWrites, Load::kReadResponses,
                                                              Load::kBoth)),
                         name_of);

// A run sends what its budget allows and completes a packet, but not a whole turn.
TEST(FairShare, ARunKeepsItsBudget) {
  constexpr std::uint64_t kFrame = 4096 + 128;
  for (const std::uint32_t budget : {1U, 1000U, 4096U, 10000U, 65536U}) {
    Sim sim;
    TestNode a(sim, {.lanes = 1});
    TestNode b(sim);
    TestMr& src = a.reg(1 << 20);
    TestMr& dst = b.reg(1 << 20);
    std::vector<TestQp*> qps;
    for (unsigned i = 0; i < 3; ++i) qps.push_back(&rc_pair(a, b, {.log_mtu = 12}).first);
    for (TestQp* const qp : qps) qp->post(write({src.sge()}, dst));
    a.device.datapath.effects->clear();
    for (unsigned run = 0; run < 8; ++run) {
      EXPECT_TRUE(a.device.run(budget));
      const std::size_t sent = a.device.datapath.effects->frame_bytes();
      EXPECT_GT(sent, 0U);
      EXPECT_LE(sent, budget + 2 * kFrame) << "budget " << budget;
      a.device.datapath.effects->clear();
    }
  }
}

// Two QPs that are always ready share by bytes for every budget: neither large packets nor a budget
// smaller than a turn favour one of them.
TEST(FairShare, ByBytesWhateverTheBudget) {
  for (const std::uint32_t budget : {1U, 1000U, 4096U, 20000U, 65536U}) {
    Sim sim;
    sim.budget = budget;
    sim.turn_time = std::max(500U, budget / 8);
    sim.wire.bits_per_ns = 400;  // the device is the bottleneck
    TestNode a(sim);
    TestNode b(sim);
    RegOptions aliased{.alias = 1 << 16, .page_shift = 16};
    TestMr& ours = a.reg(kMessage, aliased);
    TestMr& theirs = b.reg(kMessage, aliased);
    const auto len = static_cast<std::uint32_t>(kMessage);
    const auto [big, big_peer] = rc_pair(a, b, {.log_mtu = 12});
    const auto [small, small_peer] = rc_pair(a, b, {.log_mtu = 8});
    big_peer.post(read({{theirs.iova, len, theirs.key}}, ours));
    small_peer.post(read({{theirs.iova, len, theirs.key}}, ours));
    sim.run_for(1'000);
    std::uint64_t cost[2] = {};
    sim.pass = [&](unsigned node, std::span<const std::byte> frame) {
      if (node != 0) return true;
      const std::uint32_t to = dest_qp(frame, 14 + 40 + 8);
      if (to == big_peer.number()) cost[0] += frame.size();
      if (to == small_peer.number()) cost[1] += frame.size();
      return true;
    };
    sim.run_until([&] { return cost[0] + cost[1] > (8U << 20); });
    const double share = static_cast<double>(cost[0]) / static_cast<double>(cost[0] + cost[1]);
    EXPECT_NEAR(share, 0.5, 0.1) << "budget " << budget;
    sim.pass = nullptr;
  }
}

}  // namespace
}  // namespace tern

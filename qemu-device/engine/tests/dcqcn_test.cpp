// SPDX-License-Identifier: GPL-2.0-or-later
// DCQCN in the whole: senders with one flow each share the port of a switch that marks by RED, with
// the parameters of Zhu et al. (SIGCOMM 2015), and settle where their fluid model says.
#include <gtest/gtest.h>

#include <cstdio>
#include <deque>
#include <numeric>

#include "tests/bottleneck.h"
#include "tests/mini_driver.h"

namespace tern {
namespace {

constexpr std::uint64_t kMessage = std::uint64_t{1} << 31;
constexpr double kRate = 40;  // bit/ns

class Incast {
 public:
  explicit Incast(unsigned senders, const CongestionParams& params = {}, const RedOptions& red = {})
      : receiver(sim, options(params)), port(sim, receiver.index(), red) {
    sim.wire.bits_per_ns = kRate;
    sim.wire.latency = 1'000;
    RegOptions aliased{.alias = 1 << 16, .page_shift = 16};
    to = &receiver.reg(kMessage, aliased);
    for (unsigned i = 0; i < senders; ++i) {
      TestNode& node = nodes.emplace_back(sim, options(params));
      TestMr& from = node.reg(kMessage, aliased);
      auto [x, y] = rc_pair(node, receiver);
      flows.push_back({&x, &y, &from});
    }
  }

  struct Flow {
    TestQp* from;
    TestQp* to;
    TestMr* memory;
  };
  void start(const Flow& flow) {
    flow.from->post(
        write({{flow.memory->iova, static_cast<std::uint32_t>(kMessage), flow.memory->key}}, *to));
  }
  void start() {
    for (const Flow& flow : flows) start(flow);
  }
  // The rates of the flows in Mbit/s since the last statistics.
  [[nodiscard]] std::vector<double> rates() const {
    std::vector<double> r;
    const auto time = static_cast<double>(sim.now() - port.stats().from);
    for (const Flow& flow : flows) {
      const auto at = port.stats().flows.find(flow.to->number());
      r.push_back(at == port.stats().flows.end() ? 0
                                                 : static_cast<double>(at->second) * 8'000 / time);
    }
    return r;
  }

  static NodeOptions options(const CongestionParams& params) {
    NodeOptions o{.link_speed = static_cast<std::uint32_t>(kRate * 1'000), .congestion = params};
    return o;
  }

  Sim sim;
  TestNode receiver;
  Bottleneck port;
  std::deque<TestNode> nodes;
  std::vector<Flow> flows;
  TestMr* to = nullptr;
};

class Dcqcn : public ::testing::TestWithParam<unsigned> {};

TEST_P(Dcqcn, SendersSettleWhereTheModelSays) {
  const unsigned senders = GetParam();
  constexpr Nanos kSettle = 60'000'000;
  constexpr Nanos kMeasure = 40'000'000;
  const RedOptions red;
  Incast net(senders);
  net.start();
  net.sim.run_for(kSettle);
  (void)net.port.take_stats();
  net.sim.run_for(kMeasure);
  const auto rates = net.rates();
  const double total = std::accumulate(rates.begin(), rates.end(), 0.0);
  const double used = static_cast<double>(net.port.stats().bytes) * 8 / (kRate * kMeasure);
  const double marked =
      static_cast<double>(net.port.stats().marks) / static_cast<double>(net.port.stats().frames);
  const double packet = static_cast<double>(net.port.stats().bytes) /
                        static_cast<double>(net.port.stats().frames) * 8;
  const double model = marks_of_model(senders, kRate * 1e9, packet, CongestionParams());
  const double model_queue =
      std::min(red.k_min + model / red.p_max * (red.k_max - red.k_min), red.k_max);
  std::printf(
      "           %u senders: %.0f Mbit/s, %.1f%% of the port, Jain %.4f, queue %.1f kB (model "
      "%.1f), at most %.1f, "
      "marked %.3f%% (model %.3f%%)\n",
      senders, total, 100 * used, jain(rates), net.port.mean_queue() / 1e3, model_queue / 1e3,
      net.port.stats().longest / 1e3, 100 * marked, 100 * model);
  EXPECT_GE(jain(rates), 0.95);
  EXPECT_GE(used, 0.9);
  EXPECT_EQ(net.port.stats().drops, 0U);
  EXPECT_GT(net.port.mean_queue(), model_queue * 0.5);
  EXPECT_LT(net.port.mean_queue(), model_queue * 1.6);
  EXPECT_GT(net.receiver.counter(TERN_CNT_NP_CNP_SENT), 0U);
  for (TestNode& node : net.nodes) {
    EXPECT_GT(node.counter(TERN_CNT_RP_CNP_HANDLED), 0U);
    EXPECT_EQ(node.counter(TERN_CNT_LOCAL_ACK_TIMEOUT_ERR), 0U);
  }
}

INSTANTIATE_TEST_SUITE_P(Senders, Dcqcn, ::testing::Values(2U, 8U, 64U),
                         [](const auto& senders) { return std::to_string(senders.param); });

// A port whose queue is shorter than the windows of the senders, which join one after the other: it
// loses packets only if they do not react.
TEST(DcqcnLoss, APortLosesNothingIfTheSendersReact) {
  std::uint64_t lost[2] = {};
  for (const bool on : {false, true}) {
    std::string error;
    const auto params = parse_congestion(on ? "on" : "off", error);
    RedOptions red;
    red.limit = 850'000;
    Incast net(8, *params, red);
    for (const Incast::Flow& flow : net.flows) {
      net.start(flow);
      net.sim.run_for(2'000'000);
    }
    net.sim.run_for(10'000'000);
    lost[on] = net.port.stats().drops;
  }
  EXPECT_GT(lost[false], 0U);
  EXPECT_EQ(lost[true], 0U);
}

// A flow that joins gets its share, and one that is alone again gets the port.
TEST(DcqcnChange, FlowsJoinAndLeave) {
  Incast net(2);
  net.start(net.flows[0]);
  net.sim.run_for(5'000'000);
  (void)net.port.take_stats();
  net.sim.run_for(1'000'000);
  EXPECT_GT(net.rates()[0], 36'000) << "alone";
  net.start(net.flows[1]);
  net.sim.run_for(60'000'000);
  (void)net.port.take_stats();
  net.sim.run_for(20'000'000);
  EXPECT_GE(jain(net.rates()), 0.95);
  net.sim.queue = [](unsigned, std::span<std::byte>) { return Nanos{0}; };
  ASSERT_EQ(net.flows[0].from->to_state(TERN_QPS_ERR), TERN_ST_OK);
  net.sim.run_for(200'000'000);
  EXPECT_EQ(le(net.flows[1].from->query().rate), 0U) << "the limiter is released";
}

}  // namespace
}  // namespace tern

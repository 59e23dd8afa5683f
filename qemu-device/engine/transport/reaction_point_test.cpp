// SPDX-License-Identifier: GPL-2.0-or-later
// The rate of one flow step by step, against the algorithm of the paper.
#include "transport/reaction_point.h"

#include <gtest/gtest.h>

#include <cmath>

namespace tern {
namespace {

constexpr std::uint64_t kMbit = 1'000'000;
constexpr std::uint64_t kLine = 40'000 * kMbit;

class ReactionPointTest : public ::testing::Test {
 protected:
  CongestionParams params;
  ReactionPoint flow;
  Nanos now = 1'000'000'000;

  void set(unsigned index, std::uint32_t value) { ASSERT_TRUE(params.set(index, value)); }
  void notify() { flow.notified(params, kLine, now); }
  void wait(Nanos time) {
    now += time;
    flow.advance(params, kLine, now);
  }
  void send(std::uint32_t bytes) { flow.sent(params, kLine, bytes); }
  [[nodiscard]] double mbit() const { return static_cast<double>(flow.rate()) / kMbit; }
  [[nodiscard]] double target() const { return static_cast<double>(flow.target()) / kMbit; }
  [[nodiscard]] double alpha() const { return static_cast<double>(flow.alpha()) / (1U << 20); }
};

TEST_F(ReactionPointTest, TheFirstNotificationHalvesTheLineRate) {
  EXPECT_FALSE(flow.active());
  notify();
  EXPECT_TRUE(flow.active());
  EXPECT_NEAR(mbit(), 20'000, 25);  // alpha is 1023/1024 at first
  EXPECT_EQ(flow.target(), kLine);
  EXPECT_NEAR(alpha(), 1, 0.001);
}

TEST_F(ReactionPointTest, AlphaFollowsTheNotifications) {
  for (int i = 0; i < 20; ++i, now += 10'000) notify();  // far from free again
  double expected = alpha();
  now -= 10'000;
  for (int i = 0; i < 20; ++i) {  // a period without a notification each
    wait(55'000);
    expected *= 1 - 4.0 / 1024;
    ASSERT_NEAR(alpha(), expected, 1e-4);
  }
  for (int i = 0; i < 20; ++i) {
    wait(50'000);
    notify();
    expected += (1 - expected) * 4 / 1024;
    ASSERT_NEAR(alpha(), expected, 1e-4);
  }
  wait(550'000);  // ten periods at once
  EXPECT_NEAR(alpha(), expected * std::pow(1 - 4.0 / 1024, 10), 1e-4);
}

TEST_F(ReactionPointTest, RecoversFastThenByAdditionThenByMore) {
  notify();
  double rate = mbit();
  const double first = target();
  for (int stage = 1; stage < 5; ++stage) {  // fast recovery: the target stays
    wait(55'000);
    rate = (rate + first) / 2;
    ASSERT_NEAR(mbit(), rate, 1);
    ASSERT_EQ(target(), first);
  }
  set(TERN_CC_RP_RATE_TO_SET_ON_FIRST_CNP, 0);
  now += 1000;
  for (int cut = 0; cut < 3; ++cut, now += 50'000) notify();
  const double low = target();
  for (int stage = 1; stage <= 4; ++stage) wait(55'000);
  ASSERT_EQ(target(), low);
  for (int stage = 5; stage <= 9; ++stage) {  // the timer alone: additive increase
    wait(55'000);
    ASSERT_NEAR(target(), low + 40 * (stage - 4), 0.001);
  }
  const double added = target();
  for (int stage = 1; stage <= 5; ++stage) send(10'000'000);  // the bytes catch up
  ASSERT_NEAR(target(), added + 5 * 40, 0.001);
  send(10'000'000);
  EXPECT_NEAR(target(), added + 5 * 40 + 400, 0.001);  // both beyond the threshold
  send(10'000'000);
  EXPECT_NEAR(target(), added + 5 * 40 + 400 + 800, 0.001);
}

TEST_F(ReactionPointTest, AFlowWithoutNotificationsIsFreeAgain) {
  notify();
  int steps = 0;
  for (; flow.active() && steps < 10'000; ++steps) wait(55'000);
  EXPECT_FALSE(flow.active());
  EXPECT_LE(steps, 20);
  notify();
  EXPECT_NEAR(mbit(), 20'000, 25) << "it begins anew";
}

TEST_F(ReactionPointTest, AnHourOfSilenceTakesBoundedSteps) {
  for (int i = 0; i < 40; ++i, now += 10'000) notify();
  now += Nanos{3'600} * 1'000'000'000;
  int calls = 0;
  for (; flow.active() && calls < 1'000; ++calls) flow.advance(params, kLine, now);
  EXPECT_FALSE(flow.active());
  EXPECT_GT(calls, 1) << "one call does not do it all";
}

TEST_F(ReactionPointTest, CutsAreLimited) {
  set(TERN_CC_RP_RATE_REDUCE_MONITOR_PERIOD, 10);
  notify();
  const auto once = flow.rate();
  now += 9'999;
  notify();
  EXPECT_EQ(flow.rate(), once) << "within the period of the last cut";
  now += 1;
  notify();
  EXPECT_LT(flow.rate(), once);

  set(TERN_CC_RP_MIN_RATE, 500);
  for (int i = 0; i < 100; ++i, now += 10'000) notify();
  EXPECT_EQ(mbit(), 500);

  set(TERN_CC_RP_GD, 0);  // would take 1023 times the rate
  set(TERN_CC_RP_MIN_RATE, 1);
  set(TERN_CC_RP_MIN_DEC_FAC, 80);
  notify();
  EXPECT_NEAR(mbit(), 400, 0.001);
}

TEST_F(ReactionPointTest, TheTargetFollowsTheRateAsConfigured) {
  set(TERN_CC_RP_CLAMP_TGT_RATE, 0);
  set(TERN_CC_RP_CLAMP_TGT_RATE_ATI, 0);
  notify();
  wait(55'000);
  notify();
  EXPECT_EQ(flow.target(), kLine) << "the timer's increase does not count";
  send(10'000'000);
  const auto before = flow.rate();
  now += 10'000;
  notify();
  EXPECT_EQ(flow.target(), before) << "an increase by bytes does";
  set(TERN_CC_RP_CLAMP_TGT_RATE_ATI, 1);
  wait(55'000);
  const auto timed = flow.rate();
  notify();
  EXPECT_EQ(flow.target(), timed);
}

TEST_F(ReactionPointTest, FirstRateAndMaximum) {
  set(TERN_CC_RP_MAX_RATE, 10'000);
  notify();
  EXPECT_NEAR(mbit(), 5'000, 6);
  flow = ReactionPoint();
  set(TERN_CC_RP_RATE_TO_SET_ON_FIRST_CNP, 700);
  notify();
  EXPECT_EQ(mbit(), 700);
  now += 10'000;
  notify();
  EXPECT_NEAR(mbit(), 350, 1);
}

TEST(CongestionText, IsParsedOrRefusedWithAReason) {
  std::string error;
  const CongestionParams defaults;
  const auto on = parse_congestion("on", error);
  ASSERT_TRUE(on);
  EXPECT_EQ(on->get(TERN_CC_RP_ENABLE), 255U);
  EXPECT_EQ(on->get(TERN_CC_RP_AI_RATE), defaults.get(TERN_CC_RP_AI_RATE));
  const auto off = parse_congestion("off", error);
  ASSERT_TRUE(off);
  EXPECT_FALSE(off->enabled(TERN_CC_RP_ENABLE, 3));
  EXPECT_FALSE(off->enabled(TERN_CC_NP_ENABLE, 0));
  const auto some = parse_congestion("  rp_ai_rate=7 np_enable=8  ", error);
  ASSERT_TRUE(some);
  EXPECT_EQ(some->get(TERN_CC_RP_AI_RATE), 7U);
  EXPECT_TRUE(some->enabled(TERN_CC_NP_ENABLE, 3));
  EXPECT_FALSE(some->enabled(TERN_CC_NP_ENABLE, 2));
  for (const char* const wrong : {"rp_ai_rates=1", "=", "rp_ai_rate", "rp_ai_rate=", "rp_ai_rate=0",
                                  "rp_ai_rate=1x", "np_enable=256", "rp_gd=-1", "on off"}) {
    error.clear();
    EXPECT_FALSE(parse_congestion(wrong, error)) << wrong;
    EXPECT_FALSE(error.empty()) << wrong;
  }
}

}  // namespace
}  // namespace tern

// SPDX-License-Identifier: GPL-2.0-or-later
// The window storm with several seeds.
// TERN_SIM_SEED=N engine_tests --gtest_filter='*WindowSim*1' runs only seed N.
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/window_storm.h"

namespace tern {
namespace {

class WindowSim : public ::testing::TestWithParam<std::uint64_t> {};

TEST_P(WindowSim, NoByteOutsideALiveWindow) {
  const char* const given = std::getenv("TERN_SIM_SEED");
  const std::uint64_t seed = given ? std::strtoull(given, nullptr, 0) : GetParam();
  WindowStorm storm(seed);
  storm.run(6000);
  const WindowStorm::Tally& t = storm.tally();
  EXPECT_EQ(t.changed, 0U) << "TERN_SIM_SEED=" << seed;
  EXPECT_EQ(t.leaked, 0U) << "TERN_SIM_SEED=" << seed;
  // There was enough activity.
  EXPECT_GT(t.binds, 300U);
  EXPECT_GT(t.ends, 300U);
  EXPECT_GT(t.allowed, 500U);
  EXPECT_GT(t.refused, 100U);
  EXPECT_GT(storm.sim.stats.lost, 100U);
}

INSTANTIATE_TEST_SUITE_P(Seeds, WindowSim, ::testing::Range<std::uint64_t>(1, 7));

}  // namespace
}  // namespace tern

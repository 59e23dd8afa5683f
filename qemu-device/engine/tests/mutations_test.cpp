// SPDX-License-Identifier: GPL-2.0-or-later
// Checks the tests of window rules: with the check of a rule switched off, every case of that rule
// fails and no case of another rule does. Needs an engine with TERN_MUTATIONS.
#include <gtest/gtest.h>

#include <string>

#include "tests/window_rules.h"
#include "tests/window_storm.h"

namespace tern {
namespace {

static_assert(Mutations::kBuilt);

class Mutation : public ::testing::TestWithParam<std::size_t> {};

TEST_P(Mutation, TurnsItsOwnCasesRed) {
  const auto rule = static_cast<Rule>(GetParam());
  unsigned own = 0;
  for (const RuleTest& test : rule_tests()) {
    const std::string found = test.run(rule);
    if (test.rule_case.rule == rule) {
      ++own;
      EXPECT_NE(found, "") << test.name() << " did not notice";
    } else {
      EXPECT_EQ(found, "") << test.name() << " is of another rule";
    }
  }
  EXPECT_GT(own, 0U) << "nothing tests this rule";
}

std::string name_of_rule(const ::testing::TestParamInfo<std::size_t>& info) {
  std::string name(kRuleNames[info.param - 1]);
  std::erase(name, '-');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Rules, Mutation, ::testing::Range(std::size_t{1}, kRuleNames.size() + 1),
                         name_of_rule);

// The storm detects violations of the rules that protect memory.
class StormMutation : public ::testing::TestWithParam<const char*> {};

TEST_P(StormMutation, IsNoticed) {
  WindowStorm storm(1, GetParam());
  storm.run(6000);
  EXPECT_FALSE(storm.calm());
}

INSTANTIATE_TEST_SUITE_P(Rules, StormMutation,
                         ::testing::Values("mw-low", "mw-high", "mw-wrap", "mw-write",
                                           "mw-unbound"));

TEST(Mutations, OneAtATimeByName) {
  Mutations m;
  EXPECT_FALSE(m.off(Rule::kMwPd));
  EXPECT_TRUE(m.set("mw-pd"));
  EXPECT_TRUE(m.off(Rule::kMwPd));
  EXPECT_FALSE(m.set("no-such-rule"));
  EXPECT_TRUE(m.off(Rule::kMwPd)) << "an unknown name changes nothing";
  EXPECT_TRUE(m.set("inv-mr-bound"));
  EXPECT_FALSE(m.off(Rule::kMwPd));
  EXPECT_TRUE(m.off(Rule::kInvMrBound));
  EXPECT_TRUE(m.set(""));
  EXPECT_FALSE(m.off(Rule::kInvMrBound));
}

}  // namespace
}  // namespace tern

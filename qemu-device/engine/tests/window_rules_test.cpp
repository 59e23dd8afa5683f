// SPDX-License-Identifier: GPL-2.0-or-later
// What memory windows refuse: every rule on every path that has it, checked to the byte.
#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>
#include <string_view>

#include "tests/window_rules.h"

namespace tern {

void PrintTo(const RuleCase& c, std::ostream* os) { *os << c.name; }

namespace {

class WindowRule : public ::testing::TestWithParam<RuleCase> {};

TEST_P(WindowRule, Holds) {
  unsigned runs = 0;
  for (const RuleTest& test : rule_tests()) {
    if (std::string_view(test.rule_case.name) != GetParam().name) continue;
    EXPECT_EQ(test.run(), "") << test.name();
    ++runs;
  }
  EXPECT_GT(runs, 0U);
}

std::vector<RuleCase> cases() {
  std::vector<RuleCase> each;
  for (const RuleTest& test : rule_tests()) {
    // Cases that differ only in their paths share a name.
    if (std::ranges::none_of(each, [&](const RuleCase& c) {
          return std::string_view(c.name) == test.rule_case.name;
        })) {
      each.push_back(test.rule_case);
    }
  }
  return each;
}

std::string name_of_case(const ::testing::TestParamInfo<RuleCase>& info) { return info.param.name; }

INSTANTIATE_TEST_SUITE_P(All, WindowRule, ::testing::ValuesIn(cases()), name_of_case);

}  // namespace
}  // namespace tern

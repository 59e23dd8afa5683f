// SPDX-License-Identifier: GPL-2.0-or-later
// The tests by subject, and their descriptions for the tables.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "window.h"

namespace guest::windows {

struct Test {
  std::string name;
  std::string says;  // the property that is tested, for the tables
  // For a test of a refusal: rules, separated by commas, each of which makes the test fail when it
  // is switched off; or "- " and the reason why there is none.
  std::string rules;
  std::function<void(const Env&)> run;
  bool crashes_soft_roce = false;  // crashes its kernel, so it runs in a machine of its own
};
using Tests = std::vector<Test>;

// Adds a test whose body gets these arguments after the environment.
template <typename Run, typename... Args>
void add(Tests& tests, std::string name, std::string says, std::string rules, Run run,
         Args... args) {
  tests.push_back({std::move(name), std::move(says), std::move(rules),
                   [=](const Env& env) { run(env, args...); }});
}

void add_type1_tests(Tests& tests);
void add_type2_tests(Tests& tests);
void add_access_tests(Tests& tests);
void add_bind_tests(Tests& tests);
void add_invalidate_tests(Tests& tests);
void add_end_tests(Tests& tests);
void add_memory_tests(Tests& tests);
Tests all_tests();

// The forms of window to which most rules apply alike.
struct NamedForm {
  const char* name;
  const char* text;
  Form form;
};
inline const NamedForm kForms[] = {
    {"type1", "a type 1 window", {.type = IBV_MW_TYPE_1}},
    {"type1-zb", "a zero-based type 1 window", {.type = IBV_MW_TYPE_1, .zero_based = true}},
    {"type2", "a type 2 window", {.type = IBV_MW_TYPE_2}},
    {"type2-zb", "a zero-based type 2 window", {.type = IBV_MW_TYPE_2, .zero_based = true}},
};
constexpr ibv_mw_type kBothTypes[] = {IBV_MW_TYPE_1, IBV_MW_TYPE_2};
inline std::string type_name(ibv_mw_type type) { return type == IBV_MW_TYPE_1 ? "type1" : "type2"; }
inline std::string type_text(ibv_mw_type type) {
  return type == IBV_MW_TYPE_1 ? "a type 1 window" : "a type 2 window";
}

// The victim of the process death test: binds windows, reports that, and waits to be killed.
void be_victim(const CommandLine& line);

}  // namespace guest::windows

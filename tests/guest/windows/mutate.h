// SPDX-License-Identifier: GPL-2.0-or-later
// Rules of the device switched off, one after the other: exactly the tests that claim them must
// fail.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "suite.h"

namespace guest::windows {

// Runs one test; why it failed, or nothing.
using Runner = std::function<std::string(const Test&)>;

// What is wrong with the table of rules and tests, or nothing.
std::string check_claims(const Tests& tests);

// A part of the rules: machines can share them.
struct Part {
  std::size_t number = 1;
  std::size_t of = 1;

  // From "K/N"; whether it is that.
  bool parse(const char* text);
};

// One result line for each rule; whether all are good. The rules are those of these names, or all.
// The first part also tells of the table of rules, and of the tests with all rules on.
bool run_mutations(const Tests& tests, const std::vector<std::string>& rules, const Part& part,
                   const Runner& run);

}  // namespace guest::windows

// SPDX-License-Identifier: GPL-2.0-or-later
// Mutation tests: with one rule of the device switched off, exactly the tests that claim the rule
// must fail.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "program.h"
#include "windows/suite.h"

namespace guest::windows {

// Runs one test. Returns why it failed, or "".
using Runner = std::function<std::string(const Rule&)>;

// Checks that tests claim only existing rules, and every rule. Returns what is wrong, or "".
std::string check_claims(const Rules& tests);

// A share of the rules, for splitting the run between machines.
struct Part {
  std::size_t number = 1;
  std::size_t of = 1;
};
// Parses "K/N"; "" is the whole. Throws if the text is malformed.
Part parse_part(const std::string& text);

// Prints a result line for each rule of these names, or for all rules. The first part also checks
// the claims, and the tests with all rules on.
void run_mutations(const Rules& tests, const std::vector<std::string>& rules, const Part& part,
                   const Runner& run);

}  // namespace guest::windows

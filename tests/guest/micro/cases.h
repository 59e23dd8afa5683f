// SPDX-License-Identifier: GPL-2.0-or-later
// What one fault does to one operation: the rules, the operation, and what is counted.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "suite.h"

namespace guest {

// A counter that moves, by exactly `least` unless `most` says more.
struct Moves {
  const char* counter;
  std::uint64_t least;
  std::uint64_t most = 0;  // 0: as least
};

struct Case {
  const char* name;
  // Rules of the machine that asks and of the one that answers; {here} and {there} are the QP
  // numbers of the two, {page} is where the memory of that machine begins.
  const char* rules_here;
  const char* rules_there;
  std::vector<Moves> here;
  std::vector<Moves> there;
  void (*run)(const Pair& pair);
  PairOptions options{};
  const char* icrc_there = "check";
  bool every_rule_once = true;  // each is applied exactly once, else at least once
};

std::span<const Case> cases();

}  // namespace guest

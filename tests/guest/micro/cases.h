// SPDX-License-Identifier: GPL-2.0-or-later
// The effect of faults on one operation: the rules, the operation, and the counters that move.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "pair.h"

namespace guest {

// A counter that moves by `least` to `most`.
struct Moves {
  const char* counter;
  std::uint64_t least;
  std::uint64_t most = 0;  // 0: the same as `least`
};

struct Case {
  const char* name;
  // Fault rules for the requester's and the responder's machine. {here} and {there} stand for their
  // QP numbers, {page} for the physical address of that machine's memory.
  const char* rules_here;
  const char* rules_there;
  std::vector<Moves> here;
  std::vector<Moves> there;
  void (*run)(const Pair& pair);
  PairOptions options{};
  const char* icrc_there = "check";
  bool every_rule_once = true;  // each rule is applied exactly once, otherwise at least once
};

std::span<const Case> cases();

}  // namespace guest

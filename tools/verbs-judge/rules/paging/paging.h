// SPDX-License-Identifier: GPL-2.0-or-later
// The rules of paging on demand, by subject, and what they share.
#pragma once

#include <algorithm>

#include "loop.h"
#include "rule.h"

namespace guest::paging {

constexpr std::size_t kPage = 4096;

// How often a rule repeats what it does `n` times at the usual effort.
inline std::uint64_t rounds(const Env& env, std::uint64_t n) {
  return std::max<std::uint64_t>(n * env.effort / 100, 1);
}
// Skips the rule unless the device claims paging on demand, with these operations on RC.
void need(const Env& env, std::uint32_t rc_caps);
// A region on demand. A refusal fails the test.
MrPtr on_demand(const Env& env, const Map& map);
MrPtr all_memory(const Env& env);  // of the address space

// Every operation on memory that is not present.
Rules operations();
// ibv_advise_mr().
Rules advice();
// Memory that moves below a region.
Rules moves();
Rules all();

}  // namespace guest::paging

// SPDX-License-Identifier: GPL-2.0-or-later
// Each rule of memory windows as things that a device must refuse. What the cases name decides:
// where the rule's check is switched off, just its own cases find that something was let through.
#pragma once

#include <string>
#include <vector>

#include "core/mutations.h"
#include "tests/window_world.h"

namespace tern {

struct RuleCase {
  const char* name;
  Rule rule;  // whose check refuses it; kNone: no rule that can be switched off
  std::vector<MwKind> kinds;
  std::vector<Path> paths;
  std::vector<Op3> ops;  // of accesses; else one that nobody looks at
  // What was not as it must be; empty: all was.
  std::string (*run)(WindowWorld& w, Op3 op);
};

inline const std::vector<MwKind> kAnyKind = {MwKind::kType1, MwKind::kType2A, MwKind::kType2B};
inline const std::vector<MwKind> kType1 = {MwKind::kType1};
inline const std::vector<MwKind> kType2 = {MwKind::kType2A, MwKind::kType2B};
inline const std::vector<Path> kAnyPath = {Path::kRc, Path::kUc, Path::kXrc};
// Where the QP that binds is the one that answers.
inline const std::vector<Path> kOwnPath = {Path::kRc, Path::kUc};
inline const std::vector<Op3> kAnyOp = {Op3::kWrite, Op3::kRead, Op3::kAtomic};
inline const std::vector<Op3> kNoOp = {Op3::kWrite};

[[nodiscard]] std::vector<RuleCase> access_cases();
[[nodiscard]] std::vector<RuleCase> bind_cases();
[[nodiscard]] std::vector<RuleCase> end_cases();  // invalidation, and the region's end

// A case with a type of window, a path and an operation that exist together.
struct RuleTest {
  RuleCase rule_case;
  MwKind kind;
  Path path;
  Op3 op;
  [[nodiscard]] std::string name() const;
  // In a device of its own, with `off` switched off.
  [[nodiscard]] std::string run(Rule off = Rule::kNone) const;
};
[[nodiscard]] const std::vector<RuleTest>& rule_tests();

}  // namespace tern

// SPDX-License-Identifier: GPL-2.0-or-later
// The rules of memory windows as actions that a device must refuse. If the check of a rule is
// switched off, exactly the cases of that rule must detect it.
#pragma once

#include <string>
#include <vector>

#include "core/mutations.h"
#include "tests/window_world.h"

namespace tern {

struct RuleCase {
  const char* name;
  Rule rule;  // the check that refuses it; kNone: no check that can be switched off
  std::vector<MwKind> kinds;
  std::vector<Path> paths;
  std::vector<Op3> ops;  // of accesses; otherwise a placeholder
  // Returns what went wrong; empty: nothing.
  std::string (*run)(WindowWorld& w, Op3 op);
};

inline const std::vector<MwKind> kAnyKind = {MwKind::kType1, MwKind::kType2A, MwKind::kType2B};
inline const std::vector<MwKind> kType1 = {MwKind::kType1};
inline const std::vector<MwKind> kType2 = {MwKind::kType2A, MwKind::kType2B};
inline const std::vector<Path> kAnyPath = {Path::kRc, Path::kUc, Path::kXrc};
// The paths on which the QP that binds is the responder.
inline const std::vector<Path> kOwnPath = {Path::kRc, Path::kUc};
inline const std::vector<Op3> kAnyOp = {Op3::kWrite, Op3::kRead, Op3::kAtomic};
inline const std::vector<Op3> kNoOp = {Op3::kWrite};

[[nodiscard]] std::vector<RuleCase> access_cases();
[[nodiscard]] std::vector<RuleCase> bind_cases();
[[nodiscard]] std::vector<RuleCase> end_cases();  // invalidation, and destruction of the region

// A case with a valid combination of window type, path and operation.
struct RuleTest {
  RuleCase rule_case;
  MwKind kind;
  Path path;
  Op3 op;
  [[nodiscard]] std::string name() const;
  // Runs the case on a new device with rule `off` switched off.
  [[nodiscard]] std::string run(Rule off = Rule::kNone) const;
};
[[nodiscard]] const std::vector<RuleTest>& rule_tests();

}  // namespace tern

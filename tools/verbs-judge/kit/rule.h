// SPDX-License-Identifier: GPL-2.0-or-later
// Rules: what a device must do, by whose authority, and a test of it.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "pair.h"

namespace guest {

struct Rule {
  std::string name;  // within its group
  std::string says;  // what holds, as a statement
  std::function<void(const Env&)> run;
  std::string authority{};  // manual pages and clauses; empty: those of the group
  // Why only --risky runs it: the kernel of some device does not survive it.
  std::string risk{};
  // For a rule of refusals of windows: the rules of tern's engine, separated by commas, each of
  // which makes it fail when it is switched off; or "- " and the reason why there is none.
  std::string switches{};
};
using Rules = std::vector<Rule>;

struct Group {
  const char* name;
  const char* about;
  const char* authority;
  bool across;  // with --across the other end is on another machine
  bool iwarp;   // iWARP, which connects by rdma_cm alone, has these rules, too
  Rules (*rules)();
};

// Appends rules, which have this authority unless they name another.
inline void append(Rules& to, Rules more, const char* authority) {
  for (Rule& rule : more) {
    if (rule.authority.empty()) rule.authority = authority;
    to.push_back(std::move(rule));
  }
}

}  // namespace guest

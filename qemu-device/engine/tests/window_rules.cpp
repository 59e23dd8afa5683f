// SPDX-License-Identifier: GPL-2.0-or-later
#include "tests/window_rules.h"

namespace tern {

std::string RuleTest::name() const {
  std::string n = std::string(rule_case.name) + name_of(kind) + name_of(path);
  if (rule_case.ops.size() > 1) n += name_of(op);
  return n;
}

std::string RuleTest::run(Rule off) const {
  WindowWorld w(kind, path);
  if (off != Rule::kNone &&
      !w.b.device.set_mutation(kRuleNames[static_cast<std::size_t>(off) - 1])) {
    return "the rule cannot be switched off";
  }
  return rule_case.run(w, op);
}

const std::vector<RuleTest>& rule_tests() {
  static const std::vector<RuleTest> all = [] {
    std::vector<RuleTest> tests;
    for (const auto& cases : {access_cases(), bind_cases(), end_cases()}) {
      for (const RuleCase& c : cases) {
        for (const MwKind kind : c.kinds) {
          for (const Path path : c.paths) {
            for (const Op3 op : c.ops) {
              // UC has neither READ nor atomics.
              if (path != Path::kUc || op == Op3::kWrite) tests.push_back({c, kind, path, op});
            }
          }
        }
      }
    }
    return tests;
  }();
  return all;
}

}  // namespace tern

// SPDX-License-Identifier: GPL-2.0-or-later
// A build with TERN_MUTATIONS can switch off one rule of memory windows, so that tests can prove
// that they detect the violation; other builds enforce every rule.
#pragma once

#include <cstddef>
#include <string_view>

#include "core/rules.h"

namespace tern {

class Mutations {
 public:
#ifdef TERN_MUTATIONS
  static constexpr bool kBuilt = true;
  // Switches off this rule only; "" switches all rules on. Returns false if there is no such rule;
  // then nothing changes.
  bool set(std::string_view name) {
    if (name.empty()) {
      off_ = Rule::kNone;
      return true;
    }
    for (std::size_t i = 0; i < kRuleNames.size(); ++i) {
      if (kRuleNames[i] != name) continue;
      off_ = static_cast<Rule>(i + 1);
      return true;
    }
    return false;
  }
  [[nodiscard]] bool off(Rule rule) const { return off_ == rule; }

 private:
  Rule off_ = Rule::kNone;
#else
  static constexpr bool kBuilt = false;
  static bool set(std::string_view) { return false; }
  [[nodiscard]] static constexpr bool off(Rule) { return false; }
#endif
};
// Callers of the device, built without it, link with either build.
static_assert(sizeof(Mutations) == 1);

}  // namespace tern

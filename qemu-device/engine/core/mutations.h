// SPDX-License-Identifier: GPL-2.0-or-later
// Rules of memory windows, each by the name of the check that holds it. A build with
// TERN_MUTATIONS can switch one off, so that tests can show that they notice; in others a rule holds
// exactly when it is kept.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tern {

enum class Rule : std::uint8_t {
  kMwPd,
  kMwQp,
  kMwLow,
  kMwHigh,
  kMwWrap,
  kMwRead,
  kMwWrite,
  kMwAtomic,
  kMwFlush,
  kMwVariant,
  kMwUnbound,
  kMwMrWrite,
  kBindQpPd,
  kBindMrPd,
  kBindMrRight,
  kBindLocalWrite,
  kBindRange,
  kBindWrap,
  kBindFree,
  kBindType,
  kBindZeroLength,
  kBindKey,
  kInvFree,
  kInvType,
  kInvQp,
  kInvPd,
  kInvVariant,
  kMrBusy,
  kInvMrBound,
  kNone,  // all rules hold
};

// The rules' names, in the order of Rule. Each ends with a NUL: the C surface hands them out.
inline constexpr auto kRuleNames = std::to_array<std::string_view>({
    "mw-pd",       "mw-qp",         "mw-low",           "mw-high",     "mw-wrap",
    "mw-read",     "mw-write",      "mw-atomic",        "mw-flush",    "mw-variant",
    "mw-unbound",  "mw-mr-write",   "bind-qp-pd",       "bind-mr-pd",  "bind-mr-right",
    "bind-local-write", "bind-range", "bind-wrap",      "bind-free",   "bind-type",
    "bind-zero-length", "bind-key", "inv-free",         "inv-type",    "inv-qp",
    "inv-pd",      "inv-variant",   "mr-busy",          "inv-mr-bound",
});
static_assert(kRuleNames.size() == static_cast<std::size_t>(Rule::kNone));

class Mutations {
 public:
#ifdef TERN_MUTATIONS
  static constexpr bool kBuilt = true;
  // Switches this rule off and all others on; "": none off. False: no such rule, nothing changes.
  bool set(std::string_view name) {
    if (name.empty()) {
      off_ = Rule::kNone;
      return true;
    }
    for (std::size_t i = 0; i < kRuleNames.size(); ++i) {
      if (kRuleNames[i] != name) continue;
      off_ = static_cast<Rule>(i);
      return true;
    }
    return false;
  }
  [[nodiscard]] bool off(Rule rule) const { return off_ == rule; }
  // Whether nothing speaks against going on: the rule is kept, or switched off.
  [[nodiscard]] bool holds(Rule rule, bool kept) const { return kept || off(rule); }

 private:
  Rule off_ = Rule::kNone;
#else
  static constexpr bool kBuilt = false;
  static bool set(std::string_view) { return false; }
  [[nodiscard]] static constexpr bool off(Rule) { return false; }
  [[nodiscard]] static constexpr bool holds(Rule, bool kept) { return kept; }
#endif
};

}  // namespace tern

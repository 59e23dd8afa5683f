// SPDX-License-Identifier: GPL-2.0-or-later
// The rules of memory windows, named after the checks that enforce them. A build with
// TERN_MUTATIONS can switch off one rule, so that tests can prove that they detect the violation;
// other builds enforce every rule.
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

// Names of the rules, in the order of Rule. Each ends with a NUL because the C API returns it.
inline constexpr auto kRuleNames = std::to_array<std::string_view>({
    "mw-pd",
    "mw-qp",
    "mw-low",
    "mw-high",
    "mw-wrap",
    "mw-read",
    "mw-write",
    "mw-atomic",
    "mw-flush",
    "mw-variant",
    "mw-unbound",
    "mw-mr-write",
    "bind-qp-pd",
    "bind-mr-pd",
    "bind-mr-right",
    "bind-local-write",
    "bind-range",
    "bind-wrap",
    "bind-free",
    "bind-type",
    "bind-zero-length",
    "bind-key",
    "inv-free",
    "inv-type",
    "inv-qp",
    "inv-pd",
    "inv-variant",
    "mr-busy",
    "inv-mr-bound",
});
static_assert(kRuleNames.size() == static_cast<std::size_t>(Rule::kNone));

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
      off_ = static_cast<Rule>(i);
      return true;
    }
    return false;
  }
  [[nodiscard]] bool off(Rule rule) const { return off_ == rule; }
  // Whether the operation may proceed: it keeps the rule, or the rule is switched off.
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

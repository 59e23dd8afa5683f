// SPDX-License-Identifier: GPL-2.0-or-later
#include "uplink_faults.h"

#include <algorithm>
#include <utility>

#include "clock.h"

namespace tern::daemon {

std::string UplinkFaults::set(const std::string& text) {
  std::string error;
  auto change = parse_fault_change(text, error);
  if (!change) return error;
  const auto bad = std::ranges::find_if(change->rules, [](const FaultRule& rule) {
    return rule.way == FaultRule::Way::kNone || rule.action == FaultRule::Action::kFatal;
  });
  if (bad != change->rules.end()) return "'" + bad->text + "': an uplink has packets only";
  if (!faults_.change(std::move(*change), error)) return error;
  return "";
}

Nanos UplinkFaults::now() { return clock_ns(); }

}  // namespace tern::daemon

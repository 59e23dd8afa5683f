// SPDX-License-Identifier: GPL-2.0-or-later
#include "uplink_faults.h"

#include <algorithm>
#include <utility>

#include "clock.h"

namespace tern::daemon {

std::string UplinkFaults::set(const std::string& text) {
  std::string error;
  auto rules = parse_faults(text, error);
  if (!rules) return error;
  const auto bad = std::ranges::find_if(
      *rules, [](const FaultRule& rule) { return rule.way == FaultRule::Way::kNone || rule.action == FaultRule::Action::kFatal; });
  if (bad != rules->end()) return "'" + bad->text + "': an uplink has packets only";
  faults_.set(std::move(*rules));
  return "";
}

Nanos UplinkFaults::now() { return clock_ns(); }

}  // namespace tern::daemon

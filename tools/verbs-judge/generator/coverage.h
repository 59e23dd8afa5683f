// SPDX-License-Identifier: GPL-2.0-or-later
// Which rules of windows a request breaks, by the names that tern's engine gives them. A request
// that breaks exactly one rule finds a device that does not enforce it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "book.h"

namespace guest::generator {

std::vector<std::string> broken_rules(const State& state, const Request& request);

// How many requests break one rule only, by rule.
using Coverage = std::map<std::string, unsigned>;

}  // namespace guest::generator

// SPDX-License-Identifier: GPL-2.0-or-later
// Runs named tests, one result line each.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

namespace guest {

struct Named {
  std::string name;
  std::function<void()> run;
};

// The tests whose names match one of the patterns, or all; "ok PREFIX/NAME" or "not ok PREFIX/NAME
// - why" each. True if all are ok. A test that does not end is one line, too, and ends the program.
bool run_named(const std::string& prefix, std::span<const Named> tests,
               std::span<const char* const> patterns);

}  // namespace guest

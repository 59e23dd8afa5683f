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

// Runs the tests whose names match one of the patterns, or all without patterns; prints "ok
// PREFIX/NAME" or "not ok PREFIX/NAME - why" for each. Returns true if all passed. A test that
// hangs gets a "not ok" line too, and ends the program.
bool run_named(const std::string& prefix, std::span<const Named> tests,
               std::span<const char* const> patterns);

}  // namespace guest

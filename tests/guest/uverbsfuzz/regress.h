// SPDX-License-Identifier: GPL-2.0-or-later
// Calls that once corrupted the kernel, or that must not reach the driver.
#pragma once

#include <string>
#include <vector>

namespace guest::uverbsfuzz {

struct Regression {
  const char* name;
  // Returns an empty string, or what is wrong.
  std::string (*run)(const std::string& device);
};

const std::vector<Regression>& regressions();

}  // namespace guest::uverbsfuzz

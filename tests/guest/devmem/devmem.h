// SPDX-License-Identifier: GPL-2.0-or-later
// The tests of the program devmem, by subject.
#pragma once

#include <cstdint>
#include <vector>

#include "pair.h"
#include "program.h"
#include "space.h"

namespace guest {

struct Scene {
  const Device& dev;
  std::uint64_t size;      // max_dm_size
  std::uint64_t expected;  // the size configured for the device; 0: unknown
};

// Pages and gaps of allocations, which only the device's counts show.
std::vector<Test> api_tests(const Scene& env);
// A device with neither windows nor device memory.
std::vector<Test> bare_tests(const Scene& env);

}  // namespace guest

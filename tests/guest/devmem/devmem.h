// SPDX-License-Identifier: GPL-2.0-or-later
// The tests of the program devmem, by subject.
#pragma once

#include <cstdint>
#include <vector>

#include "dm_far.h"
#include "runner.h"

namespace guest {

struct Env {
  const Device& dev;
  Wire* wire;              // nullptr if the device has no device memory
  std::uint64_t size;      // max_dm_size
  std::uint64_t expected;  // the size configured for the device; 0: unknown
  bool across;             // the far end is on another machine
};

// Allocations and regions of one process.
std::vector<Named> api_tests(const Env& env);
// Requests of every type from, to and between both kinds of memory.
std::vector<Named> data_tests(const Env& env);
// Bounds of regions, and ordering between CPU and device accesses.
std::vector<Named> bounds_tests(const Env& env);
// A device with neither windows nor device memory.
std::vector<Named> bare_tests(const Env& env);

}  // namespace guest

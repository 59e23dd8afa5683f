// SPDX-License-Identifier: GPL-2.0-or-later
// The tests of the program devmem, by subject.
#pragma once

#include <cstdint>
#include <vector>

#include "pair.h"
#include "program.h"

namespace guest {

// An end with as much device memory as host memory.
struct Both {
  ibv_qp_type type = IBV_QPT_RC;
  std::uint32_t length = 64 * 1024;
  int access = kAllAccess;
  Part part{};

  [[nodiscard]] EndSpec spec() const {
    return {
        .type = type, .memory = length, .device_memory = length, .access = access, .part = part};
  }
};
inline PairOptions both(const Both& here) { return alike(here.spec()); }
inline PairOptions both(const Both& here, const Both& there) {
  PairOptions options = alike(there.spec());
  options.local = here.spec();
  return options;
}

struct Scene {
  const Device& dev;
  Link* link;              // nullptr if the device has no device memory
  std::uint64_t size;      // max_dm_size
  std::uint64_t expected;  // the size configured for the device; 0: unknown
  bool across;             // the far end is on another machine
};

// Allocations and regions of one process.
std::vector<Test> api_tests(const Scene& env);
// Requests of every type from, to and between both kinds of memory.
std::vector<Test> data_tests(const Scene& env);
// Bounds of regions, and ordering between CPU and device accesses.
std::vector<Test> bounds_tests(const Scene& env);
// A device with neither windows nor device memory.
std::vector<Test> bare_tests(const Scene& env);

}  // namespace guest

// SPDX-License-Identifier: GPL-2.0-or-later
// The rules of device memory, by subject.
#pragma once

#include <cstdint>

#include "rule.h"

namespace guest::device_memory {

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

// Allocations, copies by the CPU, and what is refused.
Rules alloc();
// Requests of every type from, to and between both kinds of memory.
Rules data();
// Bounds of regions, and the order of accesses by CPU and device.
Rules bounds();
Rules all();

}  // namespace guest::device_memory

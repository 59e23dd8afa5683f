// SPDX-License-Identifier: GPL-2.0-or-later
// Memory windows: a second key to a part of a region, given and taken back by work requests.
#pragma once

#include <cstdint>

#include "core/types.h"
#include "tern_hw.hpp"

namespace tern {

// What a window has besides an address range and rights, which are in its entry (Memory::Entry) and
// undefined while it is not bound.
struct Window {
  std::uint8_t type = 1;  // 1 or 2
  bool bound = false;
  Qpn qp;                    // type 2: who bound it,
  std::uint64_t qp_generation = 0;  // and its generation
  std::uint32_t region = 0;  // index of the region's key
  std::uint64_t offset = 0;  // of the first byte in the region
};

inline constexpr std::uint32_t kWindowRights = TERN_ACCESS_LOCAL_WRITE | TERN_ACCESS_REMOTE_WRITE |
                                               TERN_ACCESS_REMOTE_READ |
                                               TERN_ACCESS_REMOTE_ATOMIC | TERN_ACCESS_ZERO_BASED;
// What a peer may do that changes bytes: the region's owner must be able to do as much.
inline constexpr std::uint32_t kRemoteChange = TERN_ACCESS_REMOTE_WRITE | TERN_ACCESS_REMOTE_ATOMIC;

}  // namespace tern

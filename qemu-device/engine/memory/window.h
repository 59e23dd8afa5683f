// SPDX-License-Identifier: GPL-2.0-or-later
// Memory windows: a second key to a part of a region, bound and invalidated by work requests.
#pragma once

#include <cstdint>

#include "core/types.h"
#include "tern_hw.hpp"

namespace tern {

struct Window {
  std::uint32_t key = 0;
  Pdn pd;
  std::uint8_t type = 1;  // 1 or 2
  bool bound = false;     // the members below are undefined unless it is
  std::uint32_t access = 0;
  std::uint64_t iova = 0;
  std::uint64_t length = 0;
  std::uint32_t region = 0;         // index of the region's key
  std::uint64_t offset = 0;         // of the first byte in the region
  Qpn qp;                           // type 2: the QP that bound it,
  std::uint64_t qp_generation = 0;  // and its generation
};

inline constexpr std::uint32_t kWindowRights = TERN_ACCESS_LOCAL_WRITE | TERN_ACCESS_REMOTE_WRITE |
                                               TERN_ACCESS_REMOTE_READ | TERN_ACCESS_REMOTE_ATOMIC |
                                               TERN_ACCESS_ZERO_BASED;
// Rights of a peer to change bytes: the region must grant TERN_ACCESS_LOCAL_WRITE for them.
inline constexpr std::uint32_t kRemoteChange = TERN_ACCESS_REMOTE_WRITE | TERN_ACCESS_REMOTE_ATOMIC;

}  // namespace tern

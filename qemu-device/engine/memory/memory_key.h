// SPDX-License-Identifier: GPL-2.0-or-later
// What keys give access to: regions, and memory windows, which are second keys to parts of regions.
#pragma once

#include <cstdint>

#include "core/types.h"
#include "memory/page_list.h"
#include "tern_hw.hpp"

namespace tern {

// The initiator of an access: protection domain and number of its QP.
struct Accessor {
  Pdn pd;
  bool privileged = false;
  Qpn qp;
  std::uint64_t generation = 0;  // of the QP: every reset begins a new one, unique on the device
};

// An access by a key.
struct KeyRequest {
  std::uint32_t key;
  std::uint64_t addr;
  std::uint64_t length;
  std::uint32_t rights;  // TERN_ACCESS_*
};

// The members that an access reads come first: they share a cache line.
struct Region {
  [[no_unique_address]] PageList pages;
  bool open = false;
  bool fast = false;  // kind FAST: REG_MR opens it and sets its variant; invalidation closes it
  std::uint32_t key = 0;
  std::uint32_t access = 0;
  Pdn pd;
  std::uint32_t dmn = 0;  // its part of device memory; 0: it has a page list
  std::uint64_t iova = 0;
  std::uint64_t length = 0;
  std::uint64_t offset = 0;   // of the first byte, in the page list or in all device memory
  std::uint32_t windows = 0;  // number of windows bound to it
};

// Work requests bind a window to a region, and invalidate it.
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
inline constexpr std::uint32_t kRemoteRights = kRemoteChange | TERN_ACCESS_REMOTE_READ;

}  // namespace tern

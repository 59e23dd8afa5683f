// SPDX-License-Identifier: GPL-2.0-or-later
// Properties of a frame that the Ethernet function needs before it parses the frame.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "core/types.h"
#include "tern_hw.hpp"

namespace tern {

inline constexpr Mac kBroadcast = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff};

// `frame` has a whole Ethernet header.
inline Mac destination(std::span<const std::byte> frame) {
  Mac mac;
  std::memcpy(mac.data(), frame.data(), mac.size());
  return mac;
}

inline bool is_group(const Mac& mac) { return (mac[0] & 1) != 0; }

inline std::uint64_t as_number(const std::uint8_t* mac) {
  std::uint64_t number = 0;
  std::memcpy(&number, mac, sizeof(Mac));
  return number;
}

// Index of the frame's counter among TERN_ETH_CNT_TX_SIZES or TERN_ETH_CNT_RX_SIZES; `bytes`
// exclude the FCS.
inline unsigned size_class(std::size_t bytes) {
  constexpr std::size_t kFcs = 4;
  constexpr std::size_t kSmallest = 64;
  constexpr std::size_t kFull = 1518;
  const std::size_t all = bytes + kFcs;
  if (all <= kSmallest) return 0;
  if (all > kFull) return TERN_ETH_SIZES - 1;
  // Up to 127, 255, 511, 1023, and the rest.
  return static_cast<unsigned>(std::bit_width(all)) - 6;
}

}  // namespace tern

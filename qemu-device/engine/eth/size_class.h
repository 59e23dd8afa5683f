// SPDX-License-Identifier: GPL-2.0-or-later
// Counters of frames by size.
#pragma once

#include <bit>
#include <cstddef>

#include "tern_hw.hpp"

namespace tern {

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

// SPDX-License-Identifier: GPL-2.0-or-later
// The headers of a message to an SRQ with tags.
#pragma once

#include <cstdint>

#include "tern_hw.hpp"

namespace tern {

struct TagHeaders {
  tern_tm_header tm;
  tern_tm_rndv rndv;  // TERN_TMH_RNDV
};

// Converts a number in these headers, which are big-endian.
[[nodiscard]] constexpr std::uint32_t from_wire(std::uint32_t v) {
  return le(std::uint32_t{__builtin_bswap32(v)});
}
[[nodiscard]] constexpr std::uint64_t from_wire(std::uint64_t v) {
  return le(std::uint64_t{__builtin_bswap64(v)});
}

}  // namespace tern

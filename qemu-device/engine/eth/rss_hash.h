// SPDX-License-Identifier: GPL-2.0-or-later
// Receive side scaling.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "frames/headers.h"

namespace tern::eth {

struct Hash {
  std::uint32_t value = 0;
  std::uint8_t type = TERN_ETH_HASH_NONE;
};
// The Toeplitz hash with one key. Construct it once for each key: that takes about a thousand
// steps.
class Toeplitz {
 public:
  static constexpr std::size_t kMaxInput = 36;  // IPv6 addresses, and ports or an SPI

  explicit Toeplitz(std::span<const std::uint8_t, 40> key);
  // At most kMaxInput bytes.
  [[nodiscard]] std::uint32_t operator()(std::span<const std::uint8_t> input) const {
    std::uint32_t hash = 0;
    for (std::size_t i = 0; i < input.size(); ++i)
      hash ^= table_[2 * i][input[i] >> 4] ^ table_[2 * i + 1][input[i] & 0xf];
    return hash;
  }

 private:
  // The contribution of each half of each input byte.
  std::array<std::array<std::uint32_t, 16>, 2 * kMaxInput> table_;
};

// `fields`: TERN_RSS_FIELD_* by TERN_RSS_*. The input of the Toeplitz hash is, as far as selected:
// source address, destination address, source port, destination port, SPI. `func`: TERN_RSS_FUNC_*.
[[nodiscard]] Hash rss_hash(const frames::Level& level, std::uint8_t func,
                            std::span<const std::uint8_t, 8> fields, const Toeplitz& toeplitz);
// The same without a prepared key; slow.
[[nodiscard]] Hash rss_hash(const frames::Level& level, std::uint8_t func,
                            std::span<const std::uint8_t, 8> fields,
                            std::span<const std::uint8_t, 40> key);

}  // namespace tern::eth

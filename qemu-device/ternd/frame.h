// SPDX-License-Identifier: GPL-2.0-or-later
// Fields of an Ethernet frame.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace tern::daemon {

inline constexpr std::size_t kMacs = 12;  // bytes of both addresses
inline constexpr std::size_t kTag = 4;    // of a VLAN tag
inline constexpr std::uint16_t kVlanTpid = 0x8100;

// In network byte order.
inline std::uint16_t get16(std::span<const std::byte> from, std::size_t at) {
  return static_cast<std::uint16_t>(std::to_integer<unsigned>(from[at]) << 8 |
                                    std::to_integer<unsigned>(from[at + 1]));
}

inline void put16(std::span<std::byte> to, std::size_t at, std::uint16_t value) {
  to[at] = static_cast<std::byte>(value >> 8);
  to[at + 1] = static_cast<std::byte>(value);
}

}  // namespace tern::daemon

// SPDX-License-Identifier: GPL-2.0-or-later
// Offsets of header fields, in bytes, and TCP flags that more than one file uses.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tern::eth {

inline constexpr std::size_t kIpv4Length = 2;
inline constexpr std::size_t kIpv4Id = 4;
inline constexpr std::size_t kIpv6Length = 4;
inline constexpr std::size_t kIpv6Header = 40;
inline constexpr std::size_t kTcpSequence = 4;
inline constexpr std::size_t kTcpFlags = 13;
inline constexpr std::size_t kTcpChecksum = 16;

inline constexpr std::uint8_t kFinPsh = 0x09;

}  // namespace tern::eth

// SPDX-License-Identifier: GPL-2.0-or-later
// Bits of the BTH (IBTA 9.2) and sizes, for those who read and write frames.
#pragma once

#include <cstddef>
#include <cstdint>

#include "wire/packet.h"

namespace tern {

inline constexpr std::size_t kIcrc = 4;

inline constexpr std::uint8_t kBthSolicited = 0x80;  // byte 1
inline constexpr std::uint8_t kBthMigReq = 0x40;
inline constexpr std::uint8_t kBthFecn = 0x80;  // byte 4
inline constexpr std::uint8_t kBthBecn = 0x40;
inline constexpr std::uint8_t kBthAckReq = 0x80;  // byte 8

inline Transport class_of(std::uint8_t opcode) {
  return Transport{static_cast<std::uint8_t>(opcode & 0xe0)};
}
inline Op op_of(std::uint8_t opcode) { return Op{static_cast<std::uint8_t>(opcode & 0x1f)}; }

// Bytes of padding after a payload.
inline std::size_t pad_of(std::uint64_t payload) { return static_cast<std::size_t>(-payload & 3); }

}  // namespace tern

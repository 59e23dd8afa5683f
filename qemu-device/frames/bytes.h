// SPDX-License-Identifier: GPL-2.0-or-later
// Numbers in network byte order at any offset of a frame. The caller has checked the bounds.
#pragma once

#include <bit>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace tern::frames {

inline std::uint8_t get8(std::span<const std::byte> from, std::size_t at) {
  assert(at < from.size());
  return std::to_integer<std::uint8_t>(from[at]);
}

inline std::uint16_t get16(std::span<const std::byte> from, std::size_t at) {
  assert(at + 2 <= from.size());
  std::uint16_t v;
  std::memcpy(&v, from.data() + at, sizeof(v));
  return std::endian::native == std::endian::little ? __builtin_bswap16(v) : v;
}

inline std::uint32_t get32(std::span<const std::byte> from, std::size_t at) {
  assert(at + 4 <= from.size());
  std::uint32_t v;
  std::memcpy(&v, from.data() + at, sizeof(v));
  return std::endian::native == std::endian::little ? __builtin_bswap32(v) : v;
}

inline std::uint64_t get48(std::span<const std::byte> from, std::size_t at) {
  return std::uint64_t{get16(from, at)} << 32 | get32(from, at + 2);
}

inline void put16(std::span<std::byte> to, std::size_t at, std::uint16_t v) {
  assert(at + 2 <= to.size());
  if constexpr (std::endian::native == std::endian::little) v = __builtin_bswap16(v);
  std::memcpy(to.data() + at, &v, sizeof(v));
}

inline void put32(std::span<std::byte> to, std::size_t at, std::uint32_t v) {
  assert(at + 4 <= to.size());
  if constexpr (std::endian::native == std::endian::little) v = __builtin_bswap32(v);
  std::memcpy(to.data() + at, &v, sizeof(v));
}

}  // namespace tern::frames

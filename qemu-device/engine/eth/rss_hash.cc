// SPDX-License-Identifier: GPL-2.0-or-later
#include "eth/rss_hash.h"

#include <cstring>
#include <utility>

namespace tern::eth {

Toeplitz::Toeplitz(std::span<const std::uint8_t, 40> key) {
  // The 32 bits of the key from bit `at` on.
  const auto window = [&](std::size_t at) {
    std::uint64_t bits = 0;
    for (std::size_t i = 0; i < 5; ++i)
      bits = bits << 8 | (at / 8 + i < key.size() ? key[at / 8 + i] : 0U);
    return static_cast<std::uint32_t>(bits >> (8 - at % 8));
  };
  for (std::size_t half = 0; half < table_.size(); ++half) {
    for (std::size_t value = 0; value < 16; ++value) {
      std::uint32_t hash = 0;
      for (std::size_t bit = 0; bit < 4; ++bit) {
        if ((value >> (3 - bit) & 1) != 0) hash ^= window(4 * half + bit);
      }
      table_[half][value] = hash;
    }
  }
}

namespace {

constexpr std::uint8_t kAddressFields = TERN_RSS_FIELD_SRC_IP | TERN_RSS_FIELD_DST_IP;
constexpr std::uint8_t kEspFields = kAddressFields | TERN_RSS_FIELD_SPI;

}  // namespace

Hash rss_hash(const frames::Level& level, std::uint8_t func,
              std::span<const std::uint8_t, 8> fields, const Toeplitz& toeplitz) {
  if (!level.ip()) return {};
  const bool v4 = level.ipv4();
  std::size_t kind = v4 ? TERN_RSS_IPV4 : TERN_RSS_IPV6;
  if (level.tcp()) kind = v4 ? TERN_RSS_TCP4 : TERN_RSS_TCP6;
  if (level.udp()) kind = v4 ? TERN_RSS_UDP4 : TERN_RSS_UDP6;
  const std::size_t esp = v4 ? TERN_RSS_ESP4 : TERN_RSS_ESP6;
  if (level.esp() && fields[esp] != 0) kind = esp;
  std::uint8_t selected = fields[kind];
  if (!level.tcp() && !level.udp()) selected &= kind == esp ? kEspFields : kAddressFields;
  if (selected == 0) return {};

  std::array<std::uint8_t, Toeplitz::kMaxInput> input;
  std::size_t size = 0;
  const auto append = [&](const void* source, const void* destination, std::size_t length,
                          unsigned select) {
    std::array<std::uint8_t, 16> a;
    std::array<std::uint8_t, 16> b;
    std::memcpy(a.data(), source, length);
    std::memcpy(b.data(), destination, length);
    if (func == TERN_RSS_FUNC_SYMMETRIC) {
      for (std::size_t i = 0; i < length; ++i) a[i] = b[i] = a[i] ^ b[i];
    }
    if ((select & 1) != 0)
      std::memcpy(input.data() + std::exchange(size, size + length), a.data(), length);
    if ((select & 2) != 0)
      std::memcpy(input.data() + std::exchange(size, size + length), b.data(), length);
  };
  const tern_flow_fields& f = level.fields;
  static_assert(TERN_RSS_FIELD_DST_IP == 2 * TERN_RSS_FIELD_SRC_IP &&
                TERN_RSS_FIELD_DST_PORT == 2 * TERN_RSS_FIELD_SRC_PORT);
  append(f.src_ip, f.dst_ip, v4 ? 4 : 16, selected / TERN_RSS_FIELD_SRC_IP);
  append(&f.src_port, &f.dst_port, sizeof(f.src_port), selected / TERN_RSS_FIELD_SRC_PORT);
  if (kind == esp && (selected & TERN_RSS_FIELD_SPI) != 0) {
    std::memcpy(input.data() + std::exchange(size, size + sizeof(f.spi)), &f.spi, sizeof(f.spi));
  }
  const bool l4 = (selected & ~kAddressFields) != 0;
  return {toeplitz(std::span(input).first(size)),
          static_cast<std::uint8_t>(l4 ? TERN_ETH_HASH_L4 : TERN_ETH_HASH_L3)};
}

Hash rss_hash(const frames::Level& level, std::uint8_t func,
              std::span<const std::uint8_t, 8> fields, std::span<const std::uint8_t, 40> key) {
  return rss_hash(level, func, fields, Toeplitz(key));
}

}  // namespace tern::eth

// SPDX-License-Identifier: GPL-2.0-or-later
// Frames with TCP or UDP for tests, built and verified byte by byte without the engine's code.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <vector>

#include "core/types.h"

namespace tern {

struct FrameSpec {
  Mac dst{};
  Mac src{0x52, 0x54, 0, 9, 9, 9};
  bool ipv6 = false;
  bool udp = false;
  std::optional<std::uint16_t> vlan{};  // tag control information
  std::uint8_t src_host = 1;            // last byte of the addresses
  std::uint8_t dst_host = 2;
  std::uint16_t src_port = 1000;
  std::uint16_t dst_port = 2000;
  std::uint32_t sequence = 0x1000;
  std::uint8_t tcp_flags = 0x10;
  std::size_t payload = 100;
  unsigned seed = 1;

  [[nodiscard]] std::size_t l3() const { return vlan ? 18 : 14; }
  [[nodiscard]] std::size_t l4() const { return l3() + (ipv6 ? 40 : 20); }
  [[nodiscard]] std::size_t headers() const { return l4() + (udp ? 8 : 20); }
};

using Bytes = std::vector<std::byte>;

inline void put_be16(Bytes& f, std::size_t at, std::size_t value) {
  f[at] = static_cast<std::byte>(value >> 8);
  f[at + 1] = static_cast<std::byte>(value);
}
inline std::uint32_t get_be16(std::span<const std::byte> f, std::size_t at) {
  return std::to_integer<std::uint32_t>(f[at]) << 8 | std::to_integer<std::uint32_t>(f[at + 1]);
}
inline std::uint32_t get_be32(std::span<const std::byte> f, std::size_t at) {
  return get_be16(f, at) << 16 | get_be16(f, at + 2);
}

// RFC 1071, a byte at a time, on top of `sum`.
inline std::uint32_t plain_sum(std::span<const std::byte> bytes, std::uint32_t sum = 0) {
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    sum += std::to_integer<std::uint32_t>(bytes[i]) << (i % 2 == 0 ? 8 : 0);
    sum = (sum & 0xffff) + (sum >> 16);
  }
  return sum;
}

// The sum of the pseudo header.
inline std::uint32_t pseudo_sum(std::span<const std::byte> f, const FrameSpec& s,
                                std::size_t l4_length) {
  const auto addresses = s.ipv6 ? f.subspan(s.l3() + 8, 32) : f.subspan(s.l3() + 12, 8);
  std::uint32_t sum =
      plain_sum(addresses, (s.udp ? 17U : 6U) + static_cast<std::uint32_t>(l4_length));
  while (sum >> 16) sum = (sum & 0xffff) + (sum >> 16);
  return sum;
}

// The bytes of a frame's payload: what a receiver must find.
inline std::byte payload_byte(unsigned seed, std::size_t i) {
  return static_cast<std::byte>((i * 7 + i / 251 + 1) * seed);
}

enum class Sums {
  kNone,
  kPseudo,
  kFull
};  // checksum of TCP or UDP: 0, for TERN_ETH_OP_CSUM, right

inline Bytes make_frame(const FrameSpec& s, Sums sums = Sums::kFull) {
  Bytes f(s.headers() + s.payload);
  std::memcpy(f.data(), s.dst.data(), 6);
  std::memcpy(f.data() + 6, s.src.data(), 6);
  if (s.vlan) {
    put_be16(f, 12, 0x8100);
    put_be16(f, 14, *s.vlan);
  }
  put_be16(f, s.l3() - 2, s.ipv6 ? 0x86dd : 0x0800);
  const std::size_t l4_length = f.size() - s.l4();
  if (s.ipv6) {
    f[s.l3()] = std::byte{0x60};
    put_be16(f, s.l3() + 4, l4_length & 0xffff);
    f[s.l3() + 6] = s.udp ? std::byte{17} : std::byte{6};
    f[s.l3() + 7] = std::byte{64};
    f[s.l3() + 8] = f[s.l3() + 24] = std::byte{0xfd};
    f[s.l3() + 23] = std::byte{s.src_host};
    f[s.l3() + 39] = std::byte{s.dst_host};
  } else {
    f[s.l3()] = std::byte{0x45};
    put_be16(f, s.l3() + 2, (20 + l4_length) & 0xffff);
    put_be16(f, s.l3() + 4, 0x77f0);
    f[s.l3() + 8] = std::byte{64};
    f[s.l3() + 9] = s.udp ? std::byte{17} : std::byte{6};
    f[s.l3() + 12] = f[s.l3() + 16] = std::byte{10};
    f[s.l3() + 15] = std::byte{s.src_host};
    f[s.l3() + 19] = std::byte{s.dst_host};
    put_be16(f, s.l3() + 10, 0xffff - plain_sum(std::span(f).subspan(s.l3(), 20)));
  }
  put_be16(f, s.l4(), s.src_port);
  put_be16(f, s.l4() + 2, s.dst_port);
  if (s.udp) {
    put_be16(f, s.l4() + 4, l4_length & 0xffff);
  } else {
    put_be16(f, s.l4() + 4, s.sequence >> 16);
    put_be16(f, s.l4() + 6, s.sequence & 0xffff);
    f[s.l4() + 12] = std::byte{0x50};
    f[s.l4() + 13] = std::byte{s.tcp_flags};
  }
  for (std::size_t i = 0; i < s.payload; ++i) f[s.headers() + i] = payload_byte(s.seed, i);
  const std::size_t at = s.l4() + (s.udp ? 6 : 16);
  if (sums == Sums::kPseudo) put_be16(f, at, pseudo_sum(f, s, l4_length));
  if (sums == Sums::kFull)
    put_be16(f, at, 0xffff - plain_sum(std::span(f).subspan(s.l4()), pseudo_sum(f, s, l4_length)));
  return f;
}

// Whether both checksums of a frame that `s` describes, but for lengths and payload, are right.
inline bool sums_right(std::span<const std::byte> f, const FrameSpec& s) {
  const std::size_t end =
      s.ipv6 ? s.l4() + get_be16(f, s.l3() + 4) : s.l3() + get_be16(f, s.l3() + 2);
  if (end > f.size() || end < s.headers()) return false;
  if (!s.ipv6 && plain_sum(f.subspan(s.l3(), 20)) != 0xffff) return false;
  return plain_sum(f.subspan(s.l4(), end - s.l4()), pseudo_sum(f, s, end - s.l4())) == 0xffff;
}

}  // namespace tern

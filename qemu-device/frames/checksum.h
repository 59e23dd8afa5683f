// SPDX-License-Identifier: GPL-2.0-or-later
// Checksums of IPv4, TCP and UDP (RFC 1071).
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "frames/headers.h"
#include "frames/layout.h"

namespace tern::frames {

// Returns the ones' complement sum (RFC 1071) of `bytes` as big-endian words plus `sum`, folded to
// 16 bits. The result is a number: convert it to network byte order before storing it.
[[nodiscard]] std::uint16_t ones_sum(std::span<const std::byte> bytes, std::uint16_t sum = 0);

// Folds the sum of words of 16 or 32 bits to 16 bits (RFC 1071).
[[nodiscard]] constexpr std::uint16_t fold(std::uint64_t sum) {
  sum = (sum & 0xffffffff) + (sum >> 32);
  sum = (sum & 0xffff) + (sum >> 16 & 0xffff) + (sum >> 32);
  sum = (sum & 0xffff) + (sum >> 16);
  sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<std::uint16_t>(sum);
}

// Complement of the sum of an IPv4 header without options; 0 if its checksum field is correct.
// Inline, for the packet path.
[[nodiscard]] inline std::uint16_t ipv4_checksum(std::span<const std::byte, kIpv4> header) {
  std::array<std::uint32_t, kIpv4 / 4> words;
  std::memcpy(words.data(), header.data(), kIpv4);
  std::uint64_t sum = 0;
  for (const std::uint32_t word : words) sum += word;
  // The byte order of the words matters only at the end (RFC 1071, 2 B).
  const auto result = static_cast<std::uint16_t>(~fold(sum));
  return std::endian::native == std::endian::little ? __builtin_bswap16(result) : result;
}

// Whether a checksum of 0 becomes 0xffff, which means the same sum. In UDP, 0 means no checksum.
enum class Zero : std::uint8_t { kReplaced, kKept };
// TERN_ETH_OP_CSUM; by default with 0 replaced, as in Linux. Returns false if the offsets do not
// lie in the frame.
[[nodiscard]] bool complete_checksum(std::span<std::byte> frame, std::size_t start,
                                     std::size_t offset, Zero zero = Zero::kReplaced);
// TERN_ETH_OP_IP_CSUM: fills in the checksums of the outer IPv4 header and of TCP or UDP. A UDP
// checksum of 0 becomes 0xffff.
void fill_checksums(std::span<std::byte> frame, const Level& level);
// For TCP over IPv4 or IPv6 with `length` bytes of TCP: fills in the checksum of an IPv4 header,
// and the sum of the pseudo header as the TCP checksum. `headers`: the frame's bytes before the
// payload, or more.
void fill_pseudo_checksum(std::span<std::byte> headers, const Level& level, std::size_t length);

// The parts of fill_checksums(): the checksum of an IPv4 header, and that of `length` bytes of TCP
// or UDP.
void fill_ipv4_checksum(std::span<std::byte> frame, const Level& level);
void fill_transport_checksum(std::span<std::byte> frame, const Level& level, std::size_t length);

// Checksum results for the receiver of a frame (TERN_CQE_F_L3_OK, L4_OK). A UDP datagram over IPv4
// without a checksum is neither ok nor wrong, nor is a packet that is cut.
struct Checked {
  bool l3_ok = false;
  bool l4_ok = false;
  bool wrong = false;  // a checksum is there and is wrong
};
[[nodiscard]] Checked check(std::span<const std::byte> frame, const Level& level);

}  // namespace tern::frames

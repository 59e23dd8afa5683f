// SPDX-License-Identifier: GPL-2.0-or-later
#include "frames/checksum.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "frames/bytes.h"
#include "frames/layout.h"

namespace tern::frames {

namespace {

template <class T>
std::uint64_t load(const std::byte* at) {
  T word;
  std::memcpy(&word, at, sizeof(word));
  return word;
}

// Sums a multiple of 32 bytes as 32-bit words, two 64-bit words at a time. Each half is summed in
// 64 bits, which hold the carries of 2^32 words.
std::uint64_t wide_sum(const std::byte* at, const std::byte* end) {
  using Pair [[gnu::vector_size(16)]] = std::uint64_t;
  constexpr Pair kLow = {0xffffffff, 0xffffffff};
  Pair low1{};
  Pair low2{};
  Pair high1{};
  Pair high2{};
  for (; at != end; at += 32) {
    Pair a;
    Pair b;
    std::memcpy(&a, at, sizeof(a));
    std::memcpy(&b, at + sizeof(a), sizeof(b));
    low1 += a & kLow;
    high1 += a >> 32;
    low2 += b & kLow;
    high2 += b >> 32;
  }
  const Pair total = low1 + low2 + high1 + high2;
  return total[0] + total[1];
}

// Sums the bytes as words of this machine's byte order, without folding. The byte order matters
// only at the end (RFC 1071, 2 B).
std::uint64_t native_sum(std::span<const std::byte> bytes) {
  constexpr std::size_t kWide = 32;
  const std::byte* at = bytes.data();
  std::size_t left = bytes.size();
  std::uint64_t sum = 0;
  if (const std::size_t wide = left & ~(kWide - 1); wide != 0) {
    sum = wide_sum(at, at + wide);
    at += wide;
    left -= wide;
  }
  for (; left >= 4; left -= 4, at += 4) sum += load<std::uint32_t>(at);
  if (left != 0) {
    std::uint32_t rest = 0;
    std::memcpy(&rest, at, left);
    sum += rest;
  }
  return sum;
}

// Offset of the TCP or UDP checksum in its header.
std::size_t checksum_offset(const Level& level) {
  return level.tcp() ? kTcpChecksum : kUdpChecksum;
}

// Bounds UDP's own length again: the frame may have changed since it was parsed.
std::size_t transport_length(std::span<const std::byte> frame, const Level& level) {
  const std::size_t most = level.end - level.l4;
  return level.tcp() ? most : std::min<std::size_t>(most, get16(frame, level.l4 + kUdpLength));
}

std::uint16_t pseudo_sum(std::span<const std::byte> frame, const Level& level, std::size_t length) {
  const auto addresses = level.ipv4() ? frame.subspan(level.l3 + kIpv4Addresses, 8)
                                      : frame.subspan(level.l3 + kIpv6Addresses, 32);
  return fold(std::uint64_t{ones_sum(addresses)} + (level.tcp() ? kTcpProtocol : kUdpProtocol) +
              length);
}

// The sum of the pseudo header and of `length` bytes of TCP or UDP.
std::uint16_t transport_sum(std::span<const std::byte> frame, const Level& level,
                            std::size_t length) {
  return ones_sum(frame.subspan(level.l4, length), pseudo_sum(frame, level, length));
}

}  // namespace

std::uint16_t ones_sum(std::span<const std::byte> bytes, std::uint16_t sum) {
  std::uint16_t folded = fold(native_sum(bytes));
  if constexpr (std::endian::native == std::endian::little) folded = __builtin_bswap16(folded);
  return fold(std::uint64_t{folded} + sum);
}

bool complete_checksum(std::span<std::byte> frame, std::size_t start, std::size_t offset,
                       Zero zero) {
  if (start > frame.size() || offset > frame.size() - start || frame.size() - start - offset < 2)
    return false;
  const auto value = static_cast<std::uint16_t>(~ones_sum(frame.subspan(start)));
  put16(frame, start + offset,
        value == 0 && zero == Zero::kReplaced ? std::uint16_t{0xffff} : value);
  return true;
}

void fill_ipv4_checksum(std::span<std::byte> frame, const Level& level) {
  put16(frame, level.l3 + kIpv4Checksum, 0);
  const std::uint16_t sum = ones_sum(frame.subspan(level.l3, level.l4 - level.l3));
  put16(frame, level.l3 + kIpv4Checksum, static_cast<std::uint16_t>(~sum));
}

void fill_transport_checksum(std::span<std::byte> frame, const Level& level, std::size_t length) {
  const std::size_t at = level.l4 + checksum_offset(level);
  put16(frame, at, 0);
  const auto value = static_cast<std::uint16_t>(~transport_sum(frame, level, length));
  put16(frame, at, value == 0 && level.udp() ? std::uint16_t{0xffff} : value);
}

void fill_checksums(std::span<std::byte> frame, const Level& level) {
  if (level.ipv4()) fill_ipv4_checksum(frame, level);
  if (level.tcp() || level.udp())
    fill_transport_checksum(frame, level, transport_length(frame, level));
}

void fill_pseudo_checksum(std::span<std::byte> headers, const Level& level, std::size_t length) {
  if (level.ipv4()) fill_ipv4_checksum(headers, level);
  put16(headers, level.l4 + kTcpChecksum, pseudo_sum(headers, level, length));
}

Checked check(std::span<const std::byte> frame, const Level& level) {
  Checked checked;
  if (!level.ip()) return checked;
  checked.l3_ok = !level.ipv4() || ones_sum(frame.subspan(level.l3, level.l4 - level.l3)) == 0xffff;
  checked.wrong = !checked.l3_ok;
  if ((!level.tcp() && !level.udp()) || level.cut) return checked;
  // A UDP checksum of 0 means none.
  if (level.udp() && get16(frame, level.l4 + kUdpChecksum) == 0) return checked;
  checked.l4_ok = transport_sum(frame, level, transport_length(frame, level)) == 0xffff;
  checked.wrong |= !checked.l4_ok;
  return checked;
}

}  // namespace tern::frames

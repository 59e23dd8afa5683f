// SPDX-License-Identifier: GPL-2.0-or-later
#include "eth/offload.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstring>
#include <utility>

#include "eth/bytes.h"
#include "eth/offsets.h"

namespace tern::eth {

namespace {

constexpr std::size_t kIpv4Checksum = 10;
constexpr std::size_t kIpv4Addresses = 12;
constexpr std::size_t kIpv6Addresses = 8;
constexpr std::size_t kUdpLength = 4;
constexpr std::size_t kUdpChecksum = 6;
constexpr unsigned kTcpProtocol = 6;
constexpr unsigned kUdpProtocol = 17;
constexpr std::uint8_t kCwr = 0x80;

constexpr std::uint16_t fold(std::uint64_t sum) {
  sum = (sum & 0xffffffff) + (sum >> 32);
  sum = (sum & 0xffff) + (sum >> 16 & 0xffff) + (sum >> 32);
  sum = (sum & 0xffff) + (sum >> 16);
  sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<std::uint16_t>(sum);
}

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

void fill_ipv4(std::span<std::byte> frame, const Level& level) {
  put16(frame, level.l3 + kIpv4Checksum, 0);
  const std::uint16_t sum = ones_sum(frame.subspan(level.l3, level.l4 - level.l3));
  put16(frame, level.l3 + kIpv4Checksum, static_cast<std::uint16_t>(~sum));
}

void fill_transport(std::span<std::byte> frame, const Level& level, std::size_t length) {
  const std::size_t at = level.l4 + checksum_offset(level);
  put16(frame, at, 0);
  const auto value = static_cast<std::uint16_t>(~transport_sum(frame, level, length));
  put16(frame, at, value == 0 && level.udp() ? std::uint16_t{0xffff} : value);
}

}  // namespace

std::uint16_t ones_sum(std::span<const std::byte> bytes, std::uint16_t sum) {
  std::uint16_t folded = fold(native_sum(bytes));
  if constexpr (std::endian::native == std::endian::little) folded = __builtin_bswap16(folded);
  return fold(std::uint64_t{folded} + sum);
}

bool complete_checksum(std::span<std::byte> frame, std::size_t start, std::size_t offset) {
  if (start > frame.size() || offset > frame.size() - start || frame.size() - start - offset < 2)
    return false;
  const auto value = static_cast<std::uint16_t>(~ones_sum(frame.subspan(start)));
  put16(frame, start + offset, value == 0 ? std::uint16_t{0xffff} : value);
  return true;
}

void fill_checksums(std::span<std::byte> frame, const Level& level) {
  if (level.ipv4()) fill_ipv4(frame, level);
  if (level.tcp() || level.udp()) fill_transport(frame, level, transport_length(frame, level));
}

void fill_pseudo_checksum(std::span<std::byte> headers, const Level& level, std::size_t length) {
  if (level.ipv4()) fill_ipv4(headers, level);
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

std::optional<Segmenter> Segmenter::make(std::span<const std::byte> headers, std::size_t length,
                                         const tern_eth_offload& ops) {
  const std::size_t mss = le(ops.mss);
  if (headers.size() != le(ops.header_len) || headers.size() > kMaxHeaders || mss == 0) return {};
  if (length < headers.size() || length > TERN_ETH_MAX_TSO) return {};
  Segmenter s;
  s.level_ = parse_template(headers);
  const bool udp = (le(ops.ops) & TERN_ETH_OP_USO) != 0;
  if (!(udp ? s.level_.udp() : s.level_.tcp())) return {};
  if (s.level_.payload != headers.size() || s.level_.l4 != le(ops.csum_start)) return {};
  s.payload_ = length - headers.size();
  s.mss_ = mss;
  s.count_ = std::max<std::size_t>(1, (s.payload_ + mss - 1) / mss);
  if (s.count_ > kMaxSegments) return {};
  return s;
}

Segmenter::Piece Segmenter::piece(std::size_t i) const {
  assert(i < count_);
  const std::size_t offset = i * mss_;
  return {offset, std::min(mss_, payload_ - offset)};
}

void Segmenter::finish(std::size_t i, std::span<std::byte> frame) const {
  assert(i < count_ && frame.size() == level_.payload + piece(i).length);
  const std::size_t l3 = level_.l3;
  const std::size_t l4 = level_.l4;
  const std::size_t length = frame.size() - l4;
  if (level_.ipv4()) {
    put16(frame, l3 + kIpv4Length, static_cast<std::uint16_t>(frame.size() - l3));
    put16(frame, l3 + kIpv4Id, static_cast<std::uint16_t>(get16(frame, l3 + kIpv4Id) + i));
    fill_ipv4(frame, level_);
  } else {
    put16(frame, l3 + kIpv6Length, static_cast<std::uint16_t>(frame.size() - l3 - kIpv6Header));
  }
  if (level_.tcp()) {
    put32(frame, l4 + kTcpSequence,
          get32(frame, l4 + kTcpSequence) + static_cast<std::uint32_t>(i * mss_));
    std::uint8_t flags = get8(frame, l4 + kTcpFlags);
    if (i + 1 != count_) flags &= static_cast<std::uint8_t>(~kFinPsh);
    if (i != 0) flags &= static_cast<std::uint8_t>(~kCwr);
    frame[l4 + kTcpFlags] = std::byte{flags};
  } else {
    put16(frame, l4 + kUdpLength, static_cast<std::uint16_t>(length));
  }
  fill_transport(frame, level_, length);
}

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

Hash rss_hash(const Level& level, std::uint8_t func, std::span<const std::uint8_t, 8> fields,
              const Toeplitz& toeplitz) {
  if (!level.ip()) return {};
  const bool v4 = level.ipv4();
  std::size_t kind = v4 ? TERN_RSS_IPV4 : TERN_RSS_IPV6;
  if (level.tcp()) kind = v4 ? TERN_RSS_TCP4 : TERN_RSS_TCP6;
  if (level.udp()) kind = v4 ? TERN_RSS_UDP4 : TERN_RSS_UDP6;
  const std::size_t esp = v4 ? TERN_RSS_ESP4 : TERN_RSS_ESP6;
  if (level.esp && fields[esp] != 0) kind = esp;
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
    std::memcpy(input.data() + std::exchange(size, size + level.spi.size()), level.spi.data(),
                level.spi.size());
  }
  const bool l4 = (selected & ~kAddressFields) != 0;
  return {toeplitz(std::span(input).first(size)),
          static_cast<std::uint8_t>(l4 ? TERN_ETH_HASH_L4 : TERN_ETH_HASH_L3)};
}

Hash rss_hash(const Level& level, std::uint8_t func, std::span<const std::uint8_t, 8> fields,
              std::span<const std::uint8_t, 40> key) {
  return rss_hash(level, func, fields, Toeplitz(key));
}

}  // namespace tern::eth

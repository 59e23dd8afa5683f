// SPDX-License-Identifier: GPL-2.0-or-later
// Checksums, segmentation and hashes of frames in memory. Does not depend on queues.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "eth/headers.h"

namespace tern::eth {

// Returns the ones' complement sum (RFC 1071) of `bytes` as big-endian words plus `sum`, folded to
// 16 bits. The result is a number: convert it to network byte order before storing it.
[[nodiscard]] std::uint16_t ones_sum(std::span<const std::byte> bytes, std::uint16_t sum = 0);

// TERN_ETH_OP_CSUM. A result of 0 becomes 0xffff, as in Linux. Returns false if the offsets do not
// lie in the frame.
[[nodiscard]] bool complete_checksum(std::span<std::byte> frame, std::size_t start,
                                     std::size_t offset);
// TERN_ETH_OP_IP_CSUM: fills in the checksums of the outer IPv4 header and of TCP or UDP. A UDP
// checksum of 0 becomes 0xffff.
void fill_checksums(std::span<std::byte> frame, const Level& level);
// For TCP over IPv4 or IPv6 with `length` bytes of TCP: fills in the checksum of an IPv4 header,
// and the sum of the pseudo header as the TCP checksum. `headers`: the frame's bytes before the
// payload, or more.
void fill_pseudo_checksum(std::span<std::byte> headers, const Level& level, std::size_t length);

// Checksum results for the receiver of a frame (TERN_CQE_F_L3_OK, L4_OK). A UDP datagram over IPv4
// without a checksum is neither ok nor wrong, nor is a packet that is cut.
struct Checked {
  bool l3_ok = false;
  bool l4_ok = false;
  bool wrong = false;  // a checksum is there and is wrong
};
[[nodiscard]] Checked check(std::span<const std::byte> frame, const Level& level);

// The segments of a large frame (TERN_ETH_OP_TSO, TERN_ETH_OP_USO).
class Segmenter {
 public:
  // Limits of the work that one frame can cause.
  static constexpr std::size_t kMaxHeaders = 256;
  static constexpr std::size_t kMaxSegments =
      8192;  // 64 KiB in segments of 8 bytes, the smallest of Linux

  // `headers`: the first header_len bytes. `length`: bytes of the whole frame. Returns nothing if
  // they are not the headers of TCP (of UDP with TERN_ETH_OP_USO) over IPv4 or IPv6 and nothing
  // else, if mss is 0, if csum_start is not where TCP or UDP starts, or if a limit is exceeded. The
  // lengths in the headers do not matter. A frame without payload is one segment.
  [[nodiscard]] static std::optional<Segmenter> make(std::span<const std::byte> headers,
                                                     std::size_t length,
                                                     const tern_eth_offload& ops);

  [[nodiscard]] std::size_t count() const { return count_; }
  // Payload bytes of segment `i`: [offset, offset + length) of the frame's bytes after the headers.
  struct Piece {
    std::size_t offset;
    std::size_t length;
  };
  [[nodiscard]] Piece piece(std::size_t i) const;
  // Completes segment `i`, whose headers and payload are in `frame`: lengths, identification,
  // sequence number, flags and checksums. Like Linux in software: FIN and PSH only in the last
  // segment, CWR only in the first.
  void finish(std::size_t i, std::span<std::byte> frame) const;

 private:
  Segmenter() = default;
  Level level_;
  std::size_t payload_ = 0;  // bytes of all segments
  std::size_t mss_ = 0;
  std::size_t count_ = 0;
};

// Receive side scaling.
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
[[nodiscard]] Hash rss_hash(const Level& level, std::uint8_t func,
                            std::span<const std::uint8_t, 8> fields, const Toeplitz& toeplitz);
// The same without a prepared key; slow.
[[nodiscard]] Hash rss_hash(const Level& level, std::uint8_t func,
                            std::span<const std::uint8_t, 8> fields,
                            std::span<const std::uint8_t, 40> key);

}  // namespace tern::eth

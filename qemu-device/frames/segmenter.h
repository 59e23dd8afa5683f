// SPDX-License-Identifier: GPL-2.0-or-later
// Cuts a large frame into segments.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "frames/headers.h"

namespace tern::frames {

// The segments of a large frame (TERN_ETH_OP_TSO, TERN_ETH_OP_USO).
class Segmenter {
 public:
  // Limits of the work that one frame can cause.
  static constexpr std::size_t kMaxHeaders = 256;
  static constexpr std::size_t kMaxSegments =
      8192;  // 64 KiB in segments of 8 bytes, the smallest of Linux

  // Segments of `mss` bytes of payload, for headers parsed by parse_template(). Returns nothing if
  // they are not the headers of TCP or UDP over IPv4 or IPv6, if mss is 0, or if a limit is
  // exceeded. A frame without payload is one segment.
  [[nodiscard]] static std::optional<Segmenter> make(const Level& headers, std::size_t payload,
                                                     std::size_t mss);
  // The same by a descriptor. `headers`: the first header_len bytes. `length`: bytes of the whole
  // frame. Returns nothing if they are not the headers of TCP (of UDP with TERN_ETH_OP_USO) over
  // IPv4 or IPv6 and nothing else, if mss is 0, if csum_start is not where TCP or UDP starts, or if
  // a limit is exceeded. The lengths in the headers do not matter. A frame without payload is one
  // segment.
  [[nodiscard]] static std::optional<Segmenter> make(std::span<const std::byte> headers,
                                                     std::size_t length,
                                                     const tern_eth_offload& ops);

  [[nodiscard]] std::size_t count() const { return count_; }
  [[nodiscard]] std::size_t mss() const { return mss_; }
  [[nodiscard]] const Level& headers() const { return level_; }
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

}  // namespace tern::frames

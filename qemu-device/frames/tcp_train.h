// SPDX-License-Identifier: GPL-2.0-or-later
// A train of TCP segments: one frame in place of all, as devices of one host exchange them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "frames/layout.h"
#include "frames/segmenter.h"

namespace tern::frames {

// The frame has the headers of the large frame that was posted, with its length, and all payload.
// Checksums are not set.
class TcpTrain {
 public:
  // Returns nothing if the frame is not one of so many segments of `mss` bytes. The frame must
  // outlive the object.
  [[nodiscard]] static std::optional<TcpTrain> parse(std::span<const std::byte> frame,
                                                     std::uint32_t segments, std::uint32_t mss);

  // Stores the length of a large frame of at most TERN_ETH_MAX_TSO bytes in its headers.
  static void set_lengths(std::span<std::byte> frame, const Level& headers);

  [[nodiscard]] std::uint32_t packets() const {
    return static_cast<std::uint32_t>(segmenter_.count());
  }
  // Bytes of the frames of all segments.
  [[nodiscard]] std::size_t bytes() const {
    return (packets() - 1) * bytes(0) + bytes(packets() - 1);
  }
  // Bytes of the frame of segment `i`.
  [[nodiscard]] std::size_t bytes(std::uint32_t i) const {
    return std::max(kMinFrame, headers_ + segmenter_.piece(i).length);
  }
  // Writes that frame to `out`, which has bytes(i) bytes.
  void write(std::uint32_t i, std::span<std::byte> out) const;

 private:
  TcpTrain(std::span<const std::byte> frame, std::size_t headers, const Segmenter& segmenter)
      : frame_(frame), headers_(headers), segmenter_(segmenter) {}

  std::span<const std::byte> frame_;
  std::size_t headers_;  // bytes
  Segmenter segmenter_;
};

}  // namespace tern::frames

// SPDX-License-Identifier: GPL-2.0-or-later
// Frames as inputs, and copies of them that have no byte too many.
#pragma once

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <span>

#include "frames/sample_frames.h"
#include "input.h"
#include "tern_hw.hpp"

namespace tern::fuzz {

// A frame in memory of exactly its size, so that AddressSanitizer sees what is beyond.
class ExactFrame {
 public:
  explicit ExactFrame(std::span<const std::byte> bytes)
      : bytes_(std::make_unique<std::byte[]>(bytes.size())), size_(bytes.size()) {
    std::ranges::copy(bytes, bytes_.get());
  }
  [[nodiscard]] std::span<std::byte> bytes() const { return {bytes_.get(), size_}; }

 private:
  std::unique_ptr<std::byte[]> bytes_;
  std::size_t size_;
};

inline void expect(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "INVARIANT BROKEN: %s\n", what);
  std::abort();
}

// A frame: bytes of the input, or a good frame with changes. Sets offsets that fit it if the input
// wants so.
inline frames::Bytes take_frame(Input& in, tern_eth_offload& ops) {
  constexpr unsigned kRaw = 1;
  constexpr unsigned kTunnel = 2;
  constexpr unsigned kOffsets = 4;
  const unsigned mode = in.u8();
  if ((mode & kRaw) != 0) {
    const auto bytes = std::as_bytes(in.bytes(500));
    return {bytes.begin(), bytes.end()};
  }
  std::mt19937 random(in.u16());
  const frames::SampleFrame inner = frames::draw_frame(random);
  const frames::SampleFrame f =
      (mode & kTunnel) != 0 ? frames::vxlan(inner.make(), in.u8()) : inner;
  if ((mode & kOffsets) != 0) {
    ops.csum_start = le(static_cast<std::uint16_t>(f.l4()));
    ops.header_len = le(static_cast<std::uint16_t>(f.headers()));
  }
  frames::Bytes frame = f.make();
  for (unsigned n = in.pick(4); n != 0; --n) frame[in.u16() % frame.size()] = std::byte{in.u8()};
  return frame;
}

}  // namespace tern::fuzz

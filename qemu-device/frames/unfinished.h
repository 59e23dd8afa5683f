// SPDX-License-Identifier: GPL-2.0-or-later
// Finishes a packet that a network stack left to its adapter to finish: completes its checksum, or
// cuts a long TCP or UDP packet into segments (TSO, USO).
//
// Works in the packet's own memory. The headers of a segment are put directly before its payload,
// over the previous segment, so that no payload is copied.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "frames/segmenter.h"

namespace tern::frames {

// The work left to do on a packet, as described by a stack.
struct Unfinished {
  enum class Kind : std::uint8_t { kWhole, kTcp4, kTcp6, kAnyUdp };
  Kind kind = Kind::kWhole;
  // The checksum of the bytes from `checksum_start` on goes `checksum_offset` bytes after it. The
  // field has the sum of the pseudo header. Always true for packets to be segmented.
  bool checksum = false;
  std::size_t checksum_start = 0;
  std::size_t checksum_offset = 0;
  std::size_t segment = 0;  // bytes of payload in each segment but the last
};

class PacketFinisher {
 public:
  // Starts with a packet, from its Ethernet header on, which next() and this function change.
  // Returns false, and has no frame, if `what` does not fit the packet, or if a limit of Segmenter
  // is exceeded.
  bool start(std::span<std::byte> packet, const Unfinished& what);
  // The current frame, valid until next() or start(). Empty: there are no more.
  [[nodiscard]] std::span<const std::byte> frame() const { return frame_; }
  void next();

 private:
  std::span<const std::byte> frame_;

  // Set for a packet that is segmented.
  std::optional<Segmenter> segmenter_;
  std::span<std::byte> packet_;
  std::array<std::byte, Segmenter::kMaxHeaders> headers_{};  // as received
  std::size_t headers_size_ = 0;
  std::size_t number_ = 0;  // of the next segment
};

}  // namespace tern::frames

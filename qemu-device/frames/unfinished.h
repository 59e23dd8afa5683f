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
#include <span>

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
  // Limit of the headers of a packet to segment, in bytes.
  static constexpr std::size_t kHeadersMax = 256;
  // Segments of one packet: 64 KiB in the shortest that Linux makes, of 8 bytes (TCP_MIN_GSO_SIZE).
  static constexpr std::size_t kSegmentsMax = 8192;

  // Starts with a packet, from its Ethernet header on, which next() and this function change.
  // Returns false, and has no frame, if `what` does not fit the packet.
  bool start(std::span<std::byte> packet, const Unfinished& what);
  // The current frame, valid until next() or start(). Empty: there are no more.
  [[nodiscard]] std::span<const std::byte> frame() const { return frame_; }
  void next();

 private:
  bool parse(const Unfinished& what);
  bool parse_ip(const Unfinished& what);
  void make_segment();

  std::span<std::byte> packet_;
  std::span<const std::byte> frame_;

  // Set for a packet that is segmented.
  std::array<std::byte, kHeadersMax> headers_{};  // as received
  std::size_t headers_size_ = 0;
  std::size_t ip_ = 0;  // offset of the IP header
  std::size_t l4_ = 0;  // of the TCP or UDP header
  bool v4_ = false;
  bool tcp_ = false;
  std::size_t segment_ = 0;
  std::size_t at_ = 0;   // offset of the next segment's payload in the packet; at its end: no more
  unsigned number_ = 0;  // of the next segment
};

}  // namespace tern::frames

// SPDX-License-Identifier: GPL-2.0-or-later
// Receive coalescing (TERN_ETH_QF_COALESCE): builds the headers of a packet from several TCP
// segments. Does not depend on queues.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "frames/headers.h"

namespace tern::eth {

// A coalesced packet. Segmenting it again yields the same frames, byte by byte.
class Coalesced {
 public:
  // An Ethernet header with one tag, IPv6, TCP with all options.
  static constexpr std::size_t kMaxHeaders = 14 + 4 + 40 + 60;

  // Whether a frame with correct checksums may be one of several in a packet. It must be TCP with
  // payload and without padding, over IPv4 without options or IPv6 without extensions, with at most
  // one tag. Of the TCP flags it has ACK, and at most ECE, PSH and FIN besides.
  [[nodiscard]] static bool may_join(std::span<const std::byte> frame, const frames::Level& level);
  // Whether another frame may follow such a frame. Not after PSH or FIN: only the last segment of a
  // packet has them.
  [[nodiscard]] static bool may_lead(std::span<const std::byte> frame, const frames::Level& level);

  // Starts a packet with its first frame, for which may_join() and may_lead() hold.
  void start(std::span<const std::byte> frame, const frames::Level& level);
  // The same for a train of `segments`, for which may_join() holds: the whole packet.
  void start(std::span<const std::byte> train, const frames::Level& level, std::uint32_t segments,
             std::uint32_t mss);
  // Whether this frame, for which may_join() holds, is the next one of the packet: its headers
  // differ only in the fields that segmentation sets.
  [[nodiscard]] bool continues(std::span<const std::byte> frame, const frames::Level& level) const;
  // Adds this frame, for which continues() holds.
  void add(std::span<const std::byte> frame, const frames::Level& level);

  // Whether no frame can follow: the last frame was shorter, or had PSH or FIN.
  [[nodiscard]] bool ended() const { return ended_; }
  [[nodiscard]] std::uint32_t segments() const { return segments_; }
  // TERN_ETH_COALESCED_*; 0 for a single frame.
  [[nodiscard]] std::uint32_t describe() const;
  // Completes the headers of the whole packet and returns them.
  [[nodiscard]] std::span<const std::byte> finish();

 private:
  [[nodiscard]] bool same_network(std::span<const std::byte> frame) const;
  [[nodiscard]] bool same_transport(std::span<const std::byte> frame) const;
  [[nodiscard]] bool id_follows(std::uint16_t id) const;

  std::array<std::byte, kMaxHeaders> headers_;  // of the first frame
  std::size_t size_ = 0;
  std::size_t l3_ = 0;
  std::size_t l4_ = 0;
  bool ipv4_ = false;
  bool fixed_id_ = false;
  bool ended_ = false;
  std::uint8_t flags_ = 0;  // PSH and FIN of the last frame
  std::uint32_t segments_ = 0;
  std::uint32_t mss_ = 0;
  std::uint32_t payload_ = 0;  // bytes
};

}  // namespace tern::eth

// SPDX-License-Identifier: GPL-2.0-or-later
// Receive coalescing (TERN_ETH_QF_COALESCE): the headers of a packet that several TCP segments
// become. Nothing here knows a queue.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "eth/headers.h"

namespace tern::eth {

// A packet from whose payload and headers segmentation makes the frames again, byte by byte.
class Coalesced {
 public:
  // One tag, IPv6, TCP with all options.
  static constexpr std::size_t kMaxHeaders = 14 + 4 + 40 + 60;

  // Whether a frame, if its checksums are right, may be one of several in a packet: TCP with
  // payload and without padding, over IPv4 without options or IPv6 without extensions, with at most
  // one tag. It has ACK, and of the other flags of TCP at most ECE, PSH and FIN.
  [[nodiscard]] static bool may_join(std::span<const std::byte> frame, const Level& level);
  // Whether another frame may follow such a frame: not after PSH or FIN, which only the last
  // segment of a packet has.
  [[nodiscard]] static bool may_lead(std::span<const std::byte> frame, const Level& level);

  // The first frame of a packet, one that may join and lead.
  void start(std::span<const std::byte> frame, const Level& level);
  // Whether this frame, which may join, is the next one of the packet: its headers differ only in
  // what segmentation sets.
  [[nodiscard]] bool continues(std::span<const std::byte> frame, const Level& level) const;
  // Adds this frame, which continues the packet.
  void add(std::span<const std::byte> frame, const Level& level);

  // Whether no frame can follow: the last one was shorter, or had PSH or FIN.
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

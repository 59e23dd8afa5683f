// SPDX-License-Identifier: GPL-2.0-or-later
// RoCEv2 frames: Ethernet (VLAN) / IPv4 or IPv6 / UDP 4791 / BTH ... / ICRC.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "wire/packet.h"

namespace tern {

inline constexpr std::uint16_t kRoceUdpPort = 4791;
// Ethernet 14 + VLAN 4 + IPv6 40 + UDP 8 + BTH and extension headers (up to 40) + ICRC 4 + pad 3.
inline constexpr std::size_t kMaxFrameOverhead = 128;

// What a wrong ICRC means to a received frame.
enum class IcrcMode : std::uint8_t {
  kCheck,  // the frame is dropped
  kWarn,   // it is noted
  kOff,    // nobody looks
};

enum class ParseResult : std::uint8_t {
  kOk,
  kOkBadIcrc,  // decoded all the same: IcrcMode::kWarn
  kNotRoce,    // the Ethernet function's frame
  kMalformed,  // lengths, TVer, opcode, pad: counted and dropped
  kBadIcrc,    // counted and dropped
};

// Reads the addresses of a frame: kOk when it is UDP to port 4791 over unfragmented IP without
// options or extension headers, with `route` filled from the sender's point of view (sgid_index
// 0, local false); the caller decides whether dgid is its own. Else kNotRoce.
[[nodiscard]] ParseResult parse_route(std::span<const std::byte> frame, Route& route);

// Decodes the rest of such a frame, all of `packet` but its route; opcode and lengths are
// checked before the ICRC is computed (IBTA 9.6, A17.3). The payload refers to `frame`. Unless
// kOk or kOkBadIcrc comes back, only the payload of `packet` has changed: it is empty.
[[nodiscard]] ParseResult parse_packet(std::span<const std::byte> frame, Packet& packet,
                                       IcrcMode mode = IcrcMode::kCheck);

// Where the parts of a RoCE frame begin, as far as its lengths fit together: BTH and ICRC are
// there. The opcode may be any.
struct FrameParts {
  std::size_t ip;
  std::size_t bth;
  std::size_t icrc;
  bool ipv4;
};
[[nodiscard]] std::optional<FrameParts> find_parts(std::span<const std::byte> frame);

// Sets the mark "congestion experienced" (RFC 3168) in such a frame.
void mark_congestion(std::span<std::byte> frame, const FrameParts& at);

// Writes the frame of `packet` into `out` (its payload's size + kMaxFrameOverhead suffices)
// and returns its length, at least 60 bytes. The payload is copied once, the ICRC computed right
// after. A hop limit of 0 becomes 64.
[[nodiscard]] std::size_t serialize(const Packet& packet, std::uint16_t ip_id,
                                    std::span<std::byte> out);

// The 40 bytes a UD receive buffer starts with (IBTA A17.4.5.1): the frame's IPv6 header, or 20
// zero bytes and the IPv4 header with a valid checksum.
void make_grh(const Packet& packet, std::span<std::byte, 40> out);

// The ICRC of the IP packet in `ip` (IBTA A17.3.3; from the IP header up to, not including, the
// ICRC), as a number whose little-endian bytes go to the wire.
[[nodiscard]] std::uint32_t icrc(std::span<const std::byte> ip, bool ipv4);

}  // namespace tern

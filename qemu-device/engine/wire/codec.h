// SPDX-License-Identifier: GPL-2.0-or-later
// RoCEv2 frames: Ethernet (VLAN) / IPv4 or IPv6 / UDP 4791 / BTH ... / ICRC.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "wire/packet.h"

namespace tern {

inline constexpr std::uint16_t kRoceUdpPort = 4791;
// Ethernet 14 + VLAN 4 + IPv6 40 + UDP 8 + BTH and extension headers (up to 40) + ICRC 4 + pad 3.
inline constexpr std::size_t kMaxFrameOverhead = 128;

enum class ParseResult : std::uint8_t {
  kOk,
  kNotRoce,    // the Ethernet function's frame
  kMalformed,  // lengths, TVer, opcode, pad: counted and dropped
  kBadIcrc,    // counted and dropped
};

// Reads the addresses of a frame: kOk when it is UDP to port 4791 over unfragmented IP, with
// route.{sgid,dgid,smac,dmac,vlan,udp_sport,flow_label,traffic_class,hop_limit,ipv4} filled
// from the sender's point of view; the caller decides whether dgid is its own.
[[nodiscard]] ParseResult parse_route(std::span<const std::byte> frame, Route& route);

// Decodes the rest; opcode and lengths are checked before the ICRC is computed (IBTA 9.6,
// A17.3). The payload refers to `frame`.
[[nodiscard]] ParseResult parse_packet(std::span<const std::byte> frame, Packet& packet);

// Writes the frame of `packet` into `out` (its payload's size + kMaxFrameOverhead suffices)
// and returns its length. The payload is copied once, the ICRC computed right after.
[[nodiscard]] std::size_t serialize(const Packet& packet, std::uint16_t ip_id,
                                    std::span<std::byte> out);

// The 40 bytes a UD receive buffer starts with (IBTA A17.4.5.1): the frame's IPv6 header, or 20
// zero bytes and the IPv4 header with a valid checksum.
void make_grh(const Packet& packet, std::span<std::byte, 40> out);

// CRC of IBTA 9.7.1 over the masked headers: the ICRC of the IP packet in `ip` (from the IP
// header up to, not including, the ICRC).
[[nodiscard]] std::uint32_t icrc(std::span<const std::byte> ip, bool ipv4);

}  // namespace tern

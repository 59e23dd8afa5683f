// SPDX-License-Identifier: GPL-2.0-or-later
// RoCEv2 frames: Ethernet (VLAN) / IPv4 or IPv6 / UDP 4791 / BTH ... / ICRC.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "core/wire_frame.h"
#include "frames/ecn.h"
#include "frames/layout.h"
#include "wire/packet.h"

namespace tern {

inline constexpr std::uint16_t kRoceUdpPort = 4791;
// Ethernet 14 + VLAN 4 + IPv6 40 + UDP 8 + BTH and extension headers (up to 44) + ICRC 4 + pad 3.
inline constexpr std::size_t kMaxFrameOverhead = 128;

// Treatment of a received frame with a wrong ICRC.
enum class IcrcMode : std::uint8_t {
  kCheck,  // drops it
  kWarn,   // accepts and counts it
  kOff,    // accepts it: the ICRC is not computed
};

enum class ParseResult : std::uint8_t {
  kOk,
  kOkBadIcrc,  // decoded nevertheless: IcrcMode::kWarn
  kNotRoce,    // belongs to the Ethernet function
  kMalformed,  // bad length, TVer, opcode or pad: counted and dropped
  kBadIcrc,    // counted and dropped
};

// Where the headers of a RoCE frame are, in bytes from its beginning.
struct FrameLayout {
  std::size_t ip = frames::kEthernet;  // offset of the IP header
  std::size_t ip_header = 0;           // its length in bytes
  std::size_t ip_payload = 0;          // length by the IP header; not yet compared with the frame
  std::uint16_t tci = 0;
  bool ipv4 = false;
  [[nodiscard]] std::size_t udp() const { return ip + ip_header; }
};

// Reads the addresses of a frame. Returns kOk if it is UDP to port 4791 over unfragmented IP
// without options or extension headers, and fills `route` from the sender's point of view
// (sgid_index 0, local false); the caller decides whether dgid is its own. `at` is then the layout
// for parse_packet(). Returns kNotRoce otherwise.
[[nodiscard]] ParseResult parse_route(std::span<const std::byte> frame, Route& route,
                                      FrameLayout& at);
[[nodiscard]] inline ParseResult parse_route(std::span<const std::byte> frame, Route& route) {
  FrameLayout at;
  return parse_route(frame, route, at);
}

// Decodes the rest of such a frame: every member of `packet` except its route. Checks opcode and
// lengths before it computes the ICRC (IBTA 9.6, A17.3). The payload refers to `frame`. On any
// result other than kOk and kOkBadIcrc, `packet` keeps its members and only its payload is cleared.
// A train has no ICRC.
[[nodiscard]] ParseResult parse_packet(const WireFrame& frame, const FrameLayout& at,
                                       Packet& packet, IcrcMode mode);
// The same for a frame whose layout the caller does not have.
[[nodiscard]] ParseResult parse_packet(std::span<const std::byte> frame, Packet& packet,
                                       IcrcMode mode = IcrcMode::kCheck);

// Offsets of the parts of a RoCE frame whose lengths are consistent: BTH and ICRC are present. The
// opcode may be any value.
struct FrameParts {
  std::size_t ip;
  std::size_t bth;
  std::size_t icrc;
  bool ipv4;
};
[[nodiscard]] std::optional<FrameParts> find_parts(std::span<const std::byte> frame);

// The destination of a RoCE frame, or of a train, whose lengths may be wrong; 0 of any other frame.
[[nodiscard]] Qpn destination_of(std::span<const std::byte> frame);

inline constexpr std::size_t kBth = 12;
// The BTH fields of such a frame.
struct Bth {
  std::uint8_t opcode;
  Qpn dest_qp;
  Psn psn;
};
[[nodiscard]] Bth bth_of(std::span<const std::byte> frame, const FrameParts& at);

// Bytes of the frame of `packet`, without FCS and padding.
[[nodiscard]] std::uint32_t frame_bytes(const Packet& packet);

// Marks such a frame "congestion experienced" (RFC 3168) in its IP header.
inline void mark_congestion(std::span<std::byte> frame, const FrameParts& at) {
  frames::mark_congestion(frame, at.ip, at.ipv4);
}

// Writes the frame of `packet`, which may be a train, into `out` (the payload's size +
// kMaxFrameOverhead is enough) and returns its length, at least 60 bytes. Copies the payload once
// and computes the ICRC right after the copy, unless it is deferred. A hop limit of 0 becomes 64.
[[nodiscard]] std::size_t serialize(const Packet& packet, std::uint16_t ip_id,
                                    std::span<std::byte> out, Icrc icrc = Icrc::kPresent);
// Lengths of a train's frame whose payload is not in it.
struct HeadersOnly {
  std::size_t size;
  std::size_t offset;  // of the payload
};
// Writes such a frame to `out`, which has kMaxFrameOverhead bytes.
[[nodiscard]] HeadersOnly serialize_headers(const Packet& train, std::uint16_t ip_id,
                                            std::span<std::byte> out);

// Builds the 40 bytes before the payload in a UD receive buffer (IBTA A17.4.5.1): the frame's IPv6
// header, or 20 zero bytes and the IPv4 header with a valid checksum.
void make_grh(const Packet& packet, std::span<std::byte, 40> out);

// The ICRC of the IP packet in `ip`, which spans the IP header up to but not including the ICRC
// (IBTA A17.3.3). The number goes to the wire in little-endian byte order.
[[nodiscard]] std::uint32_t icrc(std::span<const std::byte> ip, bool ipv4);
// Writes the ICRC of a frame.
void write_icrc(std::span<std::byte> frame, const FrameParts& at);
// The same for a frame whose layout the caller does not have. Other frames stay as they are.
void write_icrc(std::span<std::byte> frame);

}  // namespace tern

// SPDX-License-Identifier: GPL-2.0-or-later
// Parses the headers of an Ethernet frame, for offloads, hashes and steering.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "tern_hw.hpp"

namespace tern::frames {

// Headers of one level: the frame's own, or those inside of a tunnel. Offsets count from the first
// byte of the frame.
struct Level {
  struct Absent {};
  Level() : fields{} {}
  explicit Level(Absent) {
  }  // no layers; fields stay unset, as setting them costs as much as the rest of parse()

  std::uint16_t layers = 0;    // TERN_LAYER_*
  tern_flow_fields fields;     // of the layers that are there; the others are 0
  std::uint32_t ethernet = 0;  // offset of the Ethernet header, or of IP inside of GRE or MPLS
  std::uint32_t l3 = 0;        // offset of the IP header
  std::uint32_t l4 = 0;        // offset of what follows the IP header and its extensions
  std::uint32_t payload = 0;   // offset of what follows the TCP or UDP header
  std::uint32_t end = 0;       // of the IP packet: padding may follow it
  bool cut =
      false;  // IP or UDP say that they are longer than the frame; the end is that of the frame
  bool routing = false;  // an IPv6 routing header, even one with no segments left
  bool fragment =
      false;  // any fragment; only the first of a packet has TCP or UDP, and it is not parsed

  [[nodiscard]] bool ip() const { return (layers & (TERN_LAYER_IPV4 | TERN_LAYER_IPV6)) != 0; }
  [[nodiscard]] bool ipv4() const { return (layers & TERN_LAYER_IPV4) != 0; }
  [[nodiscard]] bool tcp() const { return (layers & TERN_LAYER_TCP) != 0; }
  [[nodiscard]] bool udp() const { return (layers & TERN_LAYER_UDP) != 0; }
  [[nodiscard]] bool esp() const { return (layers & TERN_LAYER_ESP) != 0; }
};

struct Headers {
  Level outer;
  Level inner{Level::Absent{}};  // layers is 0, and the fields are not set, unless outer has a
                                 // tunnel: VXLAN, GRE or MPLS
  tern_flow_tunnel tunnel{};
};

// Parses as long as headers are complete and well-formed: a header that is cut short or malformed
// counts as absent, like all headers above it. As on other adapters, flows match a packet whose
// payload is cut. A frame shorter than an Ethernet header has no layer. Up to two tags of types
// 0x8100 and 0x88a8 are skipped; the outer one is in fields.vlan if its type is 0x8100. After an
// IPv6 routing header with segments left, nothing is taken for TCP or UDP: their checksums cover
// the last destination. GRE has fields and headers after its first four bytes only if its version
// is 0 and it has no routing. The headers after an MPLS stack of up to eight labels are those of
// IP, by its version: nothing tells another payload from IP.
[[nodiscard]] Headers parse(std::span<const std::byte> frame);
// Parses the outer headers of a frame whose payload is elsewhere, as if every length in them were
// that of `headers`.
[[nodiscard]] Level parse_template(std::span<const std::byte> headers);

}  // namespace tern::frames

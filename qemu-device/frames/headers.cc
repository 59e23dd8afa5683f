// SPDX-License-Identifier: GPL-2.0-or-later
#include "frames/headers.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "frames/bytes.h"
#include "frames/layout.h"

namespace tern::frames {

namespace {

constexpr unsigned kMaxTags = 2;
constexpr std::uint32_t kEsp = 8;  // SPI and sequence number
constexpr std::uint8_t kGreProtocol = 47;
constexpr std::uint32_t kGre = 4;  // without optional fields
constexpr std::uint16_t kGreChecksum = 0x8000;
constexpr std::uint16_t kGreRouting = 0x4000;
constexpr std::uint16_t kGreKey = 0x2000;
constexpr std::uint16_t kGreSequence = 0x1000;
constexpr std::uint16_t kGreVersion = 7;
constexpr std::uint16_t kBridgedType = 0x6558;  // an Ethernet frame in GRE
constexpr std::uint16_t kMplsType = 0x8847;
constexpr std::uint16_t kMplsGroupType = 0x8848;
constexpr std::uint16_t kMplsPort = 6635;
constexpr std::uint32_t kMplsLabel = 4;
constexpr std::uint32_t kMplsBottom = 0x100;
constexpr unsigned kMaxLabels = 8;  // bounds the work, like kMaxExtensions
constexpr std::uint32_t kVxlan = 8;
constexpr std::uint16_t kVxlanPort = 4789;
constexpr std::uint8_t kVxlanHasVni = 0x08;

constexpr std::uint8_t kHopByHop = 0;
constexpr std::uint8_t kRouting = 43;
constexpr std::uint8_t kFragment = 44;
constexpr std::uint8_t kDestination = 60;
// More than any sender uses. Bounds the work that one frame can cause.
constexpr unsigned kMaxExtensions = 8;

constexpr bool is_mpls(std::uint16_t type) { return type == kMplsType || type == kMplsGroupType; }

// Parses the headers of one level, in the bytes of a frame up to `end`.
class Parser {
 public:
  Parser(std::span<const std::byte> frame, std::uint32_t end, bool lengths, Level& level)
      : frame_(frame), end_(end), lengths_(lengths), level_(level) {}

  void ethernet(std::uint32_t at) {
    begin(at);
    if (end_ < at || end_ - at < kEthernet) return;
    level_.layers = TERN_LAYER_ETH;
    static_assert(offsetof(tern_flow_fields, smac) == sizeof(level_.fields.dmac));
    copy(&level_.fields, at, kAddresses);
    at += kAddresses;
    std::uint16_t type = get16(frame_, at);
    for (unsigned tag = 0; tag < kMaxTags && (type == kVlanType || type == kServiceVlanType);
         ++tag) {
      if (end_ - at < kTag + sizeof(type)) break;
      if (tag == 0 && type == kVlanType) {
        level_.layers |= TERN_LAYER_VLAN;
        copy(&level_.fields.vlan, at + 2, sizeof(level_.fields.vlan));
      }
      at += kTag;
      type = get16(frame_, at);
    }
    copy(&level_.fields.ether_type, at, sizeof(type));
    at += sizeof(type);
    level_.l3 = level_.l4 = level_.payload = at;
    if (type == kIpv4Type) {
      ipv4(at);
    } else if (type == kIpv6Type) {
      ipv6(at);
    } else if (is_mpls(type) && end_ - at >= kMplsLabel) {
      label(TERN_LAYER_MPLS, at);
    }
  }

  // Parses an IP packet of version 4 or 6 without an Ethernet header.
  void packet(std::uint32_t at) {
    begin(at);
    if (end_ - at < 1) return;
    if (get8(frame_, at) >> 4 == 4) {
      ipv4(at);
    } else {
      ipv6(at);
    }
  }

  // Sets the first label of a stack.
  void label(std::uint16_t layer, std::uint32_t at) {
    level_.layers |= layer;
    copy(&level_.fields.mpls, at, sizeof(level_.fields.mpls));
  }

 private:
  void begin(std::uint32_t at) {
    level_.ethernet = level_.l3 = level_.l4 = level_.payload = at;
    level_.end = end_;
  }

  void copy(void* to, std::uint32_t at, std::size_t size) const {
    std::memcpy(to, frame_.data() + at, size);
  }

  // The IP packet at `at` claims `length` bytes.
  void end_at(std::uint32_t at, std::uint32_t length) {
    level_.cut = length > end_ - at;
    if (!level_.cut) end_ = level_.end = at + length;
  }

  void ipv4(std::uint32_t at) {
    const std::uint32_t left = end_ - at;
    if (left < kIpv4) return;
    const std::uint8_t first = get8(frame_, at);
    const std::uint32_t header = 4U * (first & 0xf);
    if (first >> 4 != 4 || header < kIpv4 || header > left) return;
    if (lengths_) {
      const std::uint32_t total = get16(frame_, at + kIpv4Length);
      if (total < header) return;
      end_at(at, total);
    }
    level_.layers |= TERN_LAYER_IPV4;
    tern_flow_fields& fields = level_.fields;
    fields.tos = get8(frame_, at + 1);
    fields.ttl = get8(frame_, at + kIpv4Ttl);
    fields.protocol = get8(frame_, at + kIpv4Protocol);
    copy(fields.src_ip, at + kIpv4Addresses, 4);
    copy(fields.dst_ip, at + kIpv4Addresses + 4, 4);
    level_.l4 = level_.payload = at + header;
    const std::uint16_t fragment = get16(frame_, at + kIpv4Fragment);
    if ((fragment & kIpv4DontFragment) != 0) fields.frag |= TERN_FRAG_DONT;
    if ((fragment & kIpv4FragmentMask) != 0) {
      level_.fragment = true;
      fields.frag |= TERN_FRAG_ANY;
      if ((fragment & kIpv4MoreFragments) != 0) fields.frag |= TERN_FRAG_MORE;
      return;
    }
    transport(fields.protocol);
  }

  void ipv6(std::uint32_t at) {
    const std::uint32_t left = end_ - at;
    if (left < kIpv6) return;
    const std::uint32_t first = get32(frame_, at);
    if (first >> 28 != 6) return;
    if (lengths_) {
      end_at(at, kIpv6 + get16(frame_, at + kIpv6Length));
    }
    level_.layers |= TERN_LAYER_IPV6;
    tern_flow_fields& fields = level_.fields;
    fields.tos = static_cast<std::uint8_t>(first >> 20);
    const std::uint32_t label = first & 0xfffff;
    fields.flow_label =
        std::endian::native == std::endian::little ? __builtin_bswap32(label) : label;
    fields.ttl = get8(frame_, at + kIpv6HopLimit);
    copy(fields.src_ip, at + kIpv6Addresses, sizeof(fields.src_ip));
    copy(fields.dst_ip, at + kIpv6Addresses + 16, sizeof(fields.dst_ip));
    fields.protocol = extensions(at + kIpv6, get8(frame_, at + kIpv6Next));
    if (!level_.fragment) transport(fields.protocol);
  }

  // Walks the extension headers from `at` on, of which the first is `next`. Returns the protocol
  // after them, or the extension header that ends the walk.
  std::uint8_t extensions(std::uint32_t at, std::uint8_t next) {
    for (unsigned n = 0; n < kMaxExtensions; ++n) {
      if (next != kHopByHop && next != kRouting && next != kFragment && next != kDestination) break;
      if (end_ - at < 8) break;
      if (next == kFragment) {
        level_.fragment = true;
        level_.fields.frag = TERN_FRAG_ANY;
        next = get8(frame_, at);
        at += 8;
        break;
      }
      constexpr std::uint32_t kSegmentsLeft = 3;
      level_.routing |= next == kRouting;
      if (next == kRouting && get8(frame_, at + kSegmentsLeft) != 0) break;
      const std::uint32_t length = 8 * (1U + get8(frame_, at + 1));
      if (length > end_ - at) break;
      next = get8(frame_, at);
      at += length;
    }
    level_.l4 = level_.payload = at;
    return next;
  }

  void transport(std::uint8_t protocol) {
    const std::uint32_t at = level_.l4;
    const std::uint32_t left = end_ - at;
    std::uint32_t header = kUdp;
    if (protocol == kTcpProtocol) {
      if (left < kTcp) return;
      header = 4U * (get8(frame_, at + kTcpOffset) >> 4);
      if (header < kTcp || header > left) return;
      level_.layers |= TERN_LAYER_TCP;
    } else if (protocol == kUdpProtocol) {
      if (left < kUdp) return;
      const std::uint32_t length = get16(frame_, at + kUdpLength);
      if (lengths_ && length < kUdp) return;
      level_.cut |= lengths_ && length > left;
      level_.layers |= TERN_LAYER_UDP;
    } else {
      if (protocol != kEspProtocol || left < kEsp) return;
      level_.layers |= TERN_LAYER_ESP;
      copy(&level_.fields.spi, at, sizeof(level_.fields.spi));
      copy(&level_.fields.esp_seq, at + 4, sizeof(level_.fields.esp_seq));
      return;
    }
    static_assert(offsetof(tern_flow_fields, dst_port) == offsetof(tern_flow_fields, src_port) + 2);
    copy(&level_.fields.src_port, at, 2);
    copy(&level_.fields.dst_port, at + 2, 2);
    level_.payload = at + header;
  }

  std::span<const std::byte> frame_;
  std::uint32_t end_;
  bool lengths_;  // whether the lengths in the headers count
  Level& level_;
};

// Parses a tunnel after the outer headers, and the headers inside of it.
class Tunnel {
 public:
  Tunnel(std::span<const std::byte> frame, Headers& headers)
      : frame_(frame), headers_(headers), end_(headers.outer.end) {}

  // UDP to the port of a tunnel.
  void udp(std::uint16_t port) {
    const Level& outer = headers_.outer;
    end_ = std::min<std::uint32_t>(end_, outer.l4 + get16(frame_, outer.l4 + kUdpLength));
    if (port == kMplsPort) return mpls(TERN_LAYER_MPLS_TUNNEL, outer.payload);
    const std::uint32_t at = outer.payload;
    if (end_ - at < kVxlan || (get8(frame_, at) & kVxlanHasVni) == 0) return;
    headers_.outer.layers |= TERN_LAYER_VXLAN;
    headers_.tunnel.vni = le(get32(frame_, at + 4) >> 8);
    inner().ethernet(at + kVxlan);
  }

  void gre() {
    std::uint32_t at = headers_.outer.l4;
    if (end_ - at < kGre) return;
    const std::uint16_t flags = get16(frame_, at);
    const std::uint16_t type = get16(frame_, at + 2);
    const bool plain = (flags & (kGreRouting | kGreVersion)) == 0;
    const auto optional = [&](std::uint16_t flag) -> std::uint32_t {
      return plain && (flags & flag) != 0 ? 4 : 0;
    };
    const std::uint32_t key = kGre + optional(kGreChecksum);
    const std::uint32_t size = key + optional(kGreKey) + optional(kGreSequence);
    if (end_ - at < size) return;
    headers_.outer.layers |= TERN_LAYER_GRE;
    tern_flow_tunnel& tunnel = headers_.tunnel;
    std::memcpy(&tunnel.gre_flags, frame_.data() + at, sizeof(tunnel.gre_flags));
    std::memcpy(&tunnel.gre_protocol, frame_.data() + at + 2, sizeof(tunnel.gre_protocol));
    if (!plain) return;
    if (optional(kGreKey) != 0)
      std::memcpy(&tunnel.gre_key, frame_.data() + at + key, sizeof(tunnel.gre_key));
    at += size;
    if (type == kBridgedType) {
      inner().ethernet(at);
    } else if (type == kIpv4Type || type == kIpv6Type) {
      packet(at, type == kIpv4Type ? 4 : 6);
    } else if (is_mpls(type)) {
      mpls(TERN_LAYER_MPLS_TUNNEL, at);
    }
  }

  // A stack of labels at `at`.
  void mpls(std::uint16_t layer, std::uint32_t at) {
    if (end_ - at < kMplsLabel) return;
    Parser(frame_, end_, true, headers_.outer).label(layer, at);
    for (unsigned n = 0; n < kMaxLabels && end_ - at >= kMplsLabel; ++n) {
      const bool bottom = (get32(frame_, at) & kMplsBottom) != 0;
      at += kMplsLabel;
      if (!bottom) continue;
      const unsigned version = end_ - at < 1 ? 0U : get8(frame_, at) >> 4;
      if (version == 4 || version == 6) packet(at, version);
      return;
    }
  }

 private:
  Parser inner() {
    headers_.inner = Level();
    return {frame_, end_, true, headers_.inner};
  }
  // An IP packet, if it has this version.
  void packet(std::uint32_t at, unsigned version) {
    if (end_ - at >= 1 && get8(frame_, at) >> 4 == version) inner().packet(at);
  }

  std::span<const std::byte> frame_;
  Headers& headers_;
  std::uint32_t end_;
};

}  // namespace

Headers parse(std::span<const std::byte> frame) {
  Headers headers;
  Level& outer = headers.outer;
  Parser(frame, static_cast<std::uint32_t>(frame.size()), true, outer).ethernet(0);
  if (outer.udp()) {
    const std::uint16_t port = get16(frame, outer.l4 + 2);
    if (port == kVxlanPort || port == kMplsPort) [[unlikely]]
      Tunnel(frame, headers).udp(port);
  } else if ((outer.layers & TERN_LAYER_MPLS) != 0) {
    Tunnel(frame, headers).mpls(TERN_LAYER_MPLS, outer.l3);
  } else if (outer.ip() && outer.fields.protocol == kGreProtocol && !outer.fragment) {
    Tunnel(frame, headers).gre();
  }
  return headers;
}

Level parse_template(std::span<const std::byte> headers) {
  Level level;
  Parser(headers, static_cast<std::uint32_t>(headers.size()), false, level).ethernet(0);
  return level;
}

}  // namespace tern::frames

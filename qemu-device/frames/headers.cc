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
constexpr std::uint32_t kVxlan = 8;
constexpr std::uint16_t kVxlanPort = 4789;
constexpr std::uint8_t kVxlanHasVni = 0x08;

constexpr std::uint8_t kHopByHop = 0;
constexpr std::uint8_t kRouting = 43;
constexpr std::uint8_t kFragment = 44;
constexpr std::uint8_t kDestination = 60;
// More than any sender uses. Bounds the work that one frame can cause.
constexpr unsigned kMaxExtensions = 8;

// Parses the headers of one level, in the bytes of a frame up to `end`.
class Parser {
 public:
  Parser(std::span<const std::byte> frame, std::uint32_t end, bool lengths, Level& level)
      : frame_(frame), end_(end), lengths_(lengths), level_(level) {}

  void ethernet(std::uint32_t at) {
    level_.ethernet = level_.l3 = level_.l4 = level_.payload = at;
    level_.end = end_;
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
    }
  }

 private:
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
    if ((get16(frame_, at + kIpv4Fragment) & kIpv4FragmentMask) != 0) {
      level_.fragment = true;
      fields.frag = 1;
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
        level_.fields.frag = 1;
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
      level_.esp = protocol == kEspProtocol && left >= kEsp;
      if (level_.esp) copy(level_.spi.data(), at, level_.spi.size());
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

}  // namespace

Headers parse(std::span<const std::byte> frame) {
  Headers headers;
  Level& outer = headers.outer;
  Parser(frame, static_cast<std::uint32_t>(frame.size()), true, outer).ethernet(0);
  if (!outer.udp() || get16(frame, outer.l4 + 2) != kVxlanPort) return headers;
  const std::uint32_t at = outer.payload;
  const std::uint32_t end =
      std::min<std::uint32_t>(outer.end, outer.l4 + get16(frame, outer.l4 + kUdpLength));
  if (end - at < kVxlan || (get8(frame, at) & kVxlanHasVni) == 0) return headers;
  outer.layers |= TERN_LAYER_VXLAN;
  headers.vni = get32(frame, at + 4) >> 8;
  headers.inner = Level();
  Parser(frame, end, true, headers.inner).ethernet(at + kVxlan);
  return headers;
}

Level parse_template(std::span<const std::byte> headers) {
  Level level;
  Parser(headers, static_cast<std::uint32_t>(headers.size()), false, level).ethernet(0);
  return level;
}

}  // namespace tern::frames

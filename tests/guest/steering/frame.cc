// SPDX-License-Identifier: GPL-2.0-or-later
#include "frame.h"

#include <arpa/inet.h>

#include <array>
#include <cstddef>
#include <cstring>

namespace guest::steering {

namespace {

using tern::frames::Bytes;
using tern::frames::SampleFrame;

constexpr std::size_t kEthernet = 14;
constexpr std::size_t kIpv4 = 20;
constexpr std::size_t kIpv6 = 40;
constexpr std::size_t kExtension = 8;
constexpr std::size_t kTcpHeader = 20;
constexpr std::size_t kUdpHeader = 8;
constexpr std::uint8_t kFragmentHeader = 44;

class Draft {
 public:
  // A frame that has the flow's layers and fields.
  Draft(const Flow& flow, const Values& values, Random& random)
      : random_(random), match_(match_of(flow)), fields_(values.mix(random)) {
    const auto bytes = bytes_of(fields_);
    const auto value = bytes_of(match_.value);
    const auto mask = bytes_of(match_.mask);
    for (std::size_t i = 0; i < bytes.size(); ++i)
      bytes[i] = static_cast<std::uint8_t>((bytes[i] & ~mask[i]) | (value[i] & mask[i]));
    type_ = ntohs(fields_.ether_type);
    if (has(flow, kIpLayers)) {
      type_ = has(flow, TERN_LAYER_IPV4) ? kIpv4Type : kIpv6Type;
    } else if (has(flow, kPortLayers)) {
      type_ = once_in(random, 2) ? kIpv4Type : kIpv6Type;
    }
    layout_.protocol = has(flow, TERN_LAYER_TCP)   ? kTcp
                       : has(flow, TERN_LAYER_UDP) ? kUdp
                                                   : fields_.protocol;
    fragment_ = match_.mask.frag != 0 ? fields_.frag != 0 : once_in(random, 10);
    draw_tags();
    if (has(flow, TERN_LAYER_VLAN) && (layout_.tags.empty() || layout_.tags[0] != kVlanType))
      layout_.tags = {kVlanType};
    layout_.options = once_in(random, 3) ? 4 * below(random, 11) : 0;
    for (unsigned i = once_in(random, 3) ? below(random, 4) : 0; i > 0; --i) {
      layout_.extensions.push_back(std::array<std::uint8_t, 3>{0, 43, 60}[below(random, 3)]);
    }
    layout_.tcp_options = once_in(random, 3) ? 4 * below(random, 11) : 0;
    layout_.flags = static_cast<std::uint8_t>(random() | kTcpFlagsOfAll);
    layout_.payload = below(random, 40);
    layout_.padding = once_in(random, 4) ? below(random, 40) : 0;
  }

  // Changes one thing, most often a bit that the flow matches.
  void alter() {
    switch (below(random_, 9)) {
      case 0:
        return draw_tags();
      case 1:
        type_ = draw_ether_type(random_);
        return;
      case 2:
        layout_.protocol = draw_protocol(random_);
        return;
      case 3:
        fragment_ = !fragment_;
        return;
      default:
        return flip();
    }
  }

  [[nodiscard]] Bytes make() {
    layout_.v4 = type_ != kIpv6Type;
    if (fragment_ && !layout_.v4) layout_.extensions.push_back(kFragmentHeader);
    Bytes frame = layout_.make();
    std::memcpy(frame.data(), &fields_, 12);
    if (!layout_.tags.empty()) std::memcpy(frame.data() + kEthernet, &fields_.vlan, 2);
    tern::frames::put16(frame, layout_.l3() - 2, type_);
    layout_.v4 ? put_ipv4(frame) : put_ipv6(frame);
    if (layout_.udp()) fields_.src_port |= htons(kUdpSourceOfAll);
    if (layout_.tcp() || layout_.udp()) {
      std::memcpy(frame.data() + layout_.l4(), &fields_.src_port, 2);
      std::memcpy(frame.data() + layout_.l4() + 2, &fields_.dst_port, 2);
    }
    if (once_in(random_, 6)) damage(frame);
    return frame;
  }

 private:
  static std::span<std::uint8_t> bytes_of(tern_flow_fields& fields) {
    return {reinterpret_cast<std::uint8_t*>(&fields), sizeof(fields)};
  }

  void put8(Bytes& frame, std::size_t at, unsigned value) const {
    frame[layout_.l3() + at] = static_cast<std::byte>(value);
  }

  // No more than the two that the device skips.
  void draw_tags() {
    layout_.tags.clear();
    for (unsigned i = below(random_, 4); i > 1; --i)
      layout_.tags.push_back(once_in(random_, 3) ? kServiceVlanType : kVlanType);
  }

  void flip() {
    const auto mask = bytes_of(match_.mask);
    std::vector<unsigned> bits;
    for (unsigned bit = 0; bit < 8 * mask.size(); ++bit) {
      const std::size_t byte = bit / 8;
      // alter() changes these as a whole.
      const bool whole = byte == offsetof(tern_flow_fields, ether_type) ||
                         byte == offsetof(tern_flow_fields, ether_type) + 1 ||
                         byte == offsetof(tern_flow_fields, protocol) ||
                         byte == offsetof(tern_flow_fields, frag);
      if (!whole && (mask[byte] >> bit % 8 & 1) != 0) bits.push_back(bit);
    }
    if (bits.empty()) return;
    const unsigned bit = bits[below(random_, static_cast<unsigned>(bits.size()))];
    bytes_of(fields_)[bit / 8] ^= static_cast<std::uint8_t>(1U << bit % 8);
  }

  // Versions and lengths stay right: the device checks them, Linux's flow dissector does not.
  void put_ipv4(Bytes& frame) const {
    constexpr std::uint16_t kFragments[] = {0x2000, 0x2001, 0x0001, 0x1fff, 0x3fff};
    constexpr std::uint16_t kWholes[] = {0, 0x4000,
                                         0x8000};  // "don't fragment", and the reserved bit
    put8(frame, 1, fields_.tos);
    const std::uint16_t fragment = kFragments[below(random_, std::size(kFragments))];
    const std::uint16_t whole = kWholes[below(random_, std::size(kWholes))];
    tern::frames::put16(frame, layout_.l3() + 6, fragment_ ? fragment : whole);
    put8(frame, 8, fields_.ttl | kTtlOfAll);
    std::memcpy(frame.data() + layout_.l3() + 12, fields_.src_ip, 4);
    std::memcpy(frame.data() + layout_.l3() + 16, fields_.dst_ip, 4);
  }

  void put_ipv6(Bytes& frame) const {
    tern::frames::put32(frame, layout_.l3(),
                        6U << 28 | std::uint32_t{fields_.tos} << 20 | below(random_, 1 << 20));
    put8(frame, 7, fields_.ttl | kTtlOfAll);
    std::memcpy(frame.data() + layout_.l3() + 8, fields_.src_ip, 16);
    std::memcpy(frame.data() + layout_.l3() + 24, fields_.dst_ip, 16);
    // The only fragment, the first one, or another one.
    if (fragment_)
      tern::frames::put16(frame, layout_.l4() - kExtension + 2,
                          std::array<std::uint16_t, 3>{0, 1, 0x0109}[below(random_, 3)]);
  }

  // Headers that are too short by what they say, or because the frame ends.
  void damage(Bytes& frame) const {
    const auto set_high = [&](std::size_t at, unsigned high) {
      frame[at] = (frame[at] & std::byte{0x0f}) | static_cast<std::byte>(high << 4);
    };
    switch (below(random_, 4)) {
      case 0:
        if (type_ == kIpv4Type) put8(frame, 0, 0x40 + below(random_, 5));
        return;
      case 1:
        if (layout_.tcp()) set_high(layout_.l4() + 12, below(random_, 5));
        return;
      default:
        break;
    }
    std::size_t size = frame.size();
    do {
      size = kEthernet + below(random_, static_cast<unsigned>(frame.size() - kEthernet));
    } while (!may_end(size));
    frame.resize(size);
  }

  // Whether a frame may end here. Linux drops one whose outer tag is not followed by two bytes
  // behind the type. Of a header with options or of an extension header it looks at the first bytes
  // only, and takes ports from the first bytes of UDP; the device wants whole headers.
  [[nodiscard]] bool may_end(std::size_t size) const {
    const auto within = [size](std::size_t first, std::size_t end) {
      return size >= first && size < end;
    };
    if (!layout_.tags.empty() && size < kEthernet + 6) return false;
    if (type_ != kIpv4Type && type_ != kIpv6Type) return true;
    if (layout_.v4) {
      if (within(layout_.l3() + kIpv4, layout_.l4())) return false;
    } else {
      for (std::size_t i = 0; i < layout_.extensions.size(); ++i) {
        const std::size_t at = layout_.l3() + kIpv6 + kExtension * i;
        if (layout_.extensions[i] != kFragmentHeader && within(at + 2, at + kExtension))
          return false;
      }
    }
    if (layout_.tcp()) return !within(layout_.l4() + kTcpHeader, layout_.headers());
    return !layout_.udp() || !within(layout_.l4() + 4, layout_.l4() + kUdpHeader);
  }

  Random& random_;
  Match match_;
  SampleFrame layout_;
  tern_flow_fields fields_;
  std::uint16_t type_ = 0;
  bool fragment_ = false;
};

}  // namespace

Bytes draw_frame(std::span<const Flow> flows, const Values& values, Random& random) {
  Draft draft(flows[below(random, static_cast<unsigned>(flows.size()))], values, random);
  for (unsigned n = below(random, 4); n > 0; --n) draft.alter();
  return draft.make();
}

}  // namespace guest::steering

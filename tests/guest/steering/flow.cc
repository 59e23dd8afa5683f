// SPDX-License-Identifier: GPL-2.0-or-later
#include "flow.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>

namespace guest::steering {

namespace {

constexpr std::uint16_t kEth = TERN_LAYER_ETH;
constexpr std::uint16_t kVlan = TERN_LAYER_VLAN;
constexpr std::uint16_t kIpv4 = TERN_LAYER_IPV4;
constexpr std::uint16_t kIpv6 = TERN_LAYER_IPV6;
constexpr std::uint16_t kTcpLayer = TERN_LAYER_TCP;
constexpr std::uint16_t kUdpLayer = TERN_LAYER_UDP;

constexpr std::uint16_t kEthernetSubject[] = {kEth, kEth, kEth, kEth | kVlan};
constexpr std::uint16_t kVlanSubject[] = {
    kVlan, kEth | kVlan, kEth | kVlan, kVlan | kIpv4, kVlan | kIpv6, kEth | kVlan | kIpv4, kEth};
constexpr std::uint16_t kIpv4Subject[] = {kIpv4, kIpv4, kEth | kIpv4, kVlan | kIpv4};
constexpr std::uint16_t kIpv6Subject[] = {kIpv6, kIpv6, kEth | kIpv6, kVlan | kIpv6};
constexpr std::uint16_t kPortSubject[] = {
    kTcpLayer,
    kIpv4 | kTcpLayer,
    kIpv6 | kTcpLayer,
    kVlan | kTcpLayer,
    kEth | kVlan | kIpv6 | kTcpLayer,
    kUdpLayer,
    kIpv4 | kUdpLayer,
    kIpv6 | kUdpLayer,
    kEth | kUdpLayer,
    kVlan | kIpv4 | kUdpLayer,
};
constexpr std::uint16_t kMixedSubject[] = {
    kEth,
    kVlan,
    kEth | kVlan,
    kIpv4,
    kIpv6,
    kEth | kIpv6,
    kTcpLayer,
    kIpv4 | kTcpLayer,
    kIpv6 | kUdpLayer,
    kEth | kVlan | kIpv4 | kUdpLayer,
};
constexpr Subject kSubjects[] = {
    {"ethernet", kEthernetSubject}, {"vlan", kVlanSubject},  {"ipv4", kIpv4Subject},
    {"ipv6", kIpv6Subject},         {"ports", kPortSubject}, {"mixed", kMixedSubject},
};

// How a field can be masked in flower: bit by bit, or as a whole.
enum class Masks { kBits, kWhole, kTag, kFragment };

struct Field {
  std::uint16_t layers;  // one of which the flow needs
  std::size_t offset;
  std::size_t size;
  Masks masks;
};
// flower knows no flow label.
constexpr Field kFields[] = {
    {kEth, offsetof(tern_flow_fields, dmac), 6, Masks::kBits},
    {kEth, offsetof(tern_flow_fields, smac), 6, Masks::kBits},
    {kEth, offsetof(tern_flow_fields, ether_type), 2, Masks::kWhole},
    {kVlan, offsetof(tern_flow_fields, vlan), 2, Masks::kTag},
    {kIpLayers, offsetof(tern_flow_fields, src_ip), 16, Masks::kBits},
    {kIpLayers, offsetof(tern_flow_fields, dst_ip), 16, Masks::kBits},
    {kIpLayers, offsetof(tern_flow_fields, tos), 1, Masks::kBits},
    {kIpLayers, offsetof(tern_flow_fields, ttl), 1, Masks::kBits},
    {kIpLayers, offsetof(tern_flow_fields, protocol), 1, Masks::kWhole},
    {kIpLayers, offsetof(tern_flow_fields, frag), 1, Masks::kFragment},
    {kPortLayers, offsetof(tern_flow_fields, src_port), 2, Masks::kBits},
    {kPortLayers, offsetof(tern_flow_fields, dst_port), 2, Masks::kBits},
};

std::span<std::uint8_t> bytes_of(tern_flow_fields& fields, const Field& field, std::size_t size) {
  return std::span(reinterpret_cast<std::uint8_t*>(&fields), sizeof(fields))
      .subspan(field.offset, size);
}

void draw_mask(std::span<std::uint8_t> mask, Masks kind, Random& random) {
  if (kind == Masks::kTag) {
    // The priority, the VLAN, or both; flower knows nothing of DEI.
    const unsigned parts = 1 + below(random, 3);
    mask[0] =
        static_cast<std::uint8_t>(((parts & 1) != 0 ? 0xe0 : 0) | ((parts & 2) != 0 ? 0x0f : 0));
    mask[1] = (parts & 2) != 0 ? 0xff : 0;
    return;
  }
  std::ranges::fill(mask,
                    kind == Masks::kFragment ? std::uint8_t{TERN_FRAG_ANY} : std::uint8_t{0xff});
  if (kind == Masks::kWhole || kind == Masks::kFragment) return;
  const std::size_t bits = 8 * mask.size();
  switch (below(random, 5)) {
    case 0:  // a prefix
      for (std::size_t bit = bits - below(random, static_cast<unsigned>(bits / 2)); bit < bits;
           ++bit) {
        mask[bit / 8] &= static_cast<std::uint8_t>(~(0x80U >> bit % 8));
      }
      break;
    case 1:  // all but one bit
      mask[below(random, static_cast<unsigned>(mask.size()))] ^=
          static_cast<std::uint8_t>(1U << below(random, 8));
      break;
    case 2:  // any bits
      for (std::uint8_t& byte : mask) byte = static_cast<std::uint8_t>(random());
      break;
    default:
      break;
  }
}

// flower takes keys of IP only with its type, and ports only with their protocol.
void settle(Flow& flow) {
  if (has(flow, kIpLayers)) {
    flow.value.ether_type = htons(has(flow, kIpv4) ? kIpv4Type : kIpv6Type);
  } else if (has(flow, kPortLayers)) {
    flow.mask.ether_type = {};
  }
  if (has(flow, kPortLayers)) flow.value.protocol = has(flow, TERN_LAYER_TCP) ? kTcp : kUdp;
  flow.value.ttl |= kTtlOfAll;
  if (has(flow, TERN_LAYER_UDP)) flow.value.src_port |= htons(kUdpSourceOfAll);
}

// Masks half of the fields, and changes a bit of some, so that flows differ in few bits. Returns
// whether several are masked.
bool draw_fields(Flow& flow, Random& random) {
  unsigned masked = 0;
  for (const Field& field : kFields) {
    if (!has(flow, field.layers) || once_in(random, 2)) continue;
    const std::size_t size = field.size == 16 && has(flow, kIpv4) ? 4 : field.size;
    draw_mask(bytes_of(flow.mask, field, size), field.masks, random);
    ++masked;
    if (field.masks == Masks::kWhole || field.masks == Masks::kFragment || !once_in(random, 3))
      continue;
    const auto value = bytes_of(flow.value, field, size);
    value[below(random, static_cast<unsigned>(size))] ^=
        static_cast<std::uint8_t>(1U << below(random, 8));
  }
  return masked > 1;
}

Flow draw_flow(const Subject& subject, const Values& values, Random& random) {
  Flow flow{};
  flow.priority = tern::le(std::uint32_t{below(random, 6)});
  flow.dest = TERN_DEST_QP;
  flow.counter = tern::le(std::uint32_t{TERN_NO_COUNTER});
  flow.port = 1;
  // Of the kinds besides NORMAL, ALL leaves nothing to other flows, and a frame's copies for
  // sniffers leave no mark.
  if (once_in(random, 40)) {
    flow.kind = TERN_FLOW_MULTICAST;
    return flow;
  }
  flow.layers =
      tern::le(subject.layers[below(random, static_cast<unsigned>(subject.layers.size()))]);
  flow.value = values.mix(random);
  // Few flows match fewer than two fields: such a flow takes many frames.
  while (!draw_fields(flow, random) && !once_in(random, 10)) {
  }
  settle(flow);
  return flow;
}

}  // namespace

std::span<const Subject> subjects() { return kSubjects; }

std::uint16_t draw_ether_type(Random& random) {
  // Linux parses the payload of other types, such as PPPoE.
  constexpr std::uint16_t kTypes[] = {kIpv4Type, kIpv4Type, kIpv6Type, kIpv6Type,
                                      0x0806,    0x88b5,    0x88b6,    0x88cc};
  return kTypes[below(random, std::size(kTypes))];
}

std::uint8_t draw_protocol(Random& random) {
  // Linux parses the payload of MPLS, so MPLS is not here.
  constexpr std::uint8_t kProtocols[] = {kTcp, kTcp, kUdp, kUdp, 1,  58, 47,
                                         50,   132,  4,    41,   59, 255};
  return kProtocols[below(random, std::size(kProtocols))];
}

Values::Values(Random& random) : sets_(4) {
  for (tern_flow_fields& set : sets_) {
    const auto bytes = std::span(reinterpret_cast<std::uint8_t*>(&set), sizeof(set));
    std::ranges::generate(bytes, [&] { return static_cast<std::uint8_t>(random()); });
    if (!once_in(random, 4)) set.dmac[0] &= 0xfe;
    set.ether_type = htons(draw_ether_type(random));
    set.protocol = draw_protocol(random);
    set.frag = once_in(random, 6) ? 1 : 0;
  }
}

tern_flow_fields Values::mix(Random& random) const {
  tern_flow_fields fields{};
  for (const Field& field : kFields) {
    tern_flow_fields set = sets_[below(random, static_cast<unsigned>(sets_.size()))];
    std::ranges::copy(bytes_of(set, field, field.size),
                      bytes_of(fields, field, field.size).begin());
  }
  return fields;
}

std::vector<Flow> draw_flows(std::size_t count, const Subject& subject, const Values& values,
                             Random& random) {
  std::vector<Flow> flows;
  while (flows.size() < count) {
    // Some again: the first one takes all frames.
    const bool again = !flows.empty() && once_in(random, 20);
    flows.push_back(again ? flows[below(random, static_cast<unsigned>(flows.size()))]
                          : draw_flow(subject, values, random));
  }
  return flows;
}

Match match_of(const Flow& flow) {
  Match match{flow.value, flow.mask};
  if (flow.kind == TERN_FLOW_MULTICAST) match.value.dmac[0] = match.mask.dmac[0] = 1;
  return match;
}

}  // namespace guest::steering

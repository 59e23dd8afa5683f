// SPDX-License-Identifier: GPL-2.0-or-later
// Random flows of the device that Linux's flower classifier can express as well.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "tern_hw.hpp"

namespace guest::steering {

using Random = std::mt19937;
using Flow = tern_cmd_create_flow;

inline unsigned below(Random& random, unsigned end) {
  return static_cast<unsigned>(random() % end);
}
// True once in n times.
inline bool once_in(Random& random, unsigned n) { return below(random, n) == 0; }

constexpr std::uint16_t kIpLayers = TERN_LAYER_IPV4 | TERN_LAYER_IPV6;
constexpr std::uint16_t kPortLayers = TERN_LAYER_TCP | TERN_LAYER_UDP;
constexpr std::uint8_t kTcp = 6;
constexpr std::uint8_t kUdp = 17;
constexpr std::uint16_t kIpv4Type = 0x0800;
constexpr std::uint16_t kIpv6Type = 0x86dd;
constexpr std::uint16_t kVlanType = 0x8100;
constexpr std::uint16_t kServiceVlanType = 0x88a8;

// The device takes a header that is cut short for absent, Linux takes its fields for 0. These bits
// are set in every frame that has the whole header, and flower matches them wherever the flow has
// the layer.
constexpr std::uint8_t kTtlOfAll = 0x40;
constexpr std::uint16_t kUdpSourceOfAll = 0x8000;
constexpr std::uint8_t kTcpFlagsOfAll = 0x10;  // ACK

inline bool has(const Flow& flow, std::uint16_t layers) {
  return (tern::le(flow.layers) & layers) != 0;
}

// A set of flows has a subject: the layers that they match.
struct Subject {
  const char* name;
  std::span<const std::uint16_t> layers;
};
[[nodiscard]] std::span<const Subject> subjects();

// Values that fields of flows and frames have again and again, so that several flows match a frame.
class Values {
 public:
  explicit Values(Random& random);
  // Each field from one of a few sets of fields.
  [[nodiscard]] tern_flow_fields mix(Random& random) const;

 private:
  std::vector<tern_flow_fields> sets_;
};

[[nodiscard]] std::uint16_t draw_ether_type(Random& random);
[[nodiscard]] std::uint8_t draw_protocol(Random& random);

// The priorities are few, so that many flows have the same one.
[[nodiscard]] std::vector<Flow> draw_flows(std::size_t count, const Subject& subject,
                                           const Values& values, Random& random);
// What the frame's fields must be under the flow's mask, also if the flow says so by its kind.
struct Match {
  tern_flow_fields value;
  tern_flow_fields mask;
};
[[nodiscard]] Match match_of(const Flow& flow);

}  // namespace guest::steering

// SPDX-License-Identifier: GPL-2.0-or-later
// The Ethernet header of a frame: its addresses, its tag, and where its payload begins.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

#include "frames/bytes.h"
#include "frames/layout.h"

namespace tern::frames {

using Mac = std::array<std::uint8_t, 6>;
inline constexpr Mac kBroadcast = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff};

// `frame` has a whole Ethernet header.
[[nodiscard]] inline Mac destination(std::span<const std::byte> frame) {
  Mac mac;
  std::memcpy(mac.data(), frame.data(), mac.size());
  return mac;
}

[[nodiscard]] inline bool is_group(const Mac& mac) { return (mac[0] & 1) != 0; }

[[nodiscard]] inline std::uint64_t as_number(const std::uint8_t* mac) {
  std::uint64_t number = 0;
  std::memcpy(&number, mac, sizeof(Mac));
  return number;
}

// Whether the outer tag is of type 0x8100, and complete with the type that follows it.
[[nodiscard]] inline bool is_tagged(std::span<const std::byte> frame) {
  return frame.size() >= kEthernet + kTag && get16(frame, kAddresses) == kVlanType;
}

// Tag control information and VLAN ID of such a frame.
[[nodiscard]] inline std::uint16_t tci_of(std::span<const std::byte> tagged) {
  return get16(tagged, kEthernet);
}

[[nodiscard]] inline std::uint16_t vlan_of(std::span<const std::byte> tagged) {
  return tci_of(tagged) & kVlanMask;
}

struct EthernetPayload {
  std::uint16_t type;  // EtherType
  std::uint32_t at;    // offset
};
// Finds the payload after the addresses and at most one tag of type 0x8100. Returns nothing if the
// frame is cut short before it.
[[nodiscard]] inline std::optional<EthernetPayload> find_payload(std::span<const std::byte> frame) {
  if (frame.size() < kEthernet) return std::nullopt;
  const std::uint16_t type = get16(frame, kAddresses);
  if (type != kVlanType) return EthernetPayload{type, kEthernet};
  if (frame.size() < kEthernet + kTag) return std::nullopt;
  return EthernetPayload{get16(frame, kAddresses + kTag), kEthernet + kTag};
}

}  // namespace tern::frames

// SPDX-License-Identifier: GPL-2.0-or-later
#include "frames/ecn.h"

#include <cstdint>
#include <optional>

#include "frames/bytes.h"
#include "frames/ethernet.h"
#include "frames/layout.h"

namespace tern::frames {

namespace {

constexpr std::byte kEcn{3};

// Finds the IP packet in a frame that has space for a tag and an IPv4 header.
std::optional<EthernetPayload> find_ip(std::span<const std::byte> frame) {
  if (frame.size() < kEthernet + kTag + kIpv4) return std::nullopt;
  const auto payload = find_payload(frame);
  if (payload->type != kIpv4Type && payload->type != kIpv6Type) return std::nullopt;
  return payload;
}

}  // namespace

bool is_ecn_capable(std::span<const std::byte> frame) {
  const auto ip = find_ip(frame);
  if (!ip) return false;
  const std::byte second = frame[ip->at + 1];
  // In IPv6 the traffic class spans two bytes: ECN is bits 4 and 5 of the second.
  return ((ip->type == kIpv6Type ? second >> 4 : second) & kEcn) != std::byte{};
}

void mark_congestion(std::span<std::byte> frame) {
  if (const auto ip = find_ip(frame)) mark_congestion(frame, ip->at, ip->type == kIpv4Type);
}

void mark_congestion(std::span<std::byte> frame, std::size_t ip, bool ipv4) {
  if (!ipv4) {
    frame[ip + 1] |= kEcn << 4;
    return;
  }
  const std::uint16_t before = get16(frame, ip);
  frame[ip + 1] |= kEcn;
  // RFC 1624, equation 3.
  std::uint32_t sum = 0xffffU & ~std::uint32_t{get16(frame, ip + kIpv4Checksum)};
  sum += 0xffffU & ~std::uint32_t{before};
  sum += get16(frame, ip);
  sum = (sum & 0xffff) + (sum >> 16);
  sum = (sum & 0xffff) + (sum >> 16);
  put16(frame, ip + kIpv4Checksum, static_cast<std::uint16_t>(~sum));
}

}  // namespace tern::frames

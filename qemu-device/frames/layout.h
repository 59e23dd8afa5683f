// SPDX-License-Identifier: GPL-2.0-or-later
// Sizes of headers and offsets of their fields, in bytes, and values of fields.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tern::frames {

inline constexpr std::uint32_t kAddresses = 12;  // both MAC addresses
inline constexpr std::uint32_t kTag = 4;         // of IEEE 802.1Q
inline constexpr std::uint32_t kEthernet = 14;   // a header without tags
inline constexpr std::size_t kMinFrame = 60;     // without FCS

inline constexpr std::uint16_t kIpv4Type = 0x0800;
inline constexpr std::uint16_t kIpv6Type = 0x86dd;
inline constexpr std::uint16_t kVlanType = 0x8100;
inline constexpr std::uint16_t kServiceVlanType = 0x88a8;
inline constexpr std::uint16_t kVlanMask = 0xfff;  // the VLAN ID in tag control information

inline constexpr std::uint32_t kIpv4 = 20;  // a header without options
inline constexpr std::uint32_t kIpv4Length = 2;
inline constexpr std::uint32_t kIpv4Id = 4;
inline constexpr std::uint32_t kIpv4Fragment = 6;
inline constexpr std::uint32_t kIpv4Ttl = 8;
inline constexpr std::uint32_t kIpv4Protocol = 9;
inline constexpr std::uint32_t kIpv4Checksum = 10;
inline constexpr std::uint32_t kIpv4Addresses = 12;
inline constexpr std::uint16_t kIpv4FragmentMask = 0x3fff;  // "more fragments" and the offset
inline constexpr std::uint16_t kIpv4DontFragment = 0x4000;
inline constexpr std::uint16_t kIpv4MoreFragments = 0x2000;

inline constexpr std::uint32_t kIpv6 = 40;  // a header without extensions
inline constexpr std::uint32_t kIpv6Length = 4;
inline constexpr std::uint32_t kIpv6Next = 6;
inline constexpr std::uint32_t kIpv6HopLimit = 7;
inline constexpr std::uint32_t kIpv6Addresses = 8;

inline constexpr std::uint8_t kTcpProtocol = 6;
inline constexpr std::uint8_t kUdpProtocol = 17;
inline constexpr std::uint8_t kEspProtocol = 50;

inline constexpr std::uint32_t kTcp = 20;  // a header without options
inline constexpr std::uint32_t kTcpSequence = 4;
inline constexpr std::uint32_t kTcpAck = 8;
inline constexpr std::uint32_t kTcpOffset = 12;
inline constexpr std::uint32_t kTcpFlags = 13;
inline constexpr std::uint32_t kTcpWindow = 14;
inline constexpr std::uint32_t kTcpChecksum = 16;
inline constexpr std::uint32_t kTcpUrgent = 18;
inline constexpr std::uint8_t kFinPsh = 0x09;
inline constexpr std::uint8_t kAck = 0x10;
inline constexpr std::uint8_t kEce = 0x40;
inline constexpr std::uint8_t kCwr = 0x80;

inline constexpr std::uint32_t kUdp = 8;
inline constexpr std::uint32_t kUdpLength = 4;
inline constexpr std::uint32_t kUdpChecksum = 6;

}  // namespace tern::frames

// SPDX-License-Identifier: GPL-2.0-or-later
#include "frames/unfinished.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "frames/bytes.h"
#include "frames/layout.h"

namespace tern::frames {

namespace {

constexpr unsigned kTagsMax = 2;

std::uint64_t fold(std::uint64_t sum) {
  while (sum >> 16 != 0) sum = (sum & 0xffff) + (sum >> 16);
  return sum;
}

// Returns the sum of RFC 1071, folded. The byte order matters only at its end (RFC 1071, 2 B).
std::uint64_t sum_of(std::span<const std::byte> bytes) {
  std::uint64_t sum = 0;
  std::size_t i = 0;
  for (; i + 4 <= bytes.size(); i += 4) {
    std::uint32_t word;
    std::memcpy(&word, bytes.data() + i, sizeof(word));
    sum += word;
  }
  std::uint32_t rest = 0;
  std::memcpy(&rest, bytes.data() + i, bytes.size() - i);
  sum = fold(sum + rest);
  return std::endian::native == std::endian::little ? (sum & 0xff) << 8 | sum >> 8 : sum;
}

// In UDP, 0 means no checksum.
void put_checksum(std::span<std::byte> to, std::size_t at, std::uint64_t sum, bool udp) {
  const auto value = static_cast<std::uint16_t>(~fold(sum));
  put16(to, at, value == 0 && udp ? std::uint16_t{0xffff} : value);
}

// Completes the checksum of TCP or UDP over any protocol. SCTP's checksum is not a sum.
bool finish_checksum(std::span<std::byte> packet, const Unfinished& what) {
  const std::size_t start = what.checksum_start;
  const std::size_t offset = what.checksum_offset;
  if (offset != kTcpChecksum && offset != kUdpChecksum) return false;
  if (start > packet.size() || packet.size() - start < offset + 2) return false;
  put_checksum(packet, start + offset, sum_of(packet.subspan(start)), offset == kUdpChecksum);
  return true;
}

// Whether the extension headers from the IPv6 header at `ip` on lead to `protocol` at `l4`. Refuses
// headers that change the pseudo header, and fragments.
bool leads_to(std::span<const std::byte> packet, std::size_t ip, std::size_t l4,
              unsigned protocol) {
  constexpr unsigned kHopByHop = 0;
  constexpr unsigned kDestination = 60;
  unsigned next = get8(packet, ip + kIpv6Next);
  std::size_t at = ip + kIpv6;
  while (at < l4 && (next == kHopByHop || next == kDestination)) {
    if (l4 - at < 8) return false;
    next = get8(packet, at);
    at += 8 * (get8(packet, at + 1) + std::size_t{1});
  }
  return at == l4 && next == protocol;
}

}  // namespace

bool PacketFinisher::start(std::span<std::byte> packet, const Unfinished& what) {
  packet_ = packet;
  frame_ = {};
  at_ = packet.size();
  if (what.kind == Unfinished::Kind::kWhole) {
    if (what.checksum && !finish_checksum(packet, what)) return false;
    frame_ = packet;
    return true;
  }
  if (!parse(what)) return false;
  next();
  return true;
}

bool PacketFinisher::parse(const Unfinished& what) {
  if (!what.checksum || !parse_ip(what)) return false;
  if (packet_.size() - l4_ < (tcp_ ? kTcp : kUdp)) return false;
  const std::size_t header = tcp_ ? std::size_t{4} * (get8(packet_, l4_ + kTcpOffset) >> 4) : kUdp;
  if (header < (tcp_ ? kTcp : kUdp) || packet_.size() - l4_ <= header) return false;
  headers_size_ = l4_ + header;
  segment_ = what.segment;
  if (headers_size_ > kHeadersMax || segment_ == 0) return false;
  if ((packet_.size() - headers_size_ + segment_ - 1) / segment_ > kSegmentsMax) return false;
  std::ranges::copy(packet_.first(headers_size_), headers_.begin());
  at_ = headers_size_;
  number_ = 0;
  return true;
}

// Finds the IP header, cuts off the bytes after the IP packet, and checks that TCP or UDP is where
// the stack says. Refuses a frame without space for one byte of payload.
bool PacketFinisher::parse_ip(const Unfinished& what) {
  std::size_t type_at = kAddresses;
  if (packet_.size() < kAddresses + kTagsMax * kTag + 2) return false;
  for (unsigned i = 0; i < kTagsMax; ++i) {
    const std::uint16_t tpid = get16(packet_, type_at);
    if (tpid == kVlanType || tpid == kServiceVlanType) type_at += kTag;
  }
  v4_ = get16(packet_, type_at) == kIpv4Type;
  if (!v4_ && get16(packet_, type_at) != kIpv6Type) return false;
  if (what.kind != Unfinished::Kind::kAnyUdp && v4_ != (what.kind == Unfinished::Kind::kTcp4))
    return false;
  tcp_ = what.kind != Unfinished::Kind::kAnyUdp;
  ip_ = type_at + 2;
  l4_ = what.checksum_start;
  if (what.checksum_offset != (tcp_ ? kTcpChecksum : kUdpChecksum)) return false;
  if (l4_ >= packet_.size() || l4_ < ip_ || l4_ - ip_ < (v4_ ? kIpv4 : kIpv6)) return false;

  const unsigned protocol = tcp_ ? kTcpProtocol : kUdpProtocol;
  const std::size_t length =
      v4_ ? get16(packet_, ip_ + kIpv4Length) : kIpv6 + get16(packet_, ip_ + kIpv6Length);
  if (length > packet_.size() - ip_ || length <= l4_ - ip_) return false;
  if (v4_) {
    const std::size_t header = std::size_t{4} * (get8(packet_, ip_) & 0xf);
    if (get8(packet_, ip_) >> 4 != 4 || header != l4_ - ip_ ||
        get8(packet_, ip_ + kIpv4Protocol) != protocol)
      return false;
    if ((get16(packet_, ip_ + kIpv4Fragment) & kIpv4FragmentMask) != 0) return false;
  } else if (get8(packet_, ip_) >> 4 != 6 || !leads_to(packet_, ip_, l4_, protocol)) {
    return false;
  }
  packet_ = packet_.first(ip_ + length);
  return true;
}

void PacketFinisher::next() {
  if (at_ == packet_.size()) {
    frame_ = {};
    return;
  }
  make_segment();
}

void PacketFinisher::make_segment() {
  const std::size_t size = std::min(segment_, packet_.size() - at_);
  const auto segment = packet_.subspan(at_ - headers_size_, headers_size_ + size);
  std::ranges::copy(std::span(headers_).first(headers_size_), segment.begin());
  const auto ip = segment.subspan(ip_);
  const auto l4 = segment.subspan(l4_);

  if (v4_) {
    put16(ip, kIpv4Length, static_cast<std::uint16_t>(ip.size()));
    put16(ip, kIpv4Id, static_cast<std::uint16_t>(get16(ip, kIpv4Id) + number_));
    put16(ip, kIpv4Checksum, 0);
    put_checksum(ip, kIpv4Checksum, sum_of(ip.first(l4_ - ip_)), false);
  } else {
    put16(ip, kIpv6Length, static_cast<std::uint16_t>(ip.size() - kIpv6));
  }
  if (tcp_) {
    put32(l4, kTcpSequence,
          get32(l4, kTcpSequence) + static_cast<std::uint32_t>(at_ - headers_size_));
    if (at_ + size != packet_.size()) l4[kTcpFlags] &= ~std::byte{kFinPsh};
    if (number_ != 0) l4[kTcpFlags] &= ~std::byte{kCwr};
  } else {
    put16(l4, kUdpLength, static_cast<std::uint16_t>(l4.size()));
  }
  const std::size_t checksum = tcp_ ? kTcpChecksum : kUdpChecksum;
  put16(l4, checksum, 0);
  const auto addresses = v4_ ? ip.subspan(kIpv4Addresses, 8) : ip.subspan(kIpv6Addresses, 32);
  const std::uint64_t pseudo = sum_of(addresses) + (tcp_ ? kTcpProtocol : kUdpProtocol) + l4.size();
  put_checksum(l4, checksum, pseudo + sum_of(l4), !tcp_);

  frame_ = segment;
  at_ += size;
  ++number_;
}

}  // namespace tern::frames

// SPDX-License-Identifier: GPL-2.0-or-later
#include "frames/unfinished.h"

#include <algorithm>

#include "frames/bytes.h"
#include "frames/checksum.h"
#include "frames/layout.h"

namespace tern::frames {

namespace {

// Completes the checksum of TCP or UDP over any protocol. SCTP's checksum is not a sum.
bool finish_checksum(std::span<std::byte> packet, const Unfinished& what) {
  const std::size_t offset = what.checksum_offset;
  if (offset != kTcpChecksum && offset != kUdpChecksum) return false;
  return complete_checksum(packet, what.checksum_start, offset,
                           offset == kUdpChecksum ? Zero::kReplaced : Zero::kKept);
}

// Whether these are headers of what the stack says is to be segmented.
bool fits(const Level& level, const Unfinished& what) {
  const bool udp = what.kind == Unfinished::Kind::kAnyUdp;
  if (!what.checksum || what.checksum_offset != (udp ? kUdpChecksum : kTcpChecksum)) return false;
  if (udp ? !level.udp() : !level.tcp()) return false;
  if (!udp && level.ipv4() != (what.kind == Unfinished::Kind::kTcp4)) return false;
  return level.l4 == what.checksum_start && !level.routing;
}

}  // namespace

bool PacketFinisher::start(std::span<std::byte> packet, const Unfinished& what) {
  frame_ = {};
  segmenter_.reset();
  if (what.kind == Unfinished::Kind::kWhole) {
    if (what.checksum && !finish_checksum(packet, what)) return false;
    frame_ = packet;
    return true;
  }
  const Level level = parse_template(packet.first(std::min(packet.size(), Segmenter::kMaxHeaders)));
  if (!fits(level, what)) return false;
  // Cuts off the bytes after the IP packet.
  const std::size_t length = level.ipv4() ? get16(packet, level.l3 + kIpv4Length)
                                          : kIpv6 + get16(packet, level.l3 + kIpv6Length);
  if (length > packet.size() - level.l3 || level.l3 + length <= level.payload) return false;
  packet_ = packet.first(level.l3 + length);
  segmenter_ = Segmenter::make(level, packet_.size() - level.payload, what.segment);
  if (!segmenter_) return false;
  headers_size_ = level.payload;
  std::ranges::copy(packet_.first(headers_size_), headers_.begin());
  number_ = 0;
  next();
  return true;
}

void PacketFinisher::next() {
  if (!segmenter_ || number_ == segmenter_->count()) {
    frame_ = {};
    return;
  }
  const auto [offset, length] = segmenter_->piece(number_);
  const auto segment = packet_.subspan(offset, headers_size_ + length);
  std::ranges::copy(std::span(headers_).first(headers_size_), segment.begin());
  segmenter_->finish(number_, segment);
  frame_ = segment;
  ++number_;
}

}  // namespace tern::frames

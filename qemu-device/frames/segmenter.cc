// SPDX-License-Identifier: GPL-2.0-or-later
#include "frames/segmenter.h"

#include <algorithm>
#include <cassert>

#include "frames/bytes.h"
#include "frames/checksum.h"
#include "frames/layout.h"

namespace tern::frames {

std::optional<Segmenter> Segmenter::make(const Level& headers, std::size_t payload,
                                         std::size_t mss) {
  if ((!headers.tcp() && !headers.udp()) || headers.payload > kMaxHeaders || mss == 0) return {};
  Segmenter s;
  s.level_ = headers;
  s.payload_ = payload;
  s.mss_ = mss;
  s.count_ = std::max<std::size_t>(1, (payload + mss - 1) / mss);
  if (s.count_ > kMaxSegments) return {};
  return s;
}

std::optional<Segmenter> Segmenter::make(std::span<const std::byte> headers, std::size_t length,
                                         const tern_eth_offload& ops) {
  if (headers.size() != le(ops.header_len) || headers.size() > kMaxHeaders) return {};
  if (length < headers.size() || length > TERN_ETH_MAX_TSO) return {};
  const Level level = parse_template(headers);
  const bool udp = (le(ops.ops) & TERN_ETH_OP_USO) != 0;
  if (!(udp ? level.udp() : level.tcp())) return {};
  if (level.payload != headers.size() || level.l4 != le(ops.csum_start)) return {};
  return make(level, length - headers.size(), le(ops.mss));
}

Segmenter::Piece Segmenter::piece(std::size_t i) const {
  assert(i < count_);
  const std::size_t offset = i * mss_;
  return {offset, std::min(mss_, payload_ - offset)};
}

void Segmenter::finish(std::size_t i, std::span<std::byte> frame) const {
  assert(i < count_ && frame.size() == level_.payload + piece(i).length);
  const std::size_t l3 = level_.l3;
  const std::size_t l4 = level_.l4;
  const std::size_t length = frame.size() - l4;
  if (level_.ipv4()) {
    put16(frame, l3 + kIpv4Length, static_cast<std::uint16_t>(frame.size() - l3));
    put16(frame, l3 + kIpv4Id, static_cast<std::uint16_t>(get16(frame, l3 + kIpv4Id) + i));
    fill_ipv4_checksum(frame, level_);
  } else {
    put16(frame, l3 + kIpv6Length, static_cast<std::uint16_t>(frame.size() - l3 - kIpv6));
  }
  if (level_.tcp()) {
    put32(frame, l4 + kTcpSequence,
          get32(frame, l4 + kTcpSequence) + static_cast<std::uint32_t>(i * mss_));
    std::uint8_t flags = get8(frame, l4 + kTcpFlags);
    if (i + 1 != count_) flags &= static_cast<std::uint8_t>(~kFinPsh);
    if (i != 0) flags &= static_cast<std::uint8_t>(~kCwr);
    frame[l4 + kTcpFlags] = std::byte{flags};
  } else {
    put16(frame, l4 + kUdpLength, static_cast<std::uint16_t>(length));
  }
  fill_transport_checksum(frame, level_, length);
}

}  // namespace tern::frames

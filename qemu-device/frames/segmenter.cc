// SPDX-License-Identifier: GPL-2.0-or-later
#include "frames/segmenter.h"

#include <algorithm>
#include <cassert>

#include "frames/bytes.h"
#include "frames/checksum.h"
#include "frames/layout.h"

namespace tern::frames {

std::optional<Segmenter> Segmenter::make(std::span<const std::byte> headers, std::size_t length,
                                         const tern_eth_offload& ops) {
  const std::size_t mss = le(ops.mss);
  if (headers.size() != le(ops.header_len) || headers.size() > kMaxHeaders || mss == 0) return {};
  if (length < headers.size() || length > TERN_ETH_MAX_TSO) return {};
  Segmenter s;
  s.level_ = parse_template(headers);
  const bool udp = (le(ops.ops) & TERN_ETH_OP_USO) != 0;
  if (!(udp ? s.level_.udp() : s.level_.tcp())) return {};
  if (s.level_.payload != headers.size() || s.level_.l4 != le(ops.csum_start)) return {};
  s.payload_ = length - headers.size();
  s.mss_ = mss;
  s.count_ = std::max<std::size_t>(1, (s.payload_ + mss - 1) / mss);
  if (s.count_ > kMaxSegments) return {};
  return s;
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

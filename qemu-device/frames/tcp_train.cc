// SPDX-License-Identifier: GPL-2.0-or-later
#include "frames/tcp_train.h"

#include <cassert>

#include "frames/bytes.h"

namespace tern::frames {

std::optional<TcpTrain> TcpTrain::parse(std::span<const std::byte> frame, std::uint32_t segments,
                                        std::uint32_t mss) {
  const Level level = parse_template(frame.first(std::min(frame.size(), Segmenter::kMaxHeaders)));
  if (segments < 2 || !level.tcp()) return {};
  const auto segmenter = Segmenter::make(level, frame.size() - level.payload, mss);
  if (!segmenter || segmenter->count() != segments) return {};
  return TcpTrain(frame, level.payload, *segmenter);
}

void TcpTrain::write(std::uint32_t i, std::span<std::byte> out) const {
  assert(out.size() == bytes(i));
  const auto [offset, length] = segmenter_.piece(i);
  std::ranges::copy(frame_.first(headers_), out.begin());
  std::ranges::copy(frame_.subspan(headers_ + offset, length), out.subspan(headers_).begin());
  std::ranges::fill(out.subspan(headers_ + length), std::byte{0});
  segmenter_.finish(i, out.first(headers_ + length));
}

void TcpTrain::set_lengths(std::span<std::byte> frame, const Level& headers) {
  static_assert(TERN_ETH_MAX_TSO - kEthernet <= UINT16_MAX);
  const std::size_t packet = frame.size() - headers.l3;
  if (headers.ipv4()) {
    put16(frame, headers.l3 + kIpv4Length, static_cast<std::uint16_t>(packet));
  } else {
    put16(frame, headers.l3 + kIpv6Length, static_cast<std::uint16_t>(packet - kIpv6));
  }
}

}  // namespace tern::frames

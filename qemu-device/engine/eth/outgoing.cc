// SPDX-License-Identifier: GPL-2.0-or-later
#include "eth/outgoing.h"

#include <cstring>

#include "frames/bytes.h"
#include "frames/checksum.h"
#include "frames/tcp_train.h"

namespace tern::eth {

namespace {

constexpr std::uint16_t kCut = TERN_ETH_OP_TSO | TERN_ETH_OP_USO;
constexpr std::size_t kMinTrainMss = 512;
constexpr std::uint16_t kSums = TERN_ETH_OP_CSUM | TERN_ETH_OP_IP_CSUM;

}  // namespace

Outgoing::Outgoing(const tern_eth_offload& offload, std::uint64_t length)
    : ops_(le(std::uint16_t{offload.ops})),
      vlan_(le(std::uint16_t{offload.vlan})),
      csum_start_(le(std::uint16_t{offload.csum_start})),
      csum_offset_(le(std::uint16_t{offload.csum_offset})),
      length_(static_cast<std::size_t>(length)) {}

bool Outgoing::segments(const tern_eth_offload& offload) {
  return (le(std::uint16_t{offload.ops}) & kCut) != 0;
}

std::optional<Outgoing> Outgoing::make(const tern_eth_offload& offload,
                                       std::span<const std::byte> headers, std::uint64_t length,
                                       std::size_t most) {
  const std::uint16_t ops = le(std::uint16_t{offload.ops});
  if ((ops & ~(kCut | kSums | TERN_ETH_OP_VLAN)) != 0 || (ops & kSums) == kSums ||
      offload.rsvd_e != 0)
    return std::nullopt;
  // The tag counts towards the limit: the peer must be able to receive the
  // frame.
  if (ops & TERN_ETH_OP_VLAN) most -= frames::kTag;
  if (!segments(offload)) {
    if (length < frames::kEthernet || length > most) return std::nullopt;
    return Outgoing(offload, length);
  }
  if (length > TERN_ETH_MAX_TSO || headers.size() > frames::Segmenter::kMaxHeaders ||
      headers.size() > length)
    return std::nullopt;
  auto segmenter = frames::Segmenter::make(headers, static_cast<std::size_t>(length), offload);
  // The first segment is the longest.
  if (!segmenter || segmenter->count() == 0 || headers.size() + segmenter->piece(0).length > most)
    return std::nullopt;
  Outgoing made(offload, length);
  made.headers_ = headers.size();
  made.segmenter_ = segmenter;
  return made;
}

frames::Segmenter::Piece Outgoing::piece(std::size_t i) const {
  if (!segmenter_) return {0, length_};
  const auto [offset, length] = segmenter_->piece(i);
  return {headers_ + offset, length};
}

bool Outgoing::finish(std::size_t i, std::span<std::byte> room) const {
  const auto frame = room.subspan(start());
  if (segmenter_) {
    segmenter_->finish(i, frame);
  } else if (ops_ & TERN_ETH_OP_CSUM) {
    if (!frames::complete_checksum(frame, csum_start_, csum_offset_)) return false;
  } else if (ops_ & TERN_ETH_OP_IP_CSUM) {
    frames::fill_checksums(frame, frames::parse(frame).outer);
  }
  insert_tag(room);
  return true;
}

void Outgoing::insert_tag(std::span<std::byte> room) const {
  if (!tags()) return;
  std::memmove(room.data(), room.data() + frames::kTag, frames::kAddresses);
  frames::put16(room, frames::kAddresses, frames::kVlanType);
  frames::put16(room, frames::kAddresses + 2, vlan_);
}

std::size_t Outgoing::train_bytes() const {
  const frames::Level& level = segmenter_->headers();
  // Whoever divides it pays for each segment. A coalesced packet can have no larger ones.
  const bool fits =
      segmenter_->mss() >= kMinTrainMss && segmenter_->mss() <= (TERN_ETH_COALESCED_MSS_MASK >> 16);
  // The tag must not hide the headers from a parser.
  const bool parses = !tags() || (level.l3 <= frames::kEthernet + frames::kTag &&
                                  headers_ + frames::kTag <= frames::Segmenter::kMaxHeaders);
  return level.tcp() && count() > 1 && fits && parses ? start() + length_ : 0;
}

void Outgoing::finish_train(std::span<std::byte> room) const {
  frames::TcpTrain::set_lengths(room.subspan(start()), segmenter_->headers());
  insert_tag(room);
}

}  // namespace tern::eth

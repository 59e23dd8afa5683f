// SPDX-License-Identifier: GPL-2.0-or-later
#include "eth/coalesce.h"

#include <cassert>
#include <cstring>

#include "frames/bytes.h"
#include "frames/checksum.h"
#include "frames/layout.h"

namespace tern::eth {

using namespace frames;

namespace {

bool equal(std::span<const std::byte> a, std::span<const std::byte> b, std::size_t from,
           std::size_t to) {
  return std::memcmp(a.data() + from, b.data() + from, to - from) == 0;
}

}  // namespace

bool Coalesced::may_join(std::span<const std::byte> frame, const Level& level) {
  if (!level.tcp() || level.cut || level.end != frame.size() || level.payload == level.end)
    return false;
  if (level.l3 > kEthernet + kTag || level.l4 - level.l3 != (level.ipv4() ? kIpv4 : kIpv6))
    return false;
  return (get8(frame, level.l4 + kTcpFlags) & ~(kFinPsh | kEce)) == kAck;
}

bool Coalesced::may_lead(std::span<const std::byte> frame, const Level& level) {
  return (get8(frame, level.l4 + kTcpFlags) & kFinPsh) == 0;
}

void Coalesced::start(std::span<const std::byte> frame, const Level& level) {
  size_ = level.payload;
  assert(size_ <= headers_.size());
  std::memcpy(headers_.data(), frame.data(), size_);
  l3_ = level.l3;
  l4_ = level.l4;
  ipv4_ = level.ipv4();
  fixed_id_ = false;
  ended_ = false;
  flags_ = 0;
  segments_ = 1;
  mss_ = payload_ = level.end - level.payload;
}

void Coalesced::start(std::span<const std::byte> train, const Level& level, std::uint32_t segments,
                      std::uint32_t mss) {
  start(train, level);
  flags_ = get8(train, level.l4 + kTcpFlags) & kFinPsh;
  ended_ = true;
  segments_ = segments;
  mss_ = mss;
}

// Compares all fields but the lengths, the identification and the checksum.
bool Coalesced::same_network(std::span<const std::byte> frame) const {
  if (ipv4_) {
    return equal(frame, headers_, 0, l3_ + kIpv4Length) &&
           equal(frame, headers_, l3_ + kIpv4Fragment, l3_ + 10) &&
           equal(frame, headers_, l3_ + 12, l4_) && id_follows(get16(frame, l3_ + kIpv4Id));
  }
  return equal(frame, headers_, 0, l3_ + kIpv6Length) && equal(frame, headers_, l3_ + 6, l4_);
}

// The second frame decides whether all identifications are the same, as in Linux.
bool Coalesced::id_follows(std::uint16_t id) const {
  const std::uint16_t first = get16(headers_, l3_ + kIpv4Id);
  if (segments_ == 1 && id == first) return true;
  return id == static_cast<std::uint16_t>(fixed_id_ ? first : first + segments_);
}

// Compares all fields but the sequence number, the checksum, PSH and FIN.
bool Coalesced::same_transport(std::span<const std::byte> frame) const {
  return get32(frame, l4_ + kTcpSequence) == get32(headers_, l4_ + kTcpSequence) + payload_ &&
         equal(frame, headers_, l4_, l4_ + kTcpSequence) &&
         equal(frame, headers_, l4_ + kTcpAck, l4_ + kTcpFlags) &&
         ((get8(frame, l4_ + kTcpFlags) ^ get8(headers_, l4_ + kTcpFlags)) & ~kFinPsh) == 0 &&
         equal(frame, headers_, l4_ + kTcpWindow, l4_ + kTcpChecksum) &&
         equal(frame, headers_, l4_ + kTcpUrgent, size_);
}

bool Coalesced::continues(std::span<const std::byte> frame, const Level& level) const {
  if (level.payload != size_ || level.l4 != l4_ || level.l3 != l3_ || level.ipv4() != ipv4_)
    return false;
  const std::size_t more = level.end - level.payload;
  if (ended_ || more > mss_ || size_ - l3_ + payload_ + more > TERN_ETH_MAX_COALESCED) return false;
  return same_transport(frame) && same_network(frame);
}

void Coalesced::add(std::span<const std::byte> frame, const Level& level) {
  const std::uint32_t more = level.end - level.payload;
  if (segments_ == 1 && ipv4_)
    fixed_id_ = get16(frame, l3_ + kIpv4Id) == get16(headers_, l3_ + kIpv4Id);
  flags_ = get8(frame, l4_ + kTcpFlags) & kFinPsh;
  ended_ = flags_ != 0 || more < mss_;
  ++segments_;
  payload_ += more;
}

std::uint32_t Coalesced::describe() const {
  if (segments_ < 2) return 0;
  return field_prep(TERN_ETH_COALESCED_SEGS_MASK, segments_) |
         field_prep(TERN_ETH_COALESCED_MSS_MASK, mss_) |
         (fixed_id_ ? TERN_ETH_COALESCED_FIXED_ID : 0U);
}

std::span<const std::byte> Coalesced::finish() {
  const auto all = std::span(headers_).first(size_);
  const std::size_t transport = size_ - l4_ + payload_;
  headers_[l4_ + kTcpFlags] |= std::byte{flags_};
  if (ipv4_) {
    put16(all, l3_ + kIpv4Length, static_cast<std::uint16_t>(kIpv4 + transport));
  } else {
    put16(all, l3_ + kIpv6Length, static_cast<std::uint16_t>(transport));
  }
  fill_pseudo_checksum(all, parse_template(all), transport);
  return all;
}

}  // namespace tern::eth

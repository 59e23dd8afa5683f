// SPDX-License-Identifier: GPL-2.0-or-later
#include "egress_queue.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstring>
#include <new>

#include "frame.h"

namespace tern::daemon {

namespace {

constexpr std::uint16_t kIpv4 = 0x0800;
constexpr std::uint16_t kIpv6 = 0x86dd;

}  // namespace

void EgressQueue::Unmap::operator()(std::byte* p) const { munmap(p, bytes); }

// A mapping of its own: pages that are never used cost nothing.
EgressQueue::EgressQueue(std::size_t bytes) : size_(std::bit_ceil(std::max(bytes, 4 * kFrameMax))) {
  void* const p = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) throw std::bad_alloc();
  ring_ = {static_cast<std::byte*>(p), Unmap{size_}};
}

bool EgressQueue::put(std::span<const std::byte> frame, TagChange tag, std::uint64_t time, std::size_t limit, bool congestion) {
  assert(frame.size() >= kMacs + 2 && frame.size() + kTag <= kFrameMax);
  std::size_t len = frame.size();
  if (tag.kind == TagChange::Kind::kInsert) len += kTag;
  if (tag.kind == TagChange::Kind::kStrip) len -= kTag;
  const std::size_t size = (sizeof(Header) + len + kAlign - 1) & ~(kAlign - 1);

  const std::lock_guard lock(producers_);
  const std::uint64_t out = out_.load(std::memory_order_acquire);
  std::uint64_t in = in_.load(std::memory_order_relaxed);
  if (waiting(in, out) + size > std::min(limit, size_)) return false;
  // An empty ring starts again from its beginning once there is room for `limit` bytes before this
  // position: so what is used of it stays in a processor's cache.
  if (till_end(in) < size || (in == out && at(in) >= limit + kFrameMax)) {
    const std::size_t rest = till_end(in);
    if (in - out + rest + size > size_) return false;
    filler_at_.store(in, std::memory_order_relaxed);
    filler_size_.store(rest, std::memory_order_relaxed);
    const Header filler{kFiller, static_cast<std::uint32_t>(rest), 0};
    std::memcpy(ring_.get() + at(in), &filler, sizeof(filler));
    in += rest;
  }
  if (in - out + size > size_) return false;
  std::byte* const record = ring_.get() + at(in);
  const Header header{static_cast<std::uint32_t>(len), static_cast<std::uint32_t>(size), time};
  std::memcpy(record, &header, sizeof(header));
  const std::span<std::byte> to(record + sizeof(header), len);
  switch (tag.kind) {
    case TagChange::Kind::kKeep:
      std::memcpy(to.data(), frame.data(), len);
      break;
    case TagChange::Kind::kStrip:
      std::memcpy(to.data(), frame.data(), kMacs);
      std::memcpy(to.data() + kMacs, frame.data() + kMacs + kTag, len - kMacs);
      break;
    case TagChange::Kind::kInsert:
      std::memcpy(to.data(), frame.data(), kMacs);
      put16(to, kMacs, kVlanTpid);
      put16(to, kMacs + 2, tag.vlan);
      std::memcpy(to.data() + kMacs + kTag, frame.data() + kMacs, frame.size() - kMacs);
      break;
  }
  if (congestion) mark_congestion(to);
  // Sequentially consistent: the caller then reads whether the consumer sleeps.
  in_.store(in + size, std::memory_order_seq_cst);
  return true;
}

EgressQueue::Frame EgressQueue::front() {
  const std::uint64_t in = in_.load(std::memory_order_acquire);
  std::uint64_t out = out_.load(std::memory_order_relaxed);
  if (in == out) return {};
  Header header;
  std::memcpy(&header, ring_.get() + at(out), sizeof(header));
  if (header.len == kFiller) {
    // A frame follows: both were published at once.
    out += header.size;
    out_.store(out, std::memory_order_release);
    std::memcpy(&header, ring_.get() + at(out), sizeof(header));
  }
  return {{ring_.get() + at(out) + sizeof(header), header.len}, header.time};
}

void EgressQueue::pop() {
  const std::uint64_t out = out_.load(std::memory_order_relaxed);
  Header header;
  std::memcpy(&header, ring_.get() + at(out), sizeof(header));
  out_.store(out + header.size, std::memory_order_release);
}

namespace {

constexpr std::byte kEcn{3};

// The offset of the IP header, whose type is `type`; 0 if there is none.
std::size_t find_ip(std::span<const std::byte> frame, std::uint16_t& type) {
  constexpr std::size_t kIpv4Size = 20;
  std::size_t at = kMacs;
  if (frame.size() < at + 2 + kTag + kIpv4Size) return 0;
  type = get16(frame, at);
  if (type == kVlanTpid) {
    at += kTag;
    type = get16(frame, at);
  }
  return type == kIpv4 || type == kIpv6 ? at + 2 : 0;
}

}  // namespace

bool is_ecn_capable(std::span<const std::byte> frame) {
  std::uint16_t type = 0;
  const std::size_t at = find_ip(frame, type);
  if (at == 0) return false;
  // In IPv6 the traffic class spans two bytes: ECN is bits 4 and 5 of the second.
  return ((type == kIpv6 ? frame[at + 1] >> 4 : frame[at + 1]) & kEcn) != std::byte{};
}

void mark_congestion(std::span<std::byte> frame) {
  std::uint16_t type = 0;
  const std::size_t at = find_ip(frame, type);
  if (type == kIpv6) {
    frame[at + 1] |= kEcn << 4;
    return;
  }
  constexpr std::size_t kChecksum = 10;
  const std::uint16_t before = get16(frame, at);
  frame[at + 1] |= kEcn;
  // RFC 1624, equation 3.
  std::uint32_t sum = 0xffffU & ~std::uint32_t{get16(frame, at + kChecksum)};
  sum += 0xffffU & ~std::uint32_t{before};
  sum += get16(frame, at);
  sum = (sum & 0xffff) + (sum >> 16);
  sum = (sum & 0xffff) + (sum >> 16);
  put16(frame, at + kChecksum, static_cast<std::uint16_t>(~sum));
}

}  // namespace tern::daemon

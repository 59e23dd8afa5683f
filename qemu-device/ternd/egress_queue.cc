// SPDX-License-Identifier: GPL-2.0-or-later
#include "egress_queue.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstring>
#include <mutex>
#include <new>

#include "frame.h"

namespace tern::daemon {

namespace {

// Bytes of the ring after which producers read the consumer's position. The shortest ring still has
// space for a filler and the longest record.
constexpr std::size_t kReadEvery = 32 * 1024;

constexpr std::size_t kLine = 64;  // of a cache

constexpr std::uint16_t kIpv4 = 0x0800;
constexpr std::uint16_t kIpv6 = 0x86dd;

}  // namespace

void EgressQueue::Unmap::operator()(std::byte* p) const { munmap(p, bytes); }

// Maps memory of its own: pages that are never used cost nothing.
EgressQueue::EgressQueue(std::size_t bytes) : size_(std::bit_ceil(std::max(bytes, 4 * kFrameMax))) {
  void* const p = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) throw std::bad_alloc();
  ring_ = {static_cast<std::byte*>(p), Unmap{size_}};
}

EgressQueue::~EgressQueue() {
  while (!front().bytes.empty()) pop();
}

EgressQueue::Header EgressQueue::header_at(std::uint64_t position) const {
  Header header;
  std::memcpy(&header, ring_.get() + at(position), sizeof(header));
  return header;
}

EgressQueue::Reference EgressQueue::reference_at(std::uint64_t position) const {
  Reference reference;
  std::memcpy(&reference, ring_.get() + at(position) + sizeof(Header), sizeof(reference));
  return reference;
}

void EgressQueue::read_consumer() {
  out_seen_ = out_.load(std::memory_order_acquire);
  bytes_out_seen_ = bytes_out_.load(std::memory_order_relaxed);
}

// Returns space for a record at `in`, which moves past a filler. Null if there is none.
std::byte* EgressQueue::room(std::uint64_t& in, std::size_t size, std::size_t limit) {
  const std::uint64_t out = out_seen_;
  std::uint64_t start = in;
  // An empty ring restarts from its beginning once there is space for `limit` bytes before this
  // position: the used part then stays in a processor's cache.
  if (till_end(in) < size || (in == out && at(in) >= limit + kFrameMax)) {
    const std::size_t rest = till_end(in);
    if (in - out + rest + size > size_) return nullptr;
    const Header filler{kFiller, static_cast<std::uint32_t>(rest), 0};
    std::memcpy(ring_.get() + at(in), &filler, sizeof(filler));
    start += rest;
  }
  if (start - out + size > size_) return nullptr;
  in = start;
  return ring_.get() + at(in);
}

namespace {

void copy_frame(std::span<std::byte> to, std::span<const std::byte> frame, TagChange tag) {
  switch (tag.kind) {
    case TagChange::Kind::kKeep:
      std::memcpy(to.data(), frame.data(), to.size());
      break;
    case TagChange::Kind::kStrip:
      std::memcpy(to.data(), frame.data(), kMacs);
      std::memcpy(to.data() + kMacs, frame.data() + kMacs + kTag, to.size() - kMacs);
      break;
    case TagChange::Kind::kInsert:
      std::memcpy(to.data(), frame.data(), kMacs);
      put16(to, kMacs, kVlanTpid);
      put16(to, kMacs + 2, tag.vlan);
      std::memcpy(to.data() + kMacs + kTag, frame.data() + kMacs, frame.size() - kMacs);
      break;
  }
}

}  // namespace

bool EgressQueue::put(std::span<const std::byte> frame, TagChange tag, std::uint64_t time,
                      std::size_t limit, bool congestion, EffectsBatch* batch) {
  assert(frame.size() >= kMacs + 2 && frame.size() + kTag <= kFrameMax);
  std::size_t len = frame.size();
  if (tag.kind == TagChange::Kind::kInsert) len += kTag;
  if (tag.kind == TagChange::Kind::kStrip) len -= kTag;
  const bool in_place =
      batch != nullptr && len >= kLong && tag.kind == TagChange::Kind::kKeep && !congestion;

  const std::lock_guard lock(producers_);
  limit = std::min(limit, size_);
  const std::uint64_t bytes = bytes_in_.load(std::memory_order_relaxed);
  std::uint64_t in = in_.load(std::memory_order_relaxed);
  if (in - out_seen_ >= kReadEvery || bytes - bytes_out_seen_ + counted(len) > limit)
    read_consumer();
  if (bytes - bytes_out_seen_ + counted(len) > limit) return false;
  std::size_t size = sizeof(Header) + sizeof(Reference);
  std::byte* record = in_place ? room(in, size, limit) : nullptr;
  if (record != nullptr && batch->hold()) {
    const Header header{static_cast<std::uint32_t>(len),
                        static_cast<std::uint32_t>(size) | kReference, time};
    const Reference reference{frame.data(), batch};
    std::memcpy(record, &header, sizeof(header));
    std::memcpy(record + sizeof(header), &reference, sizeof(reference));
  } else {
    size = counted(len);
    in = in_.load(std::memory_order_relaxed);
    record = room(in, size, limit);
    if (record == nullptr) return false;
    const Header header{static_cast<std::uint32_t>(len), static_cast<std::uint32_t>(size), time};
    std::memcpy(record, &header, sizeof(header));
    const std::span<std::byte> to(record + sizeof(header), len);
    copy_frame(to, frame, tag);
    if (congestion) mark_congestion(to);
  }
  bytes_in_.store(bytes + counted(len), std::memory_order_relaxed);
  in_.store(in + size, std::memory_order_release);
  return true;
}

void EgressQueue::release_batch() {
  if (taken_ != 0) batch_->release(taken_);
  taken_ = 0;
}

// Prefetches the frame of a waiting record if it is stored elsewhere: another processor's cache has
// it.
void EgressQueue::prefetch(std::uint64_t position) const {
  if (position == in_seen_) return;
  const Header header = header_at(position);
  if ((header.size & kReference) == 0 || header.len == kFiller) return;
  const std::byte* const data = reference_at(position).data;
  for (std::size_t i = 0; i < header.len; i += kLine) __builtin_prefetch(data + i, 0, 2);
}

EgressQueue::Frame EgressQueue::front() {
  std::uint64_t out = out_.load(std::memory_order_relaxed);
  if (out == in_seen_) {
    in_seen_ = in_.load(std::memory_order_acquire);
    if (out == in_seen_) {
      release_batch();
      return {};
    }
  }
  Header header = header_at(out);
  if (header.len == kFiller) {
    // A frame follows: both were published at once.
    out += header.size;
    out_.store(out, std::memory_order_release);
    header = header_at(out);
  }
  const bool in_place = (header.size & kReference) != 0;
  prefetch(out + (header.size & ~kReference));
  return {{in_place ? reference_at(out).data : ring_.get() + at(out) + sizeof(header), header.len},
          header.time};
}

void EgressQueue::pop() {
  const std::uint64_t out = out_.load(std::memory_order_relaxed);
  const Header header = header_at(out);
  if ((header.size & kReference) != 0) {
    EffectsBatch* const batch = reference_at(out).batch;
    if (batch != batch_) release_batch();
    batch_ = batch;
    ++taken_;
  }
  bytes_out_.store(bytes_out_.load(std::memory_order_relaxed) + counted(header.len),
                   std::memory_order_release);
  out_.store(out + (header.size & ~kReference), std::memory_order_release);
}

namespace {

constexpr std::byte kEcn{3};

// Returns the offset of the IP header, whose type is `type`; 0 if there is none.
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

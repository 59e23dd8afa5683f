// SPDX-License-Identifier: GPL-2.0-or-later
#include "egress_queue.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstring>
#include <mutex>
#include <new>

#include "frames/bytes.h"
#include "frames/ecn.h"
#include "frames/layout.h"
#include "wire/codec.h"

namespace tern::daemon {

namespace {

using frames::kAddresses, frames::kTag;

// Bytes of the ring after which producers read the consumer's position. The shortest ring still has
// space for a filler and the longest record.
constexpr std::size_t kReadEvery = 32 * 1024;

constexpr std::size_t kLine = 64;  // of a cache

}  // namespace

void EgressQueue::Unmap::operator()(std::byte* p) const { munmap(p, bytes); }

// Maps memory of its own: pages that are never used cost nothing.
EgressQueue::EgressQueue(std::size_t bytes) : size_(std::bit_ceil(std::max(bytes, 4 * kFrameMax))) {
  void* const p = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) throw std::bad_alloc();
  ring_ = {static_cast<std::byte*>(p), Unmap{size_}};
}

EgressQueue::~EgressQueue() {
  while (!front().frame.empty()) pop();
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

void copy_frame(std::span<std::byte> to, std::span<const std::byte> frame,
                const FrameChange& change) {
  switch (change.tag.kind) {
    case TagChange::Kind::kKeep:
      std::memcpy(to.data(), frame.data(), to.size());
      break;
    case TagChange::Kind::kStrip:
      std::memcpy(to.data(), frame.data(), kAddresses);
      std::memcpy(to.data() + kAddresses, frame.data() + kAddresses + kTag, to.size() - kAddresses);
      break;
    case TagChange::Kind::kInsert:
      std::memcpy(to.data(), frame.data(), kAddresses);
      frames::put16(to, kAddresses, frames::kVlanType);
      frames::put16(to, kAddresses + 2, change.tag.vlan);
      std::memcpy(to.data() + kAddresses + kTag, frame.data() + kAddresses,
                  frame.size() - kAddresses);
      break;
  }
  if (change.congestion) frames::mark_congestion(to);
  if (change.icrc) write_icrc(to);
}

}  // namespace

std::uint32_t EgressQueue::flags_of(const WireFrame& frame, bool beside) {
  return (frame.finished() ? 0 : kDeferredIcrc) | (frame.inside ? kInside : 0) |
         (beside ? kBeside : 0);
}

// Whether a frame of `len` bytes fits below the limit.
bool EgressQueue::fits(std::size_t len, std::size_t limit) {
  const std::uint64_t bytes = bytes_in_.load(std::memory_order_relaxed);
  const std::uint64_t in = in_.load(std::memory_order_relaxed);
  if (in - out_seen_ >= kReadEvery || bytes - bytes_out_seen_ + counted(len) > limit)
    read_consumer();
  return bytes - bytes_out_seen_ + counted(len) <= limit;
}

// Makes the record of `size` bytes before `in` visible, whose frame has `len` bytes.
void EgressQueue::publish_record(std::uint64_t in, std::size_t len, std::size_t size) {
  bytes_in_.store(bytes_in_.load(std::memory_order_relaxed) + counted(len),
                  std::memory_order_relaxed);
  in_.store(in + size, std::memory_order_release);
}

// Puts a record that refers to the frame. Returns false if there is no space, or the batch cannot
// be held.
bool EgressQueue::put_reference(const WireFrame& frame, std::size_t bytes, std::uint64_t time,
                                std::size_t limit, EffectsBatch& batch, std::uint32_t flags) {
  constexpr std::size_t kSize = sizeof(Header) + sizeof(Reference);
  std::uint64_t in = in_.load(std::memory_order_relaxed);
  std::byte* const record = room(in, kSize, limit);
  if (record == nullptr || !batch.hold()) return false;
  const Header header{static_cast<std::uint32_t>(frame.size()),
                      static_cast<std::uint32_t>(kSize) | kReference | flags, time};
  const Reference reference{.data = frame.bytes.data(),
                            .batch = &batch,
                            .payload = frame.payload,
                            .len = static_cast<std::uint32_t>(frame.bytes.size()),
                            .bytes = static_cast<std::uint32_t>(bytes),
                            .train = frame.train,
                            .mss = frame.mss};
  std::memcpy(record, &header, sizeof(header));
  std::memcpy(record + sizeof(header), &reference, sizeof(reference));
  publish_record(in, frame.size(), kSize);
  return true;
}

bool EgressQueue::put_train(const WireFrame& frame, std::size_t bytes, std::uint64_t time,
                            std::size_t limit, EffectsBatch& batch, bool beside) {
  assert(batch.can_hold());
  const std::lock_guard lock(producers_);
  limit = std::min(limit, size_);
  return fits(frame.size(), limit) &&
         put_reference(frame, bytes, time, limit, batch, flags_of(frame, beside));
}

bool EgressQueue::put(const WireFrame& frame, const FrameChange& change, std::uint64_t time,
                      std::size_t limit, EffectsBatch* batch, bool beside) {
  std::size_t len = frame.bytes.size();
  assert(len >= frames::kEthernet && len + kTag <= kFrameMax && frame.train == 1);
  if (change.tag.kind == TagChange::Kind::kInsert) len += kTag;
  if (change.tag.kind == TagChange::Kind::kStrip) len -= kTag;
  const bool in_place = batch != nullptr && len >= kLong && !change.any();
  std::uint32_t flags = flags_of(frame, beside);
  if (change.icrc) flags &= ~kDeferredIcrc;

  const std::lock_guard lock(producers_);
  limit = std::min(limit, size_);
  if (!fits(len, limit)) return false;
  if (in_place && put_reference(frame, len, time, limit, *batch, flags)) return true;
  const std::size_t size = counted(len);
  std::uint64_t in = in_.load(std::memory_order_relaxed);
  std::byte* const record = room(in, size, limit);
  if (record == nullptr) return false;
  const Header header{static_cast<std::uint32_t>(len), static_cast<std::uint32_t>(size) | flags,
                      time};
  std::memcpy(record, &header, sizeof(header));
  copy_frame({record + sizeof(header), len}, frame.bytes, change);
  publish_record(in, len, size);
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
  const Reference reference = reference_at(position);
  const std::size_t first = std::min<std::size_t>(reference.len, kFrameMax);
  for (std::size_t i = 0; i < first; i += kLine) __builtin_prefetch(reference.data + i, 0, 2);
}

EgressQueue::Waiting EgressQueue::front() {
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
  prefetch(out + (header.size & ~kFlags));
  Waiting first{.frame = {}, .time = header.time, .bytes = header.len};
  const std::byte* data = ring_.get() + at(out) + sizeof(header);
  std::size_t len = header.len;
  if ((header.size & kReference) != 0) {
    const Reference reference = reference_at(out);
    data = reference.data;
    len = reference.len;
    first.bytes = reference.bytes;
    first.frame.payload = reference.payload;
    first.frame.train = reference.train;
    first.frame.mss = reference.mss;
  }
  first.frame.bytes = {data, len};
  first.frame.icrc = (header.size & kDeferredIcrc) != 0 ? Icrc::kDeferred : Icrc::kPresent;
  first.frame.inside = (header.size & kInside) != 0;
  first.beside = (header.size & kBeside) != 0;
  return first;
}

void EgressQueue::pop() {
  const std::uint64_t out = out_.load(std::memory_order_relaxed);
  const Header header = header_at(out);
  if ((header.size & kReference) != 0) {
    const Reference reference = reference_at(out);
    if (reference.payload != nullptr) reference.payload->finish();
    EffectsBatch* const batch = reference.batch;
    if (batch != batch_) release_batch();
    batch_ = batch;
    ++taken_;
  }
  bytes_out_.store(bytes_out_.load(std::memory_order_relaxed) + counted(header.len),
                   std::memory_order_release);
  out_.store(out + (header.size & ~kFlags), std::memory_order_release);
}

}  // namespace tern::daemon

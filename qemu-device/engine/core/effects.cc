// SPDX-License-Identifier: GPL-2.0-or-later
#include "core/effects.h"

#include <algorithm>

namespace tern {

namespace {
constexpr std::size_t kAlign = 64;  // each frame starts on a new cache line
}  // namespace

std::span<std::byte> Effects::begin_frame(std::size_t max) {
  if (arena_.size() - used_ < max) {
    arena_.resize(std::max(used_ + max, arena_.size() * 2));
  }
  return std::span(arena_).subspan(used_, max);
}

void Effects::commit_frame(std::size_t len, bool to_wire, Nanos time, Icrc icrc,
                           std::uint32_t train, std::uint16_t mss) {
  frames_.push_back({.offset = used_,
                     .len = static_cast<std::uint32_t>(len),
                     .to_wire = to_wire,
                     .time = time,
                     .icrc = icrc,
                     .train = train,
                     .mss = mss});
  used_ = std::min(arena_.size(), (used_ + len + kAlign - 1) & ~(kAlign - 1));
}

void Effects::commit_to_lane(std::size_t len, std::uint8_t lane, bool inside, Nanos time,
                             std::uint32_t train) {
  commit_frame(len, true, time, Icrc::kDeferred, train);
  frames_.back().shown = false;
  frames_.back().lane = lane;
  frames_.back().inside = inside;
}

SharedPayload& Effects::commit_shared(std::size_t len, const SpanList& payload, std::size_t offset,
                                      Nanos time, std::uint32_t train) {
  commit_frame(len, true, time, Icrc::kDeferred, train);
  if (payloads_used_ == payloads_.size()) payloads_.emplace_back();
  SharedPayload& shared = payloads_[payloads_used_++];
  shared.share(payload, offset);
  frames_.back().payload = &shared;
  return shared;
}

void Effects::hand_over(const WireFrame& frame, std::uint8_t lane, bool inside, Nanos time) {
  frame.copy_to(begin_frame(frame.size()));
  commit_to_lane(frame.size(), lane, inside, time, frame.train);
  frames_.back().icrc = frame.icrc;
  frames_.back().mss = frame.mss;
}

void Effects::append(std::span<const std::byte> frame, const Frame& attributes) {
  std::ranges::copy(frame, begin_frame(frame.size()).begin());
  commit_frame(frame.size(), attributes.to_wire, attributes.time);
  frames_.back().shown = attributes.shown;
  frames_.back().received = attributes.received;
}

void Effects::show(std::span<const std::byte> frame, bool received, Nanos time) {
  append(frame, {.offset = 0, .len = 0, .to_wire = false, .time = time, .received = received});
}

void Effects::send_unseen(std::span<const std::byte> frame, Nanos time) {
  append(frame, {.offset = 0, .len = 0, .to_wire = true, .time = time, .shown = false});
}

void Effects::clear() {
  used_ = 0;
  frames_.clear();
  for (; payloads_used_ != 0; --payloads_used_) payloads_[payloads_used_ - 1].reset();
  vectors_.fill(0);
}

}  // namespace tern

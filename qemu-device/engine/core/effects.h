// SPDX-License-Identifier: GPL-2.0-or-later
// Work for the host: frames to send or capture, and vectors to raise. Collected during a call,
// handed out as a whole, and recycled.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "core/shared_payload.h"
#include "core/types.h"
#include "core/wire_frame.h"
#include "tern_hw.hpp"

namespace tern {

class Effects {
 public:
  struct Frame {
    std::size_t offset;
    std::uint32_t len;
    bool to_wire;  // or to a lane
    Nanos time;
    bool shown = true;      // by the capture tap
    bool received = false;  // came from the wire: captured only
    Icrc icrc = Icrc::kPresent;
    std::uint32_t train = 1;
    std::uint16_t mss = 0;
    std::uint8_t lane = kNoLane;       // for this lane of the device, instead of the wire
    bool inside = false;               // with a lane: it was looped back
    SharedPayload* payload = nullptr;  // WireFrame::payload
  };
  static constexpr std::uint8_t kNoLane = UINT8_MAX;

  // Returns space for a frame of up to `max` bytes, valid until the next call on this object.
  [[nodiscard]] std::span<std::byte> begin_frame(std::size_t max);
  // Makes the first `len` bytes of that space a frame. The rest: as in WireFrame.
  void commit_frame(std::size_t len, bool to_wire, Nanos time, Icrc icrc = Icrc::kPresent,
                    std::uint32_t train = 1, std::uint16_t mss = 0);
  // Makes them a frame without ICRC. Its payload stays where it is, and belongs after the first
  // `offset` bytes.
  SharedPayload& commit_shared(std::size_t len, const SpanList& payload, std::size_t offset,
                               Nanos time, std::uint32_t train);
  // Makes them a frame without ICRC for another lane.
  void commit_to_lane(std::size_t len, std::uint8_t lane, bool inside, Nanos time,
                      std::uint32_t train);
  // These copy an existing frame. show() adds it for the capture tap only; send_unseen() hides it
  // from the tap, which has seen the original.
  void show(std::span<const std::byte> frame, bool received, Nanos time);
  void send_unseen(std::span<const std::byte> frame, Nanos time);
  void hand_over(const WireFrame& frame, std::uint8_t lane, bool inside, Nanos time);
  void raise(unsigned vector) { vectors_[vector / 64] |= std::uint64_t{1} << (vector % 64); }

  [[nodiscard]] bool empty() const { return frames_.empty() && !vectors_[0] && !vectors_[1]; }
  [[nodiscard]] std::size_t frame_bytes() const { return used_; }
  [[nodiscard]] const std::vector<Frame>& frames() const { return frames_; }
  [[nodiscard]] std::span<const std::byte> bytes(const Frame& f) const {
    return std::span(arena_).subspan(f.offset, f.len);
  }
  [[nodiscard]] const std::array<std::uint64_t, TERN_MAX_VECTORS / 64>& vectors() const {
    return vectors_;
  }
  void clear();  // keeps the storage

 private:
  void append(std::span<const std::byte> frame, const Frame& attributes);
  std::vector<std::byte> arena_;
  std::size_t used_ = 0;
  std::vector<Frame> frames_;
  std::deque<SharedPayload> payloads_;
  std::size_t payloads_used_ = 0;
  std::array<std::uint64_t, TERN_MAX_VECTORS / 64> vectors_{};
};

}  // namespace tern

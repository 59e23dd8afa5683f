// SPDX-License-Identifier: GPL-2.0-or-later
// Frames between a device and its host.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/shared_payload.h"

namespace tern {

// Whether a frame has its ICRC, or leaves it to its reader and has 0 in the field.
enum class Icrc : std::uint8_t { kPresent, kDeferred };

// With Config::unfinished_frames a device sends frames that its host, or the device that receives
// them, has to finish where somebody reads them: RoCE frames without ICRC, and trains, several
// packets of a message (wire/train.h) or TCP segments (frames/tcp_train.h) as one frame. The
// payload of a train may be elsewhere.
struct WireFrame {
  WireFrame() = default;
  template <std::convertible_to<std::span<const std::byte>> Bytes>
  WireFrame(const Bytes& frame, Icrc with = Icrc::kPresent, std::uint32_t packets = 1)
      : bytes(frame), icrc(with), train(packets) {}

  std::span<const std::byte> bytes;  // from the Ethernet header on, without FCS; empty: no frame
  Icrc icrc = Icrc::kPresent;
  std::uint32_t train = 1;           // packets; more than one: kDeferred
  std::uint16_t mss = 0;             // payload bytes of a segment, if the train has TCP segments
  bool inside = false;               // another lane of the device has looped it back
  SharedPayload* payload = nullptr;  // null: `bytes` has it
  [[nodiscard]] bool empty() const { return bytes.empty(); }
  // Bytes of the frame, payload included.
  [[nodiscard]] std::size_t size() const {
    return bytes.size() + (payload == nullptr ? 0 : payload->size());
  }
  // Writes the frame with its payload to `to`, which has size() bytes or more.
  void copy_to(std::span<std::byte> to) const {
    if (payload == nullptr) {
      std::ranges::copy(bytes, to.begin());
      return;
    }
    const std::size_t at = payload->offset();
    std::ranges::copy(bytes.first(at), to.begin());
    payload->copy_to(0, to.subspan(at, payload->size()));
    std::ranges::copy(bytes.subspan(at), to.subspan(at + payload->size()).begin());
  }
  [[nodiscard]] bool finished() const { return icrc == Icrc::kPresent; }
};

}  // namespace tern

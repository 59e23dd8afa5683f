// SPDX-License-Identifier: GPL-2.0-or-later
// A train: consecutive packets of a message in one frame (WireFrame::train), as devices of one host
// exchange them.
//
// The frame has the headers of its first packet, and the extension headers that only its last
// packet has. Its opcode says whether the first and the last packet of the message are among them.
// The payload of all packets follows, padding, and space for an ICRC. The UDP length is 0: a train
// that is taken for a single packet is malformed.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "frames/tcp_train.h"
#include "wire/codec.h"
#include "wire/packet.h"

namespace tern {

class Train {
 public:
  // Limit of a train's payload, in bytes: an eighth of what waits in a port of ternd by default.
  static constexpr std::uint32_t kMaxBytes = 64 * 1024;

  // Returns nothing if the frame is no train of as many packets as it says. Its bytes must outlive
  // the object.
  [[nodiscard]] static std::optional<Train> parse(const WireFrame& frame);

  [[nodiscard]] std::uint32_t packets() const { return packets_; }
  // Bytes of the frames of all packets.
  [[nodiscard]] std::size_t bytes() const;
  // Bytes of the frame of packet `i`.
  [[nodiscard]] std::size_t bytes(std::uint32_t i) const;
  // Writes that frame to `out`, which has bytes(i) bytes.
  void write(std::uint32_t i, std::span<std::byte> out, Icrc with = Icrc::kPresent) const;

 private:
  Train() = default;
  [[nodiscard]] std::size_t bth() const { return at_.udp() + frames::kUdp; }  // offset
  [[nodiscard]] Op op(std::uint32_t i) const;
  [[nodiscard]] std::uint8_t opcode(std::uint32_t i) const;
  [[nodiscard]] std::size_t payload_bytes(std::uint32_t i) const {
    return std::min(mtu_, size_ - i * mtu_);
  }
  void copy_extensions(const OpTraits& to, std::span<std::byte> out) const;

  std::span<const std::byte> frame_;
  std::span<const std::byte> payload_;  // of all packets, unless it is shared
  SharedPayload* shared_ = nullptr;
  std::size_t size_ = 0;  // bytes of it
  FrameLayout at_;
  std::uint32_t packets_ = 0;
  std::size_t mtu_ = 0;  // payload of all packets but the last
  std::uint8_t opcode_ = 0;
};

// Calls use() with each frame that an unfinished one stands for, with its ICRC. They are made in
// `storage`, one after the other, which has space for the longest. Returns false if the frame has
// not as many packets as it says.
template <class Use>
[[nodiscard]] bool finish(const WireFrame& frame, std::span<std::byte> storage, Use use) {
  const auto divide = [&](const auto& train) {
    for (std::uint32_t i = 0; train && i < train->packets(); ++i) {
      const auto packet = storage.first(train->bytes(i));
      train->write(i, packet);
      use(packet);
    }
    return train.has_value();
  };
  if (frame.train == 1) {
    const auto copy = storage.first(frame.bytes.size());
    std::ranges::copy(frame.bytes, copy.begin());
    write_icrc(copy);
    use(copy);
    return true;
  }
  if (frame.mss != 0) return divide(frames::TcpTrain::parse(frame.bytes, frame.train, frame.mss));
  return divide(Train::parse(frame));
}

}  // namespace tern

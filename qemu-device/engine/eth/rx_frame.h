// SPDX-License-Identifier: GPL-2.0-or-later
// A received frame, passed from the Ethernet function to a receive queue or a raw QP.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "eth/rss_hash.h"
#include "frames/checksum.h"
#include "frames/ethernet.h"
#include "frames/headers.h"

namespace tern {

struct RxFrame {
  std::span<const std::byte> bytes;  // as on the wire: with tags, without FCS
  const frames::Headers& headers;
  frames::Checked checked{};
  eth::Hash hash{};       // of the RSS group
  std::uint32_t tag = 0;  // of the flow
  // State of the Ethernet function: whether `checked` is set, and whether a receiver has stored the
  // frame.
  bool examined = false;
  bool kept = false;

  // Whether the frame has an outer tag of type 0x8100, which TERN_ETH_QF_STRIP_VLAN or
  // TERN_QP_F_STRIP_VLAN strips.
  [[nodiscard]] bool tagged() const { return frames::is_tagged(bytes); }
  // Sets the fields of the completion that describe the frame, all but byte_len. `strip`: the outer
  // tag is not stored.
  void describe(tern_cqe& cqe, bool strip) const;
};

// The bytes of a frame that a receiver stores, as pieces.
class StoredFrame {
 public:
  // `fcs`: the 4 bytes of FCS that the frame had on the wire follow.
  StoredFrame(const RxFrame& frame, bool strip, bool fcs);
  StoredFrame(const StoredFrame&) = delete;
  StoredFrame& operator=(const StoredFrame&) = delete;

  [[nodiscard]] std::size_t size() const { return size_; }
  // Up to three pieces, none empty.
  [[nodiscard]] std::span<const std::span<const std::byte>> pieces() const {
    return std::span(pieces_).first(count_);
  }

 private:
  void add(std::span<const std::byte> bytes);

  std::array<std::span<const std::byte>, 3> pieces_;
  std::size_t count_ = 0;
  std::size_t size_ = 0;
  std::array<std::byte, 4> fcs_;
};

}  // namespace tern

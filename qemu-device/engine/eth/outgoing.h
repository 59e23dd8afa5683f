// SPDX-License-Identifier: GPL-2.0-or-later
// The frames sent for a posted frame: the frame itself, or its segments. Used by transmit queues
// and raw QPs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "frames/layout.h"
#include "frames/segmenter.h"
#include "tern_hw.hpp"

namespace tern::eth {

using frames::kMinFrame;

// A frame of full MTU has up to two tags (IEEE 802.1ad).
constexpr std::size_t most_bytes(std::uint32_t mtu) {
  return mtu + frames::kEthernet + 2 * std::size_t{frames::kTag};
}

class Outgoing {
 public:
  // Whether the posted frame is segmented: then make() needs its headers.
  [[nodiscard]] static bool segments(const tern_eth_offload& offload);

  // Checks the operations (not flags) and the lengths. `headers`: the first header_len bytes of a
  // frame to segment, at most frames::Segmenter::kMaxHeaders, used only in this call. `length`:
  // bytes of the posted frame. `most`: limit of bytes of a frame on the wire. Returns nothing if
  // the frame must be refused with TERN_CQE_LOC_LEN_ERR.
  [[nodiscard]] static std::optional<Outgoing> make(const tern_eth_offload& offload,
                                                    std::span<const std::byte> headers,
                                                    std::uint64_t length, std::size_t most);

  [[nodiscard]] std::size_t count() const { return segmenter_ ? segmenter_->count() : 1; }
  // headers(): bytes of headers at the start of each frame. piece(i): bytes of the posted frame
  // that follow them in frame `i`. A frame that is not segmented has no headers, and its piece is
  // all of it.
  [[nodiscard]] std::size_t headers() const { return headers_; }
  [[nodiscard]] frames::Segmenter::Piece piece(std::size_t i) const;
  // Offset in the room of frame `i` at which to gather its bytes: a tag is inserted in front.
  [[nodiscard]] std::size_t start() const { return tags() ? frames::kTag : 0; }
  // Bytes of frame `i` on the wire, without padding: start() + headers() + piece(i).length.
  [[nodiscard]] std::size_t bytes(std::size_t i) const {
    return start() + headers_ + piece(i).length;
  }
  // train_bytes() returns the bytes of a train of all segments, or 0 if they cannot be one.
  // finish_train() completes a train that was gathered in `room` from start() on.
  [[nodiscard]] std::size_t train_bytes() const;
  void finish_train(std::span<std::byte> room) const;
  [[nodiscard]] std::size_t mss() const { return segmenter_->mss(); }
  // Completes frame `i`, gathered in `room`, which has bytes(i) bytes. Returns false if its
  // checksum does not lie in the frame.
  [[nodiscard]] bool finish(std::size_t i, std::span<std::byte> room) const;

 private:
  Outgoing(const tern_eth_offload& offload, std::uint64_t length);
  void insert_tag(std::span<std::byte> room) const;
  [[nodiscard]] bool tags() const { return (ops_ & TERN_ETH_OP_VLAN) != 0; }

  std::uint16_t ops_;
  std::uint16_t vlan_;
  std::uint16_t csum_start_;
  std::uint16_t csum_offset_;
  std::size_t headers_ = 0;
  std::size_t length_;
  std::optional<frames::Segmenter> segmenter_;
};

}  // namespace tern::eth

// SPDX-License-Identifier: GPL-2.0-or-later
// Receive coalescing and hashes of frames. The input is an offload descriptor, hash settings, and a
// frame: bytes, or a good one with changes. A coalesced packet, cut again, must give the segments
// that it was made of.
#include <algorithm>
#include <cstring>
#include <vector>

#include "eth/coalesce.h"
#include "eth/rss_hash.h"
#include "frame_input.h"
#include "frames/checksum.h"
#include "frames/sample_frames.h"
#include "frames/segmenter.h"

namespace tern::fuzz {

namespace {

frames::Bytes segment_of(const frames::Segmenter& segmenter, std::span<const std::byte> headers,
                         std::span<const std::byte> payload, std::size_t i) {
  const auto [offset, length] = segmenter.piece(i);
  frames::Bytes segment(headers.begin(), headers.end());
  segment.insert(segment.end(), payload.begin() + static_cast<std::ptrdiff_t>(offset),
                 payload.begin() + static_cast<std::ptrdiff_t>(offset + length));
  segmenter.finish(i, segment);
  return segment;
}

// A packet of these frames, with this payload, must become the same frames again.
void check_packet(eth::Coalesced& packet, std::span<const frames::Bytes> frames,
                  std::span<const std::byte> payload) {
  const std::uint32_t info = packet.describe();
  if (info == 0) return;
  const auto headers = packet.finish();
  tern_eth_offload ops{};
  ops.csum_start = le(static_cast<std::uint16_t>(frames::parse_template(headers).l4));
  ops.header_len = le(static_cast<std::uint16_t>(headers.size()));
  ops.mss = le(static_cast<std::uint16_t>(field_get(TERN_ETH_COALESCED_MSS_MASK, info)));
  ops.ops = le(std::uint16_t{TERN_ETH_OP_TSO});
  const auto segmenter = frames::Segmenter::make(headers, headers.size() + payload.size(), ops);
  expect(segmenter && segmenter->count() == frames.size() && packet.segments() == frames.size(),
         "a packet has another number of segments");
  if ((info & TERN_ETH_COALESCED_FIXED_ID) != 0) return;
  for (std::size_t i = 0; i < frames.size(); ++i) {
    expect(segment_of(*segmenter, headers, payload, i) == frames[i],
           "a packet becomes other frames than it was made of");
  }
}

// The segments of a frame, some of them changed by the input, as one burst.
void coalesce(Input& in, std::span<const std::byte> bytes, const tern_eth_offload& ops) {
  constexpr std::size_t kMost = 8;
  const auto headers = bytes.first(std::min<std::size_t>(bytes.size(), le(ops.header_len)));
  const auto segmenter = frames::Segmenter::make(headers, bytes.size(), ops);
  if (!segmenter) return;
  std::vector<frames::Bytes> frames;
  for (std::size_t i = 0; i < std::min(segmenter->count(), kMost); ++i) {
    frames::Bytes frame = segment_of(*segmenter, headers, bytes.subspan(headers.size()), i);
    if (in.pick(4) == 0) {
      frame[in.u16() % frame.size()] ^= std::byte{in.u8()};
      frames::fill_checksums(frame, frames::parse(frame).outer);
    }
    frames.push_back(std::move(frame));
  }
  eth::Coalesced packet;
  frames::Bytes payload;
  std::size_t first = 0;  // frame of the packet, if there is one
  bool open = false;
  for (std::size_t i = 0; i < frames.size(); ++i) {
    const ExactFrame frame(frames[i]);
    const frames::Level level = frames::parse(frame.bytes()).outer;
    const bool joins =
        eth::Coalesced::may_join(frame.bytes(), level) && frames::check(frame.bytes(), level).l4_ok;
    if (open && !(joins && packet.continues(frame.bytes(), level))) {
      check_packet(packet, std::span(frames).subspan(first, i - first), payload);
      open = false;
    }
    if (!joins || (!open && !eth::Coalesced::may_lead(frame.bytes(), level))) continue;
    if (open) {
      packet.add(frame.bytes(), level);
    } else {
      packet.start(frame.bytes(), level);
      payload.clear();
      first = i;
      open = true;
    }
    payload.insert(payload.end(), frames[i].begin() + level.payload, frames[i].end());
  }
  if (open) check_packet(packet, std::span(frames).subspan(first), payload);
}

}  // namespace

}  // namespace tern::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tern;
  fuzz::Input in({data, size});
  tern_eth_offload ops{};
  const auto descriptor = in.bytes(sizeof(ops));
  if (!descriptor.empty()) std::memcpy(&ops, descriptor.data(), descriptor.size());
  (void)in.u16();  // part of the corpus format
  std::array<std::uint8_t, 8> fields;
  std::ranges::generate(fields, [&] { return in.u8(); });
  const std::uint8_t func = in.u8();
  const frames::Bytes frame = fuzz::take_frame(in, ops);
  fuzz::coalesce(in, frame, ops);
  std::array<std::uint8_t, 40> key;
  for (std::size_t i = 0; i < key.size(); ++i) key[i] = static_cast<std::uint8_t>(37 * i + 11);
  const frames::Headers headers = frames::parse(frame);
  const bool inner =
      (func & TERN_RSS_F_INNER) != 0 && (headers.outer.layers & TERN_LAYER_VXLAN) != 0;
  const eth::Hash hash =
      eth::rss_hash(inner ? headers.inner : headers.outer, func & 1, fields, key);
  fuzz::expect(hash.type != TERN_ETH_HASH_NONE || hash.value == 0, "a hash of nothing");
  return 0;
}

// SPDX-License-Identifier: GPL-2.0-or-later
// Frames and offload descriptors: parsing, checksums, segmentation and hashes. The input is an
// offload descriptor, hash settings, and a frame: bytes, or a good one with changes. What the
// device completes must satisfy its own check, and each segment must be a frame of its own. A
// coalesced packet, cut again, must give the same segments.
#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "eth/coalesce.h"
#include "eth/rss_hash.h"
#include "frames/checksum.h"
#include "frames/sample_frames.h"
#include "frames/segmenter.h"
#include "host.h"
#include "input.h"

namespace tern::fuzz {

namespace {

// A frame in memory of exactly its size, so that AddressSanitizer sees what is beyond.
class Frame {
 public:
  explicit Frame(std::span<const std::byte> bytes)
      : bytes_(std::make_unique<std::byte[]>(bytes.size())), size_(bytes.size()) {
    std::ranges::copy(bytes, bytes_.get());
  }
  [[nodiscard]] std::span<std::byte> bytes() const { return {bytes_.get(), size_}; }

 private:
  std::unique_ptr<std::byte[]> bytes_;
  std::size_t size_;
};

void expect(bool holds, const char* what) {
  if (!holds) violation(what);
}

void check_level(const frames::Level& level, std::size_t size) {
  if (level.layers == 0) return;
  expect(level.ethernet + 14 <= level.l3 && level.l3 <= level.l4 && level.l4 <= level.payload,
         "headers are not in order");
  expect(level.payload <= level.end && level.end <= size, "a header is not in the frame");
}

void checksums(std::span<const std::byte> bytes, const tern_eth_offload& ops) {
  const Frame frame(bytes);
  const frames::Headers headers = frames::parse(frame.bytes());
  check_level(headers.outer, bytes.size());
  check_level(headers.inner, bytes.size());
  for (const frames::Level& level : {headers.inner, headers.outer}) {
    (void)frames::check(frame.bytes(), level);
    frames::fill_checksums(frame.bytes(), level);
    const frames::Checked checked = frames::check(frame.bytes(), level);
    expect(checked.l3_ok == level.ip() && !checked.wrong, "a filled in checksum is wrong");
    expect(checked.l4_ok == ((level.tcp() || level.udp()) && !level.cut),
           "the checksum of TCP or UDP is not filled in");
  }
  const Frame other(bytes);
  const std::size_t start = le(ops.csum_start);
  const bool fits = start + le(ops.csum_offset) + 2 <= bytes.size();
  expect(frames::complete_checksum(other.bytes(), start, le(ops.csum_offset)) == fits,
         "a checksum outside of the frame");
}

void segments(std::span<const std::byte> bytes, const tern_eth_offload& ops, std::size_t length) {
  const Frame headers(bytes.first(std::min<std::size_t>(bytes.size(), le(ops.header_len))));
  const auto segmenter = frames::Segmenter::make(headers.bytes(), length, ops);
  if (!segmenter) return;
  expect(segmenter->count() <= frames::Segmenter::kMaxSegments, "too many segments");
  std::size_t payload = headers.bytes().size();
  for (std::size_t i = 0; i < segmenter->count(); ++i) {
    const auto piece = segmenter->piece(i);
    expect(headers.bytes().size() + piece.offset == payload, "a gap between segments");
    payload += piece.length;
    // The first, the last and a few others: all would take long.
    if (i > 2 && i + 1 != segmenter->count()) continue;
    std::vector<std::byte> whole(headers.bytes().begin(), headers.bytes().end());
    whole.resize(whole.size() + piece.length);
    const Frame segment(whole);
    segmenter->finish(i, segment.bytes());
    const frames::Level level = frames::parse(segment.bytes()).outer;
    expect(level.payload == headers.bytes().size() && level.end == segment.bytes().size(),
           "a segment has wrong lengths");
    const frames::Checked checked = frames::check(segment.bytes(), level);
    expect(checked.l3_ok && checked.l4_ok, "a segment has a wrong checksum");
  }
  expect(payload == length, "the segments are not the whole");
}

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
    const Frame frame(frames[i]);
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

// A frame, and offsets that fit it if the input wants so.
frames::Bytes take_frame(Input& in, tern_eth_offload& ops) {
  constexpr unsigned kRaw = 1;
  constexpr unsigned kTunnel = 2;
  constexpr unsigned kOffsets = 4;
  const unsigned mode = in.u8();
  if ((mode & kRaw) != 0) {
    const auto bytes = std::as_bytes(in.bytes(500));
    return {bytes.begin(), bytes.end()};
  }
  std::mt19937 random(in.u16());
  const frames::SampleFrame inner = frames::draw_frame(random);
  const frames::SampleFrame f =
      (mode & kTunnel) != 0 ? frames::vxlan(inner.make(), in.u8()) : inner;
  if ((mode & kOffsets) != 0) {
    ops.csum_start = le(static_cast<std::uint16_t>(f.l4()));
    ops.header_len = le(static_cast<std::uint16_t>(f.headers()));
  }
  frames::Bytes frame = f.make();
  for (unsigned n = in.pick(4); n != 0; --n) frame[in.u16() % frame.size()] = std::byte{in.u8()};
  return frame;
}

}  // namespace

}  // namespace tern::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tern;
  fuzz::Input in({data, size});
  tern_eth_offload ops{};
  const auto descriptor = in.bytes(sizeof(ops));
  if (!descriptor.empty()) std::memcpy(&ops, descriptor.data(), descriptor.size());
  const std::size_t more = in.u16();
  std::array<std::uint8_t, 8> fields;
  std::ranges::generate(fields, [&] { return in.u8(); });
  const std::uint8_t func = in.u8();
  const frames::Bytes frame = fuzz::take_frame(in, ops);
  fuzz::checksums(frame, ops);
  fuzz::segments(frame, ops, frame.size() + more);
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

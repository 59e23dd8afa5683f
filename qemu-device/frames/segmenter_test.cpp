// SPDX-License-Identifier: GPL-2.0-or-later
#include "frames/segmenter.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "frames/bytes.h"
#include "frames/checksum.h"
#include "frames/sample_frames.h"
#include "testing/known_bytes.h"

namespace tern::frames {
namespace {

using test::from_hex;

tern_eth_offload offload(const SampleFrame& f, std::size_t mss) {
  tern_eth_offload ops{
      .csum_start = le(static_cast<std::uint16_t>(f.l4())),
      .mss = le(static_cast<std::uint16_t>(mss)),
      .header_len = le(static_cast<std::uint16_t>(f.headers())),
      .ops = le(static_cast<std::uint16_t>(TERN_ETH_OP_TSO | (f.udp() ? TERN_ETH_OP_USO : 0)))};
  return ops;
}

// Cuts a frame as a device does: headers and payload are apart.
std::vector<Bytes> cut(const SampleFrame& f, const Bytes& frame, std::size_t mss) {
  std::vector<Bytes> frames;
  const auto headers = std::span(frame).first(f.headers());
  const auto payload = std::span(frame).subspan(f.headers());
  const auto segmenter = Segmenter::make(headers, frame.size(), offload(f, mss));
  if (!segmenter) return frames;
  for (std::size_t i = 0; i < segmenter->count(); ++i) {
    const auto [offset, length] = segmenter->piece(i);
    const auto piece = payload.subspan(offset, length);
    Bytes segment(headers.begin(), headers.end());
    segment.insert(segment.end(), piece.begin(), piece.end());
    segmenter->finish(i, segment);
    frames.push_back(segment);
  }
  return frames;
}

TEST(SegmenterTest, KnownBytes) {
  const auto frames = cut(SampleFrame{}, from_hex(test::kTcpPacket), 8);
  ASSERT_EQ(frames.size(), 2U);
  for (std::size_t i = 0; i < 2; ++i) EXPECT_EQ(frames[i], from_hex(test::kTcpSegments[i]));
}

// Compares the segments of a frame with the whole, as a receiver sees both.
void expect_whole(const SampleFrame& f, const Bytes& frame, const std::vector<Bytes>& segments,
                  std::size_t mss) {
  Bytes stream;
  for (std::size_t i = 0; i < segments.size(); ++i) {
    const Bytes& s = segments[i];
    const bool last = i + 1 == segments.size();
    const std::size_t size = s.size() - f.headers();
    ASSERT_TRUE(last ? size <= mss : size == mss);
    ASSERT_TRUE(f.valid(s)) << "segment " << i;
    const Level level = parse(s).outer;
    ASSERT_EQ(level.end, s.size());
    ASSERT_EQ(level.payload, f.headers());
    ASSERT_TRUE(check(s, level).l4_ok);
    // Only the fields that segmentation changes differ.
    Bytes expected(frame.begin(), frame.begin() + static_cast<std::ptrdiff_t>(f.headers()));
    if (f.v4) {
      put16(expected, f.l3() + 2, static_cast<std::uint16_t>(s.size() - f.l3()));
      put16(expected, f.l3() + 4, static_cast<std::uint16_t>(0xfffe + i));
      put16(expected, f.l3() + 10, get16(s, f.l3() + 10));
    } else {
      put16(expected, f.l3() + 4, static_cast<std::uint16_t>(s.size() - f.l3() - 40));
    }
    if (f.tcp()) {
      put32(expected, f.l4() + 4, f.sequence + static_cast<std::uint32_t>(stream.size()));
      unsigned flags = f.flags;
      if (!last) flags &= ~0x09U;
      if (i != 0) flags &= ~0x80U;
      expected[f.l4() + 13] = static_cast<std::byte>(flags);
    } else {
      put16(expected, f.l4() + 4, static_cast<std::uint16_t>(s.size() - f.l4()));
    }
    put16(expected, f.checksum(), get16(s, f.checksum()));
    ASSERT_TRUE(std::ranges::equal(std::span(s).first(f.headers()), expected));
    const auto piece = std::span(s).subspan(f.headers());
    stream.insert(stream.end(), piece.begin(), piece.end());
  }
  ASSERT_TRUE(std::ranges::equal(stream, std::span(frame).subspan(f.headers())));
}

TEST(SegmenterTest, SegmentsMakeTheWhole) {
  std::mt19937 random(5);
  unsigned segments = 0;
  for (unsigned i = 0; i < 3'000; ++i) {
    SampleFrame f = draw_frame(random);
    if (!f.tcp() && !f.udp()) continue;
    f.fragment = false;
    f.padding = 0;
    f.flags = static_cast<std::uint8_t>(random());
    f.payload = 1 + random() % (i % 50 == 0 ? 65'000 : 3'000);
    const std::size_t mss = 1 + random() % 1500;
    if (f.payload / mss >= Segmenter::kMaxSegments) continue;
    const Bytes frame = f.make();
    const auto frames = cut(f, frame, mss);
    ASSERT_EQ(frames.size(), (f.payload + mss - 1) / mss);
    expect_whole(f, frame, frames, mss);
    if (HasFatalFailure()) FAIL() << "frame " << i;
    segments += static_cast<unsigned>(frames.size());
  }
  EXPECT_GT(segments, 10'000U);
}

// The length of the whole does not matter: not every stack sets it.
TEST(SegmenterTest, LengthsInTheHeadersDoNotMatter) {
  for (const bool v4 : {true, false}) {
    for (const int protocol : {6, 17}) {
      SampleFrame f;
      f.v4 = v4;
      f.protocol = static_cast<std::uint8_t>(protocol);
      f.payload = 100;
      const Bytes frame = f.make();
      const auto frames = cut(f, frame, 60);
      ASSERT_EQ(frames.size(), 2U);
      for (const std::uint16_t length : {std::uint16_t{0}, std::uint16_t{0xffff}}) {
        Bytes other = frame;
        put16(other, f.l3() + (v4 ? 2 : 4), length);
        if (protocol == 17) put16(other, f.l4() + 4, length);
        EXPECT_EQ(cut(f, other, 60), frames);
      }
    }
  }
}

TEST(SegmenterTest, WhatFitsInOneSegment) {
  SampleFrame f;
  for (const std::size_t payload : {std::size_t{0}, std::size_t{1}, std::size_t{1448}}) {
    f.payload = payload;
    const Bytes frame = f.make();
    const auto frames = cut(f, frame, 1448);
    ASSERT_EQ(frames.size(), 1U);
    expect_whole(f, frame, frames, 1448);
  }
}

TEST(SegmenterTest, Refuses) {
  SampleFrame f;
  f.payload = 4000;
  const Bytes frame = f.make();
  const auto headers = std::span(frame).first(f.headers());
  const tern_eth_offload good = offload(f, 1000);
  ASSERT_TRUE(Segmenter::make(headers, frame.size(), good));
  const auto refused = [&](auto&& change) {
    tern_eth_offload ops = good;
    change(ops);
    return !Segmenter::make(headers, frame.size(), ops);
  };
  EXPECT_TRUE(refused([](auto& ops) { ops.mss = 0; }));
  EXPECT_TRUE(refused([](auto& ops) { ops.csum_start = le(std::uint16_t{35}); }));
  EXPECT_TRUE(refused([](auto& ops) { ops.csum_start = 0; }));
  EXPECT_TRUE(refused([](auto& ops) { ops.header_len = le(std::uint16_t{53}); }));
  EXPECT_TRUE(refused([](auto& ops) { ops.ops = le(std::uint16_t{TERN_ETH_OP_USO}); }))
      << "TCP is not UDP";
  EXPECT_FALSE(Segmenter::make(headers, headers.size() - 1, good));
  EXPECT_TRUE(Segmenter::make(headers, TERN_ETH_MAX_TSO, good));
  EXPECT_FALSE(Segmenter::make(headers, TERN_ETH_MAX_TSO + 1, good));

  // As many segments as there may be, and one more.
  tern_eth_offload small = good;
  small.mss = le(std::uint16_t{1});
  EXPECT_TRUE(Segmenter::make(headers, headers.size() + Segmenter::kMaxSegments, small));
  EXPECT_FALSE(Segmenter::make(headers, headers.size() + Segmenter::kMaxSegments + 1, small));

  // Headers with a byte too many or too few.
  for (const std::size_t size : {f.headers() - 1, f.headers() + 1}) {
    tern_eth_offload ops = good;
    ops.header_len = le(static_cast<std::uint16_t>(size));
    EXPECT_FALSE(Segmenter::make(std::span(frame).first(size), frame.size(), ops));
  }
  for (const int protocol : {6, 17, 1}) {
    SampleFrame other;
    other.protocol = static_cast<std::uint8_t>(protocol);
    other.fragment = protocol != 1;
    const Bytes bytes = other.make();
    EXPECT_FALSE(Segmenter::make(bytes, bytes.size(), offload(other, 100))) << protocol;
  }
  SampleFrame extended;
  extended.v4 = false;
  extended.extensions = {44};
  Bytes bytes = extended.make();
  EXPECT_FALSE(Segmenter::make(bytes, bytes.size(), offload(extended, 100))) << "a fragment";
  extended.extensions = {43};
  bytes = extended.make();
  EXPECT_TRUE(Segmenter::make(bytes, bytes.size(), offload(extended, 100)));
  bytes[extended.l3() + 43] = std::byte{1};
  EXPECT_FALSE(Segmenter::make(bytes, bytes.size(), offload(extended, 100)))
      << "the pseudo header has another destination";
}

TEST(SegmenterTest, LongestHeaders) {
  for (const std::size_t more : {std::size_t{72}, std::size_t{80}}) {
    SampleFrame f;
    f.v4 = false;
    f.tcp_options = 40;
    f.extensions.assign(8, 60);
    f.payload = 100;
    Bytes frame = f.make();
    // The first extension header is longer.
    frame[f.l3() + 41] = static_cast<std::byte>(more / 8);
    frame.insert(frame.begin() + static_cast<std::ptrdiff_t>(f.l3()) + 48, more, std::byte{0});
    const std::size_t header = f.headers() + more;
    tern_eth_offload ops = offload(f, 50);
    ops.header_len = le(static_cast<std::uint16_t>(header));
    ops.csum_start = le(static_cast<std::uint16_t>(f.l4() + more));
    EXPECT_EQ(Segmenter::make(std::span(frame).first(header), frame.size(), ops).has_value(),
              header == 250)
        << header;
  }
}

// Damaged headers and descriptors: what is accepted has bounded segments that parse.
TEST(SegmenterTest, DamagedDescriptors) {
  std::mt19937 random(6);
  unsigned taken = 0;
  for (unsigned i = 0; i < 50'000; ++i) {
    SampleFrame f = draw_frame(random);
    f.payload = random() % 300;
    f.padding = 0;
    Bytes frame = f.make();
    for (auto n = random() % 3; n != 0; --n)
      frame[random() % f.headers()] = static_cast<std::byte>(random());
    tern_eth_offload ops = offload(f, 1 + random() % 64);
    if (random() % 4 == 0)
      ops.header_len = le(static_cast<std::uint16_t>(random() % (frame.size() + 1)));
    if (random() % 4 == 0) ops.csum_start = le(static_cast<std::uint16_t>(random() % 200));
    if (random() % 4 == 0) ops.ops = le(static_cast<std::uint16_t>(random() % 32));
    if (le(ops.header_len) > frame.size()) continue;
    // Exactly as long as the headers, so that a sanitizer sees what is beyond.
    const Bytes headers(frame.begin(), frame.begin() + le(ops.header_len));
    const auto segmenter = Segmenter::make(headers, frame.size(), ops);
    if (!segmenter) continue;
    ++taken;
    std::size_t payload = 0;
    for (std::size_t k = 0; k < segmenter->count(); ++k) {
      const auto piece = segmenter->piece(k);
      ASSERT_EQ(piece.offset, payload);
      payload += piece.length;
      Bytes segment = headers;
      segment.resize(headers.size() + piece.length);
      segmenter->finish(k, segment);
      const Level level = parse(segment).outer;
      ASSERT_EQ(level.payload, headers.size());
      ASSERT_TRUE(check(segment, level).l4_ok && check(segment, level).l3_ok);
    }
    ASSERT_EQ(headers.size() + payload, frame.size());
  }
  EXPECT_GT(taken, 5'000U);
}

}  // namespace
}  // namespace tern::frames

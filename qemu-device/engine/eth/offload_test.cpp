// SPDX-License-Identifier: GPL-2.0-or-later
#include "eth/offload.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "eth/sample_frames.h"
#include "testing/known_bytes.h"

namespace tern::eth {
namespace {

using test::from_hex;

Bytes draw_bytes(std::mt19937& random, std::size_t size) {
  Bytes bytes(size);
  for (std::byte& b : bytes) b = static_cast<std::byte>(random());
  return bytes;
}

TEST(OnesSumTest, Rfc1071Example) {
  EXPECT_EQ(ones_sum(from_hex("0001f203f4f5f6f7")), 0xddf2);
  EXPECT_EQ(ones_sum({}), 0);
  EXPECT_EQ(ones_sum({}, 0xffff), 0xffff);
  EXPECT_EQ(ones_sum(from_hex("12")), 0x1200);
}

TEST(OnesSumTest, EveryLengthAndAlignment) {
  std::mt19937 random(1);
  for (std::size_t size = 0; size < 300; ++size) {
    for (std::size_t skip = 0; skip < 9; ++skip) {
      const Bytes bytes = draw_bytes(random, skip + size);
      const auto piece = std::span(bytes).subspan(skip);
      const auto on_top = static_cast<std::uint16_t>(random());
      ASSERT_EQ(ones_sum(piece), plain_sum(piece)) << size;
      ASSERT_EQ(ones_sum(piece, on_top), plain_sum(piece, on_top)) << size;
    }
  }
  // The most carries there can be.
  const Bytes ones(1 << 20, std::byte{0xff});
  EXPECT_EQ(ones_sum(ones), 0xffff);
  EXPECT_EQ(ones_sum(Bytes(1 << 10)), 0);
}

TEST(CompleteChecksumTest, AsLinuxDoes) {
  std::mt19937 random(2);
  for (unsigned i = 0; i < 5'000; ++i) {
    SampleFrame f = draw_frame(random);
    f.padding = 0;
    f.fragment = false;
    if (!f.tcp() && !f.udp()) continue;
    Bytes frame = f.make();
    put16(frame, f.checksum(), static_cast<std::uint16_t>(f.pseudo(frame, frame.size() - f.l4())));
    Bytes expected = frame;
    const auto sum = static_cast<std::uint16_t>(~plain_sum(std::span(frame).subspan(f.l4())));
    put16(expected, f.checksum(), sum == 0 ? 0xffff : sum);
    ASSERT_TRUE(complete_checksum(frame, f.l4(), f.checksum() - f.l4()));
    ASSERT_EQ(frame, expected);
    // The header's is the stack's matter.
    ASSERT_EQ(plain_sum(std::span(frame).subspan(f.l4()), f.pseudo(frame, frame.size() - f.l4())),
              0xffffU);
  }
}

TEST(CompleteChecksumTest, ZeroIsNotStored) {
  Bytes frame = from_hex("ffff0000");
  ASSERT_TRUE(complete_checksum(frame, 0, 2));
  EXPECT_EQ(frame, from_hex("ffffffff"));
}

TEST(CompleteChecksumTest, OffsetsLieInTheFrame) {
  Bytes frame(64);
  EXPECT_TRUE(complete_checksum(frame, 0, 62));
  EXPECT_TRUE(complete_checksum(frame, 62, 0));
  EXPECT_TRUE(complete_checksum(frame, 40, 22));
  const Bytes before = frame;
  EXPECT_FALSE(complete_checksum(frame, 40, 23));
  EXPECT_FALSE(complete_checksum(frame, 63, 0));
  EXPECT_FALSE(complete_checksum(frame, 64, 0));
  EXPECT_FALSE(complete_checksum(frame, 65, 0));
  EXPECT_FALSE(complete_checksum(frame, 0, 65535));
  EXPECT_FALSE(complete_checksum(frame, 65535, 65535));
  EXPECT_EQ(frame, before);
}

TEST(FillChecksumsTest, EveryKindOfFrame) {
  std::mt19937 random(3);
  for (unsigned i = 0; i < 10'000; ++i) {
    const SampleFrame f = draw_frame(random);
    Bytes frame = f.make();
    const Bytes before = frame;
    const Level level = parse(frame).outer;
    fill_checksums(frame, level);
    const bool transport = !f.fragment && (f.tcp() || f.udp());
    Bytes whole = frame;
    whole.resize(f.end());
    if (f.v4) {
      ASSERT_EQ(plain_sum(std::span(whole).subspan(f.l3(), 20 + f.options)), 0xffffU);
    }
    if (transport) {
      ASSERT_TRUE(f.valid(whole));
    }
    if (f.udp() && transport) {
      ASSERT_NE(get16(frame, f.checksum()), 0);
    }
    const Checked checked = check(frame, level);
    ASSERT_TRUE(checked.l3_ok);
    ASSERT_EQ(checked.l4_ok, transport);
    ASSERT_FALSE(checked.wrong);
    // Nothing else has changed.
    if (f.v4) put16(frame, f.l3() + 10, 0);
    if (transport) put16(frame, f.checksum(), get16(before, f.checksum()));
    ASSERT_EQ(frame, before);
  }
}

TEST(FillChecksumsTest, UdpChecksumOfZero) {
  SampleFrame f;
  f.protocol = 17;
  f.payload = 2;
  Bytes frame = f.make();
  put16(frame, f.headers(), 0);
  fill_checksums(frame, parse(frame).outer);
  // With this payload the checksum is 0.
  put16(frame, f.headers(), get16(frame, f.checksum()));
  fill_checksums(frame, parse(frame).outer);
  EXPECT_EQ(get16(frame, f.checksum()), 0xffff);
  EXPECT_TRUE(check(frame, parse(frame).outer).l4_ok);
}

// A UDP datagram may be shorter than the IP packet.
TEST(FillChecksumsTest, LengthOfUdp) {
  SampleFrame f;
  f.protocol = 17;
  f.payload = 30;
  Bytes frame = f.make();
  put16(frame, f.l4() + 4, 8 + 11);
  fill_checksums(frame, parse(frame).outer);
  const auto datagram = std::span(frame).subspan(f.l4(), 8 + 11);
  EXPECT_EQ(plain_sum(datagram, f.pseudo(frame, datagram.size())), 0xffffU);
  EXPECT_TRUE(check(frame, parse(frame).outer).l4_ok);
}

// Any bit that a checksum covers makes it wrong.
TEST(CheckTest, EveryBit) {
  for (const bool v4 : {true, false}) {
    for (const int protocol : {6, 17}) {
      SampleFrame f;
      f.v4 = v4;
      f.protocol = static_cast<std::uint8_t>(protocol);
      f.payload = 21;
      f.padding = 5;
      Bytes frame = f.make();
      const Level level = parse(frame).outer;
      fill_checksums(frame, level);
      for (std::size_t bit = 0; bit < 8 * frame.size(); ++bit) {
        const std::size_t at = bit / 8;
        Bytes damaged = frame;
        damaged[at] ^= static_cast<std::byte>(1U << bit % 8);
        const Checked checked = check(damaged, level);
        const bool header = at >= f.l3() && at < f.l4();
        const bool address = header && at >= f.l3() + (v4 ? 12 : 8);
        const bool transport = at >= f.l4() && at < f.end();
        // The length of UDP is also where the parser looks: a frame with another one is not UDP.
        if (protocol == 17 && (at == f.l4() + 4 || at == f.l4() + 5)) continue;
        ASSERT_EQ(checked.l3_ok, !v4 || !header) << at;
        ASSERT_EQ(checked.l4_ok, !address && !transport) << at;
        ASSERT_EQ(checked.wrong, !checked.l3_ok || !checked.l4_ok) << at;
      }
    }
  }
}

TEST(CheckTest, WithoutAChecksum) {
  SampleFrame f;
  f.protocol = 17;
  Bytes frame = f.make();
  const Level level = parse(frame).outer;
  fill_checksums(frame, level);
  put16(frame, f.checksum(), 0);
  const Checked checked = check(frame, level);
  EXPECT_TRUE(checked.l3_ok);
  EXPECT_FALSE(checked.l4_ok);
  EXPECT_FALSE(checked.wrong);
  const Checked arp = check(frame, Level{});
  EXPECT_FALSE(arp.l3_ok || arp.l4_ok || arp.wrong);
}

TEST(CheckTest, InsideOfVxlan) {
  SampleFrame inside;
  inside.payload = 9;
  Bytes inner = inside.make();
  fill_checksums(inner, parse(inner).outer);
  const Bytes frame = vxlan(inner, 5).make();
  const Headers headers = parse(frame);
  EXPECT_TRUE(check(frame, headers.inner).l3_ok);
  EXPECT_TRUE(check(frame, headers.inner).l4_ok);
  EXPECT_FALSE(check(frame, headers.outer).l3_ok);
}

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
}  // namespace tern::eth

// SPDX-License-Identifier: GPL-2.0-or-later
#include "frames/checksum.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "frames/sample_frames.h"
#include "testing/known_bytes.h"

namespace tern::frames {
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

}  // namespace
}  // namespace tern::frames

// SPDX-License-Identifier: GPL-2.0-or-later
#include "frames/ecn.h"

#include <gtest/gtest.h>

#include <random>

#include "frames/bytes.h"
#include "frames/checksum.h"
#include "frames/headers.h"
#include "frames/layout.h"
#include "frames/sample_frames.h"

namespace tern::frames {
namespace {

// A marked frame is as if it had been sent so, and marking it again changes nothing.
TEST(EcnTest, MarksAreThoseOfTheSender) {
  std::mt19937 random(7);
  unsigned marked = 0;
  for (unsigned i = 0; i < 20'000; ++i) {
    SampleFrame f = draw_frame(random);
    if (f.tags.size() > 1 || (!f.tags.empty() && f.tags[0] != kVlanType)) continue;
    f.padding = 60;
    Bytes frame = f.make();
    const std::size_t second = f.l3() + 1;
    const auto ecn = static_cast<unsigned>(random() % 4) << (f.v4 ? 0 : 4);
    frame[second] = static_cast<std::byte>(ecn | (random() & (f.v4 ? 0xfcU : 0xcfU)));
    if (f.v4) put16(frame, f.l3() + kIpv4Id, static_cast<std::uint16_t>(random()));
    fill_checksums(frame, parse(frame).outer);
    ASSERT_EQ(is_ecn_capable(frame), ecn != 0);
    Bytes expected = frame;
    expected[second] |= std::byte{3} << (f.v4 ? 0 : 4);
    if (f.v4) fill_ipv4_checksum(expected, parse(expected).outer);
    mark_congestion(frame);
    ASSERT_EQ(frame, expected);
    mark_congestion(frame);
    ASSERT_EQ(frame, expected);
    ++marked;
  }
  EXPECT_GT(marked, 5'000U);
}

// A header whose words add up to 0xffff without the checksum has either zero as its checksum.
TEST(EcnTest, ChecksumOfZero) {
  for (const std::uint16_t zero : {std::uint16_t{0}, std::uint16_t{0xffff}}) {
    SampleFrame f;
    f.payload = 20;
    Bytes frame = f.make();
    frame[f.l3() + 1] = std::byte{1};
    put16(frame, f.l3() + kIpv4Id, 0);
    const unsigned sum = plain_sum(std::span(frame).subspan(f.l3(), kIpv4));
    put16(frame, f.l3() + kIpv4Id, static_cast<std::uint16_t>(0xffff - sum));
    put16(frame, f.l3() + kIpv4Checksum, zero);
    ASSERT_TRUE(check(frame, parse(frame).outer).l3_ok);
    mark_congestion(frame);
    EXPECT_EQ(frame[f.l3() + 1], std::byte{3});
    EXPECT_TRUE(check(frame, parse(frame).outer).l3_ok);
  }
}

TEST(EcnTest, OtherFramesStayAsTheyAre) {
  Bytes arp(64);
  put16(arp, 12, 0x0806);
  SampleFrame two;
  two.tags = {kVlanType, kVlanType};
  for (Bytes frame : {arp, two.make(), Bytes(37), Bytes(13)}) {
    const Bytes before = frame;
    EXPECT_FALSE(is_ecn_capable(frame));
    mark_congestion(frame);
    EXPECT_EQ(frame, before);
  }
}

}  // namespace
}  // namespace tern::frames

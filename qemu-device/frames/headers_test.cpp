// SPDX-License-Identifier: GPL-2.0-or-later
#include "frames/headers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "frames/sample_frames.h"

namespace tern::frames {
namespace {

constexpr std::uint16_t kTcp4 = TERN_LAYER_ETH | TERN_LAYER_IPV4 | TERN_LAYER_TCP;

std::uint16_t number(std::uint16_t be) {
  std::array<std::byte, 2> bytes;
  std::memcpy(bytes.data(), &be, sizeof(be));
  return get16(bytes, 0);
}

// Parses a copy that has exactly the frame's bytes, so that a sanitizer sees what is beyond.
Headers parse_exactly(std::span<const std::byte> frame) {
  const auto copy = std::make_unique<std::byte[]>(frame.size());
  std::ranges::copy(frame, copy.get());
  return parse({copy.get(), frame.size()});
}

// What the frame's maker knows of it.
void expect_level(const Level& level, const SampleFrame& f, const Bytes& frame) {
  const bool transport = !f.fragment && (f.tcp() || f.udp());
  std::uint16_t layers = TERN_LAYER_ETH;
  layers |= static_cast<std::uint16_t>(f.v4 ? TERN_LAYER_IPV4 : TERN_LAYER_IPV6);
  if (!f.tags.empty() && f.tags[0] == 0x8100) layers |= TERN_LAYER_VLAN;
  if (transport) layers |= static_cast<std::uint16_t>(f.tcp() ? TERN_LAYER_TCP : TERN_LAYER_UDP);
  EXPECT_EQ(level.layers, layers);
  EXPECT_EQ(level.ethernet, 0U);
  EXPECT_EQ(level.l3, f.l3());
  EXPECT_EQ(level.l4, f.l4());
  EXPECT_EQ(level.payload, transport ? f.headers() : f.l4());
  EXPECT_EQ(level.end, f.end());
  EXPECT_EQ(level.fragment, f.fragment);
  const tern_flow_fields& fields = level.fields;
  EXPECT_EQ(std::memcmp(&fields, frame.data(), 12), 0) << "addresses";
  EXPECT_EQ(number(fields.ether_type), f.v4 ? 0x0800 : 0x86dd);
  EXPECT_EQ(number(fields.vlan), (layers & TERN_LAYER_VLAN) != 0 ? 100 : 0);
  EXPECT_EQ(fields.tos, 0xb8);
  EXPECT_EQ(fields.ttl, 63);
  EXPECT_EQ(fields.protocol, f.protocol);
  EXPECT_EQ(fields.frag, f.fragment ? 1 : 0);
  tern_flow_fields expected{};
  const std::size_t size = f.v4 ? 4 : 16;
  std::memcpy(expected.src_ip, frame.data() + f.l3() + (f.v4 ? 12 : 8), size);
  std::memcpy(expected.dst_ip, frame.data() + f.l3() + (f.v4 ? 16 : 24), size);
  EXPECT_TRUE(std::ranges::equal(fields.src_ip, expected.src_ip));
  EXPECT_TRUE(std::ranges::equal(fields.dst_ip, expected.dst_ip));
  std::array<std::uint8_t, 4> label;
  std::memcpy(label.data(), &fields.flow_label, label.size());
  EXPECT_EQ(label, f.v4 ? (std::array<std::uint8_t, 4>{})
                        : (std::array<std::uint8_t, 4>{0, 0x0a, 0xbc, 0xde}));
  EXPECT_EQ(number(fields.src_port), transport ? f.src_port : 0);
  EXPECT_EQ(number(fields.dst_port), transport ? f.dst_port : 0);
}

TEST(HeadersTest, EveryKindOfFrame) {
  std::mt19937 random(1);
  for (unsigned i = 0; i < 20'000; ++i) {
    const SampleFrame f = draw_frame(random);
    const Bytes frame = f.make();
    const Headers headers = parse_exactly(frame);
    expect_level(headers.outer, f, frame);
    EXPECT_EQ(headers.inner.layers, 0);
    if (HasFailure()) FAIL() << "frame " << i;
  }
}

TEST(HeadersTest, InsideOfVxlan) {
  std::mt19937 random(2);
  for (unsigned i = 0; i < 5'000; ++i) {
    const SampleFrame inside = draw_frame(random);
    const Bytes inner = inside.make();
    SampleFrame f = vxlan(inner, 0x123456);
    if (i % 2 == 0) f.tags = {0x8100};
    const Headers headers = parse_exactly(f.make());
    EXPECT_EQ(headers.outer.layers, TERN_LAYER_ETH | TERN_LAYER_IPV4 | TERN_LAYER_UDP |
                                        TERN_LAYER_VXLAN | (i % 2 == 0 ? TERN_LAYER_VLAN : 0));
    EXPECT_EQ(headers.vni, 0x123456U);
    Level level = headers.inner;
    const auto base = static_cast<std::uint32_t>(f.headers() + 8);
    EXPECT_EQ(level.ethernet, base);
    for (std::uint32_t* const at :
         {&level.ethernet, &level.l3, &level.l4, &level.payload, &level.end})
      *at -= base;
    expect_level(level, inside, inner);
    if (HasFailure()) FAIL() << "frame " << i;
  }
}

TEST(HeadersTest, OnlyTheVxlanPortAndAVniMakeVxlan) {
  SampleFrame f = vxlan(SampleFrame{}.make(), 7);
  EXPECT_TRUE(parse(f.make()).outer.layers & TERN_LAYER_VXLAN);
  f.dst_port = 4790;
  EXPECT_FALSE(parse(f.make()).outer.layers & TERN_LAYER_VXLAN);
  f.dst_port = 4789;
  f.inside[0] = std::byte{0};
  EXPECT_FALSE(parse(f.make()).outer.layers & TERN_LAYER_VXLAN);
  f.inside[0] = std::byte{8};
  f.inside.resize(7);
  EXPECT_FALSE(parse(f.make()).outer.layers & TERN_LAYER_VXLAN);
  f.inside.resize(8 + 13);
  const Headers cut = parse(f.make());
  EXPECT_TRUE(cut.outer.layers & TERN_LAYER_VXLAN);
  EXPECT_EQ(cut.inner.layers, 0) << "no whole Ethernet header";
}

// VXLAN inside of VXLAN is UDP.
TEST(HeadersTest, TwoLevelsOnly) {
  const Headers headers = parse(vxlan(vxlan(SampleFrame{}.make(), 1).make(), 2).make());
  EXPECT_EQ(headers.vni, 2U);
  EXPECT_EQ(headers.inner.layers, TERN_LAYER_ETH | TERN_LAYER_IPV4 | TERN_LAYER_UDP);
}

// A frame cut anywhere has only the layers whose headers are whole, and says that it is cut.
TEST(HeadersTest, FramesCutShort) {
  std::mt19937 random(3);
  for (unsigned i = 0; i < 500; ++i) {
    const SampleFrame f = draw_frame(random);
    const Bytes frame = f.make();
    const std::uint16_t whole = parse(frame).outer.layers;
    for (std::size_t size = 0; size < frame.size(); ++size) {
      const Level level = parse_exactly(std::span(frame).first(size)).outer;
      ASSERT_EQ(level.layers & ~whole, 0);
      ASSERT_EQ((level.layers & TERN_LAYER_ETH) != 0, size >= 14);
      if (size >= f.l4()) {
        ASSERT_TRUE(level.ip());
      }
      ASSERT_EQ(level.cut, level.ip() && size < f.end());
      if (size >= f.end()) {
        ASSERT_EQ(level.layers, whole);
      }
    }
    const Bytes tunnel = vxlan(frame, 1).make();
    for (std::size_t size = 0; size < tunnel.size(); ++size) {
      const Headers headers = parse_exactly(std::span(tunnel).first(size));
      ASSERT_TRUE(headers.inner.layers == 0 || headers.outer.cut);
    }
  }
}

// Damaged frames: every offset stays in the frame and in its order.
TEST(HeadersTest, DamagedFramesStayInBounds) {
  std::mt19937 random(4);
  unsigned transports = 0;
  for (unsigned i = 0; i < 100'000; ++i) {
    Bytes frame = draw_frame(random).make();
    if (i % 3 == 0) frame = vxlan(frame, 1).make();
    for (unsigned n = random() % 4; n != 0; --n)
      frame[random() % std::min<std::size_t>(frame.size(), 120)] = static_cast<std::byte>(random());
    if (random() % 8 == 0) frame.resize(random() % (frame.size() + 1));
    const Headers headers = parse_exactly(frame);
    for (const Level& level : {headers.outer, headers.inner}) {
      if (level.layers == 0) continue;
      ASSERT_LE(level.ethernet + 14, level.l3);
      ASSERT_LE(level.l3, level.l4);
      ASSERT_LE(level.l4, level.payload);
      ASSERT_LE(level.payload, level.end);
      ASSERT_LE(level.end, frame.size());
      if (level.ip()) {
        ASSERT_LE(level.l3 + (level.ipv4() ? 20 : 40), level.l4);
      }
      if (level.tcp()) {
        ASSERT_LE(level.l4 + 20, level.payload);
      }
      if (level.udp() && !level.cut) {
        ASSERT_LE(level.l4 + get16(frame, level.l4 + 4), level.end);
      }
      transports += level.tcp() || level.udp();
    }
  }
  EXPECT_GT(transports, 20'000U);
}

struct Damage {
  const char* what;
  std::size_t at;
  std::uint16_t value;
  std::uint16_t lost;  // layers of TCP over IPv4
};

TEST(HeadersTest, HeadersThatMakeNoSense) {
  SampleFrame f;
  f.payload = 10;
  constexpr std::uint16_t kIp = TERN_LAYER_IPV4 | TERN_LAYER_TCP;
  const std::size_t l3 = f.l3();
  for (const Damage& d :
       {Damage{"version", l3, 0x55b8, kIp}, Damage{"header below 20 bytes", l3, 0x44b8, kIp},
        Damage{"header beyond the packet", l3 + 2, 19, kIp},
        Damage{"TCP cut short", l3 + 2, 39, TERN_LAYER_TCP},
        Damage{"fragment", l3 + 6, 0x2000, TERN_LAYER_TCP},
        Damage{"later fragment", l3 + 6, 1, TERN_LAYER_TCP},
        Damage{"TCP header below 20 bytes", l3 + 32, 0x4018, TERN_LAYER_TCP},
        Damage{"TCP header beyond the packet", l3 + 32, 0x8018, TERN_LAYER_TCP},
        Damage{"type", 12, 0x0806, kIp}}) {
    Bytes frame = f.make();
    ASSERT_EQ(parse(frame).outer.layers, kTcp4);
    put16(frame, d.at, d.value);
    EXPECT_EQ(parse_exactly(frame).outer.layers, kTcp4 & ~d.lost) << d.what;
  }
  Bytes long_ip = f.make();
  put16(long_ip, l3 + 2, 51);
  EXPECT_EQ(parse_exactly(long_ip).outer.layers, kTcp4);
  EXPECT_TRUE(parse_exactly(long_ip).outer.cut);
  f.protocol = 17;
  for (const std::uint16_t length : {std::uint16_t{7}, std::uint16_t{19}}) {
    Bytes frame = f.make();
    ASSERT_TRUE(parse(frame).outer.udp());
    put16(frame, f.l4() + 4, length);
    EXPECT_EQ(parse_exactly(frame).outer.udp(), length > 7);
    EXPECT_EQ(parse_exactly(frame).outer.cut, length > 7);
  }
  f.v4 = false;
  for (const Damage& d : {Damage{"version", l3, 0x4000, 0}}) {
    Bytes frame = f.make();
    put16(frame, d.at, d.value);
    EXPECT_EQ(parse_exactly(frame).outer.layers, TERN_LAYER_ETH) << d.what;
  }
}

TEST(HeadersTest, ExtensionHeadersOfIpv6) {
  SampleFrame f;
  f.v4 = false;
  f.extensions.assign(8, 60);
  EXPECT_TRUE(parse(f.make()).outer.tcp()) << "as many as the walk takes";
  f.extensions.push_back(60);
  Level level = parse(f.make()).outer;
  EXPECT_TRUE(level.ip());
  EXPECT_FALSE(level.tcp()) << "one too many";
  EXPECT_EQ(level.fields.protocol, 60);

  f.extensions = {0, 44};
  Bytes frame = f.make();
  level = parse(frame).outer;
  EXPECT_TRUE(level.fragment);
  EXPECT_FALSE(level.tcp());
  EXPECT_EQ(level.fields.frag, 1);
  EXPECT_EQ(level.fields.protocol, 6);
  EXPECT_EQ(level.l4, f.l4());

  f.extensions = {43};
  frame = f.make();
  EXPECT_TRUE(parse(frame).outer.tcp());
  frame[f.l3() + 40 + 3] = std::byte{1};
  level = parse(frame).outer;
  EXPECT_FALSE(level.tcp()) << "still on its way to another destination";
  EXPECT_EQ(level.fields.protocol, 43);

  f.extensions = {60};
  frame = f.make();
  frame[f.l3() + 41] = std::byte{3};
  level = parse_exactly(frame).outer;
  EXPECT_FALSE(level.tcp()) << "longer than the packet";
  EXPECT_EQ(level.l4, f.l3() + 40);
}

TEST(HeadersTest, ThirdTagIsNoTag) {
  SampleFrame f;
  f.tags = {0x8100, 0x8100, 0x8100};
  const Level level = parse(f.make()).outer;
  EXPECT_EQ(level.layers, TERN_LAYER_ETH | TERN_LAYER_VLAN);
  EXPECT_EQ(number(level.fields.ether_type), 0x8100);
  EXPECT_EQ(level.l3, 22U);
}

TEST(HeadersTest, TemplatesIgnoreLengths) {
  for (const bool v4 : {true, false}) {
    for (const std::uint8_t protocol : {std::uint8_t{6}, std::uint8_t{17}}) {
      SampleFrame f;
      f.v4 = v4;
      f.protocol = protocol;
      f.payload = 5000;
      const Bytes frame = f.make();
      const auto headers = std::span(frame).first(f.headers());
      EXPECT_TRUE(parse(headers).outer.cut);
      const Level level = parse_template(headers);
      EXPECT_TRUE(protocol == 6 ? level.tcp() : level.udp());
      EXPECT_EQ(level.l4, f.l4());
      EXPECT_EQ(level.payload, f.headers());
    }
  }
}

}  // namespace
}  // namespace tern::frames

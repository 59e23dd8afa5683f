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
  EXPECT_EQ(fields.frag, f.fragment ? TERN_FRAG_ANY | TERN_FRAG_MORE : f.v4 ? TERN_FRAG_DONT : 0);
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
    EXPECT_EQ(le(headers.tunnel.vni), 0x123456U);
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

constexpr std::uint16_t kIp4 = TERN_LAYER_ETH | TERN_LAYER_IPV4;

struct Expected {
  std::uint16_t outer;
  std::uint16_t inner;
  std::uint32_t key = 0;
};

void expect_tunnel(const Bytes& frame, const Expected& expected, const std::string& what) {
  const Headers headers = parse_exactly(frame);
  EXPECT_EQ(headers.outer.layers, expected.outer) << what;
  EXPECT_EQ(headers.inner.layers, expected.inner) << what;
  EXPECT_EQ(headers.tunnel.gre_key, expected.key) << what;
}

// Each combination of optional fields, and each payload that has headers.
TEST(HeadersTest, InsideOfGre) {
  const SampleFrame inside;
  const Bytes frame = inside.make();
  const auto packet = std::span(frame).subspan(14);
  constexpr std::uint16_t kOuter = kIp4 | TERN_LAYER_GRE;
  for (unsigned optional = 0; optional < 16; optional += 2) {
    const auto flags = static_cast<std::uint16_t>((optional & 0xb) << 12);
    const std::uint32_t key = (flags & 0x2000) != 0 ? 0x04030201 : 0;
    const std::string what = "flags " + std::to_string(flags);
    expect_tunnel(gre(flags, 0x6558, frame).make(), {kOuter, kTcp4, key}, what);
    expect_tunnel(gre(flags, 0x0800, packet).make(), {kOuter, kTcp4 & ~TERN_LAYER_ETH, key}, what);
    const Headers headers = parse(gre(flags, 0x6558, frame).make());
    EXPECT_EQ(number(headers.tunnel.gre_flags), flags);
    EXPECT_EQ(number(headers.tunnel.gre_protocol), 0x6558);
    EXPECT_EQ(number(headers.inner.fields.dst_port), inside.dst_port) << what;
    // A field that the packet ends in.
    SampleFrame cut = gre(flags, 0x6558, {});
    if (flags == 0) continue;
    cut.inside.pop_back();
    expect_tunnel(cut.make(), {kIp4, 0}, what);
  }
  SampleFrame v6;
  v6.v4 = false;
  const Bytes six = v6.make();
  expect_tunnel(gre(0, 0x86dd, std::span(six).subspan(14)).make(),
                {kOuter, TERN_LAYER_IPV6 | TERN_LAYER_TCP}, "IPv6");
  SampleFrame over6 = gre(0x2000, 0x0800, packet);
  over6.v4 = false;
  expect_tunnel(
      over6.make(),
      {TERN_LAYER_ETH | TERN_LAYER_IPV6 | TERN_LAYER_GRE, kTcp4 & ~TERN_LAYER_ETH, 0x04030201},
      "over IPv6");
  expect_tunnel(gre(0, 0x86dd, packet).make(), {kOuter, 0}, "IPv4 that claims to be IPv6");
  expect_tunnel(gre(0, 0x88b5, packet).make(), {kOuter, 0}, "another protocol");
  expect_tunnel(gre(0, 0x0800, {}).make(), {kOuter, 0}, "nothing inside");
  expect_tunnel(gre(0x2001, 0x0800, packet).make(), {kOuter, 0}, "version 1");
  expect_tunnel(gre(0x6000, 0x0800, packet).make(), {kOuter, 0}, "routing");
  SampleFrame fragment = gre(0, 0x0800, packet);
  fragment.fragment = true;
  expect_tunnel(fragment.make(), {kIp4, 0}, "a fragment");
  expect_tunnel(gre(0, 0x6558, gre(0, 0x0800, packet).make()).make(), {kOuter, kIp4}, "two levels");
}

TEST(HeadersTest, InsideOfMpls) {
  const Bytes frame = SampleFrame{}.make();
  const auto packet = std::span(frame).subspan(14);
  const auto label = [](std::uint32_t be) {
    std::array<std::byte, 4> bytes;
    std::memcpy(bytes.data(), &be, sizeof(be));
    return get32(bytes, 0);
  };
  constexpr std::uint16_t kInner = TERN_LAYER_IPV4 | TERN_LAYER_TCP;
  constexpr std::uint16_t kUdp4 = kIp4 | TERN_LAYER_UDP;
  constexpr std::uint16_t kGre4 = kIp4 | TERN_LAYER_GRE;
  for (std::size_t labels = 1; labels <= 9; ++labels) {
    const std::uint16_t inner = labels < 9 ? kInner : 0;
    const Bytes stack = mpls(labels, packet);
    const std::string what = std::to_string(labels) + " labels";
    for (const std::uint16_t type : {std::uint16_t{0x8847}, std::uint16_t{0x8848}}) {
      expect_tunnel(typed(type, stack), {TERN_LAYER_ETH | TERN_LAYER_MPLS, inner}, what);
      expect_tunnel(gre(0, type, stack).make(), {kGre4 | TERN_LAYER_MPLS_TUNNEL, inner}, what);
    }
    expect_tunnel(udp_to(6635, stack).make(), {kUdp4 | TERN_LAYER_MPLS_TUNNEL, inner}, what);
    const std::uint32_t first = 0x10000040 | (labels == 1 ? 0x100 : 0);
    EXPECT_EQ(label(parse(typed(0x8847, stack)).outer.fields.mpls), first);
    EXPECT_EQ(label(parse(udp_to(6635, stack).make()).outer.fields.mpls), first);
  }
  const Bytes stack = mpls(1, packet);
  const Bytes tagged = vxlan(typed(0x8847, stack), 7).make();
  expect_tunnel(tagged, {kUdp4 | TERN_LAYER_VXLAN, TERN_LAYER_ETH | TERN_LAYER_MPLS}, "VXLAN");
  EXPECT_EQ(label(parse(tagged).inner.fields.mpls), 0x10000140U);
  expect_tunnel(udp_to(6634, stack).make(), {kUdp4, 0}, "another port");
  expect_tunnel(udp_to(6635, {}).make(), {kUdp4, 0}, "no label");
  expect_tunnel(typed(0x8847, {}), {TERN_LAYER_ETH, 0}, "no label");
  expect_tunnel(typed(0x8847, mpls(1, {})), {TERN_LAYER_ETH | TERN_LAYER_MPLS, 0},
                "nothing inside");
  Bytes control = mpls(1, packet);
  control[4] = std::byte{0};
  expect_tunnel(typed(0x8847, control), {TERN_LAYER_ETH | TERN_LAYER_MPLS, 0}, "not IP");
  // UDP ends before the label does, although the packet goes on.
  Bytes beyond = udp_to(6635, stack).make();
  put16(beyond, 14 + 20 + 4, 11);
  expect_tunnel(beyond, {kUdp4, 0}, "beyond UDP");
}

TEST(HeadersTest, Esp) {
  for (const bool v4 : {true, false}) {
    SampleFrame f;
    f.v4 = v4;
    f.protocol = 50;
    f.payload = 8;
    const Bytes frame = f.make();
    const Level level = parse_exactly(frame).outer;
    EXPECT_TRUE(level.esp());
    EXPECT_EQ(std::memcmp(&level.fields.spi, frame.data() + f.l4(), 4), 0);
    EXPECT_EQ(std::memcmp(&level.fields.esp_seq, frame.data() + f.l4() + 4, 4), 0);
    f.payload = 7;
    EXPECT_FALSE(parse_exactly(f.make()).outer.esp()) << "cut short";
  }
  SampleFrame fragment;
  fragment.protocol = 50;
  fragment.payload = 40;
  fragment.fragment = true;
  EXPECT_FALSE(parse(fragment.make()).outer.esp());
}

// VXLAN inside of VXLAN is UDP.
TEST(HeadersTest, TwoLevelsOnly) {
  const Headers headers = parse(vxlan(vxlan(SampleFrame{}.make(), 1).make(), 2).make());
  EXPECT_EQ(le(headers.tunnel.vni), 2U);
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
    const auto packet = std::span(frame).subspan(f.l3());
    for (const Bytes& tunnel :
         {vxlan(frame, 1).make(), gre(0xb000, 0x6558, frame).make(),
          gre(0x2000, f.v4 ? 0x0800 : 0x86dd, packet).make(),
          gre(0, 0x8847, mpls(3, packet)).make(), udp_to(6635, mpls(2, packet)).make()}) {
      ASSERT_NE(parse(tunnel).inner.layers, 0);
      for (std::size_t size = 0; size < tunnel.size(); ++size) {
        const Headers headers = parse_exactly(std::span(tunnel).first(size));
        ASSERT_TRUE(headers.inner.layers == 0 || headers.outer.cut);
      }
    }
    const Bytes labelled = typed(0x8848, mpls(8, packet));
    for (std::size_t size = 0; size < labelled.size(); ++size)
      ASSERT_EQ(
          (parse_exactly(std::span(labelled).first(size)).outer.layers & TERN_LAYER_MPLS) != 0,
          size >= 18);
  }
}

// Damaged frames: every offset stays in the frame and in its order.
TEST(HeadersTest, DamagedFramesStayInBounds) {
  std::mt19937 random(4);
  unsigned transports = 0;
  for (unsigned i = 0; i < 100'000; ++i) {
    const SampleFrame f = draw_frame(random);
    Bytes frame = f.make();
    const auto packet = std::span(frame).subspan(f.l3());
    switch (i % 10) {
      case 0:
        frame = vxlan(frame, 1).make();
        break;
      case 1:
        frame = gre(static_cast<std::uint16_t>(random() & 0xf000), 0x6558, frame).make();
        break;
      case 2:
        frame = gre(0x3000, f.v4 ? 0x0800 : 0x86dd, packet).make();
        break;
      case 3:
        frame = gre(0, 0x8847, mpls(2, packet)).make();
        break;
      case 4:
        frame = udp_to(6635, mpls(2, packet)).make();
        break;
      case 5:
        frame = typed(0x8847, mpls(1 + random() % 10, packet));
        break;
      default:
        break;
    }
    for (unsigned n = random() % 4; n != 0; --n)
      frame[random() % std::min<std::size_t>(frame.size(), 120)] = static_cast<std::byte>(random());
    if (random() % 8 == 0) frame.resize(random() % (frame.size() + 1));
    const Headers headers = parse_exactly(frame);
    for (const Level& level : {headers.outer, headers.inner}) {
      if (level.layers == 0) continue;
      ASSERT_LE(level.ethernet + ((level.layers & TERN_LAYER_ETH) != 0 ? 14 : 0), level.l3);
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
  EXPECT_EQ(level.fields.frag, TERN_FRAG_ANY);
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

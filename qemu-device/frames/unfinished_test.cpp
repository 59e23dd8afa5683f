// SPDX-License-Identifier: GPL-2.0-or-later
// Unfinished packets: their checksums and segments.
#include "frames/unfinished.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "frames/bytes.h"
#include "frames/layout.h"
#include "frames/sample_frames.h"
#include "testing/known_bytes.h"

namespace tern::frames {
namespace {

using Kind = Unfinished::Kind;

using test::from_hex;

// A packet as a stack leaves it, with the pseudo header's sum in the checksum field.
struct Packet {
  bool v4 = true;
  bool tcp = true;
  std::size_t payload = 0;
  unsigned tags = 0;
  std::size_t options = 0;  // of IPv4, or an extension header of IPv6; multiples of 8
  std::size_t tcp_options = 0;
  unsigned flags = 0x18;
  std::uint32_t sequence = 0xffffff00;

  [[nodiscard]] std::size_t ip() const { return kAddresses + tags * kTag + 2; }
  [[nodiscard]] std::size_t l4() const { return ip() + (v4 ? 20 : 40) + options; }
  [[nodiscard]] std::size_t headers() const { return l4() + (tcp ? 20 + tcp_options : 8); }
  [[nodiscard]] unsigned protocol() const { return tcp ? 6 : 17; }
  [[nodiscard]] Unfinished what(std::size_t segment) const {
    return {tcp ? (v4 ? Kind::kTcp4 : Kind::kTcp6) : Kind::kAnyUdp, true, l4(), tcp ? 16U : 6U,
            segment};
  }
  // The sum of the pseudo header of `bytes` of TCP or UDP.
  [[nodiscard]] unsigned pseudo(std::span<const std::byte> frame, std::size_t bytes) const {
    return plain_sum(v4 ? frame.subspan(ip() + 12, 8) : frame.subspan(ip() + 8, 32),
                     protocol() + static_cast<unsigned>(bytes));
  }

  [[nodiscard]] Bytes make() const {
    Bytes p(headers() + payload);
    const auto put8 = [&](std::size_t at, unsigned value) {
      p[at] = static_cast<std::byte>(value);
    };
    for (std::size_t i = 0; i < kAddresses; ++i) put8(i, 0x52 + static_cast<unsigned>(i) * 7);
    for (unsigned i = 0; i < tags; ++i) {
      put16(p, kAddresses + i * kTag, i + 1 == tags ? kVlanType : 0x88a8);
      put16(p, kAddresses + i * kTag + 2, static_cast<std::uint16_t>(100 + i));
    }
    put16(p, ip() - 2, v4 ? 0x0800 : 0x86dd);
    for (std::size_t i = 0; i < 32; ++i)
      put8(ip() + (v4 ? 12 + i % 8 : 8 + i), 0xc0 + static_cast<unsigned>(i));
    if (v4) {
      put8(ip(), 0x45 + static_cast<unsigned>(options) / 4);
      put16(p, ip() + 2, static_cast<std::uint16_t>(p.size() - ip()));
      put16(p, ip() + 4, 0xfffe);
      put8(ip() + 6, 0x40);
      put8(ip() + 8, 64);
      put8(ip() + 9, protocol());
      for (std::size_t i = 0; i < options; ++i) put8(ip() + 20 + i, 1);
    } else {
      put8(ip(), 0x60);
      put16(p, ip() + 4, static_cast<std::uint16_t>(p.size() - ip() - 40));
      put8(ip() + 6, options == 0 ? protocol() : 60);
      if (options != 0) {
        put8(ip() + 40, protocol());
        put8(ip() + 41, static_cast<unsigned>(options) / 8 - 1);
      }
    }
    put16(p, l4(), 0x1234);
    put16(p, l4() + 2, 0x5678);
    if (tcp) {
      put16(p, l4() + 4, static_cast<std::uint16_t>(sequence >> 16));
      put16(p, l4() + 6, static_cast<std::uint16_t>(sequence));
      put8(l4() + 12, static_cast<unsigned>(5 + tcp_options / 4) << 4);
      put8(l4() + 13, flags);
    } else {
      put16(p, l4() + 4, static_cast<std::uint16_t>(p.size() - l4()));
    }
    for (std::size_t i = 0; i < payload; ++i)
      put8(headers() + i, static_cast<unsigned>(i * 13 + (i >> 8)));
    put16(p, l4() + (tcp ? 16 : 6), static_cast<std::uint16_t>(pseudo(p, p.size() - l4())));
    return p;
  }

  // Whether a receiver takes the checksums of a finished frame.
  [[nodiscard]] bool valid(std::span<const std::byte> frame) const {
    if (v4 && plain_sum(frame.subspan(ip(), 20 + options)) != 0xffff) return false;
    return plain_sum(frame.subspan(l4()), pseudo(frame, frame.size() - l4())) == 0xffff;
  }
};

std::vector<Bytes> cut(Bytes packet, const Unfinished& what) {
  std::vector<Bytes> frames;
  PacketFinisher segments;
  const bool fits = segments.start(packet, what);
  EXPECT_EQ(fits, !segments.frame().empty());
  for (; !segments.frame().empty(); segments.next())
    frames.emplace_back(segments.frame().begin(), segments.frame().end());
  segments.next();
  EXPECT_TRUE(segments.frame().empty()) << "it stays at the end";
  return frames;
}

TEST(SegmentationTest, KnownBytes) {
  const auto frames = cut(from_hex(test::kTcpPacket), {Kind::kTcp4, true, 34, 16, 8});
  ASSERT_EQ(frames.size(), 2U);
  for (std::size_t i = 0; i < 2; ++i) EXPECT_EQ(frames[i], from_hex(test::kTcpSegments[i]));
}

// Every kind of packet in segments of many sizes, compared with the whole.
TEST(SegmentationTest, SegmentsMakeTheWhole) {
  unsigned packets = 0;
  for (const bool v4 : {true, false}) {
    for (const bool tcp : {true, false}) {
      for (const unsigned tags : {0U, 1U, 2U}) {
        for (const std::size_t options : {0U, 8U}) {
          for (const std::size_t size : {1U, 7U, 8U, 99U, 1448U, 9000U}) {
            const Packet p{v4, tcp, 20001, tags, options, tcp ? std::size_t{12} : 0, 0x99};
            if (p.payload / size > Segmenter::kMaxSegments) continue;
            const Bytes whole = p.make();
            const auto frames = cut(whole, p.what(size));
            ASSERT_EQ(frames.size(), (p.payload + size - 1) / size);
            std::size_t at = p.headers();
            for (std::size_t i = 0; i < frames.size(); ++i) {
              const Bytes& f = frames[i];
              const bool last = i + 1 == frames.size();
              const std::size_t payload = f.size() - p.headers();
              ASSERT_EQ(payload, last ? whole.size() - at : size);
              ASSERT_TRUE(p.valid(f)) << i;
              ASSERT_TRUE(std::ranges::equal(std::span(f).subspan(p.headers()),
                                             std::span(whole).subspan(at, payload)))
                  << i;
              // The headers of a packet of this size, but for what counts.
              Packet one = p;
              one.payload = payload;
              one.sequence += static_cast<std::uint32_t>(at - p.headers());
              one.flags = 0x10U | (last ? 0x09U : 0U) | (i == 0 ? 0x80U : 0U);
              Bytes expected = one.make();
              if (v4) {
                put16(expected, p.ip() + 4, static_cast<std::uint16_t>(0xfffe + i));
                put16(expected, p.ip() + 10, get16(f, p.ip() + 10));
              }
              put16(expected, p.l4() + (tcp ? 16 : 6), get16(f, p.l4() + (tcp ? 16 : 6)));
              ASSERT_TRUE(std::equal(f.begin(),
                                     f.begin() + static_cast<std::ptrdiff_t>(p.headers()),
                                     expected.begin()))
                  << i;
              at += payload;
            }
            ASSERT_EQ(at, whole.size());
            ++packets;
          }
        }
      }
    }
  }
  EXPECT_GT(packets, 100U);
}

TEST(SegmentationTest, ALargestPacketOfEachKind) {
  for (const bool v4 : {true, false}) {
    Packet p{v4, true, 0};
    p.payload = 65535 + (v4 ? 0 : 40) - (p.headers() - p.ip());
    const auto frames = cut(p.make(), p.what(1460));
    ASSERT_EQ(frames.size(), (p.payload + 1459) / 1460);
    for (const Bytes& f : frames) ASSERT_TRUE(p.valid(f));
  }
}

TEST(SegmentationTest, WhatFollowsTheIpPacketIsCutOff) {
  const Packet p{true, true, 100};
  Bytes padded = p.make();
  padded.resize(padded.size() + 10, std::byte{0xee});
  const auto frames = cut(padded, p.what(60));
  ASSERT_EQ(frames.size(), 2U);
  EXPECT_EQ(frames[1].size(), p.headers() + 40);
  EXPECT_TRUE(p.valid(frames[1]));
}

TEST(SegmentationTest, CompletesChecksums) {
  for (const bool v4 : {true, false}) {
    for (const bool tcp : {true, false}) {
      for (const std::size_t payload : {0U, 1U, 2U, 3U, 4U, 5U, 1001U, 60000U}) {
        const Packet p{v4, tcp, payload};
        Bytes whole = p.make();
        // The IPv4 header's checksum is the stack's own.
        if (v4)
          put16(whole, p.ip() + 10,
                static_cast<std::uint16_t>(~plain_sum(std::span(whole).subspan(p.ip(), 20))));
        Unfinished what = p.what(0);
        what.kind = Kind::kWhole;
        const auto frames = cut(whole, what);
        ASSERT_EQ(frames.size(), 1U);
        ASSERT_TRUE(p.valid(frames[0])) << payload;
        what.checksum = false;
        EXPECT_EQ(cut(whole, what).at(0), whole) << "nothing is left to do";
      }
    }
  }
}

TEST(SegmentationTest, AChecksumOfZeroIsNoneInUdp) {
  for (const bool udp : {true, false}) {
    // The sum of the rest is 0xffff, its complement 0.
    Bytes packet(20);
    put16(packet, 0, 0xfff0);
    put16(packet, 2, 0x000f);
    const auto frames = cut(packet, {Kind::kWhole, true, 0, udp ? 6U : 16U, 0});
    ASSERT_EQ(frames.size(), 1U);
    EXPECT_EQ(get16(frames[0], udp ? 6 : 16), udp ? 0xffff : 0);
  }
}

TEST(SegmentationTest, RefusesWhatDoesNotFit) {
  const Packet p4{true, true, 1000};
  const Packet p6{false, true, 1000, 1, 8};
  const Packet udp{true, false, 1000};
  const Unfinished good = p4.what(100);
  const auto refused = [](const Bytes& packet, const Unfinished& what) {
    return cut(packet, what).empty();
  };
  const auto with = [](Bytes packet, std::size_t at, unsigned value) {
    packet.at(at) = static_cast<std::byte>(value);
    return packet;
  };
  ASSERT_FALSE(refused(p4.make(), good));
  ASSERT_FALSE(refused(p6.make(), p6.what(100)));
  ASSERT_FALSE(refused(udp.make(), udp.what(100)));

  // what the stack says
  EXPECT_TRUE(refused(p4.make(), {Kind::kTcp4, false, good.checksum_start, 16, 100}))
      << "without its checksum";
  EXPECT_TRUE(refused(p4.make(), {Kind::kTcp6, true, good.checksum_start, 16, 100}));
  EXPECT_TRUE(refused(p4.make(), {Kind::kAnyUdp, true, good.checksum_start, 6, 100}));
  EXPECT_TRUE(refused(udp.make(), {Kind::kTcp4, true, good.checksum_start, 16, 100}));
  EXPECT_TRUE(refused(p4.make(), {Kind::kTcp4, true, good.checksum_start, 6, 100}));
  EXPECT_TRUE(refused(p4.make(), p4.what(0)));
  for (const std::size_t start : {std::size_t{0}, std::size_t{13}, p4.l4() - 4, p4.l4() + 4,
                                  p4.headers() + 1000, std::size_t{65535}, SIZE_MAX}) {
    EXPECT_TRUE(refused(p4.make(), {Kind::kTcp4, true, start, 16, 100})) << start;
    EXPECT_TRUE(refused(p6.make(), {Kind::kTcp6, true, start, 16, 100})) << start;
  }
  const Packet big{true, true, 60000};
  EXPECT_FALSE(refused(big.make(), big.what(8)));
  EXPECT_TRUE(refused(big.make(), big.what(7))) << "too many segments";

  // the packet
  for (std::size_t size = 0; size < p4.headers(); ++size) {
    const Bytes whole = p4.make();
    EXPECT_TRUE(
        refused(Bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size)), good))
        << size;
  }
  EXPECT_TRUE(refused(Packet{true, true, 0}.make(), good)) << "no payload";
  EXPECT_TRUE(refused(with(p4.make(), 12, 0x99), good)) << "another type";
  EXPECT_TRUE(refused(with(p4.make(), p4.ip(), 0x44), good));
  EXPECT_TRUE(refused(with(p4.make(), p4.ip(), 0x46), good));
  EXPECT_TRUE(refused(with(p4.make(), p4.ip(), 0x65), good));
  EXPECT_TRUE(refused(with(p4.make(), p4.ip() + 2, 0xff), good)) << "longer than the frame";
  EXPECT_TRUE(refused(with(p4.make(), p4.ip() + 2, 0), good)) << "shorter than its headers";
  EXPECT_TRUE(refused(with(p4.make(), p4.ip() + 6, 0x20), good)) << "a fragment";
  EXPECT_TRUE(refused(with(p4.make(), p4.ip() + 7, 1), good)) << "a fragment";
  EXPECT_TRUE(refused(with(p4.make(), p4.ip() + 9, 17), good));
  EXPECT_TRUE(refused(with(p4.make(), p4.l4() + 12, 0x40), good)) << "a TCP header of 16 bytes";
  EXPECT_TRUE(refused(with(Packet{true, true, 30}.make(), p4.l4() + 12, 0xf0), good))
      << "a TCP header without payload";
  EXPECT_TRUE(refused(with(p6.make(), p6.ip() + 6, 43), p6.what(100))) << "a routing header";
  EXPECT_TRUE(refused(with(p6.make(), p6.ip() + 40, 44), p6.what(100))) << "a fragment";
  EXPECT_TRUE(refused(with(p6.make(), p6.ip() + 41, 200), p6.what(100)))
      << "an extension header beyond TCP";
  EXPECT_TRUE(refused(Packet{false, true, 1000, 0, 200}.make(),
                      Packet{false, true, 1000, 0, 200}.what(100)))
      << "long headers";

  // only a checksum is left to do
  EXPECT_TRUE(refused(p4.make(), {Kind::kWhole, true, p4.headers() + 1000 - 17, 16, 0}));
  EXPECT_TRUE(refused(p4.make(), {Kind::kWhole, true, SIZE_MAX, 16, 0}));
  EXPECT_TRUE(refused(p4.make(), {Kind::kWhole, true, p4.l4(), SIZE_MAX, 0}));
  EXPECT_TRUE(refused(p4.make(), {Kind::kWhole, true, p4.l4(), 8, 0})) << "SCTP";
}

// Packets with bytes and virtio-net headers changed at random: no frame leaves the packet's memory,
// and their number is bounded. The sanitizers look at the rest.
TEST(SegmentationTest, DamagedPacketsStayInBounds) {
  std::mt19937 random(1);
  const auto draw = [&](std::size_t below) {
    return std::uniform_int_distribution<std::size_t>(0, below - 1)(random);
  };
  unsigned taken = 0;
  for (unsigned round = 0; round < 100'000; ++round) {
    const Packet p{draw(2) == 0, draw(2) == 0, draw(300), static_cast<unsigned>(draw(3)),
                   8 * draw(3)};
    // Exactly as long as it is, so that a sanitizer sees what is beyond.
    Bytes packet = p.make();
    Unfinished what = p.what(1 + draw(64));
    for (std::size_t i = draw(4); i != 0; --i)
      packet[draw(std::min(packet.size(), p.headers() + 4))] = static_cast<std::byte>(draw(256));
    if (draw(4) == 0) what.kind = static_cast<Kind>(draw(4));
    if (draw(4) == 0) what.checksum_start = draw(packet.size() + 8);
    if (draw(8) == 0) what.checksum_offset = draw(packet.size() + 8);
    if (draw(8) == 0) packet.resize(draw(packet.size() + 1));
    packet.shrink_to_fit();
    PacketFinisher segments;
    if (!segments.start(packet, what)) continue;
    ++taken;
    std::size_t frames = 0;
    for (; !segments.frame().empty(); segments.next()) {
      ++frames;
      ASSERT_GE(segments.frame().data(), packet.data());
      ASSERT_LE(segments.frame().data() + segments.frame().size(), packet.data() + packet.size());
    }
    ASSERT_LE(frames, Segmenter::kMaxSegments);
  }
  EXPECT_GT(taken, 10'000U);
}

}  // namespace
}  // namespace tern::frames

// SPDX-License-Identifier: GPL-2.0-or-later
#include "wire/codec.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <random>
#include <string_view>

#include "testing/known_bytes.h"
#include "tests/fake_host.h"
#include "tests/packet_samples.h"

namespace tern {
namespace {

using test::from_hex;

class CodecTest : public ::testing::Test {
 protected:
  // Decodes as the device does; returns the first result other than kOk.
  ParseResult decode(std::span<const std::byte> frame, Packet& p) {
    p.route = Route{};
    const ParseResult r = parse_route(frame, p.route);
    return r == ParseResult::kOk ? parse_packet(frame, p) : r;
  }
  ParseResult decode(std::span<const std::byte> frame) {
    Packet p(host);
    return decode(frame, p);
  }
  std::vector<std::byte> sample(Transport transport, Op op, std::size_t payload, bool ipv4 = true,
                                std::uint16_t vlan = 0xffff) {
    Packet p(host);
    fill_sample(p, transport, op);
    p.route = sample_route(ipv4, vlan);
    const auto data = pattern(sample_payload(transport, op, payload));
    p.payload.append_plain(std::span<const std::byte>(data));
    return encode(p);
  }
  // Recomputes the ICRC of a frame that a test has changed.
  static void fix_icrc(std::vector<std::byte>& frame, bool ipv4 = true) {
    const std::size_t udp = 14 + (ipv4 ? 20 : 40);
    const std::size_t len = std::to_integer<std::size_t>(frame[udp + 4]) << 8 |
                            std::to_integer<std::size_t>(frame[udp + 5]);
    const std::size_t end = udp + len - 4;
    const std::uint32_t crc = icrc(std::span(frame).subspan(14, end - 14), ipv4);
    std::memcpy(frame.data() + end, &crc, 4);
  }
  // Recomputes the IPv4 checksum.
  static void fix_ip(std::vector<std::byte>& frame) {
    frame[24] = frame[25] = std::byte{0};
    std::uint32_t sum = 0;
    for (std::size_t i = 14; i < 34; i += 2) {
      sum += std::to_integer<std::uint32_t>(frame[i]) << 8 |
             std::to_integer<std::uint32_t>(frame[i + 1]);
    }
    while (sum >> 16) sum = (sum & 0xffff) + (sum >> 16);
    frame[24] = static_cast<std::byte>(~sum >> 8);
    frame[25] = static_cast<std::byte>(~sum);
  }
  static constexpr std::size_t kIp = 14, kUdp = 34, kBth = 42;

  FakeHost host;
};

// ---- frames from other sources ----

// A script with zlib's CRC built the frame byte by byte from the specification.
TEST_F(CodecTest, SendMatchesHandMadeFrame) {
  EXPECT_EQ(sample(Transport::kRc, Op::kSendOnly, 6),
            from_hex("5254007700025254007700010800456a003443214000211101920a4d00010a4d0002"
                     "d23412b70020000004e0ffff0012345680fedcba01080f161d240000afcdac0a"));
}

TEST_F(CodecTest, WriteOverTaggedIpv6MatchesHandMadeFrame) {
  EXPECT_EQ(sample(Transport::kRc, Op::kWriteOnlyImm, 5, false, 77),
            from_hex("5254007700025254007700018100a04d86dd66a1d23400341121fd770000000000000202c9ff"
                     "fe000001fd770000000000000202c9fffe000002d23412b7003400000b70ffff0012345680"
                     "fedcba112233445566778899aabbcc00102030a1b2c3d401080f161d000000b3074f2a"));
}

TEST_F(CodecTest, AckMatchesHandMadeFrame) {
  EXPECT_EQ(sample(Transport::kRc, Op::kAck, 0),
            from_hex("5254007700025254007700010800456a003043214000211101960a4d00010a4d0002"
                     "d23412b7001c00001140ffff0012345600fedcba1fabcdefb259dbd1"));
}

// A UC SEND captured from ConnectX hardware, with a UDP checksum.
TEST_F(CodecTest, UnderstandsHardwareSend) {
  const auto frame = from_hex(
      "248a07a8fa22248a07a8fa22080045010040047840004011b4d5c0a80007c0a80007"
      "c00012b7002caca22460ffff000000d300cf1710"
      "4630818be28935d90e9a95505401be885e50000078f353f3");
  Packet p(host);
  ASSERT_EQ(decode(frame, p), ParseResult::kOk);
  EXPECT_EQ(p.transport, Transport::kUc);
  EXPECT_EQ(p.op, Op::kSendOnly);
  EXPECT_EQ(p.dest_qp, Qpn(211));
  EXPECT_EQ(p.psn, Psn(13571856));
  EXPECT_TRUE(p.mig_req);
  EXPECT_EQ(p.payload.size(), 18U);
}

// A congestion notification packet captured on a ConnectX-4 Lx.
TEST_F(CodecTest, UnderstandsHardwareCnp) {
  const auto frame = from_hex(
      "e41d2dab2bc27cfe90643b32080045c2003c718c4000401191610a0011010a001201"
      "000012b7002800008100ffff4000011800000000"
      "0000000000000000000000000000000082fd002a");
  Packet p(host);
  ASSERT_EQ(decode(frame, p), ParseResult::kOk);
  EXPECT_EQ(p.transport, Transport::kCnp);
  EXPECT_EQ(p.op, kCnpOp);
  EXPECT_TRUE(p.becn);
  EXPECT_FALSE(p.mig_req);
  EXPECT_EQ(p.dest_qp, Qpn(0x118));
}

// ---- round trips ----

void expect_equal(const Packet& a, const Packet& b) {
  EXPECT_EQ(a.transport, b.transport);
  EXPECT_EQ(a.op, b.op);
  EXPECT_EQ(a.solicited, b.solicited);
  EXPECT_EQ(a.ack_req, b.ack_req);
  EXPECT_EQ(a.mig_req, b.mig_req);
  EXPECT_EQ(a.fecn, b.fecn);
  EXPECT_EQ(a.becn, b.becn);
  EXPECT_EQ(a.pkey, b.pkey);
  EXPECT_EQ(a.dest_qp, b.dest_qp);
  EXPECT_EQ(a.psn, b.psn);
  EXPECT_EQ(a.va, b.va);
  EXPECT_EQ(a.rkey, b.rkey);
  EXPECT_EQ(a.dma_len, b.dma_len);
  EXPECT_EQ(a.swap_add, b.swap_add);
  EXPECT_EQ(a.compare, b.compare);
  EXPECT_EQ(a.original, b.original);
  EXPECT_EQ(a.syndrome, b.syndrome);
  EXPECT_EQ(a.msn, b.msn);
  EXPECT_EQ(a.imm, b.imm);
  EXPECT_EQ(a.inv_rkey, b.inv_rkey);
  EXPECT_EQ(a.qkey, b.qkey);
  EXPECT_EQ(a.src_qp, b.src_qp);
  EXPECT_EQ(a.xrc_srq, b.xrc_srq);
  EXPECT_EQ(a.flush_type, b.flush_type);
  EXPECT_EQ(a.flush_level, b.flush_level);
  EXPECT_EQ(a.route.sgid, b.route.sgid);
  EXPECT_EQ(a.route.dgid, b.route.dgid);
  EXPECT_EQ(a.route.smac, b.route.smac);
  EXPECT_EQ(a.route.dmac, b.route.dmac);
  EXPECT_EQ(a.route.vlan, b.route.vlan);
  EXPECT_EQ(a.route.udp_sport, b.route.udp_sport);
  EXPECT_EQ(a.route.flow_label, b.route.flow_label);
  EXPECT_EQ(a.route.traffic_class, b.route.traffic_class);
  EXPECT_EQ(a.route.hop_limit, b.route.hop_limit);
  EXPECT_EQ(a.route.sl, b.route.sl);
  EXPECT_EQ(a.route.ipv4, b.route.ipv4);
}

TEST_F(CodecTest, EveryOpcodeSurvivesTheWire) {
  unsigned opcodes = 0;
  for (const bool ipv4 : {true, false}) {
    for (const std::uint16_t vlan :
         {std::uint16_t{0xffff}, std::uint16_t{1}, std::uint16_t{4094}}) {
      for_each_opcode([&](Transport transport, Op op, const OpTraits&) {
        ++opcodes;
        for (const std::size_t want : {0, 1, 2, 3, 4, 255, 1024, 4096}) {
          const auto data = pattern(sample_payload(transport, op, want), opcodes);
          Packet in(host);
          fill_sample(in, transport, op);
          in.route = sample_route(ipv4, vlan);
          in.fecn = opcodes % 2;
          in.becn = opcodes % 3 == 0;
          in.mig_req = opcodes % 5 != 0;
          // Gathered from two pieces.
          const std::span<const std::byte> bytes(data);
          in.payload.append_plain(bytes.first(data.size() / 3));
          in.payload.append_plain(bytes.subspan(data.size() / 3));
          const auto frame = encode(in);
          ASSERT_GE(frame.size(), 60U);
          Packet out(host);
          out.va = out.rkey = out.imm = out.qkey = 77;  // old values must not survive
          ASSERT_EQ(decode(frame, out), ParseResult::kOk);
          expect_equal(in, out);
          ASSERT_EQ(out.payload.size(), data.size());
          std::vector<std::byte> got(data.size());
          out.payload.copy_to(got);
          EXPECT_EQ(got, data);
        }
      });
    }
  }
  EXPECT_EQ(opcodes, 6 * (25U + 14U + 2U + 1U + 25U));
}

TEST_F(CodecTest, FramesWithoutHopLimitGet64) {
  Packet p(host);
  fill_sample(p, Transport::kRc, Op::kAck);
  p.route = sample_route(true, 0xffff);
  p.route.hop_limit = 0;
  EXPECT_EQ(encode(p)[kIp + 8], std::byte{64});
  p.route.ipv4 = false;
  EXPECT_EQ(encode(p)[kIp + 7], std::byte{64});
}

TEST_F(CodecTest, PaddingOfShortFramesIsZeroAndIgnored) {
  auto frame = sample(Transport::kRc, Op::kSendOnly, 0);
  ASSERT_EQ(frame.size(), 60U);  // 58 without padding
  EXPECT_EQ(frame[58], std::byte{0});
  EXPECT_EQ(frame[59], std::byte{0});
  frame[59] = std::byte{0xaa};
  EXPECT_EQ(decode(frame), ParseResult::kOk);
  frame.resize(58);
  EXPECT_EQ(decode(frame), ParseResult::kOk);
  frame.resize(57);
  EXPECT_EQ(decode(frame), ParseResult::kMalformed);
  frame.resize(1600);
}

// ---- ICRC ----

TEST_F(CodecTest, EveryCoveredBitMatters) {
  const auto good = sample(Transport::kRc, Op::kWriteOnly, 13);
  for (std::size_t bit = kUdp * 8; bit < good.size() * 8; ++bit) {
    auto bad = good;
    bad[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    const bool masked = bit / 8 == kUdp + 6 || bit / 8 == kUdp + 7 || bit / 8 == kBth + 4;
    const ParseResult r = decode(bad);
    if (masked) {
      EXPECT_EQ(r, ParseResult::kOk) << "bit " << bit;
    } else {
      EXPECT_NE(r, ParseResult::kOk) << "bit " << bit;
    }
  }
}

TEST_F(CodecTest, RoutersMayChangeWhatIsMasked) {
  auto v4 = sample(Transport::kRc, Op::kSendOnly, 40);
  v4[kIp + 1] = std::byte{0x03};  // congestion experienced
  v4[kIp + 8] = std::byte{1};
  fix_ip(v4);
  EXPECT_EQ(decode(v4), ParseResult::kOk);
  v4[kIp + 4] ^= std::byte{1};  // identification is covered
  fix_ip(v4);
  EXPECT_EQ(decode(v4), ParseResult::kBadIcrc);
  auto v6 = sample(Transport::kRc, Op::kSendOnly, 40, false);
  v6[kIp] = std::byte{0x6f};
  v6[kIp + 1] = v6[kIp + 2] = v6[kIp + 3] = v6[kIp + 7] = std::byte{0x55};
  EXPECT_EQ(decode(v6), ParseResult::kOk);
  v6[kIp + 23] ^= std::byte{1};
  EXPECT_EQ(decode(v6), ParseResult::kBadIcrc);
}

// ---- not RoCE ----

TEST_F(CodecTest, LeavesTheRestToEthernet) {
  const auto v4 = sample(Transport::kRc, Op::kSendOnly, 64);
  const auto v6 = sample(Transport::kRc, Op::kSendOnly, 64, false);
  const auto changed = [&](const std::vector<std::byte>& from, std::size_t at, int value) {
    auto frame = from;
    frame[at] = static_cast<std::byte>(value);
    if (&from == &v4 && at < kUdp && at != 24) fix_ip(frame);
    return decode(frame);
  };
  EXPECT_EQ(changed(v4, 12, 0x09), ParseResult::kNotRoce);         // Ethertype
  EXPECT_EQ(changed(v4, kIp, 0x46), ParseResult::kNotRoce);        // IP options
  EXPECT_EQ(changed(v4, kIp, 0x65), ParseResult::kNotRoce);        // version
  EXPECT_EQ(changed(v4, kIp + 6, 0x20), ParseResult::kNotRoce);    // more fragments
  EXPECT_EQ(changed(v4, kIp + 7, 0x01), ParseResult::kNotRoce);    // fragment offset
  EXPECT_EQ(changed(v4, kIp + 9, 6), ParseResult::kNotRoce);       // TCP
  EXPECT_EQ(changed(v4, 24, 0), ParseResult::kNotRoce);            // IP checksum
  EXPECT_EQ(changed(v4, kIp + 2, 0xff), ParseResult::kMalformed);  // longer than the frame
  EXPECT_EQ(changed(v4, kUdp + 3, 0xb8), ParseResult::kNotRoce);   // port
  EXPECT_EQ(changed(v6, kIp, 0x45), ParseResult::kNotRoce);
  for (const int next : {0, 6, 43, 44, 50, 51, 60, 59}) {  // extension headers, TCP, nothing
    EXPECT_EQ(changed(v6, kIp + 6, next), ParseResult::kNotRoce);
  }
  auto twice = sample(Transport::kRc, Op::kSendOnly, 64, true, 5);
  twice[16] = std::byte{0x81};  // an inner tag
  twice[17] = std::byte{0x00};
  EXPECT_EQ(decode(twice), ParseResult::kNotRoce);
  auto service = sample(Transport::kRc, Op::kSendOnly, 64, true, 5);
  service[12] = std::byte{0x88};
  service[13] = std::byte{0xa8};
  EXPECT_EQ(decode(service), ParseResult::kNotRoce);
}

TEST_F(CodecTest, PriorityTagIsNoVlan) {
  auto frame = sample(Transport::kRc, Op::kSendOnly, 64, true, 5);
  frame[14] = std::byte{0xe0};
  frame[15] = std::byte{0};
  Packet p(host);
  EXPECT_EQ(decode(frame, p), ParseResult::kOk);
  EXPECT_EQ(p.route.vlan, 0xffff);
  EXPECT_EQ(p.route.sl, 7);
}

// ---- malformed ----

TEST_F(CodecTest, RefusesWhatNoClassHas) {
  auto frame = sample(Transport::kRc, Op::kSendOnly, 64);
  for (unsigned opcode = 0; opcode < 256; ++opcode) {
    frame[kBth] = static_cast<std::byte>(opcode);
    fix_icrc(frame);
    const unsigned klass = opcode & 0xe0;
    const bool exists = klass != 0x40 && klass != 0xc0 && klass != 0xe0 &&
                        traits(Transport(klass), Op(opcode & 0x1f)).valid;
    if (exists) continue;
    EXPECT_EQ(decode(frame), ParseResult::kMalformed) << "opcode " << opcode;
  }
}

TEST_F(CodecTest, RefusesVersionsAndPad) {
  auto frame = sample(Transport::kRc, Op::kSendOnly, 64);
  const auto with_flags = [&](int flags) {
    auto f = frame;
    f[kBth + 1] = static_cast<std::byte>(flags);
    fix_icrc(f);
    return decode(f);
  };
  EXPECT_EQ(with_flags(0x40), ParseResult::kOk);
  EXPECT_EQ(with_flags(0x41), ParseResult::kMalformed);
  EXPECT_EQ(with_flags(0x48), ParseResult::kMalformed);
  EXPECT_EQ(with_flags(0x70), ParseResult::kOk);  // pad 3 of 64
  auto empty = sample(Transport::kRc, Op::kSendOnly, 0);
  empty[kBth + 1] = std::byte{0x50};
  fix_icrc(empty);
  EXPECT_EQ(decode(empty), ParseResult::kMalformed);
  auto ack = sample(Transport::kRc, Op::kAck, 0);
  ack[kBth + 1] = std::byte{0x50};
  fix_icrc(ack);
  EXPECT_EQ(decode(ack), ParseResult::kMalformed);
}

// Changes the length of the transport part and makes the IP and UDP lengths agree.
std::vector<std::byte> resized(std::vector<std::byte> frame, std::size_t transport) {
  frame.resize(14 + 20 + 8 + transport + 4);
  const std::size_t udp = 8 + transport + 4;
  frame[34 + 4] = static_cast<std::byte>(udp >> 8);
  frame[34 + 5] = static_cast<std::byte>(udp);
  frame[14 + 2] = static_cast<std::byte>((udp + 20) >> 8);
  frame[14 + 3] = static_cast<std::byte>(udp + 20);
  return frame;
}

TEST_F(CodecTest, JudgesLengthByOpcode) {
  for_each_opcode([&](Transport transport, Op op, const OpTraits& t) {
    const auto good = sample(transport, op, 64);
    const std::size_t headers = t.header_bytes;
    const std::size_t payload = sample_payload(transport, op, 64);
    for (std::size_t len = 0; len <= headers + payload + 9; ++len) {
      auto frame = resized(good, len);
      frame[kBth + 1] = std::byte{0x40};
      fix_ip(frame);
      if (len >= 12) fix_icrc(frame);
      const bool fixed_payload = !t.payload || payload != 64;
      const bool ok = len % 4 == 0 && (fixed_payload ? len == headers + payload : len >= headers);
      EXPECT_EQ(decode(frame), ok ? ParseResult::kOk : ParseResult::kMalformed)
          << "opcode " << static_cast<int>(transport) + static_cast<int>(op) << " length " << len;
    }
  });
}

TEST_F(CodecTest, LengthsMustAgree) {
  const auto good = sample(Transport::kRc, Op::kSendOnly, 64);
  for (const int delta : {-8, -4, -1, 1, 4, 8}) {
    auto udp = good;
    udp[kUdp + 5] = static_cast<std::byte>(std::to_integer<int>(udp[kUdp + 5]) + delta);
    EXPECT_EQ(decode(udp), ParseResult::kMalformed) << delta;
  }
  auto tiny = good;
  tiny[kUdp + 4] = tiny[kUdp + 5] = std::byte{0};
  EXPECT_EQ(decode(tiny), ParseResult::kMalformed);
  auto huge = good;
  huge[kUdp + 4] = huge[kUdp + 5] = huge[kIp + 2] = huge[kIp + 3] = std::byte{0xff};
  fix_ip(huge);
  EXPECT_EQ(decode(huge), ParseResult::kMalformed);
}

TEST_F(CodecTest, ShortFramesAreHarmless) {
  for_each_opcode([&](Transport transport, Op op, const OpTraits&) {
    for (const bool ipv4 : {true, false}) {
      const auto good = sample(transport, op, 32, ipv4, ipv4 ? 0xffff : 9);
      for (std::size_t n = 0; n < good.size(); ++n) {
        // A separate copy, so that a sanitizer detects any read past the end.
        const std::vector<std::byte> cut(good.begin(), good.begin() + static_cast<long>(n));
        const ParseResult r = decode(cut);
        EXPECT_TRUE(r != ParseResult::kOk || n >= 58);
      }
    }
  });
}

TEST_F(CodecTest, NonsenseIsHarmless) {
  std::mt19937 rng(11);
  std::map<ParseResult, unsigned> counts;
  for (int round = 0; round < 200'000; ++round) {
    static const auto v4 = sample(Transport::kRc, Op::kWriteOnlyImm, 33);
    static const auto v6 = sample(Transport::kXrc, Op::kFlush, 0, false, 12);
    auto frame = round % 2 ? v4 : v6;
    for (unsigned n = 1 + rng() % 4; n > 0; --n) {
      frame[rng() % frame.size()] = static_cast<std::byte>(rng());
    }
    if (rng() % 4 == 0) frame.resize(rng() % 100);
    if (frame.size() >= 40) fix_ip(frame);
    ++counts[decode(frame)];
  }
  for (const ParseResult r :
       {ParseResult::kOk, ParseResult::kNotRoce, ParseResult::kMalformed, ParseResult::kBadIcrc}) {
    EXPECT_GT(counts[r], 100U) << static_cast<int>(r);
  }
}

// ---- GRH ----

TEST_F(CodecTest, GrhOfIpv4IsAHeaderBehindZeros) {
  Packet p(host);
  fill_sample(p, Transport::kUd, Op::kSendOnly);
  p.route = sample_route(true, 0xffff);
  const auto data = pattern(21);
  p.payload.append_plain(std::span<const std::byte>(data));
  std::array<std::byte, 40> grh;
  make_grh(p, grh);
  for (std::size_t i = 0; i < 20; ++i) EXPECT_EQ(grh[i], std::byte{0});
  const auto frame = encode(p, 0);
  EXPECT_EQ(std::memcmp(grh.data() + 20, frame.data() + kIp, 20), 0);
}

TEST_F(CodecTest, GrhOfIpv6IsTheHeader) {
  Packet p(host);
  fill_sample(p, Transport::kUd, Op::kSendOnlyImm);
  p.route = sample_route(false, 12);
  std::array<std::byte, 40> grh;
  make_grh(p, grh);
  EXPECT_EQ(std::memcmp(grh.data(), encode(p).data() + kIp + 4, 40), 0);
}

// ---- traits ----

TEST(OpTraits, HeadersOfEachOperation) {
  const auto bytes = [](Transport transport, Op op) { return traits(transport, op).header_bytes; };
  EXPECT_EQ(bytes(Transport::kRc, Op::kSendMiddle), 12U);
  EXPECT_EQ(bytes(Transport::kRc, Op::kSendLastInv), 16U);
  EXPECT_EQ(bytes(Transport::kRc, Op::kWriteFirst), 28U);
  EXPECT_EQ(bytes(Transport::kRc, Op::kWriteLast), 12U);
  EXPECT_EQ(bytes(Transport::kRc, Op::kWriteOnlyImm), 32U);
  EXPECT_EQ(bytes(Transport::kRc, Op::kReadRequest), 28U);
  EXPECT_EQ(bytes(Transport::kRc, Op::kReadResponseFirst), 16U);
  EXPECT_EQ(bytes(Transport::kRc, Op::kReadResponseMiddle), 12U);
  EXPECT_EQ(bytes(Transport::kRc, Op::kAtomicAck), 24U);
  EXPECT_EQ(bytes(Transport::kRc, Op::kFetchAdd), 40U);
  EXPECT_EQ(bytes(Transport::kRc, Op::kFlush), 32U);
  EXPECT_EQ(bytes(Transport::kRc, Op::kAtomicWrite), 28U);
  EXPECT_EQ(bytes(Transport::kUd, Op::kSendOnlyImm), 24U);
  EXPECT_EQ(bytes(Transport::kXrc, Op::kSendOnly), 16U);
  EXPECT_EQ(bytes(Transport::kXrc, Op::kFlush), 36U);
  EXPECT_EQ(bytes(Transport::kXrc, Op::kAck), 16U);
}

TEST(OpTraits, RequestsAndResponses) {
  for_each_opcode([](Transport transport, Op op, const OpTraits& t) {
    const bool response = op >= Op::kReadResponseFirst && op <= Op::kAtomicAck;
    EXPECT_EQ(t.request, !response && transport != Transport::kCnp);
    EXPECT_EQ(t.xrceth, transport == Transport::kXrc && t.request);
    EXPECT_EQ(t.deth, transport == Transport::kUd);
    EXPECT_FALSE(t.send && t.write);
  });
}

}  // namespace
}  // namespace tern

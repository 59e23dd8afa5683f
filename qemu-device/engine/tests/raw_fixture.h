// SPDX-License-Identifier: GPL-2.0-or-later
// Two nodes with a raw QP each, and the frames that their tests send.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <span>
#include <vector>

#include "testing/eth_queue.h"
#include "tests/mini_driver.h"

namespace tern {

using Bytes = std::vector<std::byte>;

inline std::uint32_t be16(std::span<const std::byte> b, std::size_t at) {
  return std::to_integer<std::uint32_t>(b[at]) << 8 | std::to_integer<std::uint32_t>(b[at + 1]);
}
inline std::uint32_t be32(std::span<const std::byte> b, std::size_t at) {
  return be16(b, at) << 16 | be16(b, at + 2);
}
inline void set16(std::span<std::byte> b, std::size_t at, std::uint32_t v) {
  b[at] = static_cast<std::byte>(v >> 8);
  b[at + 1] = static_cast<std::byte>(v);
}

// The sum of RFC 1071, word by word.
inline std::uint32_t plain_sum(std::span<const std::byte> b, std::uint32_t sum = 0) {
  for (std::size_t i = 0; i < b.size(); ++i)
    sum += std::to_integer<std::uint32_t>(b[i]) << (i % 2 ? 0 : 8);
  while (sum >> 16) sum = (sum & 0xffff) + (sum >> 16);
  return sum;
}

// A TCP or UDP packet in an Ethernet frame whose lengths and checksums are not set.
struct PacketOptions {
  bool ipv6 = false;
  bool udp = false;
  std::uint16_t dst_port = 80;
};
constexpr std::size_t kEth = 14;
inline std::size_t l4_at(const PacketOptions& o) { return kEth + (o.ipv6 ? 40 : 20); }
inline std::size_t headers_of(const PacketOptions& o) { return l4_at(o) + (o.udp ? 8 : 20); }
inline Bytes ip_packet(const Mac& dst, const Mac& src, std::size_t payload,
                       const PacketOptions& o = {}) {
  Bytes f(headers_of(o) + payload);
  std::memcpy(f.data(), dst.data(), 6);
  std::memcpy(f.data() + 6, src.data(), 6);
  set16(f, 12, o.ipv6 ? 0x86dd : 0x0800);
  const auto l4 = static_cast<std::uint32_t>(f.size() - l4_at(o));
  if (o.ipv6) {
    f[14] = std::byte{0x60};
    set16(f, 18, l4);
    f[20] = static_cast<std::byte>(o.udp ? 17 : 6);
    f[21] = std::byte{64};
    for (std::size_t i = 22; i < 54; ++i) f[i] = static_cast<std::byte>(i);
  } else {
    f[14] = std::byte{0x45};
    set16(f, 16, 20 + l4);
    set16(f, 18, 0x4242);
    f[22] = std::byte{64};
    f[23] = static_cast<std::byte>(o.udp ? 17 : 6);
    for (std::size_t i = 26; i < 34; ++i) f[i] = static_cast<std::byte>(i);
  }
  const std::size_t at = l4_at(o);
  set16(f, at, 1234);
  set16(f, at + 2, o.dst_port);
  if (o.udp) {
    set16(f, at + 4, l4);
  } else {
    set16(f, at + 4, 0x1000);
    f[at + 12] = std::byte{0x50};
    f[at + 13] = std::byte{0x18};  // PSH, ACK
  }
  for (std::size_t i = headers_of(o); i < f.size(); ++i)
    f[i] = static_cast<std::byte>(i * 7 + (i >> 8));
  return f;
}
// The sum of the pseudo header of a packet whose TCP or UDP part has `len` bytes.
inline std::uint32_t pseudo_sum(std::span<const std::byte> f, const PacketOptions& o,
                                std::size_t len) {
  const auto addresses = o.ipv6 ? f.subspan(22, 32) : f.subspan(26, 8);
  return plain_sum(addresses, (o.udp ? 17U : 6U) + static_cast<std::uint32_t>(len));
}
// Whether the checksums of IPv4 and of TCP or UDP are right, by the lengths in the headers.
inline bool checksums_ok(std::span<const std::byte> f, const PacketOptions& o) {
  const std::size_t at = l4_at(o);
  const std::size_t len = o.ipv6 ? be16(f, 18) : be16(f, 16) - 20;
  if (at + len > f.size()) return false;
  if (!o.ipv6 && plain_sum(f.subspan(kEth, 20)) != 0xffff) return false;
  return plain_sum(f.subspan(at, len), pseudo_sum(f, o, len)) == 0xffff;
}

inline tern_eth_offload offload(unsigned ops, unsigned csum_start = 0, unsigned csum_offset = 0,
                                unsigned mss = 0, unsigned header_len = 0, unsigned vlan = 0) {
  const auto u16 = [](unsigned v) { return le(static_cast<std::uint16_t>(v)); };
  return {u16(csum_start), u16(csum_offset), u16(mss), u16(header_len), u16(vlan), u16(ops), 0, 0};
}

constexpr Mac kGroup = {0x01, 0x00, 0x5e, 0x01, 0x02, 0x03};
constexpr Mac kOther = {0x02, 0x99, 0x99, 0x99, 0x99, 0x99};

class RawTest : public ::testing::Test {
 protected:
  static constexpr QpOptions kRaw = {.type = TERN_QPT_RAW};
  Sim sim{11};
  TestNode a{sim};
  TestNode b{sim};
  TestQp& qa = a.create_qp(kRaw);
  TestQp& qb = b.create_qp(kRaw);
  TestMr& src = a.reg(1 << 17);
  TestMr& dst = b.reg(1 << 17);
  std::vector<Bytes> wire;  // frames that node a put on the wire

  void SetUp() override {
    qa.connect();
    qb.connect();
    src.fill(1);
    sim.pass = [this](unsigned from, std::span<const std::byte> f) {
      if (from == a.index()) wire.emplace_back(f.begin(), f.end());
      return true;
    };
  }
  // A flow for frames to `mac`; returns its number.
  std::uint32_t flow(TestNode& node, const Mac& mac, std::uint32_t dest_id,
                     std::uint8_t dest = TERN_DEST_QP, std::uint32_t tag = 0) {
    tern_cmd_create_flow cmd{.dest_id = le(dest_id),
                             .tag = le(tag),
                             .counter = le(TERN_NO_COUNTER),
                             .dest = dest,
                             .port = 1,
                             .layers = le(std::uint16_t{TERN_LAYER_ETH})};
    std::memcpy(cmd.value.dmac, mac.data(), 6);
    std::memset(cmd.mask.dmac, 0xff, 6);
    return node.make(TERN_CMD_CREATE_FLOW, cmd);
  }
  // A send of `frame`, which is copied to the region `mr` of the sender.
  SendWr frame_wr(const Bytes& frame, const tern_eth_offload& ops = {}) {
    return frame_wr(src, frame, ops);
  }
  static SendWr frame_wr(const TestMr& mr, const Bytes& frame, const tern_eth_offload& ops = {}) {
    std::memcpy(mr.bytes().data(), frame.data(), frame.size());
    SendWr wr = send({mr.sge(0, static_cast<std::uint32_t>(frame.size()))});
    wr.eth = ops;
    return wr;
  }
  // The same as it is posted for segmentation: headers in the WQE, and the payload in SGEs.
  SendWr tso_wr(const Bytes& frame, const tern_eth_offload& ops) {
    SendWr wr = frame_wr(frame, ops);
    const std::uint32_t head = le(std::uint16_t{ops.header_len});
    wr.headers.assign(frame.begin(), frame.begin() + head);
    wr.sges = {src.sge(head, static_cast<std::uint32_t>(frame.size()) - head)};
    return wr;
  }
  void expect_sent(TestQp& qp, std::uint8_t status = TERN_CQE_SUCCESS) {
    const Wc wc = qp.wait_send();
    EXPECT_EQ(wc.status, status) << status_name(wc.status);
    EXPECT_EQ(le(wc.qpn), qp.number());
  }
  // A send failed: the QP is in SQE. Returns it to RTS.
  void expect_sqe(TestQp& qp, std::uint8_t status) {
    expect_sent(qp, status);
    EXPECT_EQ(qp.query().attr.state, TERN_QPS_SQE);
    EXPECT_EQ(qp.to_state(TERN_QPS_RTS), TERN_ST_OK);
  }
  // The next frame that `qp` receives, which is in `mr` from `offset` on.
  static Bytes received(TestQp& qp, const TestMr& mr, std::uint64_t offset = 0) {
    const Wc wc = qp.wait_recv();
    EXPECT_EQ(wc.status, TERN_CQE_SUCCESS) << status_name(wc.status);
    EXPECT_EQ(wc.opcode, TERN_ETH_RX);
    EXPECT_TRUE(wc.flags & TERN_CQE_F_RECV);
    EXPECT_EQ(le(wc.qpn), qp.number());
    const auto bytes = mr.bytes(offset, le(wc.byte_len));
    return {bytes.begin(), bytes.end()};
  }
  static Bytes padded(Bytes frame) {
    if (frame.size() < 60) frame.resize(60);
    return frame;
  }
  static Bytes tagged(const Bytes& frame, unsigned vlan) {
    Bytes out(frame.begin(), frame.begin() + 12);
    for (const unsigned v : {0x81U, 0x00U, vlan >> 8, vlan & 0xff})
      out.push_back(static_cast<std::byte>(v));
    out.insert(out.end(), frame.begin() + 12, frame.end());
    return out;
  }
};

}  // namespace tern

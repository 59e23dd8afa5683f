// SPDX-License-Identifier: GPL-2.0-or-later
// Packets of a third party on the wire, with correct checksums. RoCE has no authentication: only
// addresses, numbers and PSNs tell a peer from others (Documentation/security.rst).
#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <vector>

#include "tests/rc_pair_test.h"
#include "wire/codec.h"

namespace tern {
namespace {

// The first bytes of `dst` are written by forged packets alone.
constexpr std::uint32_t kForgedBytes = 8;

class Forged : public RcPairTest {
 protected:
  Forged() { connect(); }

  [[nodiscard]] Psn expected() { return Psn(le(qb->query().attr.rq_psn)); }

  // A WRITE as the peer of qb would send it, with changes.
  void forge(Psn psn, const std::function<void(Packet&)>& change = [](Packet&) {}) {
    static constexpr std::array<std::byte, kForgedBytes> kPayload{std::byte{0xee}};
    Packet packet(a.host);
    packet.op = Op::kWriteOnly;
    packet.dest_qp = Qpn(qb->number());
    packet.psn = psn;
    packet.va = dst.iova;
    packet.rkey = dst.key;
    packet.dma_len = kForgedBytes;
    packet.payload.append_plain(std::span<const std::byte>(kPayload));
    packet.route.sgid = a.gid(0);
    packet.route.dgid = b.gid(0);
    packet.route.vlan = TERN_VLAN_NONE;
    packet.route.dmac = b.mac();
    packet.route.smac = a.mac();
    packet.route.udp_sport = 0xc000;
    change(packet);
    std::vector<std::byte> frame(kMaxFrameOverhead + kForgedBytes);
    frame.resize(serialize(packet, 1, frame));
    sim.inject(a, frame);
    sim.run_until_idle();
  }
  [[nodiscard]] bool written() { return dst.bytes()[0] == std::byte{0xee}; }

  void expect_connected() {
    qa->post(write({src.sge(kForgedBytes, 64)}, dst, kForgedBytes));
    expect_status(TERN_CQE_SUCCESS);
    EXPECT_TRUE(same_bytes(dst.bytes(kForgedBytes, 64), src.bytes(kForgedBytes, 64)));
    EXPECT_EQ(qb->query().attr.state, TERN_QPS_RTS);
  }
};

// The control: without authentication, the right numbers are enough.
TEST_F(Forged, ThePeersAddressAndNumbersAreTheConnection) {
  forge(expected());
  EXPECT_TRUE(written());
}

TEST_F(Forged, PacketsOfOtherAddressesAreDropped) {
  const std::uint64_t before = b.counter(TERN_CNT_RX_QP_MISMATCH);
  for (const unsigned byte : {8U, 12U, 15U}) {  // any part of the address
    forge(expected(), [byte](Packet& packet) { packet.route.sgid[byte] ^= 1; });
  }
  EXPECT_EQ(b.counter(TERN_CNT_RX_QP_MISMATCH) - before, 3U);
  EXPECT_FALSE(written());
  expect_connected();
}

TEST_F(Forged, PacketsOutsideTheWindowOfPsnsChangeNothing) {
  // Behind the expected PSN lie duplicates, ahead of it a gap, which costs the peer a retry at
  // most.
  for (const std::int32_t distance : {-1, -100, -(1 << 22), 1, 100, (1 << 22)}) {
    forge(expected().plus(static_cast<std::uint32_t>(distance)));
    EXPECT_FALSE(written()) << distance;
    expect_connected();
  }
}

TEST_F(Forged, AGuessedKeyEndsTheConnectionAndWritesNothing) {
  forge(expected(), [](Packet& packet) { packet.rkey ^= 1; });  // the variant
  EXPECT_FALSE(written());
  EXPECT_EQ(qb->query().attr.state, TERN_QPS_ERR);
}

TEST_F(Forged, AKeyOfAnotherDomainIsNoKey) {
  const TestMr& other = b.reg(4096, {.pd = b.alloc_pd()});
  forge(expected(), [&other](Packet& packet) {
    packet.va = other.iova;
    packet.rkey = other.key;
  });
  EXPECT_NE(other.bytes()[0], std::byte{0xee});
  EXPECT_EQ(qb->query().attr.state, TERN_QPS_ERR);
}

}  // namespace
}  // namespace tern

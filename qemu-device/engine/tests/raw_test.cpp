// SPDX-License-Identifier: GPL-2.0-or-later
// Raw packet QPs: frames out, with and without offloads, frames in from flows, states, and WQEs
// that are wrong.
#include <gmock/gmock.h>

#include <array>
#include <string>

#include "tests/pager.h"
#include "tests/raw_fixture.h"

namespace tern {
namespace {

using ::testing::IsEmpty;

using Raw = RawTest;

// ---- sending ----

TEST_F(Raw, FramesOfEveryLengthLeaveUnchanged) {
  const std::size_t most = a.options().mtu + 22;
  for (const std::size_t len : {std::size_t{14}, std::size_t{59}, std::size_t{60}, std::size_t{61},
                                std::size_t{1514}, most}) {
    SCOPED_TRACE(len);
    const Bytes frame = eth_frame(b.mac(), a.mac(), len, 3);
    wire.clear();
    SendWr wr = frame_wr(frame);
    wr.sges = {src.sge(0, 3), src.sge(3, 11), src.sge(14, static_cast<std::uint32_t>(len - 14))};
    qa.post(std::move(wr).id(len));
    const Wc wc = qa.wait_send();
    EXPECT_EQ(wc.status, TERN_CQE_SUCCESS) << status_name(wc.status);
    EXPECT_EQ(wc.opcode, TERN_WR_SEND);
    EXPECT_EQ(le(wc.wr_id), len);
    EXPECT_EQ(le(wc.byte_len), len);
    sim.run_until_idle();
    ASSERT_EQ(wire.size(), 1U);
    EXPECT_TRUE(same_bytes(wire[0], padded(frame)));
  }
  EXPECT_EQ(a.counter(TERN_CNT_TX_RDMA_PACKETS), 0U);
  EXPECT_EQ(a.eth_counter(TERN_ETH_CNT_TX_PACKETS), 6U);
}

TEST_F(Raw, InlineFrames) {
  const Bytes frame = eth_frame(b.mac(), a.mac(), 200, 5);
  SendWr wr = send_inline(frame);
  qa.post(wr);
  expect_sent(qa);
  sim.run_until_idle();
  ASSERT_EQ(wire.size(), 1U);
  EXPECT_TRUE(same_bytes(wire[0], frame));
}

// The source MAC is the sender's own matter, and nothing is sent while the link is down.
TEST_F(Raw, AnySourceAndNoLink) {
  qa.post(frame_wr(eth_frame(kOther, kOther, 100)));
  expect_sent(qa);
  a.device.set_link(false);
  qa.post(frame_wr(eth_frame(kOther, kOther, 100)));
  expect_sent(qa);
  sim.run_until_idle();
  EXPECT_EQ(wire.size(), 1U);
}

TEST_F(Raw, LengthsThatAreRefused) {
  const std::uint32_t most = a.options().mtu + 22;
  for (const std::uint32_t len : {0U, 13U, most + 1, 1U << 17}) {
    SCOPED_TRACE(len);
    qa.post(send({src.sge(0, len)}));
    expect_sqe(qa, TERN_CQE_LOC_LEN_ERR);
  }
  SendWr wr = frame_wr(eth_frame(b.mac(), a.mac(), most - 3), offload(TERN_ETH_OP_VLAN));
  qa.post(wr);  // the tag makes it too long
  expect_sqe(qa, TERN_CQE_LOC_LEN_ERR);
  wr.sges = {src.sge(0, most - 4)};
  qa.post(wr);
  expect_sent(qa);
  sim.run_until_idle();
  ASSERT_EQ(wire.size(), 1U);
  EXPECT_EQ(wire[0].size(), most);
}

TEST_F(Raw, SqeFlushesAndReceivingContinues) {
  qa.post(frame_wr(eth_frame(b.mac(), a.mac(), 100)).id(1).unsignaled(), false);
  qa.post(send({src.sge(0, 10)}).id(2).unsignaled(), false);
  qa.post(send({src.sge(0, 100)}).id(3));
  EXPECT_EQ(le(qa.wait_send().wr_id), 2U);
  const Wc flushed = qa.wait_send();
  EXPECT_EQ(flushed.status, TERN_CQE_WR_FLUSH_ERR);
  EXPECT_EQ(le(flushed.wr_id), 3U);
  sim.run_until_idle();
  EXPECT_EQ(wire.size(), 1U);
  EXPECT_EQ(qa.query().attr.state, TERN_QPS_SQE);
  flow(a, a.mac(), qa.number());
  TestMr& own = a.reg(4096);
  qa.post_recv({own.sge()});
  qb.post(frame_wr(dst, eth_frame(a.mac(), b.mac(), 100)));
  EXPECT_EQ(received(qa, own).size(), 100U);
  EXPECT_EQ(qa.to_state(TERN_QPS_RTS), TERN_ST_OK);
  qa.post(send({src.sge(0, 100)}));
  expect_sent(qa);
  EXPECT_THAT(a.async_events(), IsEmpty());
}

// ---- offloads ----

TEST_F(Raw, ChecksumOfAnyProtocol) {
  const PacketOptions udp = {.udp = true};
  Bytes frame = ip_packet(b.mac(), a.mac(), 333, udp);
  set16(frame, 24, ~plain_sum(std::span(frame).subspan(kEth, 20)) & 0xffff);
  set16(frame, 40, pseudo_sum(frame, udp, 341));
  qa.post(frame_wr(frame, offload(TERN_ETH_OP_CSUM, 34, 6)));
  expect_sent(qa);
  sim.run_until_idle();
  ASSERT_EQ(wire.size(), 1U);
  EXPECT_TRUE(checksums_ok(wire[0], udp));
}

TEST_F(Raw, ChecksumsOfIp) {
  for (const PacketOptions& o :
       {PacketOptions{}, PacketOptions{.udp = true}, PacketOptions{.ipv6 = true},
        PacketOptions{.ipv6 = true, .udp = true}}) {
    wire.clear();
    qa.post(frame_wr(ip_packet(b.mac(), a.mac(), 101, o), offload(TERN_ETH_OP_IP_CSUM)));
    expect_sent(qa);
    sim.run_until_idle();
    ASSERT_EQ(wire.size(), 1U);
    EXPECT_TRUE(checksums_ok(wire[0], o));
  }
  // A frame without them leaves as it is.
  wire.clear();
  const Bytes plain = eth_frame(b.mac(), a.mac(), 100);
  qa.post(frame_wr(plain, offload(TERN_ETH_OP_IP_CSUM)));
  expect_sent(qa);
  sim.run_until_idle();
  ASSERT_EQ(wire.size(), 1U);
  EXPECT_TRUE(same_bytes(wire[0], plain));
}

TEST_F(Raw, TagIsInsertedAfterTheChecksum) {
  const PacketOptions o;
  const Bytes frame = ip_packet(b.mac(), a.mac(), 100, o);
  qa.post(frame_wr(frame, offload(TERN_ETH_OP_IP_CSUM | TERN_ETH_OP_VLAN, 0, 0, 0, 0, 0xa123)));
  expect_sent(qa);
  sim.run_until_idle();
  ASSERT_EQ(wire.size(), 1U);
  Bytes bare = wire[0];
  bare.erase(bare.begin() + 12, bare.begin() + 16);
  EXPECT_TRUE(checksums_ok(bare, o));
  EXPECT_TRUE(same_bytes(wire[0], tagged(bare, 0xa123)));
}

// Cuts a frame of `payload` bytes, and checks every segment that arrives.
class RawSegments : public RawTest, public ::testing::WithParamInterface<PacketOptions> {
 protected:
  const PacketOptions o = GetParam();
  unsigned ops = TERN_ETH_OP_TSO | (o.udp ? TERN_ETH_OP_USO : 0U);
  std::size_t head = headers_of(o);

  void expect_segments(std::span<const Bytes> got, const Bytes& whole, std::size_t mss) {
    const std::size_t payload = whole.size() - head;
    ASSERT_EQ(got.size(), (payload + mss - 1) / mss);
    Bytes joined;
    for (std::size_t i = 0; i < got.size(); ++i) {
      const Bytes& f = got[i];
      const std::size_t len = std::min(mss, payload - i * mss);
      ASSERT_EQ(f.size(), std::max<std::size_t>(head + len, 60));
      EXPECT_TRUE(checksums_ok(f, o)) << i;
      EXPECT_TRUE(same_bytes(std::span(f).first(12), std::span(whole).first(12)));
      if (!o.ipv6) {
        EXPECT_EQ(be16(f, 16), head + len - kEth);
        EXPECT_EQ(be16(f, 18), 0x4242 + i);
      }
      if (!o.udp) {
        EXPECT_EQ(be32(f, l4_at(o) + 4), be32(whole, l4_at(o) + 4) + i * mss);
      }
      joined.insert(joined.end(), f.begin() + static_cast<std::ptrdiff_t>(head),
                    f.begin() + static_cast<std::ptrdiff_t>(head + len));
    }
    EXPECT_TRUE(same_bytes(joined, std::span(whole).subspan(head)));
  }
};

std::string name_of(const ::testing::TestParamInfo<PacketOptions>& info) {
  return std::string(info.param.udp ? "Udp" : "Tcp") + (info.param.ipv6 ? "6" : "4");
}

INSTANTIATE_TEST_SUITE_P(All, RawSegments,
                         ::testing::Values(PacketOptions{}, PacketOptions{.udp = true},
                                           PacketOptions{.ipv6 = true},
                                           PacketOptions{.ipv6 = true, .udp = true}),
                         name_of);

TEST_P(RawSegments, AreWhole) {
  for (const std::size_t payload : {1U, 999U, 1000U, 1001U, 40000U}) {
    SCOPED_TRACE(payload);
    wire.clear();
    const Bytes whole = ip_packet(b.mac(), a.mac(), payload, o);
    qa.post(tso_wr(whole, offload(ops, static_cast<unsigned>(l4_at(o)), o.udp ? 6 : 16, 1000,
                                  static_cast<unsigned>(head))));
    expect_sent(qa);
    sim.run_until_idle();
    expect_segments(wire, whole, 1000);
  }
}

TEST_P(RawSegments, OfInlinePayload) {
  const Bytes whole = ip_packet(b.mac(), a.mac(), 100, o);
  SendWr wr = send_inline(std::span(whole).subspan(head));
  wr.eth = offload(ops, static_cast<unsigned>(l4_at(o)), o.udp ? 6 : 16, 30,
                   static_cast<unsigned>(head));
  wr.headers.assign(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(head));
  qa.post(wr);
  expect_sent(qa);
  sim.run_until_idle();
  expect_segments(wire, whole, 30);
}

// Other QPs get turns in the middle of a WQE.
TEST_P(RawSegments, TakeTurnsWithOthers) {
  const Bytes whole = ip_packet(b.mac(), a.mac(), 60000, o);
  const auto [qc, qd] = rc_pair(a, b);
  qa.post(tso_wr(whole, offload(ops, static_cast<unsigned>(l4_at(o)), o.udp ? 6 : 16, 100,
                                static_cast<unsigned>(head))),
          false);
  qc.post(write({src.sge(0, 100)}, dst), false);
  qa.ring();
  qc.ring();
  expect_sent(qa);
  expect_sent(qc);
  sim.run_until_idle();
  const auto mine = [this](const Bytes& f) { return be16(f, l4_at(o)) == 1234; };
  const auto other = std::ranges::find_if_not(wire, mine);
  EXPECT_GT(other - wire.begin(), 50);
  EXPECT_LT(other - wire.begin(), 300) << "a turn has 16 KiB";
  std::erase_if(wire, [&](const Bytes& f) { return !mine(f); });
  expect_segments(wire, whole, 100);
}

TEST_P(RawSegments, WithTag) {
  const Bytes whole = ip_packet(b.mac(), a.mac(), 3000, o);
  qa.post(tso_wr(whole, offload(ops | TERN_ETH_OP_VLAN, static_cast<unsigned>(l4_at(o)),
                                o.udp ? 6 : 16, 1000, static_cast<unsigned>(head), 0x2007)));
  expect_sent(qa);
  sim.run_until_idle();
  for (Bytes& f : wire) {
    EXPECT_EQ(be32(f, 12), 0x81002007U);
    f.erase(f.begin() + 12, f.begin() + 16);
  }
  expect_segments(wire, whole, 1000);
}

TEST_F(Raw, SegmentationThatIsRefused) {
  const Bytes whole = ip_packet(b.mac(), a.mac(), 5000);
  const unsigned head = 54;
  const unsigned tso = TERN_ETH_OP_TSO;
  const auto refused = [&](const tern_eth_offload& ops, std::uint8_t status, const char* what) {
    SCOPED_TRACE(what);
    qa.post(tso_wr(whole, ops));
    expect_sqe(qa, status);
  };
  refused(offload(tso, 34, 16, 0, head), TERN_CQE_LOC_LEN_ERR, "mss 0");
  refused(offload(tso, 30, 16, 1000, head), TERN_CQE_LOC_LEN_ERR, "csum_start");
  refused(offload(tso, 34, 16, 1000, 40), TERN_CQE_LOC_LEN_ERR, "headers cut short");
  refused(offload(tso, 34, 16, a.options().mtu + 1, head), TERN_CQE_LOC_LEN_ERR,
          "segment longer than the MTU");
  refused(offload(tso | TERN_ETH_OP_USO, 34, 6, 1000, head), TERN_CQE_LOC_LEN_ERR, "TCP as UDP");
  SendWr wr = tso_wr(whole, offload(tso, 34, 16, 1000, head));
  wr.sges = {src.sge(0, 65536 - head + 1)};
  qa.post(wr);
  expect_sqe(qa, TERN_CQE_LOC_LEN_ERR);
  sim.run_until_idle();
  EXPECT_THAT(wire, IsEmpty());
  wr.sges = {src.sge(0, 65536 - head)};
  qa.post(wr);
  expect_sent(qa);
  sim.run_until_idle();
  EXPECT_EQ(wire.size(), 66U);
  wire.clear();
  wr.sges = {};  // no payload: one segment
  qa.post(wr);
  expect_sent(qa);
  sim.run_until_idle();
  EXPECT_EQ(wire.size(), 1U);
}

// ---- WQEs that are wrong ----

TEST_F(Raw, WrongWqes) {
  const Bytes frame = eth_frame(b.mac(), a.mac(), 100);
  for (int opcode = 0; opcode < 256; ++opcode) {
    if (opcode == TERN_WR_NOP || opcode == TERN_WR_SEND) continue;
    SendWr wr = frame_wr(frame);
    wr.opcode = static_cast<std::uint8_t>(opcode);
    qa.post(wr);
    expect_sqe(qa, TERN_CQE_LOC_QP_OP_ERR);
  }
  const auto wrong = [&](std::uint8_t status, const char* what, auto change) {
    SCOPED_TRACE(what);
    SendWr wr = frame_wr(frame);
    change(wr);
    qa.post(wr);
    expect_sqe(qa, status);
  };
  wrong(TERN_CQE_LOC_QP_OP_ERR, "unknown flag", [](SendWr& wr) { wr.flags |= 0x10; });
  wrong(TERN_CQE_LOC_QP_OP_ERR, "unknown operation",
        [](SendWr& wr) { wr.eth.ops = le(std::uint16_t{0x20}); });
  wrong(TERN_CQE_LOC_QP_OP_ERR, "both checksums",
        [](SendWr& wr) { wr.eth.ops = le(std::uint16_t{TERN_ETH_OP_CSUM | TERN_ETH_OP_IP_CSUM}); });
  wrong(TERN_CQE_LOC_QP_OP_ERR, "a flag of descriptors",
        [](SendWr& wr) { wr.eth.flags = le(std::uint16_t{TERN_ETH_F_OFFLOAD}); });
  wrong(TERN_CQE_LOC_QP_OP_ERR, "reserved bytes", [](SendWr& wr) { wr.eth.rsvd_e = 1; });
  wrong(TERN_CQE_LOC_QP_OP_ERR, "headers longer than the slot",
        [](SendWr& wr) { wr.eth = offload(TERN_ETH_OP_TSO, 34, 16, 1000, 256); });
  wrong(TERN_CQE_LOC_QP_OP_ERR, "headers of 65535 bytes",
        [](SendWr& wr) { wr.eth = offload(TERN_ETH_OP_TSO, 34, 16, 1000, 65535); });
  wrong(TERN_CQE_LOC_LEN_ERR, "checksum beyond the frame",
        [](SendWr& wr) { wr.eth = offload(TERN_ETH_OP_CSUM, 90, 9); });
  wrong(TERN_CQE_LOC_LEN_ERR, "checksum far beyond the frame",
        [](SendWr& wr) { wr.eth = offload(TERN_ETH_OP_CSUM, 65535, 65535); });
  wrong(TERN_CQE_LOC_PROT_ERR, "wrong key", [&](SendWr& wr) { wr.sges[0].lkey += 1; });
  wrong(TERN_CQE_LOC_PROT_ERR, "beyond the region",
        [&](SendWr& wr) { wr.sges[0].addr += src.length - 99; });
  TestMr& foreign = a.reg(4096, {.pd = a.alloc_pd()});
  wrong(TERN_CQE_LOC_PROT_ERR, "another PD", [&](SendWr& wr) { wr.sges = {foreign.sge(0, 100)}; });
  wrong(TERN_CQE_LOC_PROT_ERR, "a DMA address",
        [&](SendWr& wr) { wr.sges = {{src.dma, 100, TERN_LKEY_DMA}}; });
  sim.run_until_idle();
  EXPECT_THAT(wire, IsEmpty());
  qa.post(SendWr{.opcode = TERN_WR_NOP, .wr_id = 8});
  EXPECT_EQ(qa.wait_send().opcode, TERN_WR_NOP);
}

// More SGEs, inline bytes or headers than the slot holds, written past the driver's checks.
TEST_F(Raw, CountsBeyondTheSlot) {
  const auto post_raw = [&](std::uint8_t num_sge, std::uint32_t inline_length,
                            const tern_eth_offload& eth) {
    const std::uint64_t slot = qa.sq_slot(qa.sq_posted());
    qa.post(frame_wr(eth_frame(b.mac(), a.mac(), 100)), false);
    tern_sq_hdr hdr{.opcode = TERN_WR_SEND,
                    .flags = static_cast<std::uint8_t>(inline_length != 0
                                                           ? TERN_WQE_F_SIGNALED | TERN_WQE_F_INLINE
                                                           : TERN_WQE_F_SIGNALED),
                    .num_sge = num_sge,
                    .length = le(inline_length)};
    qa.memory().put(slot, hdr);
    qa.memory().put(slot + sizeof(hdr), eth);
    qa.ring();
    expect_sqe(qa, TERN_CQE_LOC_QP_OP_ERR);
  };
  const tern_eth_offload tso = offload(TERN_ETH_OP_TSO, 34, 16, 100, 54);
  // 256 bytes less header and segment are 13 SGEs, or 208 bytes.
  post_raw(14, 0, {});
  post_raw(255, 0, {});
  post_raw(0, 209, {});
  post_raw(0, 0xffffffffU, {});
  post_raw(10, 0, tso);
  post_raw(0, 145, tso);
  // A slot of 64 bytes has no room for an SGE behind the headers.
  QpOptions small = kRaw;
  small.log_sq_stride = 6;
  TestQp& q = a.create_qp(small);
  q.connect();
  q.post(frame_wr(eth_frame(b.mac(), a.mac(), 60)));
  expect_sent(q);
}

// ---- receiving ----

TEST_F(Raw, FlowGivesFrames) {
  flow(b, b.mac(), qb.number(), TERN_DEST_QP, 0xabcdef);
  qb.post_recv({dst.sge(0, 100), dst.sge(1000, 5000)}, 77);
  const Bytes frame = eth_frame(b.mac(), a.mac(), 1500);
  qa.post(frame_wr(frame));
  const Wc wc = qb.wait_recv();
  EXPECT_EQ(wc.status, TERN_CQE_SUCCESS);
  EXPECT_EQ(wc.opcode, TERN_ETH_RX);
  EXPECT_EQ(wc.flags, TERN_CQE_F_RECV);
  EXPECT_EQ(le(wc.wr_id), 77U);
  EXPECT_EQ(le(wc.qpn), qb.number());
  EXPECT_EQ(le(wc.byte_len), 1500U);
  EXPECT_EQ(le(wc.src_qp), 0xabcdefU);
  EXPECT_EQ(le(wc.wqe_index), 0U);
  EXPECT_GT(le(wc.timestamp), 0U);
  EXPECT_TRUE(same_bytes(dst.bytes(0, 100), std::span(frame).first(100)));
  EXPECT_TRUE(same_bytes(dst.bytes(1000, 1400), std::span(frame).subspan(100)));
}

TEST_F(Raw, ChecksumsAreJudged) {
  flow(b, b.mac(), qb.number());
  const PacketOptions o;
  for (const bool good : {true, false}) {
    qb.post_recv({dst.sge(0, 5000)});
    qa.post(
        frame_wr(ip_packet(b.mac(), a.mac(), 100, o), offload(good ? TERN_ETH_OP_IP_CSUM : 0U)));
    const Wc wc = qb.wait_recv();
    const unsigned ok = TERN_CQE_F_L3_OK | TERN_CQE_F_L4_OK;
    EXPECT_EQ(wc.flags & ok, good ? ok : 0U);
  }
}

TEST_F(Raw, NoReceiveWqe) {
  flow(b, b.mac(), qb.number());
  qa.post(frame_wr(eth_frame(b.mac(), a.mac(), 100)));
  expect_sent(qa);
  sim.run_until_idle();
  EXPECT_EQ(b.counter(TERN_CNT_OUT_OF_BUFFER), 1U);
  EXPECT_FALSE(qb.recv_cq().poll());
  EXPECT_EQ(qb.query().attr.state, TERN_QPS_RTS);
}

// The frame completes its WQE with an error; no peer can stop the queue by that.
TEST_F(Raw, TooLongForTheWqe) {
  flow(b, b.mac(), qb.number());
  std::ranges::fill(dst.bytes(), std::byte{0xee});
  qb.post_recv({dst.sge(0, 99)}, 1);
  qb.post_recv({dst.sge(0, 100)}, 2);
  const Bytes frame = eth_frame(b.mac(), a.mac(), 100);
  qa.post(frame_wr(frame));
  const Wc wc = qb.wait_recv();
  EXPECT_EQ(wc.status, TERN_CQE_LOC_LEN_ERR);
  EXPECT_EQ(le(wc.wr_id), 1U);
  EXPECT_EQ(dst.bytes()[0], std::byte{0xee});
  EXPECT_EQ(b.counter(TERN_CNT_RESP_LOCAL_LENGTH_ERROR), 1U);
  EXPECT_EQ(b.counter(TERN_CNT_RESP_CQE_ERROR), 1U);
  qa.post(frame_wr(frame));
  EXPECT_EQ(received(qb, dst), frame);
}

TEST_F(Raw, MemoryOfTheWqeThatIsNotAllowed) {
  flow(b, b.mac(), qb.number());
  TestMr& read_only = b.reg(4096, {.access = 0});
  for (const tern_sge& sge : {tern_sge{dst.iova, 200, dst.key + 1}, read_only.sge(0, 200)}) {
    qb.post_recv({sge}, 5);
    qb.post_recv({dst.sge(0, 200)}, 6);
    qa.post(frame_wr(eth_frame(b.mac(), a.mac(), 100)));
    const Wc wc = qb.wait_recv();
    EXPECT_EQ(wc.status, TERN_CQE_LOC_PROT_ERR) << status_name(wc.status);
    EXPECT_EQ(le(wc.wr_id), 5U);
    EXPECT_EQ(qb.wait_recv().status, TERN_CQE_WR_FLUSH_ERR);
    EXPECT_EQ(qb.query().attr.state, TERN_QPS_ERR);
    ASSERT_EQ(qb.to_state(TERN_QPS_RESET), TERN_ST_OK);
    qb.forget_posted();
    qb.connect();
  }
  EXPECT_THAT(b.async_events(), IsEmpty());
}

TEST_F(Raw, QueueThatCannotBeRead) {
  flow(b, b.mac(), qb.number());
  qb.store_rq_pi(1000);
  qa.post(frame_wr(eth_frame(b.mac(), a.mac(), 100)));
  sim.run_until_idle();
  EXPECT_EQ(qb.query().attr.state, TERN_QPS_ERR);
  const auto events = b.async_events();
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(le(events[0].type), TERN_EV_QP_FATAL);
}

TEST_F(Raw, StrippingChangesInAnyState) {
  const Bytes frame = tagged(eth_frame(b.mac(), a.mac(), 100), 0x6005);
  TestQp& q = b.create_qp(kRaw);
  EXPECT_EQ(q.modify({}, 0, TERN_QPM_STRIP_VLAN), TERN_ST_OK);
  q.connect();
  (void)flow(b, b.mac(), q.number());
  for (const bool strip : {true, false, true}) {
    EXPECT_EQ(q.modify({}, 0, strip ? TERN_QPM_STRIP_VLAN : TERN_QPM_KEEP_VLAN), TERN_ST_OK);
    q.post_recv({dst.sge(0, 4096)});
    qa.post(frame_wr(frame));
    EXPECT_EQ((q.wait_recv().flags & TERN_CQE_F_VLAN) != 0, strip);
  }
  EXPECT_EQ(q.modify({}, 0, TERN_QPM_STRIP_VLAN | TERN_QPM_KEEP_VLAN), TERN_ST_BAD_PARAM);
  EXPECT_EQ(q.modify({}, 0, TERN_QPM_STRIP_VLAN | TERN_QPM_SQD_NOTIFY), TERN_ST_BAD_PARAM);
  EXPECT_EQ(q.modify({}, TERN_QPA_PORT, TERN_QPM_STRIP_VLAN), TERN_ST_BAD_PARAM);
  EXPECT_EQ(b.create_qp({.type = TERN_QPT_UD}).modify({}, 0, TERN_QPM_STRIP_VLAN),
            TERN_ST_BAD_PARAM);
}

TEST_F(Raw, StripsTheTagAndKeepsTheFcs) {
  const Bytes frame = tagged(eth_frame(b.mac(), a.mac(), 100), 0x6005);
  QpOptions options = kRaw;
  for (const unsigned flags : {0U, unsigned{TERN_QP_F_STRIP_VLAN}, unsigned{TERN_QP_F_KEEP_FCS},
                               unsigned{TERN_QP_F_STRIP_VLAN | TERN_QP_F_KEEP_FCS}}) {
    SCOPED_TRACE(flags);
    options.flags = static_cast<std::uint8_t>(flags);
    TestQp& q = b.create_qp(options);
    q.connect();
    const std::uint32_t id = flow(b, b.mac(), q.number());
    q.post_recv({dst.sge(0, 4096)});
    qa.post(frame_wr(frame));
    const Wc wc = q.wait_recv();
    const bool strip = flags & TERN_QP_F_STRIP_VLAN;
    const bool fcs = flags & TERN_QP_F_KEEP_FCS;
    EXPECT_EQ(le(wc.byte_len), frame.size() - (strip ? 4 : 0) + (fcs ? 4 : 0));
    EXPECT_EQ((wc.flags & TERN_CQE_F_VLAN) != 0, strip);
    EXPECT_EQ(le(wc.vlan), strip ? 0x6005U : 0U);
    Bytes want = frame;
    if (strip) want.erase(want.begin() + 12, want.begin() + 16);
    EXPECT_TRUE(same_bytes(dst.bytes(0, want.size()), want));
    if (fcs) {
      // The CRC of a frame with its FCS is a constant (IEEE 802.3, 3.2.9).
      std::uint32_t crc = 0xffffffff;
      Bytes whole = frame;
      const auto tail = dst.bytes(want.size(), 4);
      whole.insert(whole.end(), tail.begin(), tail.end());
      for (const std::byte byte : whole) {
        crc ^= std::to_integer<std::uint32_t>(byte);
        for (int i = 0; i < 8; ++i) crc = crc >> 1 ^ (crc & 1 ? 0xedb88320U : 0U);
      }
      EXPECT_EQ(crc, 0xdebb20e3U);
    }
    b.destroy(TERN_CMD_DESTROY_FLOW, id);
  }
}

TEST_F(Raw, SharedReceiveQueue) {
  TestSrq& srq = b.create_srq();
  QpOptions options = kRaw;
  options.srq = &srq;
  TestQp& q = b.create_qp(options);
  ASSERT_EQ(q.created(), TERN_ST_OK);
  q.connect();
  flow(b, b.mac(), q.number());
  srq.post({dst.sge(0, 4096)}, 31);
  const Bytes frame = eth_frame(b.mac(), a.mac(), 100);
  qa.post(frame_wr(frame));
  const Wc wc = q.wait_recv();
  EXPECT_EQ(wc.status, TERN_CQE_SUCCESS);
  EXPECT_EQ(le(wc.wr_id), 31U);
  EXPECT_EQ(le(wc.srqn), srq.number());
  EXPECT_TRUE(same_bytes(dst.bytes(0, 100), frame));
  qa.post(frame_wr(frame));
  sim.run_until_idle();
  EXPECT_EQ(b.counter(TERN_CNT_OUT_OF_BUFFER), 1U);
}

// ---- on-demand paging ----

TEST_F(Raw, SendFromAnAbsentPage) {
  OnDemandMr od(a, 1 << 16);
  Pager pager(a);
  pager.add(od);
  const Bytes whole = ip_packet(b.mac(), a.mac(), 20000);
  od.write(0, whole);
  SendWr wr = send({od.sge(54, 20000)});
  wr.eth = offload(TERN_ETH_OP_TSO, 34, 16, 1000, 54);
  wr.headers.assign(whole.begin(), whole.begin() + 54);
  pager.whole = false;
  qa.post(wr);
  sim.run_until_idle();
  EXPECT_THAT(wire, IsEmpty());
  EXPECT_EQ(le(a.objects().parked), 1U);
  for (int i = 0; i < 10; ++i) {
    pager.resolve_all();
    sim.run_until_idle();
  }
  EXPECT_EQ(pager.taken, 5U);
  expect_sent(qa);
  ASSERT_EQ(wire.size(), 20U);
  Bytes joined;
  for (const Bytes& f : wire) joined.insert(joined.end(), f.begin() + 54, f.end());
  EXPECT_TRUE(same_bytes(joined, std::span(whole).subspan(54)));
  // A fault that is not resolved fails the WQE in the middle.
  od.evict(2, 1);
  wire.clear();
  qa.post(wr);
  sim.run_until_idle();
  pager.collect();
  ASSERT_EQ(pager.faults.size(), 1U);
  EXPECT_EQ(pager.resolve(0, TERN_RESUME_FAIL), TERN_ST_OK);
  expect_sqe(qa, TERN_CQE_LOC_PROT_ERR);
  EXPECT_EQ(wire.size(), 8U);
}

TEST_F(Raw, ReceiveIntoAnAbsentPage) {
  OnDemandMr od(b, 1 << 16);
  Pager pager(b);
  pager.add(od);
  flow(b, b.mac(), qb.number());
  qb.post_recv({od.sge(0, 4096)}, 3);
  const Bytes frame = eth_frame(b.mac(), a.mac(), 100);
  qa.post(frame_wr(frame));
  sim.run_until_idle();
  EXPECT_EQ(b.counter(TERN_CNT_OUT_OF_BUFFER), 1U) << "the frame is lost";
  EXPECT_FALSE(qb.recv_cq().poll());
  pager.resolve_all();
  qa.post(frame_wr(frame));
  const Wc wc = qb.wait_recv();
  EXPECT_EQ(wc.status, TERN_CQE_SUCCESS);
  EXPECT_EQ(le(wc.wr_id), 3U);
  EXPECT_EQ(od.read(0, 100), frame);
}

// ---- states ----

TEST_F(Raw, OnlyThePortIsAnAttribute) {
  TestQp& q = a.create_qp(kRaw);
  tern_qp_attr attr{.state = TERN_QPS_INIT, .port = 1};
  EXPECT_EQ(q.modify(attr, TERN_QPA_STATE), TERN_ST_BAD_PARAM) << "the port is missing";
  for (std::uint32_t bit = TERN_QPA_ACCESS; bit < TERN_QPA_PORT; bit <<= 1) {
    EXPECT_EQ(q.modify(attr, TERN_QPA_STATE | TERN_QPA_PORT | bit), TERN_ST_BAD_PARAM) << bit;
  }
  attr.port = 2;
  EXPECT_EQ(q.modify(attr, TERN_QPA_STATE | TERN_QPA_PORT), TERN_ST_BAD_PARAM);
  EXPECT_EQ(q.to_state(TERN_QPS_RTR), TERN_ST_BAD_STATE);
  EXPECT_EQ(q.to_init(), TERN_ST_OK);
  EXPECT_EQ(q.to_state(TERN_QPS_RTS), TERN_ST_BAD_STATE);
  for (const std::uint8_t state : {std::uint8_t{TERN_QPS_RTR}, std::uint8_t{TERN_QPS_RTS}}) {
    attr.state = state;
    for (std::uint32_t bit = TERN_QPA_ACCESS; bit <= TERN_QPA_PORT; bit <<= 1) {
      EXPECT_EQ(q.modify(attr, TERN_QPA_STATE | bit), TERN_ST_BAD_PARAM) << bit;
    }
    EXPECT_EQ(q.to_state(state), TERN_ST_OK);
  }
  const tern_rsp_query_qp rsp = q.query();
  EXPECT_EQ(rsp.attr.state, TERN_QPS_RTS);
  EXPECT_EQ(rsp.attr.port, 1);
  EXPECT_EQ(rsp.attr.sq_psn, 0U);
  EXPECT_EQ(q.to_state(TERN_QPS_SQD, TERN_QPM_SQD_NOTIFY), TERN_ST_OK);
  const auto events = a.async_events();
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(le(events[0].type), TERN_EV_SQ_DRAINED);
  EXPECT_EQ(q.to_state(TERN_QPS_RTS), TERN_ST_OK);
  EXPECT_EQ(q.to_state(TERN_QPS_ERR), TERN_ST_OK);
  EXPECT_EQ(q.to_state(TERN_QPS_RTS), TERN_ST_BAD_STATE);
}

TEST_F(Raw, FramesByState) {
  TestQp& q = b.create_qp(kRaw);
  flow(b, b.mac(), q.number());
  q.post_recv({dst.sge(0, 4096)}, 1);
  q.post_recv({dst.sge(0, 4096)}, 2);
  const auto arrives = [&] {
    const std::uint64_t before = b.counter(TERN_CNT_RX_QP_MISMATCH);
    qa.post(frame_wr(eth_frame(b.mac(), a.mac(), 100)));
    expect_sent(qa);
    sim.run_until_idle();
    return b.counter(TERN_CNT_RX_QP_MISMATCH) == before;
  };
  EXPECT_FALSE(arrives());
  EXPECT_EQ(q.to_init(), TERN_ST_OK);
  EXPECT_FALSE(arrives());
  EXPECT_FALSE(q.recv_cq().poll());
  EXPECT_EQ(q.to_state(TERN_QPS_RTR), TERN_ST_OK);
  EXPECT_TRUE(arrives());
  EXPECT_EQ(le(q.wait_recv().wr_id), 1U);
  EXPECT_EQ(q.to_state(TERN_QPS_ERR), TERN_ST_OK);
  EXPECT_FALSE(arrives());
  const Wc wc = q.wait_recv();
  EXPECT_EQ(wc.status, TERN_CQE_WR_FLUSH_ERR);
  EXPECT_EQ(le(wc.wr_id), 2U);
}

// A receive-only QP is a work queue of verbs; a send-only one belongs to a QP of an RSS group.
TEST_F(Raw, HalfAQp) {
  QpOptions options = kRaw;
  options.flags = TERN_QP_F_NO_SQ;
  TestQp& wq = b.create_qp(options);
  ASSERT_EQ(wq.created(), TERN_ST_OK);
  EXPECT_EQ(wq.to_init(), TERN_ST_OK);
  EXPECT_EQ(wq.to_state(TERN_QPS_RTR), TERN_ST_OK);
  const std::uint32_t id = flow(b, b.mac(), wq.number());
  wq.post_recv({dst.sge(0, 4096)});
  qa.post(frame_wr(eth_frame(b.mac(), a.mac(), 100)));
  EXPECT_EQ(received(wq, dst).size(), 100U);
  wq.ring();  // a send doorbell without a send queue
  sim.run_until_idle();
  EXPECT_EQ(wq.query().attr.state, TERN_QPS_RTR);
  b.destroy(TERN_CMD_DESTROY_FLOW, id);

  options.flags = TERN_QP_F_NO_RQ;
  TestQp& sq = b.create_qp(options);
  ASSERT_EQ(sq.created(), TERN_ST_OK);
  sq.connect();
  sq.post(frame_wr(dst, eth_frame(kOther, b.mac(), 100)));
  expect_sent(sq);
  // It has nowhere to put a frame.
  tern_cmd_create_flow cmd{.dest_id = le(sq.number()),
                           .counter = le(TERN_NO_COUNTER),
                           .dest = TERN_DEST_QP,
                           .port = 1,
                           .layers = le(std::uint16_t{TERN_LAYER_ETH})};
  EXPECT_EQ(b.command(TERN_CMD_CREATE_FLOW, cmd), TERN_ST_BAD_HANDLE);
}

TEST_F(Raw, FlagsThatOtherTypesDoNotHave) {
  constexpr std::array<std::uint8_t, 3> flags = {TERN_QP_F_STRIP_VLAN, TERN_QP_F_KEEP_FCS,
                                                 TERN_QP_F_NO_MCAST_LOOPBACK};
  constexpr std::array<std::uint8_t, 3> types = {TERN_QPT_RC, TERN_QPT_UC, TERN_QPT_UD};
  for (const std::uint8_t flag : flags) {
    for (const std::uint8_t type : types) {
      const bool has = type == TERN_QPT_UD && flag == TERN_QP_F_NO_MCAST_LOOPBACK;
      EXPECT_EQ(TestQp(a, {.type = type, .flags = flag}).created(),
                has ? TERN_ST_OK : TERN_ST_BAD_PARAM);
    }
    EXPECT_EQ(TestQp(a, {.type = TERN_QPT_RAW, .flags = flag}).created(), TERN_ST_OK);
  }
  EXPECT_EQ(TestQp(a, {.type = TERN_QPT_RAW, .flags = 0x40}).created(), TERN_ST_BAD_PARAM);
  EXPECT_EQ(TestQp(a, {.type = TERN_QPT_RAW + 1}).created(), TERN_ST_BAD_PARAM);
  EXPECT_TRUE(le(a.caps().flags) & TERN_CAP_RAW_QP);
}

TEST_F(Raw, DestroyWhileAFlowRefersToIt) {
  const std::uint32_t id = flow(b, b.mac(), qb.number());
  const tern_cmd_object cmd{le(qb.number()), 0};
  EXPECT_EQ(b.command(TERN_CMD_DESTROY_QP, cmd), TERN_ST_BUSY);
  b.destroy(TERN_CMD_DESTROY_FLOW, id);
  EXPECT_EQ(b.command(TERN_CMD_DESTROY_QP, cmd), TERN_ST_OK);
}

// A RoCE packet to the number of a raw QP finds no QP of its class.
TEST_F(Raw, RoceDoesNotReachIt) {
  TestQp& ud = a.create_qp({.type = TERN_QPT_UD});
  ud.connect();
  qb.post_recv({dst.sge(0, 4096)});
  ud.post(datagram(ud, qb, {src.sge(0, 8)}));
  EXPECT_EQ(ud.wait_send().status, TERN_CQE_SUCCESS);
  sim.run_until_idle();
  EXPECT_EQ(b.counter(TERN_CNT_RX_QP_MISMATCH), 1U);
  EXPECT_FALSE(qb.recv_cq().poll());
}

}  // namespace
}  // namespace tern

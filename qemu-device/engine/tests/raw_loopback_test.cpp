// SPDX-License-Identifier: GPL-2.0-or-later
// Frames of raw QPs that stay in the port: to its own address, to addresses that flows claim, and
// to groups.
#include <gmock/gmock.h>

#include "tests/raw_fixture.h"

namespace tern {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

class RawLoopback : public RawTest {
 protected:
  TestQp& peer = a.create_qp(kRaw);  // a second QP of the same node
  TestMr& own = a.reg(1 << 16);
  TestCq& eth_cq = a.create_cq(4);
  TestEthQueue eth_rx{a, TERN_ETH_QUEUE_RX, eth_cq};
  TestEthQueue eth_tx{a, TERN_ETH_QUEUE_TX, eth_cq};

  void SetUp() override {
    RawTest::SetUp();
    peer.connect();
  }
  void send_one(const Bytes& frame) {
    qa.post(frame_wr(frame));
    expect_sent(qa);
    sim.run_until_idle();
  }
};

TEST_F(RawLoopback, OwnAddressStaysInside) {
  flow(a, a.mac(), peer.number());
  peer.post_recv({own.sge(0, 4096)});
  const Bytes frame = eth_frame(a.mac(), a.mac(), 700);
  send_one(frame);
  EXPECT_EQ(received(peer, own), frame);
  EXPECT_THAT(wire, IsEmpty());
  // To itself.
  const std::uint32_t id = flow(a, kOther, qa.number());
  qa.post_recv({own.sge(0, 4096)});
  send_one(eth_frame(kOther, a.mac(), 100));
  EXPECT_EQ(received(qa, own).size(), 100U);
  EXPECT_THAT(wire, IsEmpty());
  a.destroy(TERN_CMD_DESTROY_FLOW, id);
  // Without the flow, nobody here has that address.
  send_one(eth_frame(kOther, a.mac(), 100));
  EXPECT_THAT(wire, SizeIs(1));
}

TEST_F(RawLoopback, NetdevGetsWhatNoFlowTakes) {
  eth_rx.post_buffer();
  const Bytes frame = eth_frame(a.mac(), kOther, 90);
  send_one(frame);
  const auto wc = eth_cq.poll();
  ASSERT_TRUE(wc);
  EXPECT_EQ(wc->opcode, TERN_ETH_RX);
  EXPECT_EQ(eth_rx.received(*wc), frame);
  EXPECT_THAT(wire, IsEmpty());
}

TEST_F(RawLoopback, GroupsGoBothWays) {
  flow(a, kGroup, peer.number());
  peer.post_recv({own.sge(0, 4096)});
  const Bytes frame = eth_frame(kGroup, a.mac(), 100);
  send_one(frame);
  EXPECT_EQ(received(peer, own), frame);
  ASSERT_THAT(wire, SizeIs(1));
  EXPECT_EQ(wire[0], frame);
}

TEST_F(RawLoopback, OwnGroupFramesOnRequestOnly) {
  QpOptions options = kRaw;
  options.flags = TERN_QP_F_NO_MCAST_LOOPBACK;
  TestQp& shy = a.create_qp(options);
  shy.connect();
  flow(a, kGroup, shy.number());
  flow(a, kOther, shy.number());
  shy.post_recv({own.sge(0, 4096)}, 1);
  shy.post(frame_wr(eth_frame(kGroup, a.mac(), 100)));
  expect_sent(shy);
  sim.run_until_idle();
  EXPECT_FALSE(shy.recv_cq().poll());
  EXPECT_THAT(wire, SizeIs(1));
  // Frames of others to the group, and its own to another address, come.
  send_one(eth_frame(kGroup, a.mac(), 100));
  EXPECT_EQ(received(shy, own).size(), 100U);
  shy.post_recv({own.sge(0, 4096)}, 2);
  shy.post(frame_wr(eth_frame(kOther, a.mac(), 101)));
  expect_sent(shy);
  EXPECT_EQ(received(shy, own).size(), 101U);
  // A QP without the flag gets its own frames.
  flow(a, kGroup, qa.number());
  const Mac second = {0x01, 0x00, 0x5e, 0, 0, 9};
  flow(a, second, qa.number());
  qa.post_recv({own.sge(0, 4096)});
  send_one(eth_frame(second, a.mac(), 102));
  EXPECT_EQ(received(qa, own).size(), 102U);
}

// The netdev of the same port is a neighbour of the QPs that claim an address.
TEST_F(RawLoopback, EthernetQueueReachesAClaimedAddress) {
  flow(a, kOther, peer.number());
  peer.post_recv({own.sge(0, 4096)});
  const Bytes frame = eth_frame(kOther, a.mac(), 300);
  eth_tx.send(frame);
  EXPECT_EQ(received(peer, own), frame);
  sim.run_until_idle();
  EXPECT_THAT(wire, IsEmpty());
  const Bytes other = eth_frame(b.mac(), a.mac(), 300);
  eth_tx.send(other);
  sim.run_until_idle();
  ASSERT_THAT(wire, SizeIs(1));
  EXPECT_EQ(wire[0], other);
}

// Flows of sent frames see those of raw QPs, before they are looped back or sent.
TEST_F(RawLoopback, FlowsOfSentFrames) {
  flow(a, a.mac(), peer.number());
  tern_cmd_create_flow cmd{.counter = le(a.make(TERN_CMD_CREATE_FLOW_COUNTER)),
                           .kind = TERN_FLOW_SENT,
                           .dest = TERN_DEST_WIRE,
                           .port = 1,
                           .layers = le(std::uint16_t{TERN_LAYER_ETH})};
  std::ranges::copy(kOther, cmd.value.dmac);
  std::ranges::fill(cmd.mask.dmac, 0xff);
  const std::uint32_t counts = a.make(TERN_CMD_CREATE_FLOW, cmd);
  const auto counted = [&] {
    tern_rsp_flow_counter reply{};
    EXPECT_EQ(a.command(TERN_CMD_QUERY_FLOW_COUNTER, tern_cmd_object{cmd.counter, 0}, &reply),
              TERN_ST_OK);
    return le(reply.packets);
  };
  send_one(eth_frame(kOther, a.mac(), 100));
  send_one(eth_frame(b.mac(), a.mac(), 100));
  EXPECT_EQ(counted(), 1U);
  EXPECT_THAT(wire, SizeIs(2));
  a.destroy(TERN_CMD_DESTROY_FLOW, counts);

  cmd.dest = TERN_DEST_NONE;
  a.make(TERN_CMD_CREATE_FLOW, cmd);
  std::ranges::copy(a.mac(), cmd.value.dmac);
  a.make(TERN_CMD_CREATE_FLOW, cmd);
  const std::uint64_t sent = a.eth_counter(TERN_ETH_CNT_TX_PACKETS);
  peer.post_recv({own.sge(0, 4096)});
  send_one(eth_frame(kOther, a.mac(), 100));
  send_one(eth_frame(a.mac(), a.mac(), 100));
  EXPECT_EQ(counted(), 3U);
  EXPECT_THAT(wire, SizeIs(2));
  EXPECT_FALSE(peer.recv_cq().poll());
  EXPECT_EQ(a.eth_counter(TERN_ETH_CNT_TX_PACKETS), sent) << "never sent";
  eth_tx.send(eth_frame(kOther, a.mac(), 100));
  sim.run_until_idle();
  EXPECT_THAT(wire, SizeIs(3)) << "not a raw QP's";

  cmd.dest = TERN_DEST_QP;
  cmd.dest_id = le(peer.number());
  EXPECT_EQ(a.command(TERN_CMD_CREATE_FLOW, cmd), TERN_ST_BAD_PARAM);
  cmd.kind = TERN_FLOW_NORMAL;
  cmd.dest = TERN_DEST_WIRE;
  cmd.dest_id = 0;
  EXPECT_EQ(a.command(TERN_CMD_CREATE_FLOW, cmd), TERN_ST_BAD_PARAM);
}

TEST_F(RawLoopback, SegmentsAndTagsAreFinished) {
  flow(a, a.mac(), peer.number());
  const PacketOptions o;
  const Bytes whole = ip_packet(a.mac(), a.mac(), 2500, o);
  for (std::uint64_t i = 0; i < 3; ++i) peer.post_recv({own.sge(i * 4096, 4096)}, i);
  qa.post(tso_wr(whole, offload(TERN_ETH_OP_TSO | TERN_ETH_OP_VLAN, 34, 16, 1000, 54, 7)));
  expect_sent(qa);
  for (std::uint64_t i = 0; i < 3; ++i) {
    Bytes f = received(peer, own, i * 4096);
    EXPECT_EQ(be32(f, 12), 0x81000007U);
    f.erase(f.begin() + 12, f.begin() + 16);
    EXPECT_TRUE(checksums_ok(f, o));
    EXPECT_EQ(f.size(), i < 2 ? 1054U : 554U);
  }
  EXPECT_THAT(wire, IsEmpty());
}

// A frame that kills the QP that sent it: the receive CQ overflows while the frame is delivered to
// its sender.
TEST_F(RawLoopback, SenderDiesOfItsOwnFrame) {
  QpOptions options = kRaw;
  options.recv_cq = &a.create_cq(1);
  TestQp& q = a.create_qp(options);
  q.connect();
  flow(a, kOther, q.number());
  for (std::uint64_t i = 0; i < 6; ++i) q.post_recv({own.sge(0, 4096)}, i);
  for (std::uint64_t i = 0; i < 6; ++i)
    q.post(frame_wr(eth_frame(kOther, a.mac(), 100)).id(i), false);
  q.ring();
  sim.run_until_idle();
  EXPECT_EQ(q.query().attr.state, TERN_QPS_ERR);
  unsigned flushed = 0;
  for (const Wc& wc : q.send_cq().poll_all()) flushed += wc.status == TERN_CQE_WR_FLUSH_ERR;
  EXPECT_GE(flushed, 3U);
  EXPECT_THAT(wire, IsEmpty());
  send_one(eth_frame(b.mac(), a.mac(), 100));
}

// Every copy is charged: a sender whose frames reach many QPs does not delay the others.
TEST_F(RawLoopback, CopiesAreCharged) {
  sim.budget = 20000;
  TestCq& sink = a.create_cq(12);
  for (int i = 0; i < 8; ++i) {
    QpOptions options = kRaw;
    options.recv_cq = &sink;
    TestQp& q = a.create_qp(options);
    q.connect();
    tern_cmd_create_flow cmd{.dest_id = le(q.number()),
                             .counter = le(TERN_NO_COUNTER),
                             .kind = TERN_FLOW_MULTICAST,
                             .dest = TERN_DEST_QP,
                             .port = 1,
                             .flags = TERN_FLOW_F_CONTINUE};
    ASSERT_EQ(a.command(TERN_CMD_CREATE_FLOW, cmd), TERN_ST_OK);
    for (int j = 0; j < 32; ++j) q.post_recv({own.sge(0, 4096)});
  }
  for (int i = 0; i < 32; ++i) qa.post(frame_wr(eth_frame(kGroup, a.mac(), 1000)), false);
  peer.post(SendWr{.opcode = TERN_WR_NOP}, false);
  qa.ring();
  peer.ring();
  a.device.run(sim.budget);
  EXPECT_LE(sink.poll_all().size(), 8U * 4) << "about 9 KB for each frame";
  a.device.run(sim.budget);
  EXPECT_TRUE(peer.send_cq().poll().has_value()) << "the other QP had its turn";
  sim.run_until_idle();
  EXPECT_EQ(wire.size(), 32U);
}

TEST_F(RawLoopback, GroupOfWorkQueues) {
  QpOptions options = kRaw;
  options.flags = TERN_QP_F_NO_SQ;
  std::vector<TestQp*> queues;
  tern_cmd_rss rss{.port = 1, .log_entries = 1, .kind = TERN_DEST_QP};
  rss.fields[TERN_RSS_TCP4] = TERN_RSS_FIELD_SRC_PORT | TERN_RSS_FIELD_DST_PORT;
  for (std::size_t i = 0; i < sizeof(rss.key); ++i)
    rss.key[i] = static_cast<std::uint8_t>(i * 37 + 11);
  for (unsigned i = 0; i < 2; ++i) {
    TestQp& wq = a.create_qp(options);
    ASSERT_EQ(wq.to_init(), TERN_ST_OK);
    ASSERT_EQ(wq.to_state(TERN_QPS_RTR), TERN_ST_OK);
    for (int j = 0; j < 20; ++j) wq.post_recv({own.sge(0, 4096)});
    rss.entries[i] = le(wq.number());
    queues.push_back(&wq);
  }
  tern_rsp_object rsp{};
  ASSERT_EQ(a.command(TERN_CMD_CREATE_RSS, rss, &rsp), TERN_ST_OK);
  const tern_cmd_object first{le(queues[0]->number()), 0};
  EXPECT_EQ(a.command(TERN_CMD_DESTROY_QP, first), TERN_ST_BUSY) << "the group refers to it";
  const std::uint32_t id = flow(a, kOther, le(rsp.id), TERN_DEST_RSS, 5);
  for (std::uint16_t port = 100; port < 120; ++port) {
    send_one(ip_packet(kOther, a.mac(), 10, {.dst_port = port}));
  }
  std::size_t got = 0;
  for (unsigned i = 0; i < 2; ++i) {
    const auto wcs = queues[i]->recv_cq().poll_all();
    EXPECT_GT(wcs.size(), 2U);
    got += wcs.size();
    for (const Wc& wc : wcs) {
      EXPECT_EQ(le(wc.inv_rkey) & 1, i) << "the low bit of the hash";
      EXPECT_EQ(le(wc.pkey_index), TERN_ETH_HASH_L4);
      EXPECT_EQ(le(wc.src_qp), 5U);
    }
  }
  EXPECT_EQ(got, 20U);
  EXPECT_THAT(wire, IsEmpty());
  a.destroy(TERN_CMD_DESTROY_FLOW, id);
  a.destroy(TERN_CMD_DESTROY_RSS, le(rsp.id));
  EXPECT_EQ(a.command(TERN_CMD_DESTROY_QP, first), TERN_ST_OK);
}

// A RoCE packet that a raw QP sends to its own port is a frame like others; it reaches no QP of
// RDMA.
TEST_F(RawLoopback, RoceFrameIsOnlyAFrame) {
  flow(a, a.mac(), peer.number());
  peer.post_recv({own.sge(0, 4096)});
  Bytes roce = ip_packet(a.mac(), a.mac(), 100, {.udp = true, .dst_port = 4791});
  const Gid gid = a.gid(1);
  std::memcpy(&roce[30], gid.data() + 12, 4);
  send_one(roce);
  EXPECT_EQ(received(peer, own), roce);
  EXPECT_EQ(a.counter(TERN_CNT_RX_RDMA_PACKETS), 0U);
  EXPECT_EQ(a.counter(TERN_CNT_RX_MALFORMED), 0U);
}

}  // namespace
}  // namespace tern

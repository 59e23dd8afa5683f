// SPDX-License-Identifier: GPL-2.0-or-later
#include "eth/ethernet.h"

#include <gtest/gtest.h>

#include <array>

#include "testing/eth_queue.h"
#include "tests/mini_driver.h"

namespace tern {
namespace {

constexpr Mac kBroadcast = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
constexpr Mac kOther = {0x52, 0x54, 0, 9, 9, 9};
constexpr Mac kGroup = {0x01, 0x00, 0x5e, 1, 2, 3};
constexpr Mac kGroup2 = {0x33, 0x33, 0, 0, 0, 1};

class EthernetTest : public ::testing::Test {
 protected:
  Sim sim;
  TestNode a{sim};
  TestNode b{sim};
  TestEthQueue tx{a, TERN_ETH_QUEUE_TX, a.create_cq()};
  TestEthQueue rx{b, TERN_ETH_QUEUE_RX, b.create_cq()};

  void SetUp() override {
    ASSERT_EQ(tx.created(), TERN_ST_OK);
    ASSERT_EQ(rx.created(), TERN_ST_OK);
  }
  // Sends a frame from the wire to b. Returns what b received, if anything.
  std::optional<std::vector<std::byte>> pass(std::span<const std::byte> frame) {
    b.device.receive(frame);
    b.wake();
    sim.run_until_idle();
    const auto wc = rx.cq().poll();
    if (!wc) return std::nullopt;
    EXPECT_EQ(wc->status, TERN_CQE_SUCCESS);
    EXPECT_EQ(wc->opcode, TERN_ETH_RX);
    EXPECT_EQ(le(wc->qpn), rx.number());
    return rx.received(*wc);
  }
  Status filter(std::uint16_t flags, std::initializer_list<Mac> macs = {},
                std::initializer_list<unsigned> vlans = {}) {
    tern_cmd_set_rx_filter cmd{
        .flags = le(flags), .num_macs = le(static_cast<std::uint16_t>(macs.size())), .port = 1};
    std::size_t i = 0;
    for (const Mac& m : macs) std::ranges::copy(m, cmd.macs[i++]);
    for (const unsigned v : vlans) cmd.vlans[v / 32] |= le(1U << (v % 32));
    return b.command(TERN_CMD_SET_RX_FILTER, cmd);
  }
};

// ---- sending ----

TEST_F(EthernetTest, CarriesFramesOfEveryPiecing) {
  for (unsigned i = 0; i < 40; ++i) {
    rx.post_buffer();
    const auto frame = eth_frame(b.mac(), a.mac(), 60 + i * 37, i + 1);
    if (i % 4 == 0) tx.send(frame);
    if (i % 4 == 1) tx.send(frame, std::array<std::size_t, 1>{14});
    if (i % 4 == 2) tx.send(frame, std::array<std::size_t, 3>{1, 13, 20});
    if (i % 4 == 3) tx.send(frame, std::array<std::size_t, 3>{0, 14, 0});
    sim.run_until_idle();
    const Wc sent = tx.cq().wait();
    EXPECT_EQ(sent.status, TERN_CQE_SUCCESS);
    EXPECT_EQ(sent.opcode, TERN_ETH_TX);
    EXPECT_EQ(le(sent.qpn), tx.number());
    EXPECT_EQ(le(sent.wqe_index), tx.posted() - 1);
    const Wc got = rx.cq().wait();
    EXPECT_EQ(le(got.wqe_index), i);
    EXPECT_EQ(rx.received(got), frame);
  }
  EXPECT_EQ(a.eth_counter(TERN_ETH_CNT_TX_PACKETS), 40U);
  EXPECT_EQ(b.eth_counter(TERN_ETH_CNT_RX_PACKETS), 40U);
  EXPECT_EQ(a.eth_counter(TERN_ETH_CNT_TX_BYTES), b.eth_counter(TERN_ETH_CNT_RX_BYTES));
  EXPECT_EQ(a.eth_counter(TERN_ETH_CNT_TX_ERRORS), 0U);
}

TEST_F(EthernetTest, PadsShortFramesWithZeros) {
  rx.post_buffer();
  auto frame = eth_frame(b.mac(), a.mac(), 42);
  tx.send(frame);
  const Wc got = rx.cq().wait();
  frame.resize(60);
  EXPECT_EQ(rx.received(got), frame);
}

TEST_F(EthernetTest, TakesAsManyPiecesAsPromised) {
  rx.post_buffer();
  const auto frame = eth_frame(b.mac(), a.mac(), TERN_ETH_MAX_TXD * 10);
  tx.send(frame, std::vector<std::size_t>(15, 10));  // the ring has 16 entries
  EXPECT_EQ(rx.received(rx.cq().wait()), frame);

  TestEthQueue& q = tx;
  ASSERT_EQ(a.command(TERN_CMD_DESTROY_ETH_QUEUE, tern_cmd_object{le(q.number()), 0}), TERN_ST_OK);
  TestEthQueue wide(a, TERN_ETH_QUEUE_TX, a.create_cq(), 6);
  ASSERT_EQ(wide.created(), TERN_ST_OK);
  rx.post_buffer();
  wide.send(frame, std::vector<std::size_t>(TERN_ETH_MAX_TXD - 1, 10));
  EXPECT_EQ(rx.received(rx.cq().wait()), frame);
  wide.send(frame, std::vector<std::size_t>(TERN_ETH_MAX_TXD, 5));
  const Wc sent = wide.cq().wait();
  EXPECT_EQ(sent.status, TERN_CQE_SUCCESS);
  EXPECT_EQ(wide.cq().wait().status, TERN_CQE_LOC_QP_OP_ERR);
  // The ring is invalid, so the queue stays silent.
  wide.send(frame);
  sim.run_until_idle();
  EXPECT_FALSE(wide.cq().poll());
}

TEST_F(EthernetTest, RefusesLengths) {
  const auto status_of = [&](std::size_t len) {
    tx.send(eth_frame(b.mac(), a.mac(), len));
    return tx.cq().wait().status;
  };
  EXPECT_EQ(status_of(13), TERN_CQE_LOC_LEN_ERR);
  EXPECT_EQ(status_of(14), TERN_CQE_SUCCESS);
  EXPECT_EQ(status_of(4200 + 22), TERN_CQE_SUCCESS);
  EXPECT_EQ(status_of(4200 + 23), TERN_CQE_LOC_LEN_ERR);
  EXPECT_EQ(a.eth_counter(TERN_ETH_CNT_TX_ERRORS), 2U);
  EXPECT_EQ(a.eth_counter(TERN_ETH_CNT_TX_PACKETS), 2U);
  // Lengths whose sum exceeds 32 bits.
  const std::uint64_t addr = a.host.alloc(64);
  tx.put(addr, 0xffffffff, 0);
  tx.put(addr, 65, TERN_ETH_F_EOP);
  tx.publish();
  tx.kick();
  EXPECT_EQ(tx.cq().wait().status, TERN_CQE_LOC_LEN_ERR);
}

TEST_F(EthernetTest, FramesOutOfReachFailAlone) {
  tx.put(0xdead0000, 100, TERN_ETH_F_EOP);
  const auto frame = eth_frame(b.mac(), a.mac(), 100);
  rx.post_buffer();
  tx.send(frame);
  EXPECT_EQ(tx.cq().wait().status, TERN_CQE_LOC_PROT_ERR);
  EXPECT_EQ(tx.cq().wait().status, TERN_CQE_SUCCESS);
  EXPECT_EQ(rx.received(rx.cq().wait()), frame);
  EXPECT_EQ(a.counter(TERN_CNT_DMA_ERRORS), 1U);
}

TEST_F(EthernetTest, WaitsForTheEndOfAFrame) {
  const auto frame = eth_frame(b.mac(), a.mac(), 100);
  const std::uint64_t addr = a.host.alloc(100);
  std::memcpy(a.host.at(addr), frame.data(), 100);
  rx.post_buffer();
  tx.put(addr, 40, 0);
  tx.publish();
  tx.kick();
  sim.run_until_idle();
  EXPECT_FALSE(tx.cq().poll());
  tx.put(addr + 40, 60, TERN_ETH_F_EOP);
  tx.publish();
  tx.kick();
  EXPECT_EQ(tx.cq().wait().status, TERN_CQE_SUCCESS);
  EXPECT_EQ(rx.received(rx.cq().wait()), frame);
}

TEST_F(EthernetTest, IndexJumpStopsTheQueue) {
  tx.store_pi(17);
  tx.kick();
  const Wc wc = tx.cq().wait();
  EXPECT_EQ(wc.status, TERN_CQE_LOC_QP_OP_ERR);
  EXPECT_EQ(le(wc.wqe_index), 0U);
  tx.store_pi(1);
  tx.kick();
  sim.run_until_idle();
  EXPECT_FALSE(tx.cq().poll());

  rx.store_pi(17);
  const auto frame = eth_frame(b.mac(), a.mac(), 100);
  b.device.receive(frame);
  b.wake();
  EXPECT_EQ(rx.cq().wait().status, TERN_CQE_LOC_QP_OP_ERR);
  rx.store_pi(1);
  b.device.receive(frame);
  b.wake();
  sim.run_until_idle();
  EXPECT_FALSE(rx.cq().poll());
  // New queues work.
  ASSERT_EQ(a.command(TERN_CMD_DESTROY_ETH_QUEUE, tern_cmd_object{le(tx.number()), 0}), TERN_ST_OK);
  ASSERT_EQ(b.command(TERN_CMD_DESTROY_ETH_QUEUE, tern_cmd_object{le(rx.number()), 0}), TERN_ST_OK);
  TestEthQueue tx2(a, TERN_ETH_QUEUE_TX, a.create_cq());
  TestEthQueue rx2(b, TERN_ETH_QUEUE_RX, b.create_cq());
  rx2.post_buffer();
  tx2.send(frame);
  EXPECT_EQ(rx2.received(rx2.cq().wait()), frame);
}

TEST_F(EthernetTest, RecordOutOfReachStopsTheQueue) {
  a.host.punch(tx.record(), sizeof(tern_eth_record));
  tx.kick();
  EXPECT_EQ(tx.cq().wait().status, TERN_CQE_LOC_QP_OP_ERR);
  EXPECT_EQ(a.counter(TERN_CNT_DMA_ERRORS), 1U);
  a.host.restore(tx.record());
}

TEST_F(EthernetTest, RingOutOfReachStopsTheQueue) {
  a.host.punch(tx.memory().address(0) & ~4095ULL, 4096);
  tx.store_pi(1);
  tx.kick();
  EXPECT_EQ(tx.cq().wait().status, TERN_CQE_LOC_QP_OP_ERR);
  EXPECT_EQ(a.counter(TERN_CNT_DMA_ERRORS), 1U);
  a.host.restore(tx.memory().address(0) & ~4095ULL);
}

TEST_F(EthernetTest, DoorbellOfAnotherPageIsCounted) {
  const std::uint32_t other = a.alloc_uar();
  rx.post_buffer();
  const auto frame = eth_frame(b.mac(), a.mac(), 100);
  const std::uint64_t addr = a.host.alloc(100);
  tx.put(addr, 100, TERN_ETH_F_EOP);
  tx.publish();
  a.doorbell(other, TERN_DB_CMD_ETH_TX, tx.number());
  a.doorbell(a.uar(), TERN_DB_CMD_ETH_TX, tx.number() + 7);
  sim.run_until_idle();
  EXPECT_FALSE(tx.cq().poll());
  EXPECT_EQ(a.counter(TERN_CNT_BAD_DOORBELL), 2U);
  tx.kick();
  EXPECT_EQ(tx.cq().wait().status, TERN_CQE_SUCCESS);
}

TEST_F(EthernetTest, WithoutLinkFramesVanish) {
  a.device.set_link(false);
  tx.send(eth_frame(b.mac(), a.mac(), 100));
  EXPECT_EQ(tx.cq().wait().status, TERN_CQE_SUCCESS);
  EXPECT_EQ(a.eth_counter(TERN_ETH_CNT_TX_ERRORS), 1U);
  EXPECT_EQ(sim.stats.sent, 0U);
}

TEST_F(EthernetTest, LongQueueTakesSeveralTurns) {
  sim.budget = 3000;
  for (int i = 0; i < 16; ++i) {
    tx.put(a.host.alloc(1000), 1000, TERN_ETH_F_EOP);
    rx.post_buffer();
  }
  tx.publish();
  tx.kick();
  EXPECT_TRUE(a.device.run(3000));
  EXPECT_EQ(a.device.datapath.effects->frames().size(), 3U);
  sim.run_until_idle();
  EXPECT_EQ(tx.cq().poll_all().size(), 16U);
}

TEST_F(EthernetTest, FullCompletionQueueStopsTheQueue) {
  ASSERT_EQ(a.command(TERN_CMD_DESTROY_ETH_QUEUE, tern_cmd_object{le(tx.number()), 0}), TERN_ST_OK);
  TestCq& cq = a.create_cq(4);
  TestEthQueue q(a, TERN_ETH_QUEUE_TX, cq, 6);
  ASSERT_EQ(q.created(), TERN_ST_OK);
  for (int i = 0; i < 20; ++i) q.put(a.host.alloc(100), 100, TERN_ETH_F_EOP);
  q.publish();
  q.kick();
  sim.run_until_idle();
  EXPECT_EQ(cq.poll_all().size(), 16U);
  const auto events = a.async_events();
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(le(events[0].type), TERN_EV_CQ_ERR);
  q.kick();
  sim.run_until_idle();
  EXPECT_FALSE(cq.poll());
}

// ---- receiving ----

TEST_F(EthernetTest, FiltersByAddress) {
  for (int i = 0; i < 16; ++i) rx.post_buffer();
  const auto passes = [&](const Mac& dst) {
    return pass(eth_frame(dst, a.mac(), 100)).has_value();
  };
  EXPECT_TRUE(passes(b.mac()));
  EXPECT_TRUE(passes(kBroadcast));
  EXPECT_FALSE(passes(kOther));
  EXPECT_FALSE(passes(kGroup));
  EXPECT_EQ(b.eth_counter(TERN_ETH_CNT_RX_FILTERED), 2U);
  EXPECT_EQ(filter(0, {kOther, kGroup}), TERN_ST_OK);
  EXPECT_TRUE(passes(kOther));
  EXPECT_TRUE(passes(kGroup));
  EXPECT_FALSE(passes(kGroup2));
  EXPECT_EQ(filter(TERN_RXF_ALLMULTI), TERN_ST_OK);
  EXPECT_TRUE(passes(kGroup2));
  EXPECT_FALSE(passes(kOther));
  EXPECT_EQ(filter(TERN_RXF_PROMISC), TERN_ST_OK);
  EXPECT_TRUE(passes(kOther));
  EXPECT_TRUE(passes(kGroup));
  EXPECT_EQ(filter(0), TERN_ST_OK);
  EXPECT_FALSE(passes(kGroup));
  EXPECT_EQ(b.eth_counter(TERN_ETH_CNT_RX_MULTICAST), 3U);
}

TEST_F(EthernetTest, FiltersByVlan) {
  for (int i = 0; i < 16; ++i) rx.post_buffer();
  const auto passes = [&](std::optional<std::uint16_t> vlan) {
    return pass(eth_frame(b.mac(), a.mac(), 100, 1, vlan)).has_value();
  };
  EXPECT_TRUE(passes(1));
  EXPECT_TRUE(passes(4094));
  EXPECT_EQ(filter(TERN_RXF_VLANS, {}, {1, 100, 4095}), TERN_ST_OK);
  EXPECT_TRUE(passes(1));
  EXPECT_TRUE(passes(100));
  EXPECT_TRUE(passes(4095));
  EXPECT_FALSE(passes(2));
  EXPECT_FALSE(passes(101));
  EXPECT_TRUE(passes(0));
  EXPECT_TRUE(passes(std::nullopt));
  EXPECT_EQ(filter(TERN_RXF_VLANS | TERN_RXF_PROMISC), TERN_ST_OK);
  EXPECT_TRUE(passes(2));
}

TEST_F(EthernetTest, RefusesBadFilters) {
  EXPECT_EQ(filter(8), TERN_ST_BAD_PARAM);
  tern_cmd_set_rx_filter cmd{.num_macs = le(std::uint16_t{65}), .port = 1};
  EXPECT_EQ(b.command(TERN_CMD_SET_RX_FILTER, cmd), TERN_ST_BAD_PARAM);
  cmd.num_macs = le(std::uint16_t{64});
  EXPECT_EQ(b.command(TERN_CMD_SET_RX_FILTER, cmd), TERN_ST_OK);
  cmd.port = 2;
  EXPECT_EQ(b.command(TERN_CMD_SET_RX_FILTER, cmd), TERN_ST_BAD_PARAM);
}

TEST_F(EthernetTest, DropsAndCountsWithoutBuffer) {
  const auto frame = eth_frame(b.mac(), a.mac(), 100);
  EXPECT_FALSE(pass(frame));
  EXPECT_EQ(b.eth_counter(TERN_ETH_CNT_RX_NO_BUFFER), 1U);
  rx.post_buffer();
  EXPECT_EQ(pass(frame), frame);
  EXPECT_FALSE(pass(frame));
  EXPECT_EQ(b.eth_counter(TERN_ETH_CNT_RX_NO_BUFFER), 2U);
}

TEST_F(EthernetTest, LongFramesLeaveTheBuffer) {
  rx.post_buffer(99);
  EXPECT_FALSE(pass(eth_frame(b.mac(), a.mac(), 100)));
  EXPECT_FALSE(pass(eth_frame(b.mac(), a.mac(), 4200 + 19)));
  EXPECT_EQ(b.eth_counter(TERN_ETH_CNT_RX_TOO_LONG), 2U);
  const auto fits = eth_frame(b.mac(), a.mac(), 99);
  EXPECT_EQ(pass(fits), fits);
}

TEST_F(EthernetTest, BufferOutOfReachFailsAlone) {
  rx.put(0xdead0000, 2048, 0);
  rx.publish();
  const auto frame = eth_frame(b.mac(), a.mac(), 100);
  b.device.receive(frame);
  b.wake();
  const Wc wc = rx.cq().wait();
  EXPECT_EQ(wc.status, TERN_CQE_LOC_PROT_ERR);
  EXPECT_EQ(le(wc.wqe_index), 0U);
  EXPECT_EQ(b.eth_counter(TERN_ETH_CNT_RX_PACKETS), 0U);
}

TEST_F(EthernetTest, SilentWhileDown) {
  rx.post_buffer();
  tern_cmd_modify_port cmd{.mask = le(std::uint32_t{TERN_PORT_ENABLE}), .port = 1};
  ASSERT_EQ(b.command(TERN_CMD_MODIFY_PORT, cmd), TERN_ST_OK);
  EXPECT_FALSE(pass(eth_frame(b.mac(), a.mac(), 100)));
  EXPECT_EQ(b.eth_counter(TERN_ETH_CNT_RX_NO_BUFFER), 0U);
}

TEST_F(EthernetTest, ShortFramesAreNoFrames) {
  rx.post_buffer();
  EXPECT_EQ(filter(TERN_RXF_PROMISC), TERN_ST_OK);
  for (std::size_t n = 0; n < 14; ++n) EXPECT_FALSE(pass(eth_frame(b.mac(), a.mac(), n)));
  EXPECT_TRUE(pass(eth_frame(b.mac(), a.mac(), 14)));
}

// IEEE 802.1ad: a frame of full MTU with two tags.
TEST_F(EthernetTest, TwoTagsOnAFrameOfFullMtu) {
  rx.post_buffer(16384);
  EXPECT_EQ(filter(TERN_RXF_PROMISC), TERN_ST_OK);
  const std::size_t most = a.options().mtu + 14 + 2 * 4;
  tx.send(eth_frame(b.mac(), a.mac(), most + 1));
  sim.run_until_idle();
  EXPECT_EQ(tx.cq().wait().status, TERN_CQE_LOC_LEN_ERR);
  tx.send(eth_frame(b.mac(), a.mac(), most));
  sim.run_until_idle();
  EXPECT_EQ(tx.cq().wait().status, TERN_CQE_SUCCESS);
  const auto wc = rx.cq().poll();
  ASSERT_TRUE(wc);
  EXPECT_EQ(le(wc->byte_len), most);
  b.device.receive(eth_frame(b.mac(), a.mac(), most + 1));
  EXPECT_EQ(b.eth_counter(TERN_ETH_CNT_RX_TOO_LONG), 1U);
}

// ---- life cycle ----

TEST_F(EthernetTest, RefusesBadQueues) {
  TestCq& cq = a.create_cq();
  QueueMemory memory(a, 4096);
  tern_cmd_create_eth_queue good{.pages = memory.pages(),
                                 .record = le(a.host.alloc(64, 64)),
                                 .cqn = le(cq.number()),
                                 .uar = le(a.uar()),
                                 .direction = TERN_ETH_QUEUE_RX,
                                 .log_size = 4,
                                 .port = 1};
  const auto status = [&](auto change) {
    tern_cmd_create_eth_queue cmd = good;
    change(cmd);
    tern_rsp_object rsp{};
    return a.command(TERN_CMD_CREATE_ETH_QUEUE, cmd, &rsp);
  };
  EXPECT_EQ(status([](auto& c) { c.direction = 2; }), TERN_ST_BAD_PARAM);
  EXPECT_EQ(status([](auto& c) { c.log_size = 3; }), TERN_ST_BAD_PARAM);
  EXPECT_EQ(status([](auto& c) { c.log_size = 15; }), TERN_ST_BAD_PARAM);
  EXPECT_EQ(status([](auto& c) { c.record = le(le(c.record) + 4); }), TERN_ST_BAD_PARAM);
  EXPECT_EQ(status([](auto& c) { c.port = 0; }), TERN_ST_BAD_PARAM);
  EXPECT_EQ(status([](auto& c) { c.port = 2; }), TERN_ST_BAD_PARAM);
  EXPECT_EQ(status([](auto& c) { c.log_size = 9; }), TERN_ST_BAD_PARAM) << "past the list";
  EXPECT_EQ(status([](auto& c) { c.cqn = le(0U); }), TERN_ST_BAD_HANDLE);
  EXPECT_NE(status([](auto& c) { c.uar = le(99U); }), TERN_ST_OK);
  EXPECT_EQ(status([](auto& c) { c.pages.addr = le(std::uint64_t{0xdead0000}); }),
            TERN_ST_DMA_ERROR);
  EXPECT_EQ(a.objects().eth_queue, le(1U));
  EXPECT_EQ(status([](auto& c) { c.flags = 8; }), TERN_ST_BAD_PARAM);
  EXPECT_EQ(status([](auto& c) { c.direction = TERN_ETH_QUEUE_TX, c.flags = TERN_ETH_QF_SCATTER; }),
            TERN_ST_BAD_PARAM);
  for (unsigned i = 0; i < le(a.caps().max_eth_queues); ++i)
    EXPECT_EQ(status([](auto& c) { c.flags = 7; }), TERN_ST_OK);
  EXPECT_EQ(status([](auto&) {}), TERN_ST_NO_RESOURCE);
  EXPECT_EQ(a.objects().eth_queue, le(17U));
  EXPECT_EQ(status([](auto& c) { c.direction = TERN_ETH_QUEUE_TX; }), TERN_ST_OK)
      << "the other direction";
}

TEST_F(EthernetTest, QueuesHoldTheirCq) {
  EXPECT_EQ(a.command(TERN_CMD_DESTROY_CQ, tern_cmd_object{le(tx.cq().number()), 0}), TERN_ST_BUSY);
  a.destroy(TERN_CMD_DESTROY_ETH_QUEUE, tx.number());
  EXPECT_EQ(a.command(TERN_CMD_DESTROY_ETH_QUEUE, tern_cmd_object{le(tx.number()), 0}),
            TERN_ST_BAD_HANDLE);
  a.destroy(TERN_CMD_DESTROY_CQ, tx.cq().number());
}

TEST_F(EthernetTest, ResetForgetsQueuesAndFilter) {
  rx.post_buffer();
  EXPECT_EQ(filter(TERN_RXF_PROMISC), TERN_ST_OK);
  b.device.reset();
  EXPECT_EQ(b.device.port.ethernet.queue_count(), 0U);
  EXPECT_EQ(b.device.registry.page_entries(), 0U);
  b.device.receive(eth_frame(kBroadcast, a.mac(), 100));
}

}  // namespace
}  // namespace tern

// SPDX-License-Identifier: GPL-2.0-or-later
// Config::unfinished_frames: those who read a frame get its ICRC, and the packets of a train. The
// storm compares whole traces with and without.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "testing/eth_queue.h"
#include "tests/mini_driver.h"
#include "wire/codec.h"

namespace tern {
namespace {

struct Made {
  std::vector<std::byte> bytes;
  Icrc icrc;
  std::uint32_t train;
  [[nodiscard]] WireFrame wire() const { return {bytes, icrc, train}; }
};

class DeferredIcrcTest : public ::testing::Test {
 protected:
  static constexpr std::uint32_t kBytes = 1000;
  static constexpr std::uint32_t kThree = 3000;  // bytes of three packets
  Sim sim;
  TestNode a{sim, {.unfinished_frames = true, .lanes = 1}};
  TestNode b{sim, {.lanes = 1}};
  TestMr& src = a.reg(4096);
  TestMr& dst = b.reg(4096);
  TestQp* qa = nullptr;

  void SetUp() override {
    qa = &rc_pair(a, b).first;
    src.fill(1);
  }
  // The frame of a WRITE, taken off the wire.
  Made written(std::uint32_t bytes_written = kBytes) {
    qa->post(write({src.sge(0, bytes_written)}, dst));
    a.device.run(65536);
    Effects& effects = *a.device.datapath.effects;
    if (effects.frames().size() != 1) {
      ADD_FAILURE() << effects.frames().size() << " frames";
      return {};
    }
    const Effects::Frame frame = effects.frames().front();
    const auto bytes = effects.bytes(frame);
    Made made{{bytes.begin(), bytes.end()}, frame.icrc, frame.train};
    effects.clear();
    return made;
  }
  bool arrived(std::uint32_t bytes = kBytes) {
    return static_cast<bool>(same_bytes(dst.bytes(0, bytes), src.bytes(0, bytes)));
  }
  ParseResult parse(std::span<const std::byte> frame) {
    Packet packet(b.host);
    return parse_packet(frame, packet);
  }
  static void set(TestNode& node, std::string_view rules) {
    std::string error;
    ASSERT_TRUE(node.device.set_faults(rules, error)) << error;
  }
  // Expects so many complete packets in a receive queue of b.
  void expect_packets(TestEthQueue& queue, std::size_t packets) {
    const auto all = queue.cq().poll_all();
    EXPECT_EQ(all.size(), packets);
    for (const auto& wc : all) EXPECT_EQ(parse(queue.received(wc)), ParseResult::kOk);
  }
  void sniff(TestEthQueue& queue) {
    for (unsigned i = 0; i < 3; ++i) queue.post_buffer(4300);
    tern_cmd_create_flow cmd{};
    cmd.dest_id = le(queue.number());
    cmd.counter = le(std::uint32_t{TERN_NO_COUNTER});
    cmd.kind = TERN_FLOW_SNIFFER;
    cmd.dest = TERN_DEST_ETH_QUEUE;
    cmd.port = 1;
    std::uint32_t id = 0;
    ASSERT_EQ(b.try_make(TERN_CMD_CREATE_FLOW, cmd, id), TERN_ST_OK);
  }
  void take_all_frames(TestEthQueue& queue) {
    for (unsigned i = 0; i < 3; ++i) queue.post_buffer(4300);
    const tern_cmd_set_rx_filter filter{
        .flags = le(std::uint16_t{TERN_RXF_PROMISC}), .num_macs = 0, .port = 1};
    ASSERT_EQ(b.command(TERN_CMD_SET_RX_FILTER, filter), TERN_ST_OK);
  }
  // Sends the frame to an address that nobody has.
  static void misdirect(Made& frame) {
    Route route;
    FrameLayout at;
    ASSERT_EQ(parse_route(frame.bytes, route, at), ParseResult::kOk);
    frame.bytes[at.udp() - 1] ^= std::byte{1};
  }
};

TEST_F(DeferredIcrcTest, TheReceiverNeedsNone) {
  const Made frame = written();
  ASSERT_EQ(frame.icrc, Icrc::kDeferred);
  EXPECT_EQ(parse(frame.bytes), ParseResult::kBadIcrc);
  b.receive(frame.bytes);
  EXPECT_EQ(b.counter(TERN_CNT_RX_ICRC_ERRORS), 1U);
  EXPECT_FALSE(arrived());
  b.receive({frame.bytes, Icrc::kDeferred});
  EXPECT_EQ(b.counter(TERN_CNT_RX_ICRC_ERRORS), 1U);
  EXPECT_TRUE(arrived());
}

TEST_F(DeferredIcrcTest, ItCanBeWrittenLater) {
  Made frame = written();
  write_icrc(frame.bytes);
  EXPECT_EQ(parse(frame.bytes), ParseResult::kOk);
}

TEST_F(DeferredIcrcTest, ACaptureOfTheSenderSeesIt) {
  a.device.set_capture(true);
  const Made captured = written();
  EXPECT_EQ(captured.icrc, Icrc::kPresent);
  EXPECT_EQ(parse(captured.bytes), ParseResult::kOk);
}

TEST_F(DeferredIcrcTest, ACaptureOfTheReceiverSeesIt) {
  const Made frame = written();
  b.device.set_capture(true);
  b.receive({frame.bytes, Icrc::kDeferred});
  const Effects& effects = *b.device.datapath.effects;
  ASSERT_FALSE(effects.frames().empty());
  EXPECT_TRUE(effects.frames().front().received);
  EXPECT_EQ(parse(effects.bytes(effects.frames().front())), ParseResult::kOk);
  EXPECT_TRUE(arrived());
}

TEST_F(DeferredIcrcTest, FaultRulesSeeIt) {
  set(b, "corrupt=icrc rx opcode=write-only nth=1");
  const Made frame = written();
  b.receive({frame.bytes, Icrc::kDeferred});
  EXPECT_EQ(b.counter(TERN_CNT_RX_ICRC_ERRORS), 1U);
  EXPECT_FALSE(arrived());
  b.receive({frame.bytes, Icrc::kDeferred});
  EXPECT_TRUE(arrived());
  set(a, "drop tx opcode=write-only nth=100");
  const Made passed = written();
  EXPECT_EQ(passed.icrc, Icrc::kPresent);
  EXPECT_EQ(parse(passed.bytes), ParseResult::kOk);
}

TEST_F(DeferredIcrcTest, ASnifferSeesIt) {
  TestEthQueue queue(b, TERN_ETH_QUEUE_RX, b.create_cq());
  sniff(queue);
  b.receive(written().wire());
  expect_packets(queue, 1);
  EXPECT_TRUE(arrived());
}

// A switch that does not know the address floods the frame.
TEST_F(DeferredIcrcTest, APromiscuousInterfaceSeesIt) {
  TestEthQueue queue(b, TERN_ETH_QUEUE_RX, b.create_cq());
  take_all_frames(queue);
  Made frame = written();
  misdirect(frame);
  b.receive(frame.wire());
  expect_packets(queue, 1);
  EXPECT_FALSE(arrived());
}

// ---- trains ----

TEST_F(DeferredIcrcTest, ATrainArrivesWhole) {
  const Made train = written(kThree);
  EXPECT_EQ(train.train, 3U);
  EXPECT_EQ(parse(train.bytes), ParseResult::kMalformed) << "it is no packet";
  b.receive(train.wire());
  EXPECT_EQ(b.counter(TERN_CNT_RX_RDMA_PACKETS), 3U);
  EXPECT_TRUE(arrived(kThree));
}

TEST_F(DeferredIcrcTest, ACaptureOfTheReceiverSeesThePacketsOfATrain) {
  const Made train = written(kThree);
  b.device.set_capture(true);
  b.receive(train.wire());
  const Effects& effects = *b.device.datapath.effects;
  ASSERT_GE(effects.frames().size(), 3U);
  for (unsigned i = 0; i < 3; ++i) {
    EXPECT_TRUE(effects.frames()[i].received);
    EXPECT_EQ(parse(effects.bytes(effects.frames()[i])), ParseResult::kOk);
  }
  EXPECT_TRUE(arrived(kThree));
}

TEST_F(DeferredIcrcTest, FaultRulesSeeThePacketsOfATrain) {
  set(b, "drop rx opcode=write-middle nth=1");
  b.receive(written(kThree).wire());
  EXPECT_EQ(b.counter(TERN_CNT_RX_RDMA_PACKETS), 2U);
  EXPECT_FALSE(arrived(kThree));
}

TEST_F(DeferredIcrcTest, AnEventLogSeesThePacketsOfATrain) {
  const Made train = written(kThree);
  b.device.log_events(256);
  b.receive(train.wire());
  EXPECT_EQ(std::ranges::count(b.device.datapath.log->records(), TERN_LOG_RECEIVED,
                               &tern_log_event::type),
            3);
  EXPECT_TRUE(arrived(kThree));
}

TEST_F(DeferredIcrcTest, ASnifferSeesThePacketsOfATrain) {
  TestEthQueue queue(b, TERN_ETH_QUEUE_RX, b.create_cq());
  sniff(queue);
  b.receive(written(kThree).wire());
  expect_packets(queue, 3);
  EXPECT_TRUE(arrived(kThree));
}

TEST_F(DeferredIcrcTest, APromiscuousInterfaceSeesThePacketsOfATrain) {
  TestEthQueue queue(b, TERN_ETH_QUEUE_RX, b.create_cq());
  take_all_frames(queue);
  Made train = written(kThree);
  misdirect(train);
  b.receive(train.wire());
  expect_packets(queue, 3);
  EXPECT_FALSE(arrived(kThree));
}

TEST_F(DeferredIcrcTest, AFrameThatIsNoTrainIsMalformed) {
  b.device.set_capture(true);
  b.receive({written().bytes, Icrc::kDeferred, 5000});
  EXPECT_EQ(b.counter(TERN_CNT_RX_MALFORMED), 1U);
  EXPECT_FALSE(arrived());
}

}  // namespace
}  // namespace tern

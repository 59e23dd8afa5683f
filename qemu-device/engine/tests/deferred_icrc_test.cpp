// SPDX-License-Identifier: GPL-2.0-or-later
// Config::unfinished_frames: the ICRC is computed only for those who read it. The storm compares whole
// traces with and without.
#include <gtest/gtest.h>

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
};

class DeferredIcrcTest : public ::testing::Test {
 protected:
  static constexpr std::uint32_t kBytes = 1000;
  Sim sim;
  TestNode a{sim, {.unfinished_frames = true}};
  TestNode b{sim};
  TestMr& src = a.reg(4096);
  TestMr& dst = b.reg(4096);
  TestQp* qa = nullptr;

  void SetUp() override {
    qa = &rc_pair(a, b).first;
    src.fill(1);
  }
  // The frame of a WRITE, taken off the wire.
  Made written() {
    qa->post(write({src.sge(0, kBytes)}, dst));
    a.device.run(65536);
    Effects& effects = *a.device.datapath.effects;
    if (effects.frames().size() != 1) {
      ADD_FAILURE() << effects.frames().size() << " frames";
      return {};
    }
    const Effects::Frame frame = effects.frames().front();
    const auto bytes = effects.bytes(frame);
    Made made{{bytes.begin(), bytes.end()}, frame.icrc};
    effects.clear();
    return made;
  }
  bool arrived() {
    return static_cast<bool>(same_bytes(dst.bytes(0, kBytes), src.bytes(0, kBytes)));
  }
  ParseResult parse(std::span<const std::byte> frame) {
    Packet packet(b.host);
    return parse_packet(frame, packet);
  }
  static void set(TestNode& node, std::string_view rules) {
    std::string error;
    ASSERT_TRUE(node.device.set_faults(rules, error)) << error;
  }
  // The only frame in a receive queue of b.
  std::vector<std::byte> received(TestEthQueue& queue) {
    const auto all = queue.cq().poll_all();
    EXPECT_EQ(all.size(), 1U);
    return all.empty() ? std::vector<std::byte>{} : queue.received(all.front());
  }
};

TEST_F(DeferredIcrcTest, TheReceiverNeedsNone) {
  const Made frame = written();
  ASSERT_EQ(frame.icrc, Icrc::kDeferred);
  EXPECT_EQ(parse(frame.bytes), ParseResult::kBadIcrc);
  b.device.receive(frame.bytes);
  EXPECT_EQ(b.counter(TERN_CNT_RX_ICRC_ERRORS), 1U);
  EXPECT_FALSE(arrived());
  b.device.receive({frame.bytes, Icrc::kDeferred});
  EXPECT_EQ(b.counter(TERN_CNT_RX_ICRC_ERRORS), 1U);
  EXPECT_TRUE(arrived());
}

TEST_F(DeferredIcrcTest, ItCanBeWrittenLater) {
  Made frame = written();
  write_icrc(frame.bytes);
  EXPECT_EQ(parse(frame.bytes), ParseResult::kOk);
}

TEST_F(DeferredIcrcTest, ACaptureOfTheSenderSeesIt) {
  a.device.port.set_capture(true);
  const Made captured = written();
  EXPECT_EQ(captured.icrc, Icrc::kPresent);
  EXPECT_EQ(parse(captured.bytes), ParseResult::kOk);
}

TEST_F(DeferredIcrcTest, ACaptureOfTheReceiverSeesIt) {
  const Made frame = written();
  b.device.port.set_capture(true);
  b.device.receive({frame.bytes, Icrc::kDeferred});
  const Effects& effects = *b.device.datapath.effects;
  ASSERT_FALSE(effects.frames().empty());
  EXPECT_TRUE(effects.frames().front().received);
  EXPECT_EQ(parse(effects.bytes(effects.frames().front())), ParseResult::kOk);
  EXPECT_TRUE(arrived());
}

TEST_F(DeferredIcrcTest, FaultRulesSeeIt) {
  set(b, "corrupt=icrc rx opcode=write-only nth=1");
  const Made frame = written();
  b.device.receive({frame.bytes, Icrc::kDeferred});
  EXPECT_EQ(b.counter(TERN_CNT_RX_ICRC_ERRORS), 1U);
  EXPECT_FALSE(arrived());
  b.device.receive({frame.bytes, Icrc::kDeferred});
  EXPECT_TRUE(arrived());
  set(a, "drop tx opcode=write-only nth=100");
  const Made passed = written();
  EXPECT_EQ(passed.icrc, Icrc::kPresent);
  EXPECT_EQ(parse(passed.bytes), ParseResult::kOk);
}

TEST_F(DeferredIcrcTest, ASnifferSeesIt) {
  TestEthQueue queue(b, TERN_ETH_QUEUE_RX, b.create_cq());
  queue.post_buffer(4300);
  tern_cmd_create_flow cmd{};
  cmd.dest_id = le(queue.number());
  cmd.counter = le(std::uint32_t{TERN_NO_COUNTER});
  cmd.kind = TERN_FLOW_SNIFFER;
  cmd.dest = TERN_DEST_ETH_QUEUE;
  cmd.port = 1;
  std::uint32_t id = 0;
  ASSERT_EQ(b.try_make(TERN_CMD_CREATE_FLOW, cmd, id), TERN_ST_OK);
  b.device.receive({written().bytes, Icrc::kDeferred});
  EXPECT_EQ(parse(received(queue)), ParseResult::kOk);
  EXPECT_TRUE(arrived());
}

// A switch that does not know the address floods the frame.
TEST_F(DeferredIcrcTest, APromiscuousInterfaceSeesIt) {
  TestEthQueue queue(b, TERN_ETH_QUEUE_RX, b.create_cq());
  queue.post_buffer(4300);
  const tern_cmd_set_rx_filter filter{
      .flags = le(std::uint16_t{TERN_RXF_PROMISC}), .num_macs = 0, .port = 1};
  ASSERT_EQ(b.command(TERN_CMD_SET_RX_FILTER, filter), TERN_ST_OK);
  Made frame = written();
  const auto at = find_parts(frame.bytes);
  ASSERT_TRUE(at);
  frame.bytes[at->bth - 9] ^= std::byte{1};  // the last byte of the IP address
  b.device.receive({frame.bytes, Icrc::kDeferred});
  EXPECT_EQ(parse(received(queue)), ParseResult::kOk);
  EXPECT_FALSE(arrived());
}

}  // namespace
}  // namespace tern

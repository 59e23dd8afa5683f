// SPDX-License-Identifier: GPL-2.0-or-later
// Fault rules in a device: on the wire, in loopback, on admin commands and on memory. Without
// rules, or after clearing them, the device works as usual.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "control/admin_fixture.h"
#include "tests/mini_driver.h"

namespace tern {
namespace {

using ::testing::HasSubstr;

class DeviceFaultsTest : public ::testing::Test {
 protected:
  Sim sim;
  TestNode a{sim};
  TestNode b{sim};
  TestMr& src = a.reg(65536);
  TestMr& dst = b.reg(65536);
  TestMr& near = a.reg(65536);  // target of looped-back requests

  static void set(TestNode& node, std::string_view text) {
    std::string error;
    ASSERT_TRUE(node.device.set_faults(text, error)) << error;
    node.wake();
  }
  void expect_write(TestQp& qp, TestMr& to, std::uint8_t status = TERN_CQE_SUCCESS) {
    static unsigned seed = 0;
    src.fill(++seed);
    qp.post(write({src.sge()}, to));
    const Wc wc = qp.wait_send();
    EXPECT_EQ(wc.status, status) << status_name(wc.status);
    if (status == TERN_CQE_SUCCESS) {
      EXPECT_TRUE(same_bytes(to.bytes(), src.bytes()));
    }
  }
};

// On the wire and in loopback: a lost packet is retransmitted.
TEST_F(DeviceFaultsTest, LostPacketsComeAgain) {
  for (const bool inside : {false, true}) {
    const auto [qp, peer] = rc_pair(a, inside ? a : b);
    (void)peer;
    TestNode& far = inside ? a : b;
    TestMr& to = inside ? near : dst;
    const auto nak = far.counter(TERN_CNT_OUT_OF_SEQUENCE);
    set(a, "drop tx opcode=write-middle nth=5");
    expect_write(qp, to);
    EXPECT_EQ(far.counter(TERN_CNT_OUT_OF_SEQUENCE), nak + 1);
    EXPECT_THAT(a.device.faults(), HasSubstr("applied 1"));
    const auto timeouts = a.counter(TERN_CNT_LOCAL_ACK_TIMEOUT_ERR);
    set(far, "drop rx opcode=write-last nth=1");
    expect_write(qp, to);
    EXPECT_EQ(a.counter(TERN_CNT_LOCAL_ACK_TIMEOUT_ERR), timeouts + 1);
    set(a, "");
    set(b, "");
    EXPECT_EQ(a.device.faults(), "");
  }
}

TEST_F(DeviceFaultsTest, CorruptedPacketsAreCountedAndComeAgain) {
  for (const bool inside : {false, true}) {
    const auto [qp, peer] = rc_pair(a, inside ? a : b);
    (void)peer;
    TestNode& far = inside ? a : b;
    const auto before = far.counter(TERN_CNT_RX_ICRC_ERRORS);
    set(a, "corrupt=payload tx opcode=write-first nth=1");
    expect_write(qp, inside ? near : dst);
    EXPECT_EQ(far.counter(TERN_CNT_RX_ICRC_ERRORS), before + 1);
    const auto acks = a.counter(TERN_CNT_RX_ICRC_ERRORS);
    set(a, "corrupt rx opcode=ack nth=1");
    expect_write(qp, inside ? near : dst);
    EXPECT_GE(a.counter(TERN_CNT_RX_ICRC_ERRORS), acks + 1);
    set(a, "");
  }
}

TEST_F(DeviceFaultsTest, IcrcModes) {
  const auto [qp, peer] = rc_pair(a, b);
  (void)peer;
  set(a, "corrupt tx opcode=write");
  b.device.port.icrc_mode = IcrcMode::kWarn;
  expect_write(qp, dst);
  const auto warned = b.counter(TERN_CNT_RX_ICRC_ERRORS);
  EXPECT_EQ(warned, 64U);
  EXPECT_EQ(b.counter(TERN_CNT_OUT_OF_SEQUENCE), 0U);
  b.device.port.icrc_mode = IcrcMode::kOff;
  expect_write(qp, dst);
  EXPECT_EQ(b.counter(TERN_CNT_RX_ICRC_ERRORS), warned);
  b.device.port.icrc_mode = IcrcMode::kCheck;
  expect_write(qp, dst, TERN_CQE_RETRY_EXC_ERR);
  EXPECT_GT(b.counter(TERN_CNT_RX_ICRC_ERRORS), warned);
}

TEST_F(DeviceFaultsTest, DuplicatesAreRecognised) {
  for (const bool inside : {false, true}) {
    const auto [qp, peer] = rc_pair(a, inside ? a : b);
    (void)peer;
    TestNode& far = inside ? a : b;
    TestMr& to = inside ? near : dst;
    to.put(0, std::uint64_t{100});
    const auto before = far.counter(TERN_CNT_DUPLICATE_REQUEST);
    set(a, "duplicate=3 tx opcode=fetch-add");
    qp.post(fetch_add(src.sge(0, 8), to, 0, 5));
    EXPECT_EQ(qp.wait_send().status, TERN_CQE_SUCCESS);
    sim.run_until_idle();
    EXPECT_EQ(src.get<std::uint64_t>(0), 100U);
    EXPECT_EQ(to.get<std::uint64_t>(0), 105U) << "executed once";
    EXPECT_EQ(far.counter(TERN_CNT_DUPLICATE_REQUEST), before + 3);
    set(a, "");
  }
}

TEST_F(DeviceFaultsTest, DelayAndReorder) {
  for (const bool inside : {false, true}) {
    const auto [qp, peer] = rc_pair(a, inside ? a : b);
    (void)peer;
    TestNode& far = inside ? a : b;
    set(a, "delay=3ms tx opcode=write-only");
    const Nanos before = sim.now();
    qp.post(write({src.sge(0, 100)}, inside ? near : dst));
    EXPECT_EQ(qp.wait_send().status, TERN_CQE_SUCCESS);
    EXPECT_GE(sim.now() - before, 3'000'000U);
    const auto out_of_order = far.counter(TERN_CNT_OUT_OF_SEQUENCE);
    set(a, "reorder=2 tx opcode=write-middle nth=7");
    expect_write(qp, inside ? near : dst);
    // The receiver drops packets that overtook: they are missing after the late one has arrived.
    EXPECT_EQ(far.counter(TERN_CNT_OUT_OF_SEQUENCE), out_of_order + 2);
    set(a, "");
  }
}

// Clearing the rules releases the packets that they hold.
TEST_F(DeviceFaultsTest, ClearedRulesReleaseWhatTheyHold) {
  const auto [qp, peer] = rc_pair(a, b);
  (void)peer;
  set(a, "delay=10s tx opcode=write");
  qp.post(write({src.sge(0, 100)}, dst));
  sim.run_for(1'000'000);
  EXPECT_FALSE(qp.send_cq().poll());
  EXPECT_THAT(a.device.faults(), HasSubstr("held back now: 1"));
  set(a, "");
  EXPECT_EQ(qp.wait_send().status, TERN_CQE_SUCCESS);
  EXPECT_EQ(a.counter(TERN_CNT_LOCAL_ACK_TIMEOUT_ERR), 0U);
}

TEST_F(DeviceFaultsTest, WrongTextChangesNothing) {
  set(a, "drop tx opcode=cnp");
  std::string error;
  EXPECT_FALSE(a.device.set_faults("drop", error));
  EXPECT_EQ(error, "rule 1: drop needs tx or rx");
  EXPECT_THAT(a.device.faults(), HasSubstr("drop tx opcode=cnp"));
}

TEST_F(DeviceFaultsTest, MarksAreCounted) {
  const auto [qp, peer] = rc_pair(a, b);
  (void)peer;
  set(b, "mark rx opcode=write-middle every=10");
  expect_write(qp, dst);
  EXPECT_EQ(b.counter(TERN_CNT_NP_ECN_MARKED), 6U);
}

TEST_F(DeviceFaultsTest, RulesOutliveAReset) {
  set(a, "drop tx opcode=write-only; delay=1s tx opcode=ack");
  a.device.reset();
  EXPECT_THAT(a.device.faults(), HasSubstr("drop tx opcode=write-only"));
}

TEST_F(DeviceFaultsTest, MemoryThatCannotBeReached) {
  {
    const auto [qp, peer] = rc_pair(a, b);
    (void)peer;
    std::string rule = "dma-error read addr=" + std::to_string(src.dma + 4096) + "-" +
                       std::to_string(src.dma + 8191);
    set(a, rule);
    qp.post(write({src.sge()}, dst));
    EXPECT_EQ(qp.wait_send().status, TERN_CQE_LOC_PROT_ERR);
    EXPECT_GE(a.counter(TERN_CNT_DMA_ERRORS), 1U);
    set(a, "");
    sim.run_until_idle();
  }
  const auto [qp, peer] = rc_pair(a, b);
  (void)peer;
  set(b, "dma-error write nth=1 addr=" + std::to_string(dst.dma) + "-" +
             std::to_string(dst.dma + 65535));
  qp.post(write({src.sge(0, 64)}, dst));
  EXPECT_EQ(qp.wait_send().status, TERN_CQE_REM_OP_ERR);
  EXPECT_EQ(b.counter(TERN_CNT_DMA_ERRORS), 1U);
  const auto [again, other] = rc_pair(a, b);
  (void)other;
  expect_write(again, dst);
}

TEST_F(DeviceFaultsTest, FatalStopsTheDeviceUntilAReset) {
  const auto [qp, peer] = rc_pair(a, b);
  (void)peer;
  set(a, "fatal=5 tx opcode=write-middle nth=3");
  qp.post(write({src.sge()}, dst));
  sim.run_until_idle();
  EXPECT_EQ(a.device.reg_read(TERN_REG_STATUS) & TERN_STATUS_FATAL,
            static_cast<std::uint32_t>(TERN_STATUS_FATAL));
  EXPECT_EQ(a.device.reg_read(TERN_REG_FATAL), static_cast<std::uint32_t>(TERN_FATAL_INTERNAL));
  EXPECT_FALSE(qp.send_cq().poll());
  a.device.reset();
  EXPECT_EQ(a.device.reg_read(TERN_REG_STATUS), static_cast<std::uint32_t>(TERN_STATUS_READY));
}

// A dropped command leaves no gap in the completion queue.
class SwallowedCommand : public AdminTest {};

TEST_F(SwallowedCommand, IsNeverCompleted) {
  enable();
  std::string error;
  ASSERT_TRUE(device.set_faults("admin-drop opcode=alloc-pd nth=2", error)) << error;
  std::array<tern_aq_entry, 3> entries;
  for (tern_aq_entry& e : entries) {
    e = entry(TERN_CMD_ALLOC_PD, sizeof(tern_cmd_alloc_pd), sizeof(tern_rsp_object));
    host.put(in_buf, tern_cmd_alloc_pd{});
    submit(e);
  }
  device.run(1 << 20);
  for (const std::size_t i : {std::size_t{0}, std::size_t{2}}) {
    const auto got = host.get<tern_acq_entry>(acq + (i / 2) * sizeof(tern_acq_entry));
    EXPECT_EQ(got.phase, 1U);
    EXPECT_EQ(got.tag, entries[i].tag);
    EXPECT_EQ(got.aq_head, i + 1);
  }
  EXPECT_EQ(host.get<tern_acq_entry>(acq + 2 * sizeof(tern_acq_entry)).phase, 0U);
  EXPECT_EQ(device.registry.pds.count(), 2U);
  device.datapath.effects->clear();
}

// Two runs with the same rules and seeds are equal to the last frame.
TEST(DeviceFaultsRepeat, SameSeedSameRun) {
  const auto run = [] {
    Sim sim;
    sim.tracing = true;
    TestNode a{sim};
    TestNode b{sim};
    TestMr& src = a.reg(65536);
    TestMr& dst = b.reg(65536);
    const auto [qp, peer] = rc_pair(a, b);
    (void)peer;
    std::string error;
    EXPECT_TRUE(
        a.device.set_faults("drop tx rate=5% seed=1; drop rx rate=2% seed=2;"
                            "duplicate tx rate=5% seed=3; reorder=3 tx rate=5% seed=4;"
                            "corrupt=any tx rate=5% seed=5; delay=20us tx rate=5% seed=6",
                            error))
        << error;
    for (unsigned i = 0; i < 20; ++i) {
      src.fill(i);
      qp.post(write({src.sge()}, dst));
      EXPECT_EQ(qp.wait_send().status, TERN_CQE_SUCCESS);
      EXPECT_TRUE(same_bytes(dst.bytes(), src.bytes()));
    }
    return std::pair(sim.trace(), a.device.faults());
  };
  const auto first = run();
  EXPECT_EQ(first, run());
}

}  // namespace
}  // namespace tern

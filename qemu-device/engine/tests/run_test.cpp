// SPDX-License-Identifier: GPL-2.0-or-later
// What a run of the device does with timers, which it serves last.
#include <algorithm>

#include "tests/rc_pair_test.h"

namespace tern {
namespace {

using RunTest = RcPairTest;

// A timer delivers the frame, and nothing else gives the device another run.
TEST_F(RunTest, ADelayedFrameCausesItsNotification) {
  connect({.type = TERN_QPT_UC});
  std::string why;
  ASSERT_TRUE(b.device.set_faults("mark rx opcode=write-only; delay=1ms rx opcode=write-only", why))
      << why;
  qa->post(write({src.sge(0, 64)}, dst));
  expect_status(TERN_CQE_SUCCESS);
  sim.run_for(1'000'000'000);
  // A command would run the device.
  const auto& counters = b.device.counters().rdma;
  EXPECT_EQ(counters[TERN_CNT_NP_ECN_MARKED], 1U);
  EXPECT_EQ(counters[TERN_CNT_NP_CNP_SENT], 1U);
}

// Its ACK timer is still in the heap.
TEST_F(RunTest, ADeviceWithoutWorkReadsNoClock) {
  connect();
  qa->post(write({src.sge(0, 64)}, dst));
  expect_status(TERN_CQE_SUCCESS);
  sim.run_for(1'000'000);
  const unsigned before = a.host.clock_reads;
  EXPECT_FALSE(a.device.run(65536));
  EXPECT_EQ(a.host.clock_reads, before);
}

TEST_F(RunTest, NoTimerRunsOnADeviceThatHasStopped) {
  connect({.type = TERN_QPT_UC});
  std::string why;
  ASSERT_TRUE(
      a.device.set_faults("delay=1ms tx opcode=write-only; fatal=5 tx opcode=send-only", why))
      << why;
  qa->post(write({src.sge(0, 64)}, dst));
  sim.run_for(500'000);
  a.host.advance(600'000);           // the delayed frame is due
  qa->post(send({src.sge(0, 64)}));  // stops the device
  (void)a.device.run(65536);
  EXPECT_NE(a.device.reg_read(TERN_REG_STATUS) & TERN_STATUS_FATAL, 0U);
  const auto to_wire = [](const Effects::Frame& f) { return f.to_wire; };
  EXPECT_TRUE(std::ranges::none_of(a.device.datapath.effects->frames(), to_wire))
      << "the delayed frame has left";
}

}  // namespace
}  // namespace tern

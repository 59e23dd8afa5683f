// SPDX-License-Identifier: GPL-2.0-or-later
// Delivery of page faults to software: none is lost, none is allocated.
#include "objects/page_faults.h"

#include <gtest/gtest.h>

#include <array>

#include "objects/queue_fixture.h"

namespace tern {
namespace {

class PageFaultsTest : public EqTest {
 protected:
  PageFaults& faults = device.datapath.page_faults;
  tern_cmd_create_eq cmd = command();
  std::unique_ptr<Eq> eq;
  std::array<Fault, 40> fault;

  PageFaultsTest() {
    cmd.kind = TERN_EQ_FAULT;
    cmd.pages = direct(kSize * sizeof(tern_fault));
  }
  ~PageFaultsTest() override {
    for (Fault& f : fault) faults.cancel(f);
    device.datapath.page_faults.eq = nullptr;
  }
  void connect() {
    eq = std::make_unique<Eq>(device.datapath, cmd);
    ASSERT_EQ(eq->init(), TERN_ST_OK);
    device.datapath.page_faults.eq = eq.get();
    faults.flush(device.datapath);
  }
  void raise(std::size_t i) {
    fault[i].addr = 0x1000 * i;
    fault[i].length = 64;
    fault[i].key = 0x200;
    fault[i].qpn = static_cast<std::uint32_t>(i);
    fault[i].side = TERN_FAULT_RESPONDER;
    fault[i].write = true;
    faults.raise(device.datapath, fault[i]);
  }
  tern_fault entry(std::uint32_t index) {
    return host.get<tern_fault>(cmd.pages.addr + index % kSize * sizeof(tern_fault));
  }
};

TEST_F(PageFaultsTest, TheEntrySaysWhatHappened) {
  connect();
  raise(7);
  EXPECT_EQ(fault[7].state, Fault::State::kReported);
  const tern_fault e = entry(0);
  EXPECT_EQ(e.addr, 0x7000U);
  EXPECT_EQ(e.length, 64U);
  EXPECT_EQ(e.key, 0x200U);
  EXPECT_EQ(e.qpn, 7U);
  EXPECT_EQ(e.token, fault[7].token);
  EXPECT_EQ(e.side, TERN_FAULT_RESPONDER);
  EXPECT_EQ(e.write, 1U);
  EXPECT_EQ(e.port, 1U);
  EXPECT_EQ(e.phase, 1U);
  EXPECT_TRUE(raised(3));
  EXPECT_EQ(faults.parked(), 1U);
  EXPECT_EQ(device.datapath.counters.rdma[TERN_CNT_PAGE_FAULTS], 1U);
}

// Faults raised without a queue and with a full queue are all reported once and in order.
TEST_F(PageFaultsTest, WhatTheQueueHasNoRoomForWaits) {
  for (std::size_t i = 0; i < 3; ++i) raise(i);
  EXPECT_EQ(fault[0].state, Fault::State::kWaiting);
  connect();
  EXPECT_EQ(fault[2].state, Fault::State::kReported);
  for (std::size_t i = 3; i < fault.size(); ++i) raise(i);
  EXPECT_EQ(fault[kSize].state, Fault::State::kWaiting);
  EXPECT_EQ(faults.parked(), fault.size());
  std::uint32_t ci = 0;
  while (ci < fault.size()) {
    const tern_fault e = entry(ci);
    ASSERT_EQ(e.phase, ~(ci / kSize) & 1) << ci;
    ASSERT_EQ(e.qpn, ci);
    host.put(cmd.record, ++ci);
    // Link changes raise asynchronous events, which must not affect fault events.
    device.set_link(ci % 2 != 0);
    faults.flush(device.datapath);
  }
  EXPECT_EQ(eq->pi(), fault.size()) << "none came twice";
  EXPECT_EQ(faults.parked(), fault.size()) << "software has not resumed any";
}

TEST_F(PageFaultsTest, TheOneThatGoesIsNotReported) {
  for (std::size_t i = 0; i < 3; ++i) raise(i);
  faults.cancel(fault[1]);
  EXPECT_EQ(faults.parked(), 2U);
  connect();
  EXPECT_EQ(eq->pi(), 2U);
  EXPECT_EQ(entry(0).qpn, 0U);
  EXPECT_EQ(entry(1).qpn, 2U);
  EXPECT_EQ(fault[1].state, Fault::State::kNone);
  faults.cancel(fault[1]);
  EXPECT_EQ(faults.parked(), 2U) << "once";
}

TEST_F(PageFaultsTest, OnlyTheTokenThatWasReportedResumes) {
  raise(0);
  EXPECT_FALSE(faults.resume(fault[0], fault[0].token)) << "nobody knows it yet";
  connect();
  const std::uint32_t token = fault[0].token;
  EXPECT_FALSE(faults.resume(fault[0], token + 1));
  EXPECT_TRUE(faults.resume(fault[0], token));
  EXPECT_FALSE(faults.resume(fault[0], token)) << "it has ended";
  EXPECT_EQ(faults.parked(), 0U);
  raise(0);
  EXPECT_NE(fault[0].token, token);
  EXPECT_FALSE(faults.resume(fault[0], token)) << "of the fault before";
}

}  // namespace
}  // namespace tern

// SPDX-License-Identifier: GPL-2.0-or-later
// Corner cases of a reliable connection, found with the data book: features that are not offered
// must not appear to exist, and every failure is reported exactly once.
#include <gtest/gtest.h>

#include "tests/mini_driver.h"
#include "wire/codec.h"

namespace tern {
namespace {

class RcFault : public ::testing::Test {
 protected:
  Sim sim;
  TestNode a{sim};
  TestNode b{sim};
  TestMr& src = a.reg(65536);
  TestMr& dst = b.reg(65536);
};

// The receive WQE taken for the immediate reports the fault; no event does.
TEST_F(RcFault, WriteWithImmediateToMemoryThatIsGone) {
  const auto [qa, qb] = rc_pair(a, b);
  qb.post_recv({}, 7);
  b.host.punch(dst.dma, 4096);
  qa.post(write({src.sge(0, 64)}, dst).immediate(1));
  EXPECT_EQ(qa.wait_send().status, TERN_CQE_REM_OP_ERR);
  const Wc wc = qb.wait_recv();
  EXPECT_EQ(wc.status, TERN_CQE_LOC_ACCESS_ERR);
  EXPECT_EQ(le(wc.wr_id), 7U);
  EXPECT_TRUE(b.async_events().empty());
  EXPECT_EQ(b.counter(TERN_CNT_DMA_ERRORS), 1U);
}

// An invalid WQE waits in SQD like any other, and fails when the queue returns to RTS.
TEST_F(RcFault, WrongWqeDoesNotFailWhileDraining) {
  const auto [qa, qb] = rc_pair(a, b);
  (void)qb;
  ASSERT_EQ(qa.to_state(TERN_QPS_SQD), TERN_ST_OK);
  SendWr wrong = send({src.sge(0, 64)});
  wrong.opcode = 0x7f;
  qa.post(wrong);
  sim.run_until_idle();
  EXPECT_EQ(qa.query().attr.state, TERN_QPS_SQD);
  EXPECT_FALSE(qa.send_cq().poll());
  ASSERT_EQ(qa.to_state(TERN_QPS_RTS), TERN_ST_OK);
  EXPECT_EQ(qa.wait_send().status, TERN_CQE_LOC_QP_OP_ERR);
  EXPECT_EQ(qa.query().attr.state, TERN_QPS_ERR);
}

// Software may enter ERR from RESET; the record then says that receives need a doorbell.
TEST_F(RcFault, ErrorStateFromResetFlushesReceives) {
  TestQp& qp = a.create_qp();
  ASSERT_EQ(qp.to_state(TERN_QPS_ERR), TERN_ST_OK);
  EXPECT_EQ(qp.record_status() & TERN_QP_ST_RQ_KICK, TERN_QP_ST_RQ_KICK);
  qp.post_recv({src.sge()}, 9);
  qp.ring(TERN_DB_CMD_RQ);
  EXPECT_EQ(qp.wait_recv().status, TERN_CQE_WR_FLUSH_ERR);
}

TEST_F(RcFault, DoorbellPageHasALatchedClockAndNothingElse) {
  const std::uint64_t page = std::uint64_t{a.uar()} << a.options().page_shift;
  a.host.advance(std::uint64_t{5} << 32);
  const std::uint32_t low = a.device.uar_read(page + TERN_UAR_CLOCK_LO);
  const std::uint64_t then = a.host.now();
  a.host.advance(std::uint64_t{1} << 32);
  EXPECT_EQ(low, static_cast<std::uint32_t>(then));
  EXPECT_EQ(a.device.uar_read(page + TERN_UAR_CLOCK_HI), static_cast<std::uint32_t>(then >> 32));
  EXPECT_EQ(a.device.uar_read(page + TERN_UAR_DB), TERN_REG_GONE);
  EXPECT_EQ(a.device.uar_read(page + 0x40), TERN_REG_GONE);
}

// Many responses that follow a lost one count as one loss.
TEST_F(RcFault, LostResponseCostsOneRetry) {
  const auto [qa, qb] = rc_pair(a, b, {.retry_cnt = 1});
  (void)qb;
  unsigned responses = 0;
  sim.pass = [&](unsigned, std::span<const std::byte> frame) {
    Packet packet(b.host);
    if (parse_route(frame, packet.route) != ParseResult::kOk ||
        parse_packet(frame, packet) != ParseResult::kOk) {
      return true;
    }
    return packet.op != Op::kReadResponseMiddle || ++responses != 3;
  };
  dst.fill(8);
  qa.post(read({src.sge()}, dst));
  EXPECT_EQ(qa.wait_send().status, TERN_CQE_SUCCESS);
  EXPECT_TRUE(same_bytes(src.bytes(), dst.bytes()));
}

// A late or duplicate NAK neither ends the wait for the receiver nor costs another retry; the SEND
// is repeated when the wait ends.
TEST_F(RcFault, NakDuringRnrWait) {
  const auto [qa, qb] = rc_pair(a, b, {.min_rnr_timer = 14, .rnr_retry = 1});
  std::vector<std::byte> nak;
  sim.pass = [&](unsigned, std::span<const std::byte> frame) {
    Packet packet(a.host);
    if (nak.empty() && parse_route(frame, packet.route) == ParseResult::kOk &&
        parse_packet(frame, packet) == ParseResult::kOk && packet.op == Op::kAck &&
        (packet.syndrome & kSyndromeKindMask) == kSyndromeKindRnr) {
      nak.assign(frame.begin(), frame.end());
    }
    return true;
  };
  qa.post(send({src.sge(0, 8)}));
  sim.run_for(200'000);
  ASSERT_FALSE(nak.empty());
  a.receive(nak);
  Packet packet(a.host);
  ASSERT_EQ(parse_route(nak, packet.route), ParseResult::kOk);
  ASSERT_EQ(parse_packet(nak, packet), ParseResult::kOk);
  packet.syndrome = kNakSequence;
  std::vector<std::byte> changed(256);
  changed.resize(serialize(packet, 1, changed));
  a.receive(changed);
  a.wake();
  qb.post_recv({dst.sge()});
  EXPECT_EQ(qa.wait_send().status, TERN_CQE_SUCCESS);
  EXPECT_EQ(a.counter(TERN_CNT_LOCAL_ACK_TIMEOUT_ERR), 0U);
}

// A READ that is repeated late, long after its response was used, does not occupy the resource of
// the next READ.
TEST_F(RcFault, RepeatedReadDoesNotHoldItsSlot) {
  const auto [qa, qb] = rc_pair(a, b, {.max_rd_atomic = 1, .max_dest_rd_atomic = 1});
  (void)qb;
  std::vector<std::byte> first;
  sim.pass = [&](unsigned, std::span<const std::byte> frame) {
    Packet packet(b.host);
    if (parse_route(frame, packet.route) != ParseResult::kOk ||
        parse_packet(frame, packet) != ParseResult::kOk || packet.op != Op::kReadRequest) {
      return true;
    }
    if (first.empty()) {
      first.assign(frame.begin(), frame.end());
      return true;
    }
    b.receive(first);
    b.receive(frame);
    b.wake();
    return false;
  };
  dst.fill(4);
  qa.post(read({src.sge(0, 20000)}, dst));
  qa.post(read({src.sge(20000, 20000)}, dst, 20000));
  EXPECT_EQ(qa.wait_send().status, TERN_CQE_SUCCESS);
  EXPECT_EQ(qa.wait_send().status, TERN_CQE_SUCCESS);
  EXPECT_TRUE(same_bytes(src.bytes(0, 40000), dst.bytes(0, 40000)));
  EXPECT_EQ(b.counter(TERN_CNT_DUPLICATE_REQUEST), 1U);
}

// The ACK of a duplicate WRITE must not have the PSN of the atomic behind it: Soft-RoCE takes such
// an ACK for the response to the atomic.
TEST_F(RcFault, RepeatedAcknowledgementNamesNoAtomic) {
  const auto [qa, qb] = rc_pair(a, b);
  (void)qb;
  std::vector<std::byte> written;
  std::optional<Psn> atomic;
  std::vector<Psn> acks;
  sim.pass = [&](unsigned, std::span<const std::byte> frame) {
    Packet packet(b.host);
    if (parse_route(frame, packet.route) != ParseResult::kOk ||
        parse_packet(frame, packet) != ParseResult::kOk) {
      return true;
    }
    if (packet.op == Op::kWriteOnly) written.assign(frame.begin(), frame.end());
    if (packet.op == Op::kFetchAdd) atomic = packet.psn;
    if (packet.op == Op::kAck) acks.push_back(packet.psn);
    return true;
  };
  qa.post(write({src.sge(0, 64)}, dst));
  qa.post(fetch_add(src.sge(64, 8), dst, 1024, 1));
  EXPECT_EQ(qa.wait_send().status, TERN_CQE_SUCCESS);
  EXPECT_EQ(qa.wait_send().status, TERN_CQE_SUCCESS);
  sim.run_until_idle();
  acks.clear();
  b.receive(written);
  b.wake();
  sim.run_until_idle();
  EXPECT_EQ(b.counter(TERN_CNT_DUPLICATE_REQUEST), 1U);
  ASSERT_EQ(acks.size(), 1U);
  ASSERT_TRUE(atomic);
  EXPECT_EQ(acks[0].next(), *atomic);
}

// A failed device does not run, so its host must not see a deadline, which would stay in the past.
TEST_F(RcFault, FailedDeviceHasNoDeadline) {
  const auto [qa, qb] = rc_pair(a, b);
  (void)qb;
  sim.pass = [](unsigned, std::span<const std::byte>) { return false; };
  qa.post(write({src.sge(0, 64)}, dst));
  sim.run_for(100'000);
  EXPECT_NE(a.next_deadline(), kNever);
  a.device.datapath.fatal(TERN_FATAL_INTERNAL);
  EXPECT_EQ(a.next_deadline(), kNever);
}

}  // namespace
}  // namespace tern

// SPDX-License-Identifier: GPL-2.0-or-later
// Options of a connection (ECE): which QPs may have them, and what REPEAT_NAK changes.
#include <gtest/gtest.h>

#include "tests/rc_pair_test.h"
#include "wire/codec.h"

namespace tern {
namespace {

class Ece : public RcPairTest {
 protected:
  static std::uint8_t opcode_of(std::span<const std::byte> frame) {
    return std::to_integer<std::uint8_t>(frame[62]);
  }
  static bool is_nak(std::span<const std::byte> frame) {
    return opcode_of(frame) == static_cast<std::uint8_t>(Op::kAck) &&
           std::to_integer<std::uint8_t>(frame[74]) == kNakSequence;
  }
  // Loses the fourth packet of a WRITE of 128 packets, which asks for four ACKs, and the first
  // `naks` NAKs. Returns how long the WRITE took.
  Nanos write_with_losses(int naks, std::uint8_t ece) {
    connect({.ece = ece});
    seen_ = 0;
    int skip = 2;
    bool lost = false;
    sim.pass = [=, this](unsigned node, std::span<const std::byte> f) mutable {
      if (node == 1 && is_nak(f)) return ++seen_ > naks;
      if (node != 0 || opcode_of(f) != static_cast<std::uint8_t>(Op::kWriteMiddle) || lost ||
          skip-- > 0)
        return true;
      lost = true;
      return false;
    };
    const Nanos before = sim.now();
    qa->post(write({src.sge(0, 128 << 10)}, dst));
    expect_status(TERN_CQE_SUCCESS);
    const Nanos took = sim.now() - before;
    EXPECT_TRUE(same_bytes(dst.bytes(0, 128 << 10), src.bytes(0, 128 << 10)));
    sim.run_until_idle();
    EXPECT_EQ(qa->query().attr.state, TERN_QPS_RTS);
    return took;
  }

  static constexpr Nanos kTimeout = 4 * (Nanos{4096} << 14);
  int seen_ = 0;
};

TEST_F(Ece, WithoutTheOptionALostNakCostsATimeout) {
  EXPECT_GE(write_with_losses(1, 0), kTimeout);
  EXPECT_EQ(seen_, 1);
  EXPECT_EQ(a.counter(TERN_CNT_LOCAL_ACK_TIMEOUT_ERR), 1U);
  EXPECT_EQ(b.counter(TERN_CNT_OUT_OF_SEQUENCE), 1U);
}

TEST_F(Ece, ALostNakIsRepeated) {
  EXPECT_LT(write_with_losses(1, TERN_ECE_REPEAT_NAK), kTimeout / 4);
  EXPECT_GE(seen_, 2);
  EXPECT_EQ(a.counter(TERN_CNT_LOCAL_ACK_TIMEOUT_ERR), 0U);
  EXPECT_EQ(b.counter(TERN_CNT_OUT_OF_SEQUENCE), static_cast<std::uint64_t>(seen_));
}

TEST_F(Ece, RepeatedNaksCauseOneRepetition) {
  EXPECT_LT(write_with_losses(0, TERN_ECE_REPEAT_NAK), kTimeout / 4);
  EXPECT_GE(seen_, 2);
  // Only requests that ask for an answer cause one: packets 32, 64, 96 and 128, after the first
  // ahead.
  EXPECT_LE(seen_, 5);
  // Each packet was executed once: the duplicates of a second repetition would count.
  EXPECT_EQ(b.counter(TERN_CNT_DUPLICATE_REQUEST), 0U);
}

TEST_F(Ece, AnRnrNakIsNotRepeated) {
  connect({.min_rnr_timer = 14, .ece = TERN_ECE_REPEAT_NAK});
  int naks = 0;
  sim.pass = [&naks](unsigned node, std::span<const std::byte> f) {
    if (node == 1 && opcode_of(f) == static_cast<std::uint8_t>(Op::kAck)) ++naks;
    return true;
  };
  qa->post(send({src.sge(0, 8)}));
  for (int i = 0; i < 20; ++i) qa->post(write({src.sge(0, 8)}, dst));
  sim.run_for(300'000);
  EXPECT_EQ(naks, 1);
  EXPECT_EQ(b.counter(TERN_CNT_OUT_OF_SEQUENCE), 0U);
  qb->post_recv({dst.sge()});
  for (int i = 0; i < 21; ++i) expect_status(TERN_CQE_SUCCESS);
  sim.run_until_idle();
}

// A responder whose queue of answers is nearly full keeps it for what it owes.
TEST_F(Ece, ManyAnswersLeaveNoRoomForRepetitions) {
  connect({.max_dest_rd_atomic = 1, .ece = TERN_ECE_REPEAT_NAK});
  bool lost = false;
  sim.pass = [&lost](unsigned node, std::span<const std::byte> f) {
    if (node != 0 || opcode_of(f) != static_cast<std::uint8_t>(Op::kWriteOnly) || lost) return true;
    lost = true;
    return false;
  };
  for (std::uint64_t i = 0; i < 60; ++i) qa->post(write({src.sge(8 * i, 8)}, dst, 8 * i));
  for (int i = 0; i < 60; ++i) expect_status(TERN_CQE_SUCCESS);
  EXPECT_TRUE(same_bytes(dst.bytes(0, 480), src.bytes(0, 480)));
  EXPECT_EQ(a.counter(TERN_CNT_LOCAL_ACK_TIMEOUT_ERR), 0U);
  sim.run_until_idle();
}

TEST_F(Ece, OnlyOnTheWayToRtr) {
  const std::uint32_t option = field_prep(TERN_QPM_ECE_MASK, TERN_ECE_REPEAT_NAK);
  EXPECT_TRUE(le(a.caps().flags) & TERN_CAP_ECE);
  connect();
  EXPECT_EQ(qa->modify({}, 0, option), TERN_ST_BAD_PARAM);
  EXPECT_EQ(qa->to_state(TERN_QPS_SQD, option), TERN_ST_BAD_PARAM);
  EXPECT_EQ(qa->to_state(TERN_QPS_ERR, option), TERN_ST_BAD_PARAM);
  EXPECT_EQ(qa->to_state(TERN_QPS_RESET, option), TERN_ST_BAD_PARAM);
  EXPECT_EQ(qa->query().attr.state, TERN_QPS_RTS);
  // Options that do not exist.
  TestQp& unknown = a.create_qp({.ece = TERN_ECE_OPTIONS + 1});
  EXPECT_EQ(unknown.to_init(), TERN_ST_OK);
  EXPECT_EQ(unknown.to_rtr(*qb), TERN_ST_BAD_PARAM);
  EXPECT_EQ(unknown.query().attr.state, TERN_QPS_INIT);
}

TEST_F(Ece, OnlyReliableTypes) {
  for (const auto type : {TERN_QPT_UC, TERN_QPT_UD, TERN_QPT_RAW}) {
    TestQp& qp = a.create_qp({.type = static_cast<std::uint8_t>(type)});
    ASSERT_EQ(qp.to_init(), TERN_ST_OK);
    EXPECT_EQ(qp.to_state(TERN_QPS_RTR, field_prep(TERN_QPM_ECE_MASK, TERN_ECE_REPEAT_NAK)),
              TERN_ST_BAD_PARAM)
        << type;
  }
}

TEST_F(Ece, ResetForgetsThem) {
  connect({.ece = TERN_ECE_REPEAT_NAK});
  const Qp* const qp = b.device.registry.qps.find(qb->number());
  ASSERT_NE(qp, nullptr);
  EXPECT_TRUE(qp->ece(TERN_ECE_REPEAT_NAK));
  ASSERT_EQ(qb->to_state(TERN_QPS_RESET), TERN_ST_OK);
  EXPECT_FALSE(qp->ece(TERN_ECE_REPEAT_NAK));
}

}  // namespace
}  // namespace tern

// SPDX-License-Identifier: GPL-2.0-or-later
// Unreliable connections: every operation at every size, what a lost packet affects, and how errors
// are reported.
#include <gtest/gtest.h>

#include <array>
#include <string>

#include "tests/path_test.h"

namespace tern {
namespace {

constexpr std::uint64_t kRegion = 65536;
constexpr std::byte kUntouched{0};

QpOptions uc(QpOptions options = {}) {
  options.type = TERN_QPT_UC;
  return options;
}

// ---- every path ----

class UcOps : public PathTest {
 protected:
  UcOps() : PathTest(TERN_QPT_UC, kRegion) {}
  void TearDown() override {
    PathTest::TearDown();
    for (TestQp* const qp : {&qa, &qb}) EXPECT_EQ(qp->query().attr.state, TERN_QPS_RTS);
  }
  [[nodiscard]] std::vector<std::uint32_t> sizes() const {
    return {0, 1, 3, 4, mtu - 1, mtu, mtu + 1, 2 * mtu - 3, 2 * mtu, 3 * mtu + 5, 12 * mtu + 1};
  }
  void expect_sent(std::uint8_t opcode) {
    const Wc wc = qa.wait_send();
    EXPECT_EQ(wc.status, TERN_CQE_SUCCESS) << status_name(wc.status);
    EXPECT_EQ(wc.opcode, opcode);
  }
  void expect_copied(std::uint32_t len) {
    sim.run_until_idle();
    EXPECT_TRUE(same_bytes(dst.bytes(0, len), src.bytes(0, len)));
    EXPECT_EQ(dst.bytes()[len], kUntouched);
    std::ranges::fill(dst.bytes(0, len), kUntouched);
  }
};

INSTANTIATE_TEST_SUITE_P(Mtus, UcOps,
                         ::testing::Values(PathParam{false, 8, 0}, PathParam{false, 10, 1},
                                           PathParam{false, 10, 2}, PathParam{false, 12, 3},
                                           PathParam{true, 8, 1}, PathParam{true, 12, 0}),
                         name_of);

TEST_P(UcOps, Send) {
  for (const std::uint32_t len : sizes()) {
    qb.post_recv({dst.sge(0, len + 9)}, len);
    qa.post(send({src.sge(0, len)}).with(TERN_WQE_F_SOLICITED));
    expect_sent(TERN_WR_SEND);
    const Wc wc = qb.wait_recv();
    EXPECT_EQ(wc.status, TERN_CQE_SUCCESS);
    EXPECT_EQ(wc.opcode, TERN_RECV_SEND);
    EXPECT_EQ(wc.flags, TERN_CQE_F_RECV | TERN_CQE_F_SOLICITED);
    EXPECT_EQ(le(wc.byte_len), len);
    EXPECT_EQ(le(wc.wr_id), len);
    expect_copied(len);
  }
}

TEST_P(UcOps, SendWithImmediate) {
  for (const std::uint32_t len : sizes()) {
    qb.post_recv({dst.sge(0, 16384), dst.sge(16384, 40000)});
    qa.post(send({src.sge(0, len)}).immediate(0xd4c3b2a1));
    expect_sent(TERN_WR_SEND_WITH_IMM);
    const Wc wc = qb.wait_recv();
    EXPECT_EQ(wc.flags, TERN_CQE_F_RECV | TERN_CQE_F_IMM);
    EXPECT_EQ(wc.imm, 0xd4c3b2a1);
    EXPECT_EQ(le(wc.byte_len), len);
    expect_copied(len);
  }
}

TEST_P(UcOps, WriteAndWriteWithImmediate) {
  for (const std::uint32_t len : sizes()) {
    qa.post(write({src.sge(0, len)}, dst));
    expect_sent(TERN_WR_RDMA_WRITE);
    expect_copied(len);
    qb.post_recv({}, 7);
    qa.post(write({src.sge(0, len)}, dst).immediate(len));
    expect_sent(TERN_WR_RDMA_WRITE_WITH_IMM);
    const Wc wc = qb.wait_recv();
    EXPECT_EQ(wc.opcode, TERN_RECV_RDMA_WITH_IMM);
    EXPECT_EQ(wc.flags, TERN_CQE_F_RECV | TERN_CQE_F_IMM);
    EXPECT_EQ(wc.imm, len);
    EXPECT_EQ(le(wc.byte_len), len);
    expect_copied(len);
  }
}

TEST_P(UcOps, SendWithInvalidate) {
  // The key of a FAST region: the peer invalidates it with its message.
  const std::uint32_t pd = b.alloc_pd(true);
  TestQp& inviter =
      a.create_qp(uc({.log_mtu = GetParam().log_mtu, .gid_index = GetParam().gid_index}));
  TestQp& owner =
      b.create_qp(uc({.pd = pd, .log_mtu = GetParam().log_mtu, .gid_index = GetParam().gid_index}));
  inviter.connect(owner);
  owner.connect(inviter);
  TestMr& into = b.reg(kRegion, {.pd = pd});
  FastMr fast = b.alloc_fast(2, pd);
  owner.post(reg_mr(fast));
  EXPECT_EQ(owner.wait_send().status, TERN_CQE_SUCCESS);
  owner.post_recv({into.sge()});
  inviter.post(send_inv({src.sge(0, 3 * mtu + 1)}, fast.mr.key));
  EXPECT_EQ(inviter.wait_send().status, TERN_CQE_SUCCESS);
  const Wc wc = owner.wait_recv();
  EXPECT_EQ(wc.status, TERN_CQE_SUCCESS) << status_name(wc.status);
  EXPECT_EQ(wc.flags, TERN_CQE_F_RECV | TERN_CQE_F_INV);
  EXPECT_EQ(le(wc.inv_rkey), fast.mr.key);
  // A closed key cannot be invalidated: the receiver is told, the sender is not.
  owner.post_recv({into.sge()});
  inviter.post(send_inv({src.sge(0, 1)}, fast.mr.key));
  EXPECT_EQ(inviter.wait_send().status, TERN_CQE_SUCCESS);
  EXPECT_EQ(owner.wait_recv().status, TERN_CQE_REM_INV_REQ_ERR);
  EXPECT_EQ(owner.query().attr.state, TERN_QPS_ERR);
  EXPECT_EQ(inviter.query().attr.state, TERN_QPS_RTS);
}

TEST_P(UcOps, ManyInOrderAndPsnsWrap) {
  for (std::uint64_t i = 0; i < 200; ++i) {
    if (qa.sq_free() == 0) expect_sent(TERN_WR_SEND);
    if (qb.rq_free() == 0) {
      EXPECT_EQ(qb.wait_recv().status, TERN_CQE_SUCCESS);
    }
    qb.post_recv({dst.sge(i * 100, 2 * mtu)}, i);
    qa.post(send({src.sge(i * 100, mtu + 50)}));
    sim.run_until_idle();
  }
  sim.run_until_idle();
  EXPECT_EQ(le(qa.query().attr.sq_psn), (0xfffff0U + 400) & 0xffffff);
  EXPECT_EQ(le(qb.query().attr.rq_psn), (0xfffff0U + 400) & 0xffffff);
  EXPECT_EQ(b.counter(TERN_CNT_OUT_OF_BUFFER), 0U);
  (void)qa.send_cq().poll_all();
  (void)qb.recv_cq().poll_all();
}

// ---- losses and errors ----

class Uc : public ::testing::Test {
 protected:
  Sim sim;
  TestNode a{sim};
  TestNode b{sim};
  std::pair<TestQp&, TestQp&> qps = rc_pair(a, b, uc());
  TestQp& qa = qps.first;
  TestQp& qb = qps.second;
  TestMr& src = a.reg(kRegion);
  TestMr& dst = b.reg(kRegion);
  static constexpr std::uint32_t kMtu = 1024;
  unsigned frames = 0;

  void SetUp() override { src.fill(1); }
  // The wire loses the frames with these numbers, counted from 0 at this call.
  void lose(std::vector<unsigned> numbers) {
    frames = 0;
    sim.pass = [this, numbers](unsigned, std::span<const std::byte>) {
      return std::ranges::count(numbers, frames++) == 0;
    };
  }
  void expect_quiet_receiver() {
    sim.run_until_idle();
    EXPECT_FALSE(qb.recv_cq().poll());
    EXPECT_EQ(qb.query().attr.state, TERN_QPS_RTS);
    EXPECT_TRUE(b.async_events().empty());
    EXPECT_EQ(b.device.counters().rdma[TERN_CNT_TX_RDMA_PACKETS], 0U) << "nobody answers";
  }
  // The next message arrives complete and uses the receive `wr_id`.
  void expect_next(std::uint64_t wr_id) {
    sim.pass = nullptr;
    std::ranges::fill(dst.bytes(), kUntouched);
    qa.post(send({src.sge(100, 3 * kMtu)}));
    EXPECT_EQ(qa.wait_send().status, TERN_CQE_SUCCESS);
    const Wc wc = qb.wait_recv();
    EXPECT_EQ(wc.status, TERN_CQE_SUCCESS) << status_name(wc.status);
    EXPECT_EQ(le(wc.wr_id), wr_id);
    EXPECT_EQ(le(wc.byte_len), 3 * kMtu);
    EXPECT_TRUE(same_bytes(dst.bytes(0, 3 * kMtu), src.bytes(100, 3 * kMtu)));
  }
};

TEST_F(Uc, ALostPacketTakesItsMessageAndNoOther) {
  for (const unsigned lost : {0U, 1U, 2U, 3U}) {
    SCOPED_TRACE(lost);
    const std::uint64_t gaps = b.counter(TERN_CNT_OUT_OF_SEQUENCE);
    lose({lost});
    qb.post_recv({dst.sge(0, 8192)}, 10 + lost);
    qa.post(send({src.sge(0, 4 * kMtu)}));
    EXPECT_EQ(qa.wait_send().status, TERN_CQE_SUCCESS) << "a sender never learns of it";
    sim.run_until_idle();
    EXPECT_FALSE(qb.recv_cq().poll());
    expect_next(10 + lost);  // with the WQE of the lost message
    EXPECT_EQ(b.counter(TERN_CNT_OUT_OF_SEQUENCE), gaps + 1);
  }
  EXPECT_TRUE(b.async_events().empty());
}

TEST_F(Uc, AWholeMessageMayVanish) {
  lose({0, 1, 2, 3});
  qb.post_recv({dst.sge(0, 8192)}, 3);
  qa.post(send({src.sge(0, 4 * kMtu)}));
  EXPECT_EQ(qa.wait_send().status, TERN_CQE_SUCCESS);
  expect_quiet_receiver();
  expect_next(3);
}

TEST_F(Uc, LastOfOneAndFirstOfTheNext) {
  lose({1, 2});
  qb.post_recv({dst.sge(0, 8192)}, 3);
  qb.post_recv({dst.sge(0, 8192)}, 4);
  qa.post(send({src.sge(0, 2 * kMtu)}), false);
  qa.post(send({src.sge(0, 2 * kMtu)}), false);
  qa.post(send({src.sge(0, 5)}));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(qa.wait_send().status, TERN_CQE_SUCCESS);
  const Wc wc = qb.wait_recv();
  EXPECT_EQ(le(wc.wr_id), 3U);
  EXPECT_EQ(le(wc.byte_len), 5U);
  expect_next(4);
}

TEST_F(Uc, ALostWriteLeavesTheRestUntouched) {
  lose({1});
  qb.post_recv({}, 8);
  qa.post(write({src.sge(0, 4 * kMtu)}, dst).immediate(1));
  EXPECT_EQ(qa.wait_send().status, TERN_CQE_SUCCESS);
  expect_quiet_receiver();
  EXPECT_TRUE(same_bytes(dst.bytes(0, kMtu), src.bytes(0, kMtu)));
  for (std::uint32_t i = kMtu; i < 4 * kMtu; ++i) ASSERT_EQ(dst.bytes()[i], kUntouched) << i;
  sim.pass = nullptr;
  qa.post(write({src.sge(0, 4 * kMtu)}, dst).immediate(2));
  const Wc wc = qb.wait_recv();
  EXPECT_EQ(wc.imm, 2U);
  EXPECT_EQ(le(wc.wr_id), 8U);
  EXPECT_TRUE(same_bytes(dst.bytes(0, 4 * kMtu), src.bytes(0, 4 * kMtu)));
}

TEST_F(Uc, BadWiresDeliverWholeMessagesOrNothing) {
  sim.wire.loss = 0.02;
  sim.wire.reorder = 0.02;
  sim.wire.duplicate = 0.02;
  sim.wire.corrupt = 0.01;
  unsigned sent = 0;
  unsigned whole = 0;
  for (unsigned round = 0; round < 100; ++round) {
    while (qb.rq_free() > 0) qb.post_recv({dst.sge(0, 16384)});
    const std::uint32_t len = (round * 977) % 8000;
    qa.post(send({src.sge(len, len)}).immediate(round));
    ++sent;
    EXPECT_EQ(qa.wait_send().status, TERN_CQE_SUCCESS);
    sim.run_until_idle();
    for (const Wc& wc : qb.recv_cq().poll_all()) {
      ASSERT_EQ(wc.status, TERN_CQE_SUCCESS);
      EXPECT_EQ(le(wc.byte_len), (wc.imm * 977) % 8000);
      if (wc.imm == round) ++whole;
    }
  }
  EXPECT_GT(whole, sent / 2);
  EXPECT_LT(whole, sent + 20);
  EXPECT_EQ(qb.query().attr.state, TERN_QPS_RTS);
  EXPECT_EQ(qa.query().attr.state, TERN_QPS_RTS);
}

TEST_F(Uc, NoWqe) {
  qa.post(send({src.sge(0, 3 * kMtu)}));
  EXPECT_EQ(qa.wait_send().status, TERN_CQE_SUCCESS);
  expect_quiet_receiver();
  EXPECT_EQ(b.counter(TERN_CNT_OUT_OF_BUFFER), 1U) << "once a message";
  // The data of the WRITE arrives, its immediate does not.
  qa.post(write({src.sge(0, 2 * kMtu)}, dst).immediate(1));
  EXPECT_EQ(qa.wait_send().status, TERN_CQE_SUCCESS);
  expect_quiet_receiver();
  EXPECT_EQ(b.counter(TERN_CNT_OUT_OF_BUFFER), 2U);
  EXPECT_TRUE(same_bytes(dst.bytes(0, kMtu), src.bytes(0, kMtu)));
  qb.post_recv({dst.sge()}, 4);
  expect_next(4);
}

TEST_F(Uc, TooLongForTheWqe) {
  qb.post_recv({dst.sge(0, 3 * kMtu)}, 1);
  qa.post(send({src.sge(0, 3 * kMtu + 1)}));
  EXPECT_EQ(qa.wait_send().status, TERN_CQE_SUCCESS);
  expect_quiet_receiver();
  EXPECT_EQ(b.counter(TERN_CNT_RESP_LOCAL_LENGTH_ERROR), 1U);
  expect_next(1);
}

TEST_F(Uc, WritesThatAreNotAllowedVanish) {
  TestMr& read_only = b.reg(4096, {.access = TERN_ACCESS_REMOTE_READ});
  const auto refused = [&](SendWr wr) {
    qb.post_recv({}, 1);
    qa.post(std::move(wr).immediate(1));
    EXPECT_EQ(qa.wait_send().status, TERN_CQE_SUCCESS);
    expect_quiet_receiver();
  };
  TestMr wrong = dst;
  wrong.key ^= 1;
  refused(write({src.sge(0, 8)}, wrong));
  refused(write({src.sge(0, 8)}, read_only));
  refused(write({src.sge(0, 8)}, dst, kRegion - 7));
  EXPECT_EQ(b.counter(TERN_CNT_RESP_REMOTE_ACCESS_ERRORS), 3U);
  tern_qp_attr attr{};
  ASSERT_EQ(qb.modify(attr, TERN_QPA_ACCESS), TERN_ST_OK);
  refused(write({src.sge(0, 8)}, dst));
  EXPECT_EQ(dst.bytes()[0], kUntouched);
  // The region is destroyed while a message is in flight.
  attr.access = le(kAllAccess);
  ASSERT_EQ(qb.modify(attr, TERN_QPA_ACCESS), TERN_ST_OK);
  TestMr& gone = b.reg(16384);
  sim.budget = 1024;
  sim.turn_time = 5000;
  qa.post(write({src.sge(0, 16384)}, gone));
  sim.run_until([&] { return b.device.counters().rdma[TERN_CNT_RX_RDMA_PACKETS] > 6; });
  b.dereg(gone);
  EXPECT_EQ(qa.wait_send().status, TERN_CQE_SUCCESS);
  expect_quiet_receiver();
}

TEST_F(Uc, MemoryOfTheWqeThatIsNotAllowed) {
  qb.post_recv({dst.sge(0, kMtu), {dst.iova, 4096, dst.key ^ 1}}, 5);
  qb.post_recv({dst.sge()}, 6);
  qa.post(send({src.sge(0, 3 * kMtu)}));
  EXPECT_EQ(qa.wait_send().status, TERN_CQE_SUCCESS);
  const Wc wc = qb.wait_recv();
  EXPECT_EQ(wc.status, TERN_CQE_LOC_PROT_ERR) << status_name(wc.status);
  EXPECT_EQ(le(wc.wr_id), 5U);
  EXPECT_EQ(qb.wait_recv().status, TERN_CQE_WR_FLUSH_ERR);
  EXPECT_EQ(qb.query().attr.state, TERN_QPS_ERR);
  EXPECT_TRUE(b.async_events().empty()) << "the completion tells it";
}

TEST_F(Uc, ResetAndErrorForgetTheMessage) {
  lose({2});
  qb.post_recv({dst.sge(0, 8192)}, 1);
  qa.post(send({src.sge(0, 3 * kMtu)}));
  EXPECT_EQ(qa.wait_send().status, TERN_CQE_SUCCESS);
  sim.run_until_idle();
  ASSERT_EQ(qb.to_state(TERN_QPS_ERR), TERN_ST_OK);
  const Wc wc = qb.wait_recv();
  EXPECT_EQ(wc.status, TERN_CQE_WR_FLUSH_ERR);
  EXPECT_EQ(le(wc.wr_id), 1U);
  ASSERT_EQ(qb.to_state(TERN_QPS_RESET), TERN_ST_OK);
  qb.forget_posted();
  qb.connect(qa);
  qb.post_recv({dst.sge(0, 8192)}, 2);
  expect_next(2);
}

// ---- events ----

TEST_F(Uc, CommunicationIsEstablishedOnce) {
  TestQp& x = a.create_qp(uc());
  TestQp& y = b.create_qp(uc());
  x.connect(y);
  ASSERT_EQ(y.to_init(), TERN_ST_OK);
  ASSERT_EQ(y.to_rtr(x), TERN_ST_OK);
  y.post_recv({dst.sge()});
  y.post_recv({dst.sge()});
  for (int i = 0; i < 2; ++i) {
    x.post(send({src.sge(0, 2000)}));
    EXPECT_EQ(x.wait_send().status, TERN_CQE_SUCCESS);
    EXPECT_EQ(y.wait_recv().status, TERN_CQE_SUCCESS);
  }
  const auto events = b.async_events();
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(le(events[0].type), TERN_EV_COMM_EST);
  EXPECT_EQ(le(events[0].id), y.number());
}

TEST_F(Uc, AnotherPeersPacketsAreNotTaken) {
  TestNode c(sim);
  TestQp& stranger = c.create_qp(uc());
  stranger.connect(qb);
  TestMr& its = c.reg(4096);
  qb.post_recv({dst.sge()});
  stranger.post(send({its.sge(0, 8)}));
  EXPECT_EQ(stranger.wait_send().status, TERN_CQE_SUCCESS);
  expect_quiet_receiver();
  EXPECT_EQ(b.counter(TERN_CNT_RX_QP_MISMATCH), 1U);
}

// ---- the send queue error state ----

TEST_F(Uc, SendErrorsStopTheSendQueueAlone) {
  const auto failing = [&](SendWr wr, std::uint8_t status) {
    qa.post(std::move(wr).id(1).unsignaled(), false);
    qa.post(send({src.sge(0, 8)}).id(2).unsignaled());
    const Wc wc = qa.wait_send();
    EXPECT_EQ(wc.status, status) << status_name(wc.status);
    EXPECT_EQ(le(wc.wr_id), 1U);
    EXPECT_EQ(qa.wait_send().status, TERN_CQE_WR_FLUSH_ERR);
    EXPECT_EQ(qa.query().attr.state, TERN_QPS_SQE);
    qa.post_recv({src.sge()}, 9);
    qb.post(send({dst.sge(0, 3000)}));
    EXPECT_EQ(qa.wait_recv().status, TERN_CQE_SUCCESS);
    EXPECT_EQ(qb.wait_send().status, TERN_CQE_SUCCESS);
    src.fill(1);
    ASSERT_EQ(qa.to_state(TERN_QPS_RTS), TERN_ST_OK);
    qb.post_recv({dst.sge()}, 33);
    expect_next(33);
  };
  failing(send({{src.iova, 8, src.key ^ 1}}), TERN_CQE_LOC_PROT_ERR);
  // The error is found in the third packet: two have been sent, and the peer drops them.
  failing(send({src.sge(0, 2 * kMtu), {src.iova, 8, src.key ^ 1}}), TERN_CQE_LOC_PROT_ERR);
  failing(read({src.sge(0, 8)}, dst), TERN_CQE_LOC_QP_OP_ERR);
  failing(fetch_add(src.sge(0, 8), dst, 0, 1), TERN_CQE_LOC_QP_OP_ERR);
  failing(local_inv(0x12345678), TERN_CQE_LOC_QP_OP_ERR);
  EXPECT_TRUE(a.async_events().empty());
}

TEST_F(Uc, DrainsTheMessageThatWasBegun) {
  sim.budget = 2048;
  sim.turn_time = 2000;
  qb.post_recv({dst.sge()}, 1);
  qb.post_recv({dst.sge()}, 2);
  qa.post(send({src.sge()}).id(1), false);
  qa.post(send({src.sge(0, 4)}).id(2));
  // The state changes before the second turn.
  sim.step();
  ASSERT_EQ(qa.to_state(TERN_QPS_SQD, TERN_QPM_SQD_NOTIFY), TERN_ST_OK);
  EXPECT_EQ(le(qa.wait_send().wr_id), 1U);
  EXPECT_EQ(qb.wait_recv().status, TERN_CQE_SUCCESS);
  sim.run_until_idle();
  EXPECT_FALSE(qa.send_cq().poll());
  EXPECT_EQ(qa.query().attr.sq_draining, 0);
  const auto events = a.async_events();
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(le(events[0].type), TERN_EV_SQ_DRAINED);
  ASSERT_EQ(qa.to_state(TERN_QPS_RTS), TERN_ST_OK);
  EXPECT_EQ(le(qa.wait_send().wr_id), 2U);
  EXPECT_EQ(le(qb.wait_recv().byte_len), 4U);
}

TEST_F(Uc, LongMessagesDoNotHoldShortOnes) {
  constexpr std::uint64_t kLong = 64 << 20;
  const auto [x, y] = rc_pair(a, b, uc({.log_mtu = 12}));
  (void)y;
  RegOptions aliased{.alias = 1 << 20, .page_shift = 20};
  TestMr& from = a.reg(kLong, aliased);
  TestMr& to = b.reg(kLong, aliased);
  from.fill(6);
  sim.budget = 4096;
  sim.turn_time = 1000;
  x.post(write({from.sge()}, to));
  sim.run_for(20'000);
  const std::uint64_t before = a.device.counters().rdma[TERN_CNT_TX_RDMA_PACKETS];
  qb.post_recv({dst.sge()});
  qa.post(send({src.sge(0, 8)}));
  EXPECT_EQ(qa.wait_send().status, TERN_CQE_SUCCESS);
  EXPECT_LE(a.device.counters().rdma[TERN_CNT_TX_RDMA_PACKETS], before + 2 * 16384 / 4096 + 2);
  EXPECT_EQ(qb.wait_recv().status, TERN_CQE_SUCCESS);
  EXPECT_EQ(x.wait_send().status, TERN_CQE_SUCCESS);
  sim.run_until_idle();
  EXPECT_TRUE(same_bytes(to.bytes(), from.bytes()));
}

// ---- transitions ----

TEST_F(Uc, AttributesOfEachTransition) {
  TestQp& qp = a.create_qp(uc());
  tern_qp_attr attr{.av = qp.av_to(qb), .dest_qpn = le(qb.number()), .path_mtu = 10, .port = 1};
  const auto go = [&](std::uint8_t state, std::uint32_t mask) {
    attr.state = state;
    return qp.modify(attr, mask | TERN_QPA_STATE);
  };
  constexpr std::uint32_t kRtr =
      TERN_QPA_AV | TERN_QPA_PATH_MTU | TERN_QPA_DEST_QPN | TERN_QPA_RQ_PSN;
  constexpr std::uint32_t kInit = TERN_QPA_PKEY_INDEX | TERN_QPA_PORT;
  EXPECT_EQ(go(TERN_QPS_INIT, kInit), TERN_ST_BAD_PARAM);
  EXPECT_EQ(go(TERN_QPS_INIT, kInit | TERN_QPA_QKEY), TERN_ST_BAD_PARAM);
  EXPECT_EQ(go(TERN_QPS_INIT, TERN_QPA_PKEY_INDEX | TERN_QPA_ACCESS), TERN_ST_BAD_PARAM);
  EXPECT_EQ(go(TERN_QPS_INIT, kInit | TERN_QPA_ACCESS), TERN_ST_OK);
  EXPECT_EQ(go(TERN_QPS_INIT, TERN_QPA_ACCESS), TERN_ST_OK);
  EXPECT_EQ(go(TERN_QPS_RTR, kRtr & ~TERN_QPA_AV), TERN_ST_BAD_PARAM);
  EXPECT_EQ(go(TERN_QPS_RTR, kRtr | TERN_QPA_MIN_RNR_TIMER), TERN_ST_BAD_PARAM);
  EXPECT_EQ(go(TERN_QPS_RTR, kRtr | TERN_QPA_MAX_DEST_RD_ATOMIC), TERN_ST_BAD_PARAM);
  EXPECT_EQ(go(TERN_QPS_RTR, kRtr | TERN_QPA_ACCESS | TERN_QPA_PKEY_INDEX), TERN_ST_OK);
  EXPECT_EQ(go(TERN_QPS_RTS, TERN_QPA_SQ_PSN | TERN_QPA_TIMEOUT), TERN_ST_BAD_PARAM);
  EXPECT_EQ(go(TERN_QPS_RTS, 0), TERN_ST_BAD_PARAM);
  EXPECT_EQ(go(TERN_QPS_RTS, TERN_QPA_SQ_PSN | TERN_QPA_ACCESS), TERN_ST_OK);
  EXPECT_EQ(go(TERN_QPS_RTS, TERN_QPA_ACCESS), TERN_ST_OK);
  EXPECT_EQ(go(TERN_QPS_RTS, TERN_QPA_MIN_RNR_TIMER), TERN_ST_BAD_PARAM);
  EXPECT_EQ(go(TERN_QPS_SQE, 0), TERN_ST_BAD_STATE);
  EXPECT_EQ(go(TERN_QPS_SQD, 0), TERN_ST_OK);
  EXPECT_EQ(go(TERN_QPS_SQD, TERN_QPA_AV | TERN_QPA_PORT | TERN_QPA_ACCESS | TERN_QPA_PKEY_INDEX),
            TERN_ST_OK);
  EXPECT_EQ(go(TERN_QPS_SQD, TERN_QPA_TIMEOUT), TERN_ST_BAD_PARAM);
  EXPECT_EQ(go(TERN_QPS_RTS, TERN_QPA_ACCESS), TERN_ST_OK);
  EXPECT_EQ(go(TERN_QPS_ERR, 0), TERN_ST_OK);
}

}  // namespace
}  // namespace tern

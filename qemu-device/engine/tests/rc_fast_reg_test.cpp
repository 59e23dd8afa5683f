// SPDX-License-Identifier: GPL-2.0-or-later
// Fast registration over a reliable connection: ordering of REG_MR, LOCAL_INV and SEND_WITH_INV,
// loss of packets, and refused requests.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/mini_driver.h"

namespace tern {
namespace {

using ::testing::IsEmpty;

constexpr std::uint32_t kLength = 16 * 4096;

class RcFastReg : public ::testing::Test {
 protected:
  Sim sim{7};
  TestNode a{sim};
  TestNode b{sim};
  std::uint32_t pd_a = a.alloc_pd(true);
  std::uint32_t pd_b = b.alloc_pd(true);
  TestQp* qa = nullptr;
  TestQp* qb = nullptr;
  TestMr& src = a.reg(kLength, {.pd = pd_a});
  TestMr& dst = b.reg(kLength, {.pd = pd_b});
  FastMr fast_a = a.alloc_fast(16, pd_a);
  FastMr fast_b = b.alloc_fast(16, pd_b);

  void connect(QpOptions options = {}) {
    options.pd = pd_a;
    qa = &a.create_qp(options);
    options.pd = pd_b;
    qb = &b.create_qp(options);
    qa->connect(*qb);
    qb->connect(*qa);
    src.fill(3);
  }
  void SetUp() override { connect(); }

  static void expect(const Wc& wc, std::uint8_t opcode, std::uint8_t status = TERN_CQE_SUCCESS) {
    EXPECT_EQ(wc.opcode, opcode);
    EXPECT_EQ(wc.status, status) << status_name(wc.status);
  }
  // Registers the region and waits for the completion.
  static void open(TestQp& qp, FastMr& fast, std::uint32_t access = kAllAccess) {
    qp.post(reg_mr(fast, access));
    expect(qp.wait_send(), TERN_WR_REG_MR);
  }
  static tern_rsp_mr query(TestNode& node, const FastMr& fast) {
    const auto rsp =
        node.query<tern_rsp_mr>(TERN_CMD_QUERY_MR, tern_cmd_object{le(fast.mr.key), 0});
    return rsp;
  }
  static bool is_open(TestNode& node, const FastMr& fast) {
    return query(node, fast).state == TERN_KEY_ST_VALID;
  }
  static bool untouched(std::span<const std::byte> bytes) {
    return std::ranges::all_of(bytes, [](std::byte x) { return x == std::byte{0}; });
  }
  // Loses `count` frames from node `from` with this opcode, after the first `skip` of them.
  void lose(unsigned from, Op op, int skip, int count = 1) {
    sim.pass = [=](unsigned node, std::span<const std::byte> f) mutable {
      if (node != from || f[62] != static_cast<std::byte>(op)) return true;
      if (skip-- > 0) return true;
      return count-- <= 0;
    };
  }
};

// ---- REG_MR ----

TEST_F(RcFastReg, PeerUsesWhatWasRegistered) {
  open(*qb, fast_b);
  qa->post(write({src.sge()}, fast_b.mr));
  expect(qa->wait_send(), TERN_WR_RDMA_WRITE);
  EXPECT_TRUE(same_bytes(fast_b.mr.bytes(), src.bytes()));
  fast_b.mr.fill(8);
  qa->post(read({src.sge()}, fast_b.mr));
  expect(qa->wait_send(), TERN_WR_RDMA_READ);
  EXPECT_TRUE(same_bytes(fast_b.mr.bytes(), src.bytes()));
  fast_b.mr.put(64, le(std::uint64_t{5}));
  qa->post(fetch_add(src.sge(0, 8), fast_b.mr, 64, 2));
  expect(qa->wait_send(), TERN_WR_ATOMIC_FETCH_AND_ADD);
  EXPECT_EQ(fast_b.mr.get<std::uint64_t>(64), le(std::uint64_t{7}));
}

TEST_F(RcFastReg, RightsAreThoseOfTheSegment) {
  open(*qb, fast_b, TERN_ACCESS_REMOTE_READ);
  qa->post(read({src.sge()}, fast_b.mr));
  expect(qa->wait_send(), TERN_WR_RDMA_READ);
  qa->post(write({src.sge(0, 1)}, fast_b.mr));
  expect(qa->wait_send(), TERN_WR_RDMA_WRITE, TERN_CQE_REM_ACCESS_ERR);
}

// Without a fence and with one doorbell, the WQE after REG_MR can use the key.
TEST_F(RcFastReg, NextWqeHasTheKey) {
  fast_a.mr.fill(4);
  qb->post_recv({dst.sge()});
  qa->post(reg_mr(fast_a), false);
  qa->post(send({fast_a.mr.sge(0, 9000)}), false);
  qa->post(read({fast_a.mr.sge()}, dst), false);
  qa->ring();
  expect(qa->wait_send(), TERN_WR_REG_MR);
  expect(qa->wait_send(), TERN_WR_SEND);
  expect(qa->wait_send(), TERN_WR_RDMA_READ);
  EXPECT_TRUE(same_bytes(dst.bytes(), fast_a.mr.bytes()));
}

TEST_F(RcFastReg, UnsignaledIsSilent) {
  qa->post(reg_mr(fast_a).unsignaled());
  qa->post(local_inv(fast_a.mr.key).unsignaled());
  qa->post(SendWr{.opcode = TERN_WR_NOP, .wr_id = 3});
  const Wc wc = qa->wait_send();
  EXPECT_EQ(le(wc.wr_id), 3U);
  EXPECT_EQ(le(wc.wqe_index), 2U);
  EXPECT_FALSE(is_open(a, fast_a));
}

TEST_F(RcFastReg, RefusedRegistrationFailsInItsTurn) {
  open(*qa, fast_a);
  src.fill(5);
  qa->post(write({src.sge(0, 9000)}, dst).id(1));
  FastMr again = fast_a;
  qa->post(reg_mr(again).id(2));  // open already
  qa->post(write({src.sge(20000, 100)}, dst, 20000).id(3));
  expect(qa->wait_send(), TERN_WR_RDMA_WRITE);
  Wc wc = qa->wait_send();
  expect(wc, TERN_WR_REG_MR, TERN_CQE_LOC_QP_OP_ERR);
  EXPECT_EQ(le(wc.wr_id), 2U);
  wc = qa->wait_send();
  expect(wc, TERN_WR_RDMA_WRITE, TERN_CQE_WR_FLUSH_ERR);
  sim.run_until_idle();
  EXPECT_TRUE(untouched(dst.bytes(20000, 100))) << "begun behind a failure";
  EXPECT_EQ(qa->query().attr.state, TERN_QPS_ERR);
  EXPECT_EQ(qb->query().attr.state, TERN_QPS_RTS);
  EXPECT_EQ(le(query(a, fast_a).key), fast_a.mr.key);
  EXPECT_TRUE(is_open(a, fast_a));
  EXPECT_THAT(a.async_events(), IsEmpty());
}

TEST_F(RcFastReg, RegistrationNeedsAPrivilegedDomain) {
  const auto [x, y] = rc_pair(a, b);
  (void)y;
  x.post(reg_mr(fast_a));
  expect(x.wait_send(), TERN_WR_REG_MR, TERN_CQE_LOC_QP_OP_ERR);
  EXPECT_FALSE(is_open(a, fast_a));
  const std::uint32_t other = a.alloc_pd(true);
  TestQp& z = a.create_qp({.pd = other});
  TestQp& peer = b.create_qp();
  z.connect(peer);
  peer.connect(z);
  z.post(reg_mr(fast_a));
  expect(z.wait_send(), TERN_WR_REG_MR, TERN_CQE_LOC_QP_OP_ERR);
  EXPECT_FALSE(is_open(a, fast_a));
}

TEST_F(RcFastReg, ListThatCannotBeRead) {
  SendWr wr = reg_mr(fast_a);
  a.host.punch(fast_a.list, 8);
  qa->post(wr);
  expect(qa->wait_send(), TERN_WR_REG_MR, TERN_CQE_LOC_QP_OP_ERR);
  EXPECT_EQ(a.counter(TERN_CNT_DMA_ERRORS), 1U);
  EXPECT_FALSE(is_open(a, fast_a));
}

TEST_F(RcFastReg, SegmentBeyondTheSlot) {
  connect({.log_sq_stride = 6});
  qa->post(local_inv(0), false);
  auto hdr = qa->memory().get<tern_sq_hdr>(0);
  hdr.opcode = TERN_WR_REG_MR;
  qa->memory().put(0, hdr);
  qa->ring();
  expect(qa->wait_send(), TERN_WR_REG_MR, TERN_CQE_LOC_QP_OP_ERR);
}

TEST_F(RcFastReg, FlushedWorkChangesNoKey) {
  EXPECT_EQ(qa->to_state(TERN_QPS_ERR), TERN_ST_OK);
  qa->post(reg_mr(fast_a));
  expect(qa->wait_send(), TERN_WR_REG_MR, TERN_CQE_WR_FLUSH_ERR);
  EXPECT_FALSE(is_open(a, fast_a));
  a.dereg(fast_a.mr);  // under a variant that was never valid
}

TEST_F(RcFastReg, WaitsWhileDraining) {
  EXPECT_EQ(qa->to_state(TERN_QPS_SQD), TERN_ST_OK);
  qa->post(reg_mr(fast_a));
  sim.run_until_idle();
  EXPECT_FALSE(is_open(a, fast_a));
  EXPECT_EQ(qa->to_state(TERN_QPS_RTS), TERN_ST_OK);
  expect(qa->wait_send(), TERN_WR_REG_MR);
  EXPECT_TRUE(is_open(a, fast_a));
}

// ---- LOCAL_INV ----

TEST_F(RcFastReg, LocalInvalidateWaitsForAllBeforeIt) {
  open(*qa, fast_a);
  dst.fill(11);
  const std::vector<std::byte> before(dst.bytes().begin(), dst.bytes().end());
  sim.wire.bits_per_ns = 1;
  lose(0, Op::kWriteMiddle, 5);
  qb->post_recv({dst.sge()});
  qa->post(read({fast_a.mr.sge()}, dst), false);
  qa->post(write({fast_a.mr.sge()}, dst).with(TERN_WQE_F_FENCE), false);
  qa->post(send({fast_a.mr.sge(0, 5000)}), false);
  qa->post(local_inv(fast_a.mr.key), false);
  qa->post(write({src.sge(0, 100)}, dst), false);
  qa->ring();
  expect(qa->wait_send(), TERN_WR_RDMA_READ);
  EXPECT_TRUE(is_open(a, fast_a));
  expect(qa->wait_send(), TERN_WR_RDMA_WRITE);
  expect(qa->wait_send(), TERN_WR_SEND);
  expect(qa->wait_send(), TERN_WR_LOCAL_INV);
  EXPECT_FALSE(is_open(a, fast_a));
  expect(qa->wait_send(), TERN_WR_RDMA_WRITE);
  EXPECT_TRUE(same_bytes(fast_a.mr.bytes(), before));
  EXPECT_TRUE(same_bytes(dst.bytes(100, kLength - 100), fast_a.mr.bytes(100, kLength - 100)));
  EXPECT_GT(b.counter(TERN_CNT_OUT_OF_SEQUENCE), 0U);
}

TEST_F(RcFastReg, KeyIsGoneBehindLocalInvalidate) {
  open(*qa, fast_a);
  qa->post(local_inv(fast_a.mr.key));
  qa->post(write({fast_a.mr.sge(0, 8)}, dst));
  expect(qa->wait_send(), TERN_WR_LOCAL_INV);
  expect(qa->wait_send(), TERN_WR_RDMA_WRITE, TERN_CQE_LOC_PROT_ERR);
}

TEST_F(RcFastReg, PeerFindsTheKeyGone) {
  open(*qb, fast_b);
  qb->post(local_inv(fast_b.mr.key));
  expect(qb->wait_send(), TERN_WR_LOCAL_INV);
  qa->post(write({src.sge(0, 8)}, fast_b.mr));
  expect(qa->wait_send(), TERN_WR_RDMA_WRITE, TERN_CQE_REM_ACCESS_ERR);
  EXPECT_TRUE(untouched(fast_b.mr.bytes()));
}

TEST_F(RcFastReg, StaleVariantIsRefused) {
  open(*qb, fast_b);
  const TestMr stale = fast_b.mr;
  qb->post(local_inv(fast_b.mr.key));
  expect(qb->wait_send(), TERN_WR_LOCAL_INV);
  open(*qb, fast_b);
  qa->post(write({src.sge(0, 8)}, stale));
  expect(qa->wait_send(), TERN_WR_RDMA_WRITE, TERN_CQE_REM_ACCESS_ERR);
  EXPECT_TRUE(untouched(fast_b.mr.bytes()));
}

TEST_F(RcFastReg, LocalInvalidateRefuses) {
  FastMr closed = a.alloc_fast(1, pd_a);
  FastMr foreign = a.alloc_fast(1, a.alloc_pd(true));
  for (const std::uint32_t key :
       {0U, std::uint32_t{TERN_LKEY_DMA}, src.key, closed.mr.key, foreign.mr.key, 0xffffffffU}) {
    connect();
    qa->post(local_inv(key));
    expect(qa->wait_send(), TERN_WR_LOCAL_INV, TERN_CQE_LOC_QP_OP_ERR);
    EXPECT_EQ(qa->query().attr.state, TERN_QPS_ERR);
  }
  connect();
  open(*qa, fast_a);
  qa->post(local_inv(fast_a.mr.key ^ 1));
  expect(qa->wait_send(), TERN_WR_LOCAL_INV, TERN_CQE_LOC_QP_OP_ERR);
  EXPECT_TRUE(is_open(a, fast_a));
  const auto [x, y] = rc_pair(a, b);  // a QP in a user's PD does not reach it
  (void)y;
  x.post(local_inv(fast_a.mr.key));
  expect(x.wait_send(), TERN_WR_LOCAL_INV, TERN_CQE_LOC_QP_OP_ERR);
  EXPECT_TRUE(is_open(a, fast_a));
  connect();
  qa->post(local_inv(fast_a.mr.key).with(TERN_WQE_F_INLINE));
  expect(qa->wait_send(), TERN_WR_LOCAL_INV, TERN_CQE_LOC_QP_OP_ERR);
}

// ---- SEND_WITH_INV ----

TEST_F(RcFastReg, PeerInvalidates) {
  for (const std::uint32_t len : {0U, 1U, 1024U, 1025U, 5000U}) {
    open(*qb, fast_b);
    qb->post_recv({dst.sge()}, len);
    qa->post(send_inv({src.sge(0, len)}, fast_b.mr.key).with(TERN_WQE_F_SOLICITED));
    expect(qa->wait_send(), TERN_WR_SEND_WITH_INV);
    const Wc wc = qb->wait_recv();
    expect(wc, TERN_RECV_SEND);
    EXPECT_EQ(wc.flags, TERN_CQE_F_RECV | TERN_CQE_F_INV | TERN_CQE_F_SOLICITED);
    EXPECT_EQ(le(wc.inv_rkey), fast_b.mr.key);
    EXPECT_EQ(le(wc.byte_len), len);
    EXPECT_EQ(le(wc.wr_id), len);
    EXPECT_TRUE(same_bytes(dst.bytes(0, len), src.bytes(0, len)));
    EXPECT_FALSE(is_open(b, fast_b));
  }
  open(*qb, fast_b);
  qb->post_recv({dst.sge()});
  SendWr wr = send_inline(src.bytes(100, 60));
  wr.opcode = TERN_WR_SEND_WITH_INV;
  wr.inv_rkey = fast_b.mr.key;
  qa->post(wr);
  expect(qa->wait_send(), TERN_WR_SEND_WITH_INV);
  EXPECT_EQ(le(qb->wait_recv().inv_rkey), fast_b.mr.key);
  EXPECT_TRUE(same_bytes(dst.bytes(0, 60), src.bytes(100, 60)));
}

// The receive buffer may lie in the region that is invalidated: the payload is stored first.
TEST_F(RcFastReg, PayloadIntoTheRegionThatGoes) {
  open(*qb, fast_b);
  qb->post_recv({fast_b.mr.sge()});
  qa->post(send_inv({src.sge(0, 5000)}, fast_b.mr.key));
  expect(qb->wait_recv(), TERN_RECV_SEND);
  EXPECT_TRUE(same_bytes(fast_b.mr.bytes(0, 5000), src.bytes(0, 5000)));
  EXPECT_FALSE(is_open(b, fast_b));
}

TEST_F(RcFastReg, InvalidatesWithTheLastPacket) {
  open(*qb, fast_b);
  qb->post_recv({dst.sge()});
  lose(0, Op::kSendLastInv, 0);
  qa->post(send_inv({src.sge(0, 5000)}, fast_b.mr.key));
  sim.run_for(1'000'000);
  EXPECT_TRUE(same_bytes(dst.bytes(0, 4096), src.bytes(0, 4096)));
  EXPECT_TRUE(is_open(b, fast_b)) << "the last packet has not come";
  expect(qb->wait_recv(), TERN_RECV_SEND);
  EXPECT_FALSE(is_open(b, fast_b));
}

// The ACK is lost, and the key is registered again: the repeated request must not invalidate it.
TEST_F(RcFastReg, DuplicateInvalidatesNothing) {
  open(*qb, fast_b);
  const std::uint32_t key = fast_b.mr.key;
  qb->post_recv({dst.sge()}, 1);
  qb->post_recv({dst.sge()}, 2);
  lose(1, Op::kAck, 0);
  qa->post(send_inv({src.sge(0, 100)}, key));
  expect(qb->wait_recv(), TERN_RECV_SEND);
  SendWr again = reg_mr(fast_b);
  fast_b.mr.key = key;
  again.reg.key = le(key);
  qb->post(again);
  expect(qb->wait_send(), TERN_WR_REG_MR);
  expect(qa->wait_send(), TERN_WR_SEND_WITH_INV);
  EXPECT_GT(b.counter(TERN_CNT_DUPLICATE_REQUEST), 0U);
  EXPECT_TRUE(is_open(b, fast_b));
  sim.run_until_idle();
  EXPECT_FALSE(qb->recv_cq().poll());
}

TEST_F(RcFastReg, NoReceiveNoInvalidation) {
  open(*qb, fast_b);
  qa->post(send_inv({src.sge(0, 100)}, fast_b.mr.key));
  sim.run_until([&] { return b.counter(TERN_CNT_OUT_OF_BUFFER) > 2; });
  EXPECT_TRUE(is_open(b, fast_b));
  qb->post_recv({dst.sge()});
  expect(qa->wait_send(), TERN_WR_SEND_WITH_INV);
  EXPECT_EQ(le(qb->wait_recv().inv_rkey), fast_b.mr.key);
  EXPECT_FALSE(is_open(b, fast_b));
}

TEST_F(RcFastReg, RemoteInvalidateRefuses) {
  FastMr closed = b.alloc_fast(1, pd_b);
  FastMr priv = b.alloc_fast(16, pd_b);
  const auto refused = [&](std::uint32_t key) {
    connect();
    qb->post_recv({dst.sge()}, 5);
    qb->post_recv({dst.sge()}, 6);
    qa->post(send_inv({src.sge(0, 100)}, key));
    expect(qa->wait_send(), TERN_WR_SEND_WITH_INV, TERN_CQE_REM_INV_REQ_ERR);
    Wc wc = qb->wait_recv();
    expect(wc, TERN_RECV_SEND, TERN_CQE_REM_INV_REQ_ERR);
    EXPECT_EQ(le(wc.wr_id), 5U);
    EXPECT_EQ(wc.flags, TERN_CQE_F_RECV);
    EXPECT_EQ(qb->wait_recv().status, TERN_CQE_WR_FLUSH_ERR);
    sim.run_until_idle();
    EXPECT_EQ(qa->query().attr.state, TERN_QPS_ERR);
    EXPECT_EQ(qb->query().attr.state, TERN_QPS_ERR);
    EXPECT_THAT(a.async_events(), IsEmpty());
    EXPECT_THAT(b.async_events(), IsEmpty());
  };
  open(*qb, fast_b);
  open(*qb, priv, TERN_ACCESS_LOCAL_WRITE);
  for (const std::uint32_t key : {0U, std::uint32_t{TERN_LKEY_DMA}, dst.key, closed.mr.key,
                                  fast_b.mr.key ^ 1, priv.mr.key, 0xffffffffU}) {
    refused(key);
  }
  EXPECT_TRUE(is_open(b, fast_b));
  EXPECT_TRUE(is_open(b, priv));
  // A QP in another PD.
  pd_b = b.alloc_pd(true);
  TestMr& there = b.reg(4096, {.pd = pd_b});
  connect();
  qb->post_recv({there.sge()});
  qa->post(send_inv({src.sge(0, 100)}, fast_b.mr.key));
  expect(qa->wait_send(), TERN_WR_SEND_WITH_INV, TERN_CQE_REM_INV_REQ_ERR);
  EXPECT_TRUE(is_open(b, fast_b));
  // A message that does not fit its receive buffer invalidates nothing.
  FastMr mine = b.alloc_fast(16, pd_b);
  connect();
  open(*qb, mine);
  qb->post_recv({there.sge(0, 10)});
  qa->post(send_inv({src.sge(0, 100)}, mine.mr.key));
  expect(qb->wait_recv(), TERN_RECV_SEND, TERN_CQE_LOC_LEN_ERR);
  EXPECT_TRUE(is_open(b, mine));
}

// ---- accesses in progress ----

TEST_F(RcFastReg, ReadUnderWayIsCutOff) {
  open(*qb, fast_b);
  fast_b.mr.fill(6);
  std::ranges::fill(src.bytes(), std::byte{0});
  sim.budget = 2048;
  sim.turn_time = 100'000;
  qa->post(read({src.sge()}, fast_b.mr));
  sim.run_until([&] { return src.bytes()[0] != std::byte{0}; });
  qb->post(local_inv(fast_b.mr.key));
  expect(qb->wait_send(), TERN_WR_LOCAL_INV);
  std::ranges::fill(fast_b.mr.bytes(), std::byte{0xee});  // the memory has a new use now
  expect(qa->wait_send(), TERN_WR_RDMA_READ, TERN_CQE_REM_ACCESS_ERR);
  const auto got = src.bytes();
  EXPECT_NE(got[0], std::byte{0}) << "the test cut too early";
  EXPECT_EQ(got[kLength - 1], std::byte{0});
  const auto leaked = std::search_n(got.begin(), got.end(), 64, std::byte{0xee});
  EXPECT_EQ(leaked, got.end());
  const auto events = b.async_events();
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(le(events[0].type), TERN_EV_QP_ACCESS_ERR);
}

TEST_F(RcFastReg, WriteUnderWayIsCutOff) {
  open(*qb, fast_b);
  sim.wire.bits_per_ns = 1;
  qa->post(write({src.sge()}, fast_b.mr));
  sim.run_for(200'000);
  qb->post(local_inv(fast_b.mr.key));
  expect(qb->wait_send(), TERN_WR_LOCAL_INV);
  const std::vector<std::byte> then(fast_b.mr.bytes().begin(), fast_b.mr.bytes().end());
  expect(qa->wait_send(), TERN_WR_RDMA_WRITE, TERN_CQE_REM_ACCESS_ERR);
  sim.run_until_idle();
  EXPECT_EQ(then[0], src.bytes()[0]) << "the test cut too early";
  EXPECT_TRUE(same_bytes(fast_b.mr.bytes(), then));
  EXPECT_TRUE(untouched(fast_b.mr.bytes(kLength - 4096, 4096)));
}

// ---- objects ----

TEST_F(RcFastReg, DestroyedOpen) {
  const tern_rsp_objects before = b.objects();
  FastMr fast = b.alloc_fast(16, pd_b);
  EXPECT_EQ(le(b.objects().mr), le(before.mr) + 1);
  EXPECT_EQ(le(b.objects().page_entries), le(before.page_entries) + 16);
  open(*qb, fast);
  b.dereg(fast.mr);
  EXPECT_EQ(le(b.objects().mr), le(before.mr));
  EXPECT_EQ(le(b.objects().page_entries), le(before.page_entries));
  qa->post(write({src.sge(0, 8)}, fast.mr));
  expect(qa->wait_send(), TERN_WR_RDMA_WRITE, TERN_CQE_REM_ACCESS_ERR);
  EXPECT_TRUE(untouched(fast.mr.bytes()));
}

TEST_F(RcFastReg, HoldsItsDomain) {
  const std::uint32_t pd = a.alloc_pd(true);
  FastMr fast = a.alloc_fast(1, pd);
  EXPECT_EQ(a.command(TERN_CMD_FREE_PD, tern_cmd_object{le(pd), 0}), TERN_ST_BUSY);
  a.dereg(fast.mr);
  a.destroy(TERN_CMD_FREE_PD, pd);
}

// A storage protocol on a bad wire: the host registers memory and sends a command, the target reads
// or writes with the key and answers with SEND_WITH_INV. Every round has another key.
TEST_F(RcFastReg, StorageProtocolUnderLoss) {
  sim.wire = {.loss = 0.03, .duplicate = 0.02, .corrupt = 0.01, .reorder = 0.02};
  for (unsigned round = 0; round < 150; ++round) {
    const auto len = static_cast<std::uint32_t>(1 + round * 397 % kLength);
    const bool to_target = round % 2 == 0;
    fast_a.mr.fill(round);
    dst.fill(round + 1000);
    qb->post_recv({dst.sge(0, 64)}, round);
    qa->post_recv({src.sge(0, 64)}, round);
    qa->post(reg_mr(fast_a).unsignaled(), false);
    qa->post(send({src.sge(100, 64)}), false);
    qa->ring();
    expect(qb->wait_recv(), TERN_RECV_SEND);
    dst.fill(round + 1000);
    if (to_target) {
      qb->post(read({dst.sge(0, len)}, fast_a.mr));
      expect(qb->wait_send(), TERN_WR_RDMA_READ);
      qb->post(send_inv({dst.sge(0, 16)}, fast_a.mr.key));
    } else {
      qb->post(write({dst.sge(0, len)}, fast_a.mr).unsignaled(), false);
      qb->post(send_inv({dst.sge(0, 16)}, fast_a.mr.key), false);
      qb->ring();
    }
    const Wc wc = qa->wait_recv();
    expect(wc, TERN_RECV_SEND);
    EXPECT_EQ(wc.flags, TERN_CQE_F_RECV | TERN_CQE_F_INV);
    EXPECT_EQ(le(wc.inv_rkey), fast_a.mr.key);
    EXPECT_TRUE(same_bytes(fast_a.mr.bytes(0, len), dst.bytes(0, len)));
    expect(qb->wait_send(), TERN_WR_SEND_WITH_INV);
    expect(qa->wait_send(), TERN_WR_SEND);
    ASSERT_FALSE(HasFailure()) << "round " << round;
  }
  EXPECT_GT(sim.stats.lost, 50U);
}

}  // namespace
}  // namespace tern

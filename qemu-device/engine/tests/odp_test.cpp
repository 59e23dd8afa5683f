// SPDX-License-Identifier: GPL-2.0-or-later
// On-demand paging: an access to an absent page parks the requester or responder of the QP, is
// reported once, and resumes where it stopped when software says so.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/pager.h"

namespace tern {
namespace {

using ::testing::IsEmpty;

std::vector<std::byte> pattern(std::size_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::byte> bytes(n);
  for (auto& b : bytes) b = static_cast<std::byte>(random());
  return bytes;
}

class Odp : public ::testing::Test {
 protected:
  static constexpr std::uint32_t kLen = 1 << 16;
  Sim sim{42};
  TestNode a{sim};
  TestNode b{sim};
  OnDemandMr src{a, kLen};
  OnDemandMr dst{b, kLen, 0, kAllAccess | TERN_ACCESS_MW_BIND};
  TestMr& near = a.reg(kLen);
  TestMr& far = b.reg(kLen);
  Pager pa{a};
  Pager pb{b};
  TestQp* qa = nullptr;
  TestQp* qb = nullptr;

  void SetUp() override {
    pa.add(src);
    pb.add(dst);
    src.write(0, pattern(kLen, 1));
    dst.write(0, pattern(kLen, 2));
    near.fill(3);
    far.fill(4);
    // No retries: a fault must not cost any.
    connect({.timeout = 1, .retry_cnt = 0});
  }
  void connect(const QpOptions& options) {
    const auto [x, y] = rc_pair(a, b, options);
    qa = &x;
    qb = &y;
    (void)a.async_events();
    (void)b.async_events();
  }
  void settle() { sim.run_for(200'000'000); }
  // Expects one fault in the queue of `pager`, at offset `at` of `mr`.
  tern_fault expect_fault(Pager& pager, const OnDemandMr& mr, const TestQp& qp, std::uint8_t side,
                          bool write, std::uint64_t at) {
    settle();
    pager.collect();
    EXPECT_EQ(pager.faults.size(), 1U);
    if (pager.faults.empty()) return {};
    const tern_fault f = pager.faults[0];
    EXPECT_EQ(le(f.key), mr.key());
    EXPECT_EQ(le(f.qpn), qp.number());
    EXPECT_EQ(le(f.addr), mr.mr.iova + at);
    EXPECT_EQ(f.side, side);
    EXPECT_EQ(f.write, write);
    EXPECT_EQ(f.port, 1);
    return f;
  }
  void expect_no_retries() {
    for (TestNode* const n : {&a, &b}) {
      EXPECT_EQ(n->counter(TERN_CNT_LOCAL_ACK_TIMEOUT_ERR), 0U);
      EXPECT_EQ(n->counter(TERN_CNT_PACKET_SEQ_ERR), 0U);
      EXPECT_EQ(n->counter(TERN_CNT_IMPLIED_NAK_SEQ_ERR), 0U);
      EXPECT_EQ(n->objects().parked, 0U);
    }
  }
  void finish() {
    for (int i = 0; i < 100; ++i) {
      pa.resolve_all();
      pb.resolve_all();
      sim.run_for(1'000'000);
    }
  }
};

TEST_F(Odp, ASendThatCannotBeRead) {
  TestMr& to = b.reg(kLen);
  qb->post_recv({to.sge()});
  qa->post(send({src.sge(100, 20000)}).id(1));
  const tern_fault f = expect_fault(pa, src, *qa, TERN_FAULT_REQUESTER, false, 100);
  EXPECT_EQ(le(a.objects().parked), 1U);
  EXPECT_GT(le(f.length), 0U);
  // Other QPs make progress.
  const auto [qc, qd] = rc_pair(a, b);
  qc.post(write({near.sge(0, 100)}, far));
  EXPECT_EQ(qc.wait_send().status, TERN_CQE_SUCCESS);
  EXPECT_FALSE(qa->send_cq().poll());
  finish();
  EXPECT_EQ(qa->wait_send().status, TERN_CQE_SUCCESS);
  EXPECT_EQ(qb->wait_recv().status, TERN_CQE_SUCCESS);
  EXPECT_TRUE(same_bytes(to.bytes(0, 20000), src.read(100, 20000)));
  expect_no_retries();
}

TEST_F(Odp, OneFaultForEachPageWhereNoMoreIsResolved) {
  pa.whole = false;
  qa->post(write({src.sge(4000, 20000)}, far));
  finish();
  EXPECT_EQ(qa->wait_send().status, TERN_CQE_SUCCESS);
  EXPECT_EQ(pa.taken, 6U);
  EXPECT_EQ(a.counter(TERN_CNT_PAGE_FAULTS), 6U);
  EXPECT_TRUE(same_bytes(far.bytes(0, 20000), src.read(4000, 20000)));
  expect_no_retries();
}

TEST_F(Odp, TheSendFails) {
  qa->post(write({near.sge(0, 8)}, far).id(1));
  qa->post(write({src.sge(0, 8)}, far).id(2));
  (void)expect_fault(pa, src, *qa, TERN_FAULT_REQUESTER, false, 0);
  EXPECT_EQ(qa->wait_send().status, TERN_CQE_SUCCESS);
  EXPECT_EQ(pa.resolve(0, TERN_RESUME_FAIL), TERN_ST_OK);
  EXPECT_EQ(qa->wait_send().status, TERN_CQE_LOC_PROT_ERR);
  EXPECT_EQ(qa->query().attr.state, TERN_QPS_ERR);
  expect_no_retries();
}

TEST_F(Odp, AWriteToAnAbsentPage) {
  qa->post(write({near.sge(0, 30000)}, dst.mr, 100).id(1));
  qa->post(write({near.sge(0, 10)}, far).id(2));
  const tern_fault f = expect_fault(pb, dst, *qb, TERN_FAULT_RESPONDER, true, 100);
  EXPECT_EQ(le(f.length), 30000U) << "all that the message will need";
  finish();
  EXPECT_EQ(pb.taken, 1U);
  EXPECT_EQ(qa->wait_send().status, TERN_CQE_SUCCESS);
  EXPECT_EQ(qa->wait_send().status, TERN_CQE_SUCCESS);
  EXPECT_TRUE(same_bytes(dst.read(100, 30000), near.bytes(0, 30000)));
  EXPECT_EQ(b.counter(TERN_CNT_OUT_OF_BUFFER), 0U);
  expect_no_retries();
}

TEST_F(Odp, AReadOnlyPageIsAbsentToAWriter) {
  dst.populate(0, 16, false);
  qa->post(read({near.sge(0, 5000)}, dst.mr, 0));
  EXPECT_EQ(qa->wait_send().status, TERN_CQE_SUCCESS);
  EXPECT_TRUE(same_bytes(near.bytes(0, 5000), dst.read(0, 5000)));
  qa->post(write({near.sge(0, 5)}, dst.mr, 0));
  (void)expect_fault(pb, dst, *qb, TERN_FAULT_RESPONDER, true, 0);
  finish();
  EXPECT_EQ(qa->wait_send().status, TERN_CQE_SUCCESS);
}

TEST_F(Odp, TheWriteFails) {
  qa->post(write({near.sge(0, 3000)}, dst.mr));
  (void)expect_fault(pb, dst, *qb, TERN_FAULT_RESPONDER, true, 0);
  EXPECT_EQ(pb.resolve(0, TERN_RESUME_FAIL), TERN_ST_OK);
  EXPECT_EQ(qa->wait_send().status, TERN_CQE_REM_ACCESS_ERR);
  EXPECT_EQ(qb->query().attr.state, TERN_QPS_ERR);
  const auto events = b.async_events();
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(le(events[0].type), TERN_EV_QP_ACCESS_ERR);
}

TEST_F(Odp, AReceiveThatCannotBeWritten) {
  qb->post_recv({dst.sge(50, 30000)}, 7);
  qb->post_recv({far.sge()}, 8);
  qa->post(send({near.sge(0, 30000)}));
  qa->post(send({near.sge(0, 30)}));
  (void)expect_fault(pb, dst, *qb, TERN_FAULT_RESPONDER, true, 50);
  finish();
  for (const std::uint64_t id : {7U, 8U}) {
    const Wc wc = qb->wait_recv();
    EXPECT_EQ(wc.status, TERN_CQE_SUCCESS);
    EXPECT_EQ(le(wc.wr_id), id) << "the WQE that was taken is used";
  }
  EXPECT_TRUE(same_bytes(dst.read(50, 30000), near.bytes(0, 30000)));
  EXPECT_EQ(b.counter(TERN_CNT_OUT_OF_BUFFER), 0U);
  expect_no_retries();
}

TEST_F(Odp, TheReceiveFails) {
  qb->post_recv({dst.sge(0, 100)}, 7);
  qa->post(send({near.sge(0, 100)}));
  (void)expect_fault(pb, dst, *qb, TERN_FAULT_RESPONDER, true, 0);
  EXPECT_EQ(pb.resolve(0, TERN_RESUME_FAIL), TERN_ST_OK);
  EXPECT_EQ(qb->wait_recv().status, TERN_CQE_LOC_PROT_ERR);
  EXPECT_EQ(qa->wait_send().status, TERN_CQE_REM_OP_ERR);
}

// Both ends of a READ fault, and the requests behind it wait.
TEST_F(Odp, ReadsFaultAtBothEnds) {
  pa.whole = pb.whole = false;
  qa->post(read({src.sge(10, 30000)}, dst.mr, 20).id(1));
  qa->post(fetch_add(src.sge(40000, 8), dst.mr, 40000, 3).id(2));
  qa->post(read({src.sge(50000, 3000)}, dst.mr, 50000).id(3));
  const auto word = dst.read(40000, 8);
  finish();
  for (std::uint64_t id = 1; id <= 3; ++id) {
    const Wc wc = qa->wait_send();
    EXPECT_EQ(wc.status, TERN_CQE_SUCCESS) << status_name(wc.status);
    EXPECT_EQ(le(wc.wr_id), id);
  }
  EXPECT_TRUE(same_bytes(src.read(10, 30000), dst.read(20, 30000)));
  EXPECT_EQ(src.read(40000, 8), word);
  EXPECT_EQ(src.read(50000, 3000), dst.read(50000, 3000));
  EXPECT_GT(pa.taken, 8U);
  EXPECT_GT(pb.taken, 8U);
  EXPECT_EQ(a.counter(TERN_CNT_LOCAL_ACK_TIMEOUT_ERR), 0U);
}

TEST_F(Odp, TheReadFailsAtItsSource) {
  dst.populate(0, 2);
  qa->post(read({near.sge(0, 20000)}, dst.mr));
  (void)expect_fault(pb, dst, *qb, TERN_FAULT_RESPONDER, false, 8192);
  EXPECT_EQ(pb.resolve(0, TERN_RESUME_FAIL), TERN_ST_OK);
  EXPECT_EQ(qa->wait_send().status, TERN_CQE_REM_ACCESS_ERR);
}

TEST_F(Odp, TheReadFailsAtItsTarget) {
  qa->post(read({src.sge(0, 20000)}, far));
  (void)expect_fault(pa, src, *qa, TERN_FAULT_REQUESTER, true, 0);
  EXPECT_EQ(pa.resolve(0, TERN_RESUME_FAIL), TERN_ST_OK);
  EXPECT_EQ(qa->wait_send().status, TERN_CQE_LOC_PROT_ERR);
}

// A fault that takes a minute to resolve, far longer than all retries, costs no retry and no
// packet.
TEST_F(Odp, NobodyLosesPatience) {
  qa->post(write({near.sge(0, 5000)}, far).id(1));
  qa->post(write({src.sge(0, 5000)}, far).id(2));
  qa->post(write({near.sge(0, 5000)}, dst.mr).id(3));
  sim.run_for(60'000'000'000);
  EXPECT_EQ(qa->wait_send().status, TERN_CQE_SUCCESS);
  pa.resolve_all();
  sim.run_for(10'000'000'000);
  pb.collect();
  EXPECT_EQ(pb.faults.size(), 1U) << "repeated requests are no new faults";
  finish();
  EXPECT_EQ(qa->wait_send().status, TERN_CQE_SUCCESS);
  EXPECT_EQ(qa->wait_send().status, TERN_CQE_SUCCESS);
  expect_no_retries();
}

TEST_F(Odp, TheEndOfTheQpEndsItsFaults) {
  for (const int state : {TERN_QPS_ERR, TERN_QPS_RESET, 255}) {
    connect({});
    qa->post(write({src.sge(0, 8)}, far));
    qb->post(write({dst.sge(0, 8)}, near));
    settle();
    pa.collect();
    ASSERT_EQ(pa.faults.size(), 1U);
    const tern_fault fault = pa.faults[0];
    pa.faults.clear();
    EXPECT_EQ(le(a.objects().parked), 1U);
    if (state == 255) {
      a.destroy(*qa);
    } else {
      EXPECT_EQ(qa->to_state(static_cast<std::uint8_t>(state)), TERN_ST_OK);
    }
    EXPECT_EQ(le(a.objects().parked), 0U);
    EXPECT_EQ(pa.resume(fault), state == 255 ? TERN_ST_BAD_HANDLE : TERN_ST_BAD_STATE);
    settle();
  }
}

TEST_F(Odp, StaleTokens) {
  qa->post(write({src.sge(0, 8)}, far));
  tern_fault fault = expect_fault(pa, src, *qa, TERN_FAULT_REQUESTER, false, 0);
  fault.token = le(le(fault.token) + 1);
  EXPECT_EQ(pa.resume(fault), TERN_ST_BAD_STATE);
  fault = pa.faults[0];
  fault.side = TERN_FAULT_RESPONDER;
  EXPECT_EQ(pa.resume(fault), TERN_ST_BAD_STATE);
  fault = pa.faults[0];
  EXPECT_EQ(pa.resolve(0), TERN_ST_OK);
  EXPECT_EQ(pa.resume(fault), TERN_ST_BAD_STATE) << "it is over";
  EXPECT_EQ(qa->wait_send().status, TERN_CQE_SUCCESS);
}

// The access is repeated, and may fault again.
TEST_F(Odp, ResumeWithoutAPage) {
  qa->post(write({src.sge(0, 8)}, far));
  const tern_fault first = expect_fault(pa, src, *qa, TERN_FAULT_REQUESTER, false, 0);
  pa.faults.clear();
  EXPECT_EQ(pa.resume(first), TERN_ST_OK);
  const tern_fault second = expect_fault(pa, src, *qa, TERN_FAULT_REQUESTER, false, 0);
  EXPECT_NE(first.token, second.token);
  finish();
  EXPECT_EQ(qa->wait_send().status, TERN_CQE_SUCCESS);
}

// For an access through a window, the fault has the key and an address of the region.
TEST_F(Odp, ThroughAWindow) {
  for (const std::uint32_t zero_based : {0U, std::uint32_t{TERN_ACCESS_ZERO_BASED}}) {
    const tern_cmd_alloc_mw alloc{.pdn = le(b.pd()), .type = 2, .rsvd_5 = {}};
    tern_rsp_object mw{};
    ASSERT_EQ(b.command(TERN_CMD_ALLOC_MW, alloc, &mw), TERN_ST_OK);
    SendWr bind;
    bind.opcode = TERN_WR_BIND_MW;
    bind.bind.rkey = mw.id;
    bind.bind.new_rkey = le(le(mw.id) + 1);
    bind.bind.type = 2;
    bind.bind.lkey = le(dst.key());
    bind.bind.access = le(TERN_ACCESS_REMOTE_WRITE | zero_based);
    bind.bind.addr = le(dst.mr.iova + 9000);
    bind.bind.length = le(std::uint64_t{8000});
    qb->post(bind);
    ASSERT_EQ(qb->wait_send().status, TERN_CQE_SUCCESS);
    TestMr window = dst.mr;
    window.key = le(mw.id) + 1;
    window.iova = zero_based ? 0 : dst.mr.iova + 9000;
    qa->post(write({near.sge(0, 5000)}, window, 100));
    (void)expect_fault(pb, dst, *qb, TERN_FAULT_RESPONDER, true, 9100);
    finish();
    EXPECT_EQ(qa->wait_send().status, TERN_CQE_SUCCESS);
    EXPECT_TRUE(same_bytes(dst.read(9100, 5000), near.bytes(0, 5000)));
    dst.evict(0, 16);
    b.destroy(TERN_CMD_FREE_MW, le(mw.id) + 1);
  }
  expect_no_retries();
}

// Senders do not wait for an unreliable receiver: messages are lost during the fault, and the
// receive WQE serves a later one.
TEST_F(Odp, UnreliableReceivers) {
  for (const int type : {TERN_QPT_UC, TERN_QPT_UD}) {
    connect({.type = static_cast<std::uint8_t>(type)});
    const std::uint64_t lost = b.counter(TERN_CNT_OUT_OF_BUFFER);
    dst.evict(0, 16);
    qb->post_recv({dst.sge(0, 4000)}, 5);
    const auto post = [&] {
      const std::vector<tern_sge> sges{near.sge(0, 1000)};
      qa->post(type == TERN_QPT_UD ? datagram(*qa, *qb, sges) : send(sges));
      EXPECT_EQ(qa->wait_send().status, TERN_CQE_SUCCESS);
    };
    post();
    post();
    (void)expect_fault(pb, dst, *qb, TERN_FAULT_RESPONDER, true, 0);
    EXPECT_EQ(b.counter(TERN_CNT_OUT_OF_BUFFER), lost + 2);
    EXPECT_EQ(pb.resolve(0), TERN_ST_OK);
    post();
    const Wc wc = qb->wait_recv();
    EXPECT_EQ(wc.status, TERN_CQE_SUCCESS);
    EXPECT_EQ(le(wc.wr_id), 5U);
    const std::uint64_t grh = type == TERN_QPT_UD ? 40 : 0;
    EXPECT_TRUE(same_bytes(dst.read(grh, 1000), near.bytes(0, 1000)));
    // A fault that fails.
    dst.evict(0, 16);
    qb->post_recv({dst.sge(0, 4000)}, 6);
    post();
    settle();
    pb.collect();
    ASSERT_EQ(pb.faults.size(), 1U);
    EXPECT_EQ(pb.resolve(0, TERN_RESUME_FAIL), TERN_ST_OK);
    EXPECT_EQ(qb->wait_recv().status, TERN_CQE_LOC_PROT_ERR);
  }
}

TEST_F(Odp, UnreliableSenders) {
  for (const int type : {TERN_QPT_UC, TERN_QPT_UD}) {
    connect({.type = static_cast<std::uint8_t>(type)});
    src.evict(0, 16);
    TestMr& to = b.reg(kLen);
    const std::uint32_t len = type == TERN_QPT_UD ? 2000 : 20000;
    const auto post = [&](std::uint64_t id) {
      qb->post_recv({to.sge()});
      const std::vector<tern_sge> sges{src.sge(3000, len)};
      qa->post((type == TERN_QPT_UD ? datagram(*qa, *qb, sges) : send(sges)).id(id));
    };
    post(1);
    (void)expect_fault(pa, src, *qa, TERN_FAULT_REQUESTER, false, 3000);
    finish();
    EXPECT_EQ(qa->wait_send().status, TERN_CQE_SUCCESS);
    EXPECT_EQ(qb->wait_recv().status, TERN_CQE_SUCCESS);
    EXPECT_TRUE(same_bytes(to.bytes(type == TERN_QPT_UD ? 40 : 0, len), src.read(3000, len)));
    src.evict(0, 16);
    post(2);
    settle();
    pa.collect();
    ASSERT_EQ(pa.faults.size(), 1U);
    EXPECT_EQ(pa.resolve(0, TERN_RESUME_FAIL), TERN_ST_OK);
    EXPECT_EQ(qa->wait_send().status, TERN_CQE_LOC_PROT_ERR);
    EXPECT_EQ(qa->query().attr.state, TERN_QPS_SQE);
  }
}

// Trains of packets that are looped back.
TEST_F(Odp, LoopedBack) {
  OnDemandMr to{a, kLen, 0, kAllAccess, 0x600000000000};
  pa.add(to);
  const auto [qc, qd] = rc_pair(a, a, {.log_mtu = 12, .timeout = 1, .retry_cnt = 0});
  for (const bool whole : {true, false}) {
    pa.whole = whole;
    qc.post(write({src.sge(0, 60000)}, to.mr, 0));
    qc.post(read({src.sge(0, 60000)}, to.mr, 0));
    // A later request may overtake a READ that resumes: a fence keeps the order.
    qc.post(write({src.sge(0, 60000)}, to.mr, 5000).with(TERN_WQE_F_FENCE));
    finish();
    for (int i = 0; i < 3; ++i) EXPECT_EQ(qc.wait_send().status, TERN_CQE_SUCCESS);
    EXPECT_TRUE(same_bytes(to.read(5000, 60000), src.read(0, 60000)));
    src.evict(0, 16);
    to.evict(0, 16);
  }
  expect_no_retries();
}

// The memory of a READ has so few frames that the pages of a train are never all present.
TEST_F(Odp, OnePageAtATimeIsEnoughForARead) {
  TestNode c{sim, {.unfinished_frames = true}};
  TestNode d{sim, {.unfinished_frames = true}};
  sim.whole_trains = true;
  OnDemandMr to{c, kLen};
  TestMr& from = d.reg(kLen);
  from.fill(9);
  Pager pager{c};
  const auto [qc, qd] = rc_pair(c, d, {.timeout = 1, .retry_cnt = 0});
  qc.post(read({to.sge(0, kLen)}, from));
  unsigned faults = 0;
  for (settle(), pager.collect(); !pager.faults.empty(); settle(), pager.collect()) {
    ASSERT_EQ(pager.faults.size(), 1U);
    ASSERT_LT(faults++, 2 * to.pages()) << "no progress";
    const tern_fault fault = pager.faults.front();
    pager.faults.pop_front();
    to.evict(0, to.pages());
    to.populate((le(fault.addr) - to.mr.iova) / OnDemandMr::kPage, 1);
    EXPECT_EQ(pager.resume(fault), TERN_ST_OK);
  }
  EXPECT_EQ(qc.wait_send().status, TERN_CQE_SUCCESS);
  EXPECT_EQ(faults, to.pages());
  EXPECT_TRUE(same_bytes(to.read(0, kLen), from.bytes(0, kLen)));
}

// ---- at random ----

struct StormOptions {
  std::uint8_t type;
  double loss;
  unsigned seed;
};

class OdpStorm : public ::testing::TestWithParam<std::tuple<int, unsigned>> {};

// Pages become present late and absent at any time, at both ends, and yet every message arrives
// once and in order.
TEST_P(OdpStorm, EveryMessageOnceAndInOrder) {
  constexpr unsigned kQps = 3;
  constexpr unsigned kMessages = 80;
  constexpr std::uint32_t kPiece = 24576;
  const auto [kind, seed] = GetParam();
  const bool lossy = kind == 1;
  std::mt19937_64 random(seed);
  Sim sim(seed);
  TestNode a(sim);
  TestNode b(sim);
  sim.budget = 16384;
  sim.turn_time = 500;
  sim.wire.loss = lossy ? 0.02 : 0;
  // Explicit regions, and parts of regions of the whole address space.
  const bool sparse = seed % 4 >= 2;
  OnDemandMr src(a, kPiece * kQps, 0, kAllAccess, 0x7f0000000000, sparse);
  OnDemandMr dst(b, kPiece * kQps, 0, kAllAccess, 0x7f0000000000, sparse);
  OnDemandMr sink(b, kPiece * kQps, 0, kAllAccess, 0x100000000000, sparse);
  Pager pa(a), pb(b);
  pa.add(src);
  pb.add(dst);
  pb.add(sink);
  pa.whole = pb.whole = seed % 2;
  const std::uint32_t xrcd = b.alloc_xrcd();
  struct Link {
    TestQp* qa;
    TestQp* qb;
    TestSrq* srq = nullptr;
    TestCq* cq = nullptr;
    std::uint64_t posted = 0, completed = 0, received = 0;
    std::uint64_t word = 0;  // result of the fetch-adds
    int op = -1;
    std::uint32_t at = 0, len = 0;
    std::vector<std::byte> before{};
  };
  std::vector<Link> links;
  for (unsigned i = 0; i < kQps; ++i) {
    QpOptions options{
        .min_rnr_timer = 3, .timeout = 1, .retry_cnt = static_cast<std::uint8_t>(lossy ? 7 : 0)};
    if (i == kQps - 1) {
      options.type = TERN_QPT_XRC_INI;
      TestQp& x = a.create_qp(options);
      options.type = TERN_QPT_XRC_TGT;
      options.xrcd = xrcd;
      TestCq& cq = b.create_cq();
      TestSrq& srq = b.create_srq({.xrcd = xrcd, .cq = &cq});
      TestQp& y = b.create_qp(options);
      x.connect(y);
      y.connect(x);
      links.push_back({&x, &y, &srq, &cq});
    } else {
      const auto [x, y] = rc_pair(a, b, options);
      links.push_back({&x, &y, nullptr, &y.recv_cq()});
    }
  }
  src.write(0, pattern(kPiece * kQps, seed));
  dst.write(0, pattern(kPiece * kQps, seed + 1));
  const auto begin = [&](Link& l) {
    const auto base = static_cast<std::uint32_t>(&l - links.data()) * kPiece;
    l.at = 64 + static_cast<std::uint32_t>(random() % 8000);
    l.len = static_cast<std::uint32_t>(random() % 14000) + 8;
    l.op = static_cast<int>(random() % 7);
    const std::uint64_t id = ++l.posted;
    const tern_sge sge = src.sge(base + l.at, l.len);
    SendWr wr;
    switch (l.op) {
      case 0: {
        const std::vector<tern_sge> to{sink.sge(base + l.at, l.len)};
        if (l.srq != nullptr) {
          l.srq->post(to, id);
        } else {
          l.qb->post_recv(to, id);
        }
        wr = send({sge});
        break;
      }
      case 1:
        wr = write({sge}, dst.mr, base + l.at);
        break;
      case 2:
        wr = read({sge}, dst.mr, base + l.at);
        break;
      case 3:
        l.before = dst.read(base, 8);
        wr = fetch_add(src.sge(base + 16, 8), dst.mr, base, 1);
        break;
      case 4:
        wr = flush(dst.mr, base, 64);
        break;
      case 5:
        wr = atomic_write(id, dst.mr, base + 32);
        break;
      default:
        if (l.srq != nullptr) {
          l.srq->post({}, id);
        } else {
          l.qb->post_recv({}, id);
        }
        wr = write({sge}, dst.mr, base + l.at).immediate(static_cast<std::uint32_t>(id));
        break;
    }
    wr.wr_id = id;
    if (l.srq != nullptr) wr.xrc_srqn = l.srq->number();
    l.qa->post(wr);
  };
  const auto end = [&](Link& l) {
    const auto base = static_cast<std::uint32_t>(&l - links.data()) * kPiece;
    const auto near = src.read(base + l.at, l.len);
    if (l.op == 0 || l.op == 6) {
      const auto wc = l.cq->poll();
      ASSERT_TRUE(wc);
      EXPECT_EQ(wc->status, TERN_CQE_SUCCESS);
      EXPECT_EQ(le(wc->wr_id), l.posted);
    }
    EXPECT_FALSE(l.cq->poll()) << "received twice";
    if (l.op <= 2 || l.op == 6) {
      EXPECT_EQ(near, (l.op == 0 ? sink : dst).read(base + l.at, l.len));
    }
    if (l.op == 3) {
      EXPECT_EQ(src.read(base + 16, 8), l.before);
      std::uint64_t was, is;
      std::memcpy(&was, l.before.data(), 8);
      std::memcpy(&is, dst.read(base, 8).data(), 8);
      EXPECT_EQ(is, was + 1) << "once";
    }
    if (l.op == 5) {
      std::uint64_t is;
      std::memcpy(&is, dst.read(base + 32, 8).data(), 8);
      EXPECT_EQ(is, l.posted);
    }
  };
  std::uint64_t rounds = 0;
  for (; rounds < 200'000; ++rounds) {
    bool busy = false;
    for (Link& l : links) {
      if (const auto wc = l.qa->send_cq().poll()) {
        ASSERT_EQ(wc->status, TERN_CQE_SUCCESS) << status_name(wc->status) << ", op " << l.op;
        EXPECT_EQ(le(wc->wr_id), ++l.completed);
        end(l);
      }
      if (l.completed == l.posted && l.posted < kMessages) begin(l);
      busy = busy || l.completed < kMessages;
    }
    if (!busy) break;
    sim.run_for(random() % 20'000);
    for (Pager* const p : {&pa, &pb}) {
      p->collect(static_cast<unsigned>(random() % 3));
      if (!p->faults.empty() && random() % 4 == 0) (void)p->resolve(random() % p->faults.size());
    }
    // The host reclaims pages, often those that have just become present.
    if (random() % 3 == 0) {
      OnDemandMr* const mrs[] = {&src, &dst, &sink};
      OnDemandMr& mr = *mrs[random() % 3];
      mr.evict(random() % mr.pages(), 1 + random() % 6);
    }
  }
  for (const Link& l : links) EXPECT_EQ(l.completed, kMessages) << "hangs";
  EXPECT_GT(pa.taken, 60U);
  EXPECT_GT(pb.taken, 60U);
  if (!lossy) {
    for (TestNode* const n : {&a, &b}) {
      EXPECT_EQ(n->counter(TERN_CNT_LOCAL_ACK_TIMEOUT_ERR), 0U);
      EXPECT_EQ(n->counter(TERN_CNT_PACKET_SEQ_ERR), 0U);
    }
  }
  EXPECT_EQ(le(a.objects().parked), 0U);
}

INSTANTIATE_TEST_SUITE_P(Seeds, OdpStorm,
                         ::testing::Combine(::testing::Range(0, 2), ::testing::Range(1U, 9U)));

// More faults than the event queue has entries.
TEST(OdpProperty, DeviceWithoutIt) {
  Sim sim;
  TestNode node(sim, {.odp = false});
  EXPECT_EQ(le(node.caps().flags) & TERN_CAP_ODP, 0U);
  tern_cmd_create_mr create{.length = le(std::uint64_t{4096}),
                            .pdn = le(node.pd()),
                            .access = le(std::uint32_t{TERN_ACCESS_ON_DEMAND}),
                            .flags = TERN_MR_F_INCOMPLETE};
  create.pages = {.num = le(std::uint32_t{1}), .page_shift = 12, .kind = TERN_PAGES_LIST};
  EXPECT_EQ(node.command(TERN_CMD_CREATE_MR, create), TERN_ST_NOT_SUPPORTED);
  TestMr& mr = node.reg(4096);
  EXPECT_EQ(node.rereg(mr, TERN_REREG_TRANS | TERN_REREG_ACCESS,
                       {.access = TERN_ACCESS_ON_DEMAND, .iova = mr.iova}, 4096),
            TERN_ST_NOT_SUPPORTED);
  create.access = 0;
  tern_rsp_object rsp{};
  EXPECT_EQ(node.command(TERN_CMD_CREATE_MR, create, &rsp), TERN_ST_OK);
}

TEST(OdpCrowd, AThousandFaultsAtOnce) {
  constexpr unsigned kQps = 1200;
  Sim sim(5);
  TestNode a(sim);
  TestNode b(sim);
  OnDemandMr src(a, 4096 * kQps);
  OnDemandMr dst(b, 4096 * kQps);
  Pager pa(a, 4), pb(b, 4);
  pa.add(src);
  pb.add(dst);
  src.write(0, pattern(4096 * kQps, 9));
  TestCq& cq = a.create_cq(12);
  TestCq& other = b.create_cq(12);
  std::vector<TestQp*> qps;
  for (unsigned i = 0; i < kQps; ++i) {
    TestQp& x = a.create_qp({.send_cq = &cq, .recv_cq = &cq, .log_sq_size = 2, .log_rq_size = 2});
    TestQp& y =
        b.create_qp({.send_cq = &other, .recv_cq = &other, .log_sq_size = 2, .log_rq_size = 2});
    ASSERT_EQ(y.created(), TERN_ST_OK);
    x.connect(y);
    y.connect(x);
    qps.push_back(&x);
    x.post(write({src.sge(4096 * i, 4096)}, dst.mr, 4096 * i));
  }
  sim.run_for(1'000'000);
  EXPECT_EQ(le(a.objects().parked), kQps);
  pa.resolve_all();
  EXPECT_EQ(pa.taken, kQps);
  EXPECT_EQ(le(a.objects().parked), 0U);
  sim.run_for(10'000'000);
  EXPECT_EQ(le(b.objects().parked), kQps);
  pb.resolve_all();
  EXPECT_EQ(pb.taken, kQps);
  unsigned done = 0;
  EXPECT_TRUE(sim.run_until([&] {
    while (const auto wc = cq.poll()) {
      EXPECT_EQ(wc->status, TERN_CQE_SUCCESS) << status_name(wc->status);
      ++done;
    }
    return done == kQps;
  }));
  EXPECT_TRUE(same_bytes(dst.read(0, 4096 * kQps), src.read(0, 4096 * kQps)));
}

}  // namespace
}  // namespace tern

// SPDX-License-Identifier: GPL-2.0-or-later
// Shared receive queues: the order in which messages take WQEs, the limit event, resizing under
// traffic, and hostile queues.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "tests/mini_driver.h"

namespace tern {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// (type, object) of an event.
using Event = std::pair<std::uint16_t, std::uint32_t>;
std::vector<Event> told(TestNode& node) {
  std::vector<Event> events;
  for (const tern_eqe& e : node.async_events()) events.emplace_back(le(e.type), le(e.id));
  return events;
}

class SrqTest : public ::testing::Test {
 protected:
  static constexpr unsigned kPairs = 4;
  Sim sim{7};
  TestNode a{sim};
  TestNode b{sim};
  TestMr& src = a.reg(1 << 16);
  TestMr& dst = b.reg(1 << 16);
  TestSrq* srq = nullptr;
  TestCq* cq = nullptr;  // all receives complete here
  std::vector<TestQp*> qa;
  std::vector<TestQp*> qb;

  void SetUp() override { src.fill(9); }
  void make(const SrqOptions& options = {}, unsigned pairs = kPairs, QpOptions qp = {}) {
    srq = &b.create_srq(options);
    cq = &b.create_cq(10);
    qp.min_rnr_timer = 14;  // 1.28 ms
    for (unsigned i = 0; i < pairs; ++i) {
      QpOptions mine = qp;
      mine.srq = srq;
      mine.recv_cq = cq;
      qa.push_back(&a.create_qp(qp));
      qb.push_back(&b.create_qp(mine));
      qa.back()->connect(*qb.back());
      qb.back()->connect(*qa.back());
    }
  }
  // Posts `n` WQEs of 4 KiB with wr_id = first, first + 1, ...; they use the slots of `dst` in
  // order.
  void post(unsigned n, std::uint64_t first = 0) {
    for (std::uint64_t i = first; i < first + n; ++i) srq->post({dst.sge(i % 16 * 4096, 4096)}, i);
  }
  void expect_sent(TestQp& qp, std::uint8_t status = TERN_CQE_SUCCESS) {
    const Wc wc = qp.wait_send();
    EXPECT_EQ(wc.status, status) << status_name(wc.status);
  }
  std::uint8_t state(TestQp& qp) { return qp.query().attr.state; }
};

TEST_F(SrqTest, MessagesTakeWqesInTheOrderTheyBegin) {
  make();
  post(4, 100);
  for (unsigned i = 0; i < 4; ++i) {
    qa[3 - i]->post(send({src.sge(i * 10, 100 + i)}));
    expect_sent(*qa[3 - i]);
    const Wc wc = cq->wait();
    EXPECT_EQ(wc.status, TERN_CQE_SUCCESS);
    EXPECT_EQ(le(wc.wr_id), 100 + i);
    EXPECT_EQ(le(wc.qpn), qb[3 - i]->number());
    EXPECT_EQ(le(wc.srqn), srq->number());
    EXPECT_EQ(le(wc.wqe_index), i);
    EXPECT_EQ(le(wc.byte_len), 100 + i);
    EXPECT_EQ(wc.flags, TERN_CQE_F_RECV);
    EXPECT_TRUE(same_bytes(dst.bytes((100 + i) % 16 * 4096, 100 + i), src.bytes(i * 10, 100 + i)));
  }
  EXPECT_EQ(srq->query().ci, 4U);
  EXPECT_EQ(qb[0]->query().rq_ci, 0U) << "it has no receive queue";
  EXPECT_THAT(told(b), IsEmpty());
}

TEST_F(SrqTest, SlotsAreFreeWhenWqesAreTakenNotWhenTheyComplete) {
  make({.log_size = 1});
  sim.budget = 4096;
  sim.turn_time = 1000;
  TestMr& big = b.reg(1 << 20);
  TestMr& from = a.reg(1 << 20);
  from.fill(4);
  srq->post({big.sge()}, 1);
  EXPECT_EQ(srq->taken(), 0U);
  qa[0]->post(send({from.sge()}));
  sim.run_until([&] { return srq->taken() == 1; });
  EXPECT_FALSE(cq->poll()) << "the message is on its way";
  // The slot is reused at once, but the message goes to the buffers of its own WQE.
  srq->post({dst.sge(0, 4096)}, 2);
  srq->post({dst.sge(4096, 4096)}, 3);
  qa[1]->post(send({src.sge(0, 50)}));
  EXPECT_EQ(le(cq->wait().wr_id), 2U) << "the short message overtakes";
  const Wc wc = cq->wait();
  EXPECT_EQ(le(wc.wr_id), 1U);
  EXPECT_EQ(le(wc.wqe_index), 0U);
  EXPECT_TRUE(same_bytes(big.bytes(), from.bytes()));
}

TEST_F(SrqTest, ManyMessagesOfManyQueuePairs) {
  make({.log_size = 3});
  sim.wire.loss = 0.02;
  sim.wire.reorder = 0.02;
  constexpr unsigned kEach = 60;
  std::vector<unsigned> sent(kPairs), got(kPairs);
  std::set<std::uint64_t> ids;
  std::uint64_t next_id = 0;
  unsigned total = 0;
  while (total < kPairs * kEach) {
    while (srq->free() > 0) post(1, next_id++);
    for (unsigned i = 0; i < kPairs; ++i) {
      while (sent[i] < kEach && qa[i]->sq_free() > 0) {
        const std::uint32_t len = sent[i] % 3 == 0 ? 3000 : 64;
        qa[i]->post(send({src.sge(i * 16, len)}));
        ++sent[i];
      }
    }
    const Wc wc = cq->wait();
    ASSERT_EQ(wc.status, TERN_CQE_SUCCESS);
    EXPECT_TRUE(ids.insert(le(wc.wr_id)).second) << "a WQE was used twice";
    for (unsigned i = 0; i < kPairs; ++i) {
      if (qb[i]->number() != le(wc.qpn)) continue;
      EXPECT_EQ(le(wc.byte_len), got[i] % 3 == 0 ? 3000U : 64U) << "in order on each connection";
      ++got[i];
    }
    ++total;
    for (unsigned i = 0; i < kPairs; ++i) (void)qa[i]->send_cq().poll_all();
  }
  EXPECT_THAT(got, ::testing::Each(kEach));
}

TEST_F(SrqTest, AnEmptyQueueIsNotReady) {
  make();
  qa[0]->post(send({src.sge(0, 3000)}));
  sim.run_for(500'000);
  EXPECT_EQ(b.counter(TERN_CNT_OUT_OF_BUFFER), 1U);
  EXPECT_FALSE(qa[0]->send_cq().poll());
  post(1);
  expect_sent(*qa[0]);
  EXPECT_EQ(cq->wait().status, TERN_CQE_SUCCESS);
  EXPECT_TRUE(same_bytes(dst.bytes(0, 3000), src.bytes(0, 3000)));
  // Only messages that need a WQE wait for one.
  qa[1]->post(write({src.sge(0, 100)}, dst, 5000));
  expect_sent(*qa[1]);
  qa[1]->post(write({src.sge(0, 100)}, dst, 6000).immediate(7));
  sim.run_for(500'000);
  EXPECT_FALSE(qa[1]->send_cq().poll());
  srq->post({}, 55);
  expect_sent(*qa[1]);
  const Wc wc = cq->wait();
  EXPECT_EQ(le(wc.wr_id), 55U);
  EXPECT_EQ(wc.opcode, TERN_RECV_RDMA_WITH_IMM);
  EXPECT_EQ(le(wc.srqn), srq->number());
}

// ---- protection ----

TEST_F(SrqTest, KeysOfReceivesAreThoseOfTheSrqsDomain) {
  const std::uint32_t other = b.alloc_pd();
  TestMr& theirs = b.reg(4096, {.pd = other});
  make({.pd = other});
  srq->post({theirs.sge()}, 1);
  qa[0]->post(send({src.sge(0, 100)}));
  expect_sent(*qa[0]);
  EXPECT_EQ(cq->wait().status, TERN_CQE_SUCCESS);
  // A WRITE uses the QP's own PD.
  qa[0]->post(write({src.sge(0, 100)}, dst));
  expect_sent(*qa[0]);
  qa[1]->post(write({src.sge(0, 100)}, theirs));
  expect_sent(*qa[1], TERN_CQE_REM_ACCESS_ERR);
  // Keys of the QP's PD do not work in WQEs of the SRQ.
  srq->post({dst.sge(0, 4096)}, 2);
  qa[0]->post(send({src.sge(0, 100)}));
  expect_sent(*qa[0], TERN_CQE_REM_OP_ERR);
  const Wc wc = cq->wait();
  EXPECT_EQ(wc.status, TERN_CQE_LOC_PROT_ERR);
  EXPECT_EQ(le(wc.wr_id), 2U);
  EXPECT_EQ(le(wc.srqn), srq->number());
  // Other QPs are not affected.
  srq->post({theirs.sge()}, 3);
  qa[2]->post(send({src.sge(0, 100)}));
  expect_sent(*qa[2]);
}

TEST_F(SrqTest, ThePrivilegedKeyBelongsToThePrivilegedDomain) {
  make({.pd = b.alloc_pd(true)});
  srq->post({{dst.dma, 4096, TERN_LKEY_DMA}}, 1);
  qa[0]->post(send({src.sge(0, 100)}));
  expect_sent(*qa[0]);
  qa.clear(), qb.clear();
  make({}, 1, {.pd = 0});
  srq->post({{dst.dma, 4096, TERN_LKEY_DMA}}, 1);
  qa[0]->post(send({src.sge(0, 100)}));
  expect_sent(*qa[0], TERN_CQE_REM_OP_ERR);
}

// ---- limit ----

TEST_F(SrqTest, TheLimitTellsOnceWhenFewerAreLeft) {
  make();
  post(6);
  EXPECT_EQ(srq->set_limit(4), TERN_ST_OK);
  EXPECT_EQ(srq->query().limit, 4U);
  EXPECT_THAT(told(b), IsEmpty());
  for (unsigned i = 0; i < 2; ++i) {
    qa[i]->post(send({src.sge(0, 10)}));
    expect_sent(*qa[i]);
    EXPECT_THAT(told(b), IsEmpty()) << "4 are not fewer than 4";
  }
  EXPECT_EQ(srq->query().limit, 4U);
  qa[2]->post(send({src.sge(0, 10)}));
  expect_sent(*qa[2]);
  EXPECT_THAT(told(b), ElementsAre(Event(TERN_EV_SRQ_LIMIT, srq->number())));
  EXPECT_EQ(srq->query().limit, 0U);
  qa[2]->post(send({src.sge(0, 10)}));
  expect_sent(*qa[2]);
  EXPECT_THAT(told(b), IsEmpty()) << "once";
  // Below the limit already: at once. Exactly at the limit: no event.
  EXPECT_EQ(srq->set_limit(2), TERN_ST_OK);
  EXPECT_THAT(told(b), IsEmpty());
  EXPECT_EQ(srq->set_limit(3), TERN_ST_OK);
  EXPECT_THAT(told(b), ElementsAre(Event(TERN_EV_SRQ_LIMIT, srq->number())));
  EXPECT_EQ(srq->query().limit, 0U);
  // A limit that has been removed raises no event.
  EXPECT_EQ(srq->set_limit(2), TERN_ST_OK);
  EXPECT_EQ(srq->set_limit(0), TERN_ST_OK);
  qa[2]->post(send({src.sge(0, 10)}));
  expect_sent(*qa[2]);
  EXPECT_THAT(told(b), IsEmpty());
}

TEST_F(SrqTest, TheLimitMayBeTheSizeAndNotMore) {
  make({.log_size = 2});
  post(4);
  EXPECT_EQ(srq->set_limit(5), TERN_ST_BAD_PARAM);
  EXPECT_EQ(srq->set_limit(4), TERN_ST_OK);
  EXPECT_THAT(told(b), IsEmpty());
  qa[0]->post(send({src.sge(0, 10)}));
  expect_sent(*qa[0]);
  EXPECT_THAT(told(b), ElementsAre(Event(TERN_EV_SRQ_LIMIT, srq->number())));
}

// ---- resize ----

TEST_F(SrqTest, ResizeUnderTraffic) {
  make({.log_size = 3});
  std::uint64_t next_id = 0;
  std::map<std::uint64_t, unsigned> seen;
  unsigned completed = 0;
  const auto traffic = [&](unsigned n) {
    for (unsigned k = 0; k < n; ++k) qa[k % kPairs]->post(send({src.sge(0, 2000)}));
  };
  const auto reap = [&] {
    for (const Wc& wc : cq->poll_all()) {
      EXPECT_EQ(wc.status, TERN_CQE_SUCCESS);
      EXPECT_EQ(le(wc.wqe_index), le(wc.wr_id)) << "indices go on";
      ++seen[le(wc.wr_id)];
      ++completed;
    }
  };
  for (const unsigned log_size : {5U, 2U, 4U, 0U, 6U}) {
    while (srq->free() > 0) post(1, next_id++);
    // Consumes WQEs until the rest fits the new size. One more message begins while software
    // copies.
    const std::uint32_t keep = std::min(srq->posted() - srq->taken(), 1U << log_size);
    traffic(srq->posted() - srq->taken() - keep);
    sim.run_until_idle();
    srq->prepare_resize(log_size);
    traffic(1);
    sim.run_until_idle();
    EXPECT_EQ(srq->resize(), TERN_ST_OK) << log_size;
    EXPECT_EQ(srq->taken(), srq->query().ci) << "the new record is told what was taken meanwhile";
    traffic(keep - 1);
    sim.run_until_idle();
    EXPECT_EQ(srq->posted(), srq->taken());
    reap();
  }
  EXPECT_EQ(completed, next_id);
  for (const auto& [id, n] : seen) EXPECT_EQ(n, 1U) << id;
  EXPECT_THAT(told(b), IsEmpty());
}

TEST_F(SrqTest, ResizeKeepsTheOldBufferWhenItIsRefused) {
  make({.log_size = 3});
  post(5);
  srq->prepare_resize(2);
  EXPECT_EQ(srq->resize(), TERN_ST_BAD_PARAM) << "5 WQEs in 4 slots";
  EXPECT_EQ(srq->set_limit(5), TERN_ST_OK);
  qa[0]->post(send({src.sge(0, 10)}));
  expect_sent(*qa[0]);
  EXPECT_THAT(told(b), ElementsAre(Event(TERN_EV_SRQ_LIMIT, srq->number())));
  srq->prepare_resize(2);
  EXPECT_EQ(srq->resize(), TERN_ST_OK);
  for (unsigned i = 0; i < 4; ++i) {
    qa[i]->post(send({src.sge(0, 10)}));
    expect_sent(*qa[i]);
  }
}

// Software posts to both buffers during the command, as many as the smaller one holds.
TEST_F(SrqTest, PostsWhileTheDeviceSwitches) {
  struct Gate : DmaGate {
    std::function<void(std::uint64_t)> access;
    std::uint64_t reachable(std::uint64_t addr, std::uint64_t len, bool) override {
      access(addr);
      return len;
    }
  };
  std::uint64_t next_id = 0;
  for (const unsigned log_size : {4U, 1U}) {
    make({.log_size = 3}, 1);
    TestQp& from = *qa.back();
    post(1, next_id++);
    EXPECT_EQ(srq->set_limit(1), TERN_ST_OK);
    srq->prepare_resize(log_size);
    // The device reads the page list of the new buffer after it has read the index.
    const std::uint64_t list = srq->next_pages();
    unsigned posted = 0;
    Gate gate;
    gate.access = [&](std::uint64_t addr) {
      if (addr == list && posted == 0) post(1, next_id + posted++);
    };
    b.host.gate = &gate;
    EXPECT_EQ(srq->resize(), TERN_ST_OK);
    b.host.gate = nullptr;
    ASSERT_EQ(posted, 1U);
    ++next_id;
    for (std::uint64_t id = next_id - 2; id != next_id; ++id) {
      from.post(send({src.sge(0, 10)}));
      expect_sent(from);
      EXPECT_EQ(le(cq->wait().wr_id), id);
    }
    EXPECT_THAT(told(b), ElementsAre(Event(TERN_EV_SRQ_LIMIT, srq->number())));
  }
}

TEST_F(SrqTest, TheDeviceForgetsTheOldBuffer) {
  make({.log_size = 3});
  post(3);
  const std::uint64_t old = srq->memory().address(0);
  srq->prepare_resize(4);
  EXPECT_EQ(srq->resize(), TERN_ST_OK);
  b.host.punch(old, FakeHost::kPage);
  post(10, 3);
  for (unsigned i = 0; i < 13; ++i) {
    qa[0]->post(send({src.sge(0, 10)}));
    expect_sent(*qa[0]);
    EXPECT_EQ(le(cq->wait().wr_id), i);
  }
  b.host.restore(old);
}

TEST_F(SrqTest, ANewIndexThatLiesIsFoundOut) {
  make({.log_size = 2});
  post(2);
  srq->prepare_resize(3);
  EXPECT_EQ(srq->resize(), TERN_ST_OK);
  srq->store_pi(9);
  qa[0]->post(send({src.sge(0, 10)}));
  expect_sent(*qa[0], TERN_CQE_REM_OP_ERR);
}

// ---- errors ----

TEST_F(SrqTest, LastWqeIsReached) {
  make();
  post(2);
  EXPECT_EQ(qb[0]->to_state(TERN_QPS_ERR), TERN_ST_OK);
  EXPECT_THAT(told(b), ElementsAre(Event(TERN_EV_QP_LAST_WQE, qb[0]->number())));
  EXPECT_EQ(qb[0]->to_state(TERN_QPS_ERR), TERN_ST_OK);
  EXPECT_THAT(told(b), IsEmpty()) << "once";
  sim.run_until_idle();
  EXPECT_FALSE(cq->poll()) << "nothing of an SRQ is flushed";
  EXPECT_EQ(srq->taken(), 0U);
  // After RESET and back to RTS it takes WQEs again, and raises the event again.
  EXPECT_EQ(qb[0]->to_state(TERN_QPS_RESET), TERN_ST_OK);
  EXPECT_EQ(qa[0]->to_state(TERN_QPS_RESET), TERN_ST_OK);
  qb[0]->forget_posted();
  qa[0]->forget_posted();
  qa[0]->connect(*qb[0]);
  qb[0]->connect(*qa[0]);
  qa[0]->post(send({src.sge(0, 10)}));
  expect_sent(*qa[0]);
  EXPECT_EQ(qb[0]->to_state(TERN_QPS_ERR), TERN_ST_OK);
  EXPECT_THAT(told(b), ElementsAre(Event(TERN_EV_QP_LAST_WQE, qb[0]->number())));
}

TEST_F(SrqTest, TheWqeOfAHalfMessageIsFlushedBeforeLastWqe) {
  make();
  sim.budget = 4096;
  sim.turn_time = 1000;
  srq->post({dst.sge()}, 77);
  qa[0]->post(send({src.sge()}));
  sim.run_until([&] { return srq->taken() == 1; });
  EXPECT_EQ(qb[0]->to_state(TERN_QPS_ERR), TERN_ST_OK);
  const auto wc = cq->poll();
  ASSERT_TRUE(wc);
  EXPECT_EQ(wc->status, TERN_CQE_WR_FLUSH_ERR);
  EXPECT_EQ(le(wc->wr_id), 77U);
  EXPECT_EQ(le(wc->srqn), srq->number());
  EXPECT_THAT(told(b), ElementsAre(Event(TERN_EV_QP_LAST_WQE, qb[0]->number())));
}

TEST_F(SrqTest, AnErrorOfOneConnectionTellsItsEventThenLastWqe) {
  make();
  TestMr wrong = dst;
  wrong.key ^= 1;
  qa[0]->post(write({src.sge(0, 10)}, wrong));
  expect_sent(*qa[0], TERN_CQE_REM_ACCESS_ERR);
  EXPECT_THAT(told(b), ElementsAre(Event(TERN_EV_QP_ACCESS_ERR, qb[0]->number()),
                                   Event(TERN_EV_QP_LAST_WQE, qb[0]->number())));
  post(1);
  qa[1]->post(send({src.sge(0, 10)}));
  expect_sent(*qa[1]);
}

TEST_F(SrqTest, AMessageTooLongIsItsReceiversError) {
  make();
  srq->post({dst.sge(0, 99)}, 5);
  qa[0]->post(send({src.sge(0, 100)}));
  expect_sent(*qa[0], TERN_CQE_REM_INV_REQ_ERR);
  const Wc wc = cq->wait();
  EXPECT_EQ(wc.status, TERN_CQE_LOC_LEN_ERR);
  EXPECT_EQ(le(wc.wr_id), 5U);
  EXPECT_EQ(le(wc.srqn), srq->number());
  EXPECT_THAT(told(b), ElementsAre(Event(TERN_EV_QP_LAST_WQE, qb[0]->number())));
}

// ---- hostile queues ----

class HostileSrq : public SrqTest {
 protected:
  // The next message finds the SRQ failed: its QP fails, and other QPs fail when they need a WQE.
  void expect_failed() {
    qa[0]->post(send({src.sge(0, 10)}));
    expect_sent(*qa[0], TERN_CQE_REM_OP_ERR);
    EXPECT_THAT(told(b), ElementsAre(Event(TERN_EV_SRQ_ERR, srq->number()),
                                     Event(TERN_EV_QP_FATAL, qb[0]->number()),
                                     Event(TERN_EV_QP_LAST_WQE, qb[0]->number())));
    EXPECT_EQ(state(*qb[1]), TERN_QPS_RTS);
    qa[1]->post(write({src.sge(0, 10)}, dst));
    expect_sent(*qa[1]);
    qa[1]->post(send({src.sge(0, 10)}));
    expect_sent(*qa[1], TERN_CQE_REM_OP_ERR);
    EXPECT_THAT(told(b), ElementsAre(Event(TERN_EV_QP_FATAL, qb[1]->number()),
                                     Event(TERN_EV_QP_LAST_WQE, qb[1]->number())))
        << "of the SRQ it was told before";
    EXPECT_EQ(srq->set_limit(1), TERN_ST_BAD_STATE);
    EXPECT_FALSE(cq->poll());
    for (unsigned i = 0; i < kPairs; ++i) b.destroy(*qb[i]);
    b.destroy(*srq);
  }
};

TEST_F(HostileSrq, IndexTooFarAhead) {
  make();
  post(2);
  srq->store_pi(17);
  expect_failed();
}

TEST_F(HostileSrq, IndexThatRanBackwards) {
  make();
  post(2);
  qa[0]->post(send({src.sge(0, 10)}));
  expect_sent(*qa[0]);
  (void)cq->wait();
  srq->store_pi(0);
  expect_failed();
}

TEST_F(HostileSrq, MoreSgesThanASlotHolds) {
  make();
  tern_rq_hdr hdr{};
  hdr.num_sge = 8;  // 128 bytes hold 7
  srq->memory().put(srq->slot(0), hdr);
  srq->store_pi(1);
  expect_failed();
}

TEST_F(HostileSrq, MoreSgesThanTheDeviceTakes) {
  make({.log_stride = 10});
  tern_rq_hdr hdr{};
  hdr.num_sge = 33;
  srq->memory().put(srq->slot(0), hdr);
  srq->store_pi(1);
  expect_failed();
}

TEST_F(HostileSrq, MemoryOfTheWqesIsGone) {
  make({.log_size = 6});  // 8 KiB
  post(1);
  b.host.punch(srq->memory().address(0), FakeHost::kPage);
  expect_failed();
  b.host.restore(srq->memory().address(0));
}

TEST_F(HostileSrq, MemoryOfTheRecordIsGone) {
  make({.log_size = 6});
  post(1);
  b.host.punch(srq->record(), sizeof(tern_srq_record));
  expect_failed();
  b.host.restore(srq->record());
}

TEST_F(HostileSrq, TheCommandFindsOutToo) {
  make();
  post(3);
  srq->store_pi(100);
  EXPECT_EQ(srq->set_limit(1), TERN_ST_BAD_STATE);
  EXPECT_THAT(told(b), ElementsAre(Event(TERN_EV_SRQ_ERR, srq->number())));
  srq->prepare_resize(3);
  EXPECT_EQ(srq->resize(), TERN_ST_BAD_STATE);
  EXPECT_EQ(srq->query().ci, 0U);
  // It stays failed, whatever the record contains later.
  srq->store_pi(3);
  EXPECT_EQ(srq->set_limit(1), TERN_ST_BAD_STATE);
  EXPECT_THAT(told(b), IsEmpty());
}

TEST_F(HostileSrq, AMessageOnItsWayIsReceivedToItsEnd) {
  make();
  sim.budget = 4096;
  sim.turn_time = 1000;
  srq->post({dst.sge()}, 1);
  qa[0]->post(send({src.sge()}));
  sim.run_until([&] { return srq->taken() == 1; });
  srq->store_pi(100);
  qa[1]->post(send({src.sge(0, 10)}));
  expect_sent(*qa[1], TERN_CQE_REM_OP_ERR);
  expect_sent(*qa[0]);
  EXPECT_EQ(cq->wait().status, TERN_CQE_SUCCESS);
  EXPECT_TRUE(same_bytes(dst.bytes(), src.bytes()));
}

// ---- unreliable types ----

TEST_F(SrqTest, UnreliableConnections) {
  make({}, 2, {.type = TERN_QPT_UC});
  qa[0]->post(send({src.sge(0, 3000)}));
  expect_sent(*qa[0]);
  sim.run_until_idle();
  EXPECT_EQ(b.counter(TERN_CNT_OUT_OF_BUFFER), 1U) << "dropped";
  EXPECT_FALSE(cq->poll());
  post(2, 7);
  EXPECT_EQ(srq->set_limit(2), TERN_ST_OK);
  qa[1]->post(send({src.sge(0, 3000)}));
  qa[0]->post(write({src.sge(0, 100)}, dst, 60000).immediate(3));
  for (const std::uint64_t id : {7U, 8U}) {
    const Wc wc = cq->wait();
    EXPECT_EQ(wc.status, TERN_CQE_SUCCESS);
    EXPECT_EQ(le(wc.wr_id), id);
    EXPECT_EQ(le(wc.srqn), srq->number());
  }
  EXPECT_THAT(told(b), ElementsAre(Event(TERN_EV_SRQ_LIMIT, srq->number())));
  EXPECT_EQ(qb[0]->to_state(TERN_QPS_ERR), TERN_ST_OK);
  EXPECT_THAT(told(b), ElementsAre(Event(TERN_EV_QP_LAST_WQE, qb[0]->number())));
  srq->store_pi(100);
  qa[1]->post(send({src.sge(0, 10)}));
  sim.run_until_idle();
  EXPECT_THAT(told(b), ElementsAre(Event(TERN_EV_SRQ_ERR, srq->number()),
                                   Event(TERN_EV_QP_FATAL, qb[1]->number()),
                                   Event(TERN_EV_QP_LAST_WQE, qb[1]->number())));
}

TEST_F(SrqTest, Datagrams) {
  const std::uint32_t other = b.alloc_pd();
  TestMr& theirs = b.reg(4096, {.pd = other});
  make({.pd = other}, 2, {.type = TERN_QPT_UD});
  qa[0]->post(datagram(*qa[0], *qb[0], {src.sge(0, 100)}));
  sim.run_until_idle();
  EXPECT_EQ(b.counter(TERN_CNT_OUT_OF_BUFFER), 1U) << "dropped";
  srq->post({theirs.sge()}, 5);
  srq->post({theirs.sge(0, 80)}, 6);
  qa[1]->post(datagram(*qa[1], *qb[1], {src.sge(0, 100)}));
  const Wc wc = cq->wait();
  EXPECT_EQ(wc.status, TERN_CQE_SUCCESS);
  EXPECT_EQ(le(wc.wr_id), 5U);
  EXPECT_EQ(le(wc.srqn), srq->number());
  EXPECT_EQ(le(wc.byte_len), 140U);
  EXPECT_TRUE(same_bytes(theirs.bytes(40, 100), src.bytes(0, 100)));
  // The datagram is too long for its WQE: the QP keeps that for the next datagram, or flushes it in
  // ERR.
  qa[1]->post(datagram(*qa[1], *qb[1], {src.sge(0, 100)}));
  sim.run_until_idle();
  EXPECT_FALSE(cq->poll());
  EXPECT_EQ(srq->taken(), 2U);
  EXPECT_EQ(qb[1]->to_state(TERN_QPS_ERR), TERN_ST_OK);
  const auto flushed = cq->poll();
  ASSERT_TRUE(flushed);
  EXPECT_EQ(flushed->status, TERN_CQE_WR_FLUSH_ERR);
  EXPECT_EQ(le(flushed->wr_id), 6U);
  EXPECT_EQ(le(flushed->srqn), srq->number());
  EXPECT_THAT(told(b), ElementsAre(Event(TERN_EV_QP_LAST_WQE, qb[1]->number())));
  // Keys of the QP's PD do not work in WQEs of the SRQ.
  srq->post({dst.sge()}, 9);
  qa[0]->post(datagram(*qa[0], *qb[0], {src.sge(0, 10)}));
  const Wc refused = cq->wait();
  EXPECT_EQ(refused.status, TERN_CQE_LOC_PROT_ERR);
  EXPECT_EQ(le(refused.wr_id), 9U);
}

// ---- life cycle ----

TEST_F(SrqTest, DestroyedWhenNobodyTakesFromIt) {
  const auto before = b.objects();
  make({}, 1);
  post(3);
  EXPECT_EQ(b.command(TERN_CMD_DESTROY_SRQ, tern_cmd_object{le(srq->number()), 0}), TERN_ST_BUSY);
  b.destroy(*qb[0]);
  b.destroy(qb[0]->send_cq());
  b.destroy(*cq);
  b.destroy(*srq);
  const auto after = b.objects();
  EXPECT_EQ(std::memcmp(&before, &after, sizeof(before)), 0);
}

TEST_F(SrqTest, ResetOfTheDeviceEndsIt) {
  make();
  post(2);
  qa[0]->post(send({src.sge(0, 3000)}));
  sim.run_for(1000);
  b.device.reg_write(TERN_REG_CTRL, TERN_CTRL_RESET);
  b.start_admin_queue();
  EXPECT_EQ(b.objects().srq, 0U);
  EXPECT_EQ(b.objects().page_entries, 0U);
}

TEST_F(SrqTest, BothEndsInOneDevice) {
  TestSrq& mine = a.create_srq();
  TestQp& x = a.create_qp({.srq = &mine});
  TestQp& y = a.create_qp({.srq = &mine});
  x.connect(y);
  y.connect(x);
  mine.post({src.sge(0, 4096)}, 1);
  mine.post({src.sge(4096, 4096)}, 2);
  x.post(send({src.sge(10000, 1000)}));
  y.post(send({src.sge(20000, 1000)}));
  EXPECT_EQ(x.wait_send().status, TERN_CQE_SUCCESS);
  EXPECT_EQ(y.wait_send().status, TERN_CQE_SUCCESS);
  EXPECT_EQ(le(x.wait_recv().wr_id) + le(y.wait_recv().wr_id), 3U);
}

}  // namespace
}  // namespace tern

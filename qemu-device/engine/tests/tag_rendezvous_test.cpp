// SPDX-License-Identifier: GPL-2.0-or-later
// Rendezvous by the device, how QPs and SRQs with messages in progress end, and a bad wire.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "tests/tag_fixture.h"

namespace tern {
namespace {

using ::testing::ElementsAre;

// ---- rendezvous ----

TEST_F(TagTest, TheDeviceFetchesTheDataOfARendezvous) {
  make();
  qa[0]->post_recv({src.sge(0x80000, 4096)}, 42);
  add(5, 5, 100, 60000);
  send_request(0, 5, src, 300, 50000);
  const Wc match = expect(TERN_RECV_TM, 5, kMatch);
  EXPECT_EQ(tag_of(match), 5U);
  EXPECT_EQ(app_ctx_of(match), 0x1234U);
  EXPECT_EQ(srq->tags_released(), 0U);
  const Wc data = expect(TERN_RECV_TM, 5, kData);
  EXPECT_EQ(le(data.byte_len), 50000U);
  EXPECT_EQ(le(data.qpn), qb[0]->number());
  EXPECT_TRUE(arrived(100, 300, 50000));
  EXPECT_EQ(dst.bytes(50100, 1)[0], std::byte{0}) << "not a byte more";
  const Wc fin = qa[0]->wait_recv();
  EXPECT_EQ(le(fin.wr_id), 42U);
  EXPECT_EQ(le(fin.byte_len), 32U);
  const TagHeaders want{tm_header(TERN_TMH_FIN, 5, 0x1234),
                        {be(src.iova + 300), be(src.key), be(50000U)}};
  EXPECT_EQ(std::memcmp(src.bytes(0x80000, 32).data(), &want, 32), 0);
  EXPECT_EQ(srq->taken(), 0U);
  EXPECT_EQ(srq->tags_released(), 1U);
  sim.run_until_idle();
  EXPECT_EQ(b.device.datapath.blocks.taken(), 0U) << "an idle QP holds no memory";
}

// Software that polls the CQE may add another tag at once.
TEST_F(TagTest, ATagIsReleasedWhenItsRendezvousCompletes) {
  make();
  qa[0]->post_recv({src.sge(0x80000, 4096)});
  add(5, 5);
  watch_cqes();
  send_request(0, 5, src, 0, 50);
  expect(TERN_RECV_TM, 5, kMatch);
  expect(TERN_RECV_TM, 5, kData);
  EXPECT_THAT(at_cqe, ElementsAre(Indices{1, 0}, Indices{1, 1}));
}

// In a saved state, which may be hostile.
TEST_F(TagTest, ATagIsHeldByOneMessageAndNeitherFreeNorListed) {
  make({.pairs = 2});
  for (std::uint64_t tag = 0; tag < 3; ++tag) add(tag, tag);
  for (unsigned qp = 0; qp < 2; ++qp) {
    send_request(qp, qp, src, 0, 4096);
    expect(TERN_RECV_TM, qp, kMatch);
  }
  while (!b.device.datapath.effects->empty()) ASSERT_TRUE(sim.step());
  std::vector<std::byte> state;
  std::string error;
  ASSERT_TRUE(b.device.save(state, error)) << error;
  // The device holds tags by their numbers, from 0.
  tern_sq_hdr second{};
  second.opcode = TERN_WR_RDMA_READ;
  second.flags = TERN_WQE_F_SIGNALED;
  second.num_sge = 1;
  second.wr_id = le(std::uint64_t{1});
  const auto found = std::ranges::search(state, std::as_bytes(std::span(&second, 1)));
  ASSERT_FALSE(found.empty());
  std::byte& number = found.begin()[offsetof(tern_sq_hdr, wr_id)];
  for (unsigned other : {0U, 1U, 2U, 3U, 16U}) {
    number = static_cast<std::byte>(other);
    Device loaded(b.host, b.device.registry.config);
    EXPECT_EQ(loaded.load(state, error), other == 1) << "tag " << other;
    if (other != 1) {
      EXPECT_THAT(error, ::testing::HasSubstr("a rendezvous has no tag"));
    }
  }
}

TEST_F(TagTest, ARendezvousFillsAllBuffersOfATag) {
  make();
  qa[0]->post_recv({src.sge(0x80000, 4096)});
  srq->post_op(
      TagOp{.handle = 1,
            .recv_wr_id = 1,
            .tag = 1,
            .sges = {dst.sge(0, 1000), dst.sge(5000, 10), dst.sge(6000, 0), dst.sge(8000, 5000)}});
  EXPECT_EQ(cq->wait().opcode, TERN_TM_CQE_ADD);
  send_request(0, 1, src, 0, 3000, 20);
  expect(TERN_RECV_TM, 1, kMatch);
  expect(TERN_RECV_TM, 1, kData);
  EXPECT_TRUE(arrived(0, 0, 1000));
  EXPECT_TRUE(arrived(5000, 1000, 10));
  EXPECT_TRUE(arrived(8000, 1010, 1990));
}

TEST_F(TagTest, AnEmptyRendezvous) {
  make();
  qa[0]->post_recv({src.sge(0x80000, 4096)});
  add(5, 5);
  send_request(0, 5, src, 0, 0);
  expect(TERN_RECV_TM, 5, kMatch);
  EXPECT_EQ(le(expect(TERN_RECV_TM, 5, kData).byte_len), 0U);
  EXPECT_EQ(le(qa[0]->wait_recv().byte_len), 32U);
}

TEST_F(TagTest, RequestsThatSoftwareHasToServe) {
  // The buffer is too small.
  make();
  add(5, 5, 0, 100);
  send_request(0, 5, src, 0, 101, 8);
  const Wc wc = expect(TERN_RECV_TM, 5, kWhole, TERN_CQE_TM_RNDV_INCOMPLETE);
  EXPECT_EQ(tag_of(wc), 5U);
  EXPECT_EQ(le(wc.byte_len), 40U);
  const TagHeaders want{tm_header(TERN_TMH_RNDV, 5, 0x1234), {be(src.iova), be(src.key), be(101U)}};
  EXPECT_EQ(std::memcmp(dst.bytes(0, 32).data(), &want, 32), 0);
  expect_sent(0);
  // Even for the request itself.
  add(6, 6, 4096, 20);
  send_request(0, 6, src, 0, 101);
  EXPECT_EQ(le(expect(TERN_RECV_TM, 6, kWhole, TERN_CQE_TM_RNDV_INCOMPLETE).byte_len), 20U);
  EXPECT_EQ(dst.bytes(4096 + 20, 1)[0], std::byte{0});
  EXPECT_EQ(srq->tags_released(), 2U);
}

TEST_F(TagTest, AQpWithASendQueueLeavesRendezvousToSoftware) {
  make({.fetches = false});
  add(5, 5);
  send_request(0, 5, src, 0, 50);
  expect(TERN_RECV_TM, 5, kWhole, TERN_CQE_TM_RNDV_INCOMPLETE);
  // Its send queue is software's.
  qb[0]->post(send({dst.sge(0, 10)}));
  qa[0]->post_recv({src.sge(0x80000, 4096)});
  EXPECT_EQ(qb[0]->wait_send().status, TERN_CQE_SUCCESS);
}

TEST_F(TagTest, AQpThatMayNotReadLeavesRendezvousToSoftware) {
  make({.max_rd_atomic = 0});
  add(5, 5);
  send_request(0, 5, src, 0, 50);
  expect(TERN_RECV_TM, 5, kWhole, TERN_CQE_TM_RNDV_INCOMPLETE);
}

TEST_F(TagTest, AnUnexpectedOrOversizedRequestGoesToAReceiveWqe) {
  make();
  add(5, 5);
  send_request(0, 6, src, 0, 50);
  expect_unexpected(0);
  send_request(0, 5, src, 0, 50, 33);
  expect(TERN_RECV_TM_NO_TAG, 1001, TERN_CQE_F_RECV);
}

TEST_F(TagTest, ManyRendezvousOnOneConnection) {
  make({.tags = 128, .max_rd_atomic = 1, .log_ops = 8});
  for (unsigned i = 0; i < 60; ++i) qa[0]->post_recv({src.sge(0x80000 + i * 64, 64)}, i);
  for (unsigned i = 0; i < 60; ++i) add(i, i, i * 8192, 8192);
  for (unsigned i = 0; i < 60; ++i) send_request(0, i, src, i * 100, 5000);
  std::map<std::uint64_t, unsigned> seen;
  for (unsigned i = 0; i < 120; ++i) {
    const Wc wc = cq->wait();
    ASSERT_EQ(wc.status, TERN_CQE_SUCCESS);
    EXPECT_EQ(wc.flags, seen[le(wc.wr_id)]++ == 0 ? kMatch : kData);
  }
  for (unsigned i = 0; i < 60; ++i) {
    EXPECT_TRUE(arrived(i * 8192, i * 100, 5000)) << i;
    EXPECT_EQ(qa[0]->wait_recv().status, TERN_CQE_SUCCESS);
  }
  EXPECT_EQ(srq->tags_released(), 60U);
}

TEST_F(TagTest, ARequestMayArriveBeforeTheQpSends) {
  make();
  QpOptions mine{.srq = srq, .flags = TERN_QP_F_NO_SQ};
  TestQp& x = a.create_qp();
  TestQp& y = b.create_qp(mine);
  x.connect(y);
  ASSERT_EQ(y.to_init(), TERN_ST_OK);
  ASSERT_EQ(y.to_rtr(x), TERN_ST_OK);
  x.post_recv({src.sge(0x80000, 4096)});
  add(5, 5);
  qa.push_back(&x);
  send_request(1, 5, src, 0, 50);
  expect(TERN_RECV_TM, 5, kMatch);
  sim.run_until_idle();
  EXPECT_FALSE(cq->poll());
  ASSERT_EQ(y.to_rts(), TERN_ST_OK);
  expect(TERN_RECV_TM, 5, kData);
  EXPECT_TRUE(arrived(0, 0, 50));
}

TEST_F(TagTest, ABadKeyFailsTheRendezvous) {
  make();
  add(5, 5);
  add(6, 6);
  const TestMr& closed = a.reg(4096, {.access = TERN_ACCESS_LOCAL_WRITE});
  send_request(0, 5, closed, 0, 50);
  send_request(0, 6, src, 0, 50);
  expect(TERN_RECV_TM, 5, kMatch);
  std::map<std::uint64_t, std::uint8_t> ends;
  while (ends.size() < 2) {
    const Wc wc = cq->wait();
    ASSERT_NE(wc.status, 0xff);
    if (!(wc.flags & TERN_CQE_F_TM_MATCH)) ends[le(wc.wr_id)] = wc.status;
  }
  EXPECT_EQ(ends[5], TERN_CQE_REM_ACCESS_ERR);
  EXPECT_EQ(ends[6], TERN_CQE_WR_FLUSH_ERR);
  EXPECT_EQ(srq->tags_released(), 2U);
  EXPECT_EQ(qb[0]->query().attr.state, TERN_QPS_ERR);
}

TEST_F(TagTest, ALocalKeyIsCheckedToo) {
  make();
  qa[0]->post_recv({src.sge(0x80000, 4096)});
  const TestMr& other = b.reg(4096, {.pd = b.alloc_pd()});
  srq->post_op(TagOp{.handle = 1, .recv_wr_id = 1, .tag = 1, .sges = {other.sge(0, 100)}});
  EXPECT_EQ(cq->wait().opcode, TERN_TM_CQE_ADD);
  send_request(0, 1, src, 0, 50);
  expect(TERN_RECV_TM, 1, kMatch);
  expect(TERN_RECV_TM, 1, TERN_CQE_F_RECV, TERN_CQE_LOC_PROT_ERR);
  EXPECT_EQ(other.bytes()[0], std::byte{0});
}

TEST_F(TagTest, AFinMessageThatFailsIsAnEventOfTheQp) {
  make();
  // The peer has no receive WQE.
  QpOptions mine{.srq = srq, .flags = TERN_QP_F_NO_SQ, .rnr_retry = 0};
  TestQp& x = a.create_qp();
  TestQp& y = b.create_qp(mine);
  x.connect(y);
  y.connect(x);
  qa.push_back(&x);
  add(5, 5);
  send_request(1, 5, src, 0, 50);
  expect(TERN_RECV_TM, 5, kMatch);
  expect(TERN_RECV_TM, 5, kData);
  sim.run_until_idle();
  EXPECT_EQ(y.query().attr.state, TERN_QPS_ERR);
  bool reported = false;
  for (const tern_eqe& e : b.async_events()) {
    reported |= le(e.type) == TERN_EV_QP_FATAL && le(e.id) == y.number();
  }
  EXPECT_TRUE(reported);
}

// ---- life cycle ----

// Stops the QP in the middle of a message with `stop`, and expects that its tag ends.
class TagEndTest : public TagTest, public ::testing::WithParamInterface<std::tuple<bool, int>> {};

TEST_P(TagEndTest, ATagThatMatchedGetsItsLastCqe) {
  const auto [rendezvous, how] = GetParam();
  make();
  sim.budget = 2048;
  sim.turn_time = 1000;
  add(5, 5, 0, 400000);
  add(6, 6, 0, 100);
  if (rendezvous) {
    send_request(0, 5, src, 0, 400000);
  } else {
    send_eager(0, 5, 400000);
  }
  expect(TERN_RECV_TM, 5, kMatch);
  for (int i = 0; i < 40; ++i) sim.step();
  if (how == 2) {
    b.destroy(*qb[0]);
  } else {
    EXPECT_EQ(qb[0]->to_state(how == 0 ? TERN_QPS_ERR : TERN_QPS_RESET), TERN_ST_OK);
  }
  expect(TERN_RECV_TM, 5, TERN_CQE_F_RECV, TERN_CQE_WR_FLUSH_ERR);
  EXPECT_EQ(srq->tags_released(), 1U);
  EXPECT_EQ(remove(6).status, TERN_CQE_SUCCESS);
  if (how != 2) b.destroy(*qb[0]);
  b.destroy(*srq);
  EXPECT_EQ(b.device.datapath.blocks.taken(), 0U);
}

INSTANTIATE_TEST_SUITE_P(All, TagEndTest,
                         ::testing::Combine(::testing::Bool(), ::testing::Range(0, 3)));

TEST_F(TagTest, AResetQpServesAgain) {
  make();
  add(5, 5, 0, 400000);
  send_request(0, 5, src, 0, 400000);
  expect(TERN_RECV_TM, 5, kMatch);
  for (TestQp* const qp : {qa[0], qb[0]}) {
    EXPECT_EQ(qp->to_state(TERN_QPS_RESET), TERN_ST_OK);
    qp->forget_posted();
  }
  expect(TERN_RECV_TM, 5, TERN_CQE_F_RECV, TERN_CQE_WR_FLUSH_ERR);
  sim.run_until_idle();  // no packet of the old connection is on its way
  qa[0]->connect(*qb[0]);
  qb[0]->connect(*qa[0]);
  qa[0]->post_recv({src.sge(0x80000, 4096)});
  add(6, 6, 0, 400000);
  send_request(0, 6, src, 0, 400000);
  expect(TERN_RECV_TM, 6, kMatch);
  expect(TERN_RECV_TM, 6, kData);
  EXPECT_TRUE(arrived(0, 0, 400000));
}

TEST_F(TagTest, AnSrqMayBeDestroyedWithTags) {
  const auto before = b.objects();
  make({.pairs = 0});
  add(5, 5);
  EXPECT_GT(b.objects().page_entries, before.page_entries);
  b.destroy(*srq);
  b.destroy(*cq);
  const auto after = b.objects();
  EXPECT_EQ(after.srq, before.srq);
  EXPECT_EQ(after.page_entries, before.page_entries);
}

TEST_F(TagTest, ADeadCqFailsSrqAndQp) {
  make({.log_cq = 2});
  for (std::uint32_t i = 0; i < 5; ++i) srq->post_op(TagOp{.handle = i, .tag = i});
  sim.run_until_idle();
  std::multiset<std::uint16_t> events;
  for (const tern_eqe& e : b.async_events()) events.insert(le(e.type));
  EXPECT_THAT(events, ::testing::IsSupersetOf({TERN_EV_CQ_ERR, TERN_EV_SRQ_ERR, TERN_EV_QP_FATAL}));
  EXPECT_EQ(qb[0]->query().attr.state, TERN_QPS_ERR);
}

// ---- a bad wire ----

// Messages of every kind over many connections, while the wire loses, duplicates and reorders.
// Software synchronises like the verbs require, and must see every message exactly once: matched if
// and only if its tag was posted.
class TagWireTest : public TagTest, public ::testing::WithParamInterface<std::uint64_t> {
 protected:
  TagWireTest() : TagTest(GetParam()) {}
};

TEST_P(TagWireTest, EveryMessageArrivesOnce) {
  constexpr unsigned kPairs = 4;
  constexpr unsigned kRounds = 24;
  make({.tags = 64, .pairs = kPairs, .log_ops = 6});
  sim.wire.loss = 0.02;
  sim.wire.duplicate = 0.02;
  sim.wire.reorder = 0.05;
  std::uint32_t handled = 0;
  std::uint64_t spares = 32;
  std::uint32_t random = static_cast<std::uint32_t>(GetParam());
  for (unsigned round = 0; round < kRounds; ++round) {
    // Each connection sends a long eager message, a request and a message without a tag posted.
    std::map<std::uint64_t, unsigned> open;  // wr_id: 1: matched, 2: with its data
    for (unsigned i = 0; i < kPairs; ++i) {
      qa[i]->post_recv({src.sge(0x80000 + i * 64, 64)});
      for (unsigned k = 0; k < 2; ++k) {
        const std::uint64_t tag = round * 100 + i * 10 + k;
        open[tag] = 0;
        EXPECT_EQ(add(tag, tag, (i * 2 + k) * 32768, 32768, handled, true).flags, 0);
      }
    }
    std::array<std::uint32_t, kPairs * 2> bytes;
    for (unsigned i = 0; i < kPairs; ++i) {
      for (unsigned k = 0; k < 2; ++k) {
        random = random * 1664525 + 1013904223;
        bytes[i * 2 + k] = random >> 17;
      }
      send_eager(i, round * 100 + i * 10, bytes[i * 2], i * 77);
      send_request(i, round * 100 + i * 10 + 1, src, i * 99, bytes[i * 2 + 1]);
      send_eager(i, 0xffff, 100);
    }
    unsigned unexpected = 0;
    unsigned whole = 0;
    while (whole < 2 * kPairs || unexpected < kPairs) {
      const Wc wc = cq->wait();
      ASSERT_EQ(wc.status, TERN_CQE_SUCCESS);
      ASSERT_EQ(wc.opcode, TERN_RECV_TM);
      if (!(wc.flags & (TERN_CQE_F_TM_MATCH | TERN_CQE_F_TM_DATA_VALID))) {
        ++unexpected;
        srq->post({spare.sge(spares++ % 32 * 4096, 4096)}, spares);
        continue;
      }
      ASSERT_TRUE(open.contains(le(wc.wr_id)));
      if (wc.flags & TERN_CQE_F_TM_MATCH) {
        EXPECT_EQ(tag_of(wc), le(wc.wr_id));
        EXPECT_EQ(open[le(wc.wr_id)]++, 0U);
      }
      if (wc.flags & TERN_CQE_F_TM_DATA_VALID) {
        EXPECT_EQ(open[le(wc.wr_id)]++, 1U);
        const unsigned n = static_cast<unsigned>(le(wc.wr_id) % 100 / 10 * 2 + le(wc.wr_id) % 10);
        EXPECT_EQ(le(wc.byte_len), bytes[n]);
        ++whole;
      }
    }
    for (unsigned i = 0; i < kPairs; ++i) {
      EXPECT_TRUE(arrived(i * 2 * 32768, i * 77, bytes[i * 2]));
      EXPECT_TRUE(arrived((i * 2 + 1) * 32768, i * 99, bytes[i * 2 + 1]));
      EXPECT_EQ(qa[i]->wait_recv().status, TERN_CQE_SUCCESS) << "FIN";
      for (unsigned k = 0; k < 3; ++k) expect_sent(i);
    }
    handled += unexpected;
  }
  sim.run_until_idle();
  EXPECT_GT(sim.stats.lost, 0U);
  EXPECT_EQ(srq->tags_released(), kRounds * kPairs * 2);
  EXPECT_EQ(b.device.datapath.blocks.taken(), 0U);
}

INSTANTIATE_TEST_SUITE_P(Seeds, TagWireTest, ::testing::Values(1, 2, 3, 4));

}  // namespace
}  // namespace tern

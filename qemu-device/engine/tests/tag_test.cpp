// SPDX-License-Identifier: GPL-2.0-or-later
// Tag matching: operations on the tags of an SRQ, eager messages, messages that no tag matches, and
// when a tag that software adds after one of them may match.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "tests/tag_fixture.h"

namespace tern {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// ---- eager messages ----

TEST_F(TagTest, AMessageGoesToTheBufferOfItsTag) {
  make();
  for (std::uint64_t i = 1; i < 8; ++i)
    EXPECT_EQ(add(i, i, static_cast<std::uint32_t>(i) * 4096).flags, 0);
  for (std::uint64_t i = 7; i > 0; --i) {
    send_eager(0, i, 100, static_cast<std::uint32_t>(i) * 10);
    expect_sent(0);
    const Wc wc = expect(TERN_RECV_TM, i, kWhole);
    EXPECT_EQ(tag_of(wc), i);
    EXPECT_EQ(app_ctx_of(wc), 0xabcdU);
    EXPECT_EQ(le(wc.byte_len), 100U);
    EXPECT_EQ(le(wc.qpn), qb[0]->number());
    EXPECT_TRUE(
        arrived(static_cast<std::uint32_t>(i) * 4096, static_cast<std::uint32_t>(i) * 10, 100));
    EXPECT_EQ(srq->tags_released(), 8 - i);
  }
  EXPECT_EQ(srq->taken(), 0U) << "no receive WQE was needed";
  EXPECT_THAT(b.async_events(), IsEmpty());
}

TEST_F(TagTest, ALongMessageReportsItsMatchFirst) {
  make();
  add(5, 5, 0, 40000);
  send_eager(0, 5, 20000, 7);
  const Wc match = expect(TERN_RECV_TM, 5, kMatch);
  EXPECT_EQ(tag_of(match), 5U);
  EXPECT_EQ(srq->tags_released(), 0U);
  const Wc data = expect(TERN_RECV_TM, 5, kData);
  EXPECT_EQ(le(data.byte_len), 20000U);
  EXPECT_EQ(tag_of(data), 0U) << "only the match has the tag";
  EXPECT_TRUE(arrived(0, 7, 20000));
  EXPECT_EQ(srq->tags_released(), 1U);
}

TEST_F(TagTest, AnEmptyMessageMatchesATagWithoutABuffer) {
  make();
  add(9, 9, 0, 0);
  send_eager(0, 9, 0);
  EXPECT_EQ(le(expect(TERN_RECV_TM, 9, kWhole).byte_len), 0U);
}

TEST_F(TagTest, TheOldestTagThatMatchesIsTaken) {
  make();
  srq->post_op(TagOp{
      .handle = 1, .recv_wr_id = 1, .tag = 0x1200, .mask = 0xff00, .sges = {dst.sge(0, 100)}});
  srq->post_op(TagOp{.handle = 2, .recv_wr_id = 2, .tag = 0x1234, .sges = {dst.sge(4096, 100)}});
  srq->post_op(
      TagOp{.handle = 3, .recv_wr_id = 3, .tag = 0x0, .mask = 0, .sges = {dst.sge(8192, 100)}});
  for (int i = 0; i < 3; ++i) EXPECT_EQ(cq->wait().opcode, TERN_TM_CQE_ADD);
  for (const std::uint64_t id : {1, 2, 3}) {
    send_eager(0, 0x1234, 10);
    EXPECT_EQ(tag_of(expect(TERN_RECV_TM, id, kWhole)), 0x1234U);
  }
  send_eager(0, 0x1234, 10);
  expect_unexpected(0);
}

TEST_F(TagTest, ATagWithBitsOutsideItsMaskNeverMatches) {
  make();
  srq->post_op(
      TagOp{.handle = 1, .recv_wr_id = 1, .tag = 0x101, .mask = 0xff, .sges = {dst.sge(0, 100)}});
  EXPECT_EQ(cq->wait().opcode, TERN_TM_CQE_ADD);
  send_eager(0, 0x101, 10);
  expect_unexpected(0);
}

TEST_F(TagTest, AMessageLongerThanTheBufferIsALengthError) {
  make();
  add(1, 1, 0, 50);
  send_eager(0, 1, 51);
  const Wc wc = expect(TERN_RECV_TM, 1, kMatch, TERN_CQE_LOC_LEN_ERR);
  EXPECT_EQ(tag_of(wc), 1U);
  expect_sent(0, TERN_CQE_REM_INV_REQ_ERR);
  EXPECT_EQ(srq->tags_released(), 1U);
}

TEST_F(TagTest, ATagWithAKeyOfAnotherPdIsAProtectionError) {
  make();
  const TestMr& other = b.reg(4096, {.pd = b.alloc_pd()});
  srq->post_op(TagOp{.handle = 1, .recv_wr_id = 1, .tag = 1, .sges = {other.sge(0, 100)}});
  EXPECT_EQ(cq->wait().opcode, TERN_TM_CQE_ADD);
  send_eager(0, 1, 50);
  expect(TERN_RECV_TM, 1, kMatch, TERN_CQE_LOC_PROT_ERR);
  expect_sent(0, TERN_CQE_REM_OP_ERR);
}

// ---- messages without a tag ----

TEST_F(TagTest, OtherMessagesGoToReceiveWqes) {
  make();
  add(5, 5);
  for (const unsigned opcode : {TERN_TMH_NO_TAG, TERN_TMH_FIN, 4, 255}) {
    send_eager(0, 5, 20, 30, static_cast<std::uint8_t>(opcode));
    const Wc wc = cq->wait();
    EXPECT_EQ(wc.opcode, TERN_RECV_TM_NO_TAG) << opcode;
    EXPECT_EQ(wc.flags, TERN_CQE_F_RECV);
    EXPECT_EQ(le(wc.byte_len), 36U) << "with its header";
  }
  // Shorter than a header.
  TestMr& mr = a.reg(4096);
  mr.bytes()[0] = std::byte{TERN_TMH_EAGER};
  qa[0]->post(send({mr.sge(0, 15)}));
  expect(TERN_RECV_TM_NO_TAG, 1004, TERN_CQE_F_RECV);
  // They do not count as unexpected: the tag still matches, and so does a new one.
  EXPECT_EQ(add(6, 6).flags, 0);
  send_eager(0, 6, 10);
  expect(TERN_RECV_TM, 6, kWhole);
}

TEST_F(TagTest, AWriteWithImmediateTakesAReceiveWqe) {
  make();
  SendWr wr = write({src.sge(0, 100)}, dst);
  wr.opcode = TERN_WR_RDMA_WRITE_WITH_IMM;
  qa[0]->post(wr);
  expect(TERN_RECV_RDMA_WITH_IMM, 1000, TERN_CQE_F_RECV | TERN_CQE_F_IMM);
}

TEST_F(TagTest, AnUnexpectedMessageIsDeliveredWhole) {
  make();
  add(5, 5);
  send_eager(0, 6, 20, 30);
  const Wc wc = expect(TERN_RECV_TM, 1000, TERN_CQE_F_RECV);
  EXPECT_EQ(le(wc.byte_len), 36U);
  EXPECT_EQ(tag_of(wc), 0U);
  const tern_tm_header header = tm_header(TERN_TMH_EAGER, 6, 0xabcd);
  EXPECT_EQ(std::memcmp(spare.bytes(0, 16).data(), &header, 16), 0);
  EXPECT_EQ(std::memcmp(spare.bytes(16, 20).data(), src.bytes(30, 20).data(), 20), 0);
}

// ---- synchronisation ----

TEST_F(TagTest, ANewTagWaitsUntilSoftwareHasHandledUnexpectedMessages) {
  make();
  add(1, 1);
  send_eager(0, 2, 10);
  expect_unexpected(0);
  // Software posts a tag before it has seen the message, which the tag would match.
  EXPECT_EQ(add(2, 2).flags, TERN_CQE_F_TM_SYNC_REQ);
  send_eager(0, 2, 10);
  expect_unexpected(1, TERN_CQE_F_RECV | TERN_CQE_F_TM_SYNC_REQ);
  // The older tag matches meanwhile.
  send_eager(0, 1, 10);
  expect(TERN_RECV_TM, 1, kWhole);
  // A count that is not up to date does not help.
  EXPECT_EQ(synchronize(1).flags, TERN_CQE_F_TM_SYNC_REQ);
  send_eager(0, 2, 10);
  expect_unexpected(2, TERN_CQE_F_RECV | TERN_CQE_F_TM_SYNC_REQ);
  EXPECT_EQ(synchronize(3).flags, 0);
  send_eager(0, 2, 10);
  expect(TERN_RECV_TM, 2, kWhole);
}

TEST_F(TagTest, EveryOperationCanSynchronize) {
  make();
  send_eager(0, 2, 10);
  expect_unexpected(0);
  EXPECT_EQ(add(1, 1).flags, TERN_CQE_F_TM_SYNC_REQ);
  EXPECT_EQ(add(2, 2, 4096, 100, 1, true).flags, 0) << "also the tags before it";
  send_eager(0, 1, 10);
  expect(TERN_RECV_TM, 1, kWhole);
  send_eager(0, 3, 10);
  expect_unexpected(1);
  EXPECT_EQ(add(3, 3).flags, TERN_CQE_F_TM_SYNC_REQ);
  srq->post_op(TagOp{.opcode = TERN_TM_DEL,
                     .flags = TERN_TM_F_SIGNALED | TERN_TM_F_SYNC,
                     .handle = 2,
                     .unexpected = 2});
  const Wc wc = cq->wait();
  EXPECT_EQ(wc.status, TERN_CQE_SUCCESS);
  EXPECT_EQ(wc.flags, 0);
  send_eager(0, 3, 10);
  expect(TERN_RECV_TM, 3, kWhole);
}

TEST_F(TagTest, AnUnexpectedMessageThatFailsNeedsNoSynchronization) {
  make({.pairs = 2});
  send_eager(0, 9, 30000);  // longer than its receive WQE
  expect(TERN_RECV_TM, 1000, TERN_CQE_F_RECV, TERN_CQE_LOC_LEN_ERR);
  // Software never counts it.
  EXPECT_EQ(add(1, 1).flags, 0);
  send_eager(1, 1, 10);
  expect(TERN_RECV_TM, 1, kWhole);
}

// ---- operations ----

TEST_F(TagTest, ATagThatIsRemovedMatchesNoMore) {
  make();
  add(1, 1);
  EXPECT_EQ(remove(1).status, TERN_CQE_SUCCESS);
  EXPECT_EQ(srq->tags_released(), 1U);
  send_eager(0, 1, 10);
  expect_unexpected(0);
  EXPECT_EQ(remove(1).status, TERN_CQE_TM_ERR);
}

TEST_F(TagTest, RemovingATagThatMatchedFailsEvenUnsignaled) {
  make();
  add(1, 1);
  send_eager(0, 1, 10);
  expect(TERN_RECV_TM, 1, kWhole);
  srq->post_op(TagOp{.opcode = TERN_TM_DEL, .flags = 0, .handle = 1, .wr_id = 8});
  const Wc wc = cq->wait();
  EXPECT_EQ(wc.opcode, TERN_TM_CQE_DEL);
  EXPECT_EQ(wc.status, TERN_CQE_TM_ERR);
  EXPECT_EQ(le(wc.wr_id), 8U);
}

TEST_F(TagTest, UnsignaledOperationsDoNotComplete) {
  make();
  srq->post_op(
      TagOp{.flags = 0, .handle = 1, .recv_wr_id = 1, .tag = 1, .sges = {dst.sge(0, 100)}});
  srq->post_op(
      TagOp{.flags = 0, .handle = 2, .recv_wr_id = 2, .tag = 2, .sges = {dst.sge(0, 100)}});
  srq->post_op(TagOp{.opcode = TERN_TM_DEL, .flags = 0, .handle = 2});
  srq->post_op(TagOp{.opcode = TERN_TM_SYNC, .flags = TERN_TM_F_SYNC});
  sim.run_until_idle();
  EXPECT_FALSE(cq->poll());
  EXPECT_EQ(srq->ops_done(), 4U);
  EXPECT_EQ(srq->tags_released(), 1U);
  send_eager(0, 1, 10);
  expect(TERN_RECV_TM, 1, kWhole);
}

TEST_F(TagTest, ATagTooManyIsRefused) {
  make({.tags = 2});
  add(1, 1);
  add(2, 2);
  srq->post_op(TagOp{.flags = 0, .handle = 3, .wr_id = 4, .tag = 3});
  const Wc wc = cq->wait();
  EXPECT_EQ(wc.status, TERN_CQE_LOC_QP_OP_ERR);
  EXPECT_EQ(le(wc.wr_id), 4U);
  EXPECT_EQ(srq->tags_released(), 1U) << "the device does not hold it";
  EXPECT_EQ(remove(1).status, TERN_CQE_SUCCESS);
  add(3, 3);
}

// Software that polls the CQE may post again at once.
TEST_F(TagTest, TheRecordIsUpToDateWhenAnOperationCompletes) {
  make({.tags = 2});
  watch_cqes();
  for (std::uint32_t i = 1; i <= 3; ++i)
    srq->post_op(TagOp{.handle = i, .recv_wr_id = i, .tag = i}, false);
  srq->post_op(TagOp{.opcode = TERN_TM_DEL, .handle = 1});
  sim.run_until_idle();
  EXPECT_EQ(cq->poll_all().size(), 4U);
  EXPECT_THAT(at_cqe, ElementsAre(Indices{1, 0}, Indices{2, 0}, Indices{3, 1}, Indices{4, 2}));
}

TEST_F(TagTest, OperationsAreExecutedInSlices) {
  make({.tags = 1024, .log_ops = 12});
  for (std::uint32_t i = 0; i < 1024; ++i) {
    srq->post_op(
        TagOp{.flags = 0, .handle = i, .recv_wr_id = i, .tag = i, .sges = {dst.sge(0, 64)}}, false);
  }
  b.doorbell(b.uar(), TERN_DB_CMD_TM, srq->number());
  sim.budget = 16384;
  std::uint32_t before = 0;
  unsigned steps = 0;
  while (srq->ops_done() != 1024 && sim.step()) {
    ++steps;
    EXPECT_LE(srq->ops_done() - before, 16384 / 2 / 128 + 1);
    before = srq->ops_done();
  }
  EXPECT_GE(steps, 16U);
  const std::uint64_t visits = b.device.datapath.visits;
  send_eager(0, 1023, 10);
  expect(TERN_RECV_TM, 1023, kWhole);
  EXPECT_LE(b.device.datapath.visits - visits, 1024U);
}

// A match is reported with the first packet of a long message. If that fails, the message has no
// receive WQE any more.
TEST_F(TagTest, AMatchThatCannotBeReported) {
  make({.log_cq = 1});
  const TagOp seven{.flags = 0, .handle = 1, .recv_wr_id = 1, .tag = 7, .sges = {dst.sge(0, 8192)}};
  srq->post_op(seven, false);
  for (unsigned i = 0; i < 2; ++i) srq->post_op(TagOp{.opcode = TERN_TM_SYNC});
  sim.run_until_idle();
  send_eager(0, 7, 5000);
  EXPECT_EQ(qa[0]->wait_send().status, TERN_CQE_REM_OP_ERR);
  sim.run_until_idle();
  EXPECT_EQ(qb[0]->query().attr.state, TERN_QPS_ERR);
}

// Whoever passes frames to the engine learns what the search for a tag costs.
TEST_F(TagTest, ASearchIsCharged) {
  constexpr std::uint32_t kTags = 1000;
  make({.tags = 1024, .log_ops = 12});
  for (std::uint32_t i = 0; i < kTags; ++i) {
    const TagOp op{.flags = 0, .handle = i, .recv_wr_id = i, .tag = i, .sges = {dst.sge(0, 64)}};
    srq->post_op(op, false);
  }
  b.doorbell(b.uar(), TERN_DB_CMD_TM, srq->number());
  sim.run_until_idle();
  std::uint64_t cost = 0;
  sim.pass = [&](unsigned from, std::span<const std::byte> frame) {
    if (from != 0) return true;
    cost += b.receive(frame);
    b.device.end_burst();
    b.wake();
    return false;
  };
  send_eager(0, kTags - 1, 10);
  expect(TERN_RECV_TM, kTags - 1, kWhole);
  EXPECT_GE(cost, 4 * (kTags - 1));
  sim.pass = nullptr;
}

TEST_F(TagTest, APageDoorbellFindsOperations) {
  make();
  srq->post_op(TagOp{.handle = 1, .tag = 1}, false);
  b.doorbell(b.uar(), TERN_DB_CMD_PAGE, 0);
  EXPECT_EQ(cq->wait().opcode, TERN_TM_CQE_ADD);
}

TEST_F(TagTest, OnlyThePageOfTheSrqRings) {
  make();
  const std::uint32_t other = b.alloc_uar();
  const std::uint64_t bad = b.counter(TERN_CNT_BAD_DOORBELL);
  srq->post_op(TagOp{.handle = 1, .tag = 1}, false);
  b.doorbell(other, TERN_DB_CMD_TM, srq->number());
  b.doorbell(b.uar(), TERN_DB_CMD_TM, srq->number() + 1);
  sim.run_until_idle();
  EXPECT_FALSE(cq->poll());
  EXPECT_EQ(b.counter(TERN_CNT_BAD_DOORBELL), bad + 2);
}

TEST_F(TagTest, ABadOperationFailsTheSrq) {
  const auto fails = [&](const auto& spoil) {
    make();
    spoil();
    sim.run_until_idle();
    const auto events = b.async_events();
    ASSERT_EQ(events.size(), 1U);
    EXPECT_EQ(le(events[0].type), TERN_EV_SRQ_ERR);
    EXPECT_EQ(le(events[0].id), srq->number());
    send_eager(static_cast<unsigned>(qa.size() - 1), 1, 10);
    EXPECT_EQ(qa.back()->wait_send().status, TERN_CQE_REM_OP_ERR);
    (void)b.async_events();
  };
  fails([&] { srq->post_op(TagOp{.opcode = 0}); });
  fails([&] { srq->post_op(TagOp{.opcode = 4}); });
  fails([&] {
    srq->post_op(TagOp{.handle = 1}, false);
    const std::uint8_t five = 5;
    srq->ops_memory().write(offsetof(tern_tm_op, num_sge), std::as_bytes(std::span(&five, 1)));
    b.doorbell(b.uar(), TERN_DB_CMD_TM, srq->number());
  });
  fails([&] {
    srq->store_ops_pi(17);
    b.doorbell(b.uar(), TERN_DB_CMD_TM, srq->number());
  });
}

// ---- creation ----

TEST_F(TagTest, LimitsOfCreation) {
  TestCq& mine = b.create_cq(4);
  const auto status = [&](std::uint32_t tags, std::uint8_t log_ops = 4) {
    return TestSrq(b, {.cq = &mine, .tags = tags, .log_ops = log_ops}).created();
  };
  EXPECT_EQ(le(b.caps().max_tags), 1024U);
  EXPECT_EQ(status(1024), TERN_ST_OK);
  EXPECT_EQ(status(1025), TERN_ST_BAD_PARAM);
  EXPECT_EQ(status(1, 0), TERN_ST_OK);
  EXPECT_EQ(status(1, TERN_TM_MAX_LOG_OPS), TERN_ST_OK);
  EXPECT_EQ(status(1, TERN_TM_MAX_LOG_OPS + 1), TERN_ST_BAD_PARAM);
  TestNode none(sim, {.max_tags = 0});
  TestCq& other = none.create_cq(4);
  EXPECT_EQ(le(none.caps().max_tags), 0U);
  EXPECT_EQ(TestSrq(none, {.cq = &other, .tags = 1}).created(), TERN_ST_NOT_SUPPORTED);
}

TEST_F(TagTest, TagsCountAgainstTheBudget) {
  TestNode small(sim, {.max_pages = 2000});
  TestCq& mine = small.create_cq(4);
  EXPECT_EQ(TestSrq(small, {.cq = &mine, .tags = 1024}).created(), TERN_ST_NO_MEMORY);
  EXPECT_EQ(small.create_srq({.cq = &mine, .tags = 16}).created(), TERN_ST_OK);
}

TEST_F(TagTest, OnlyReliableConnectionsMatchTags) {
  make();
  for (const unsigned type : {TERN_QPT_UC, TERN_QPT_UD}) {
    QpOptions qp{.srq = srq, .type = static_cast<std::uint8_t>(type)};
    EXPECT_EQ(TestQp(b, qp).created(), TERN_ST_BAD_PARAM);
  }
}

}  // namespace
}  // namespace tern

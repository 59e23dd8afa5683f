// SPDX-License-Identifier: GPL-2.0-or-later
// Completion queues that change in use: RESIZE_CQ, MODIFY_CQ, and CQs that ignore overruns.
#include <algorithm>
#include <functional>
#include <utility>

#include "objects/queue_fixture.h"

namespace tern {
namespace {

// ---- QUERY_CQ ----

class QueryCqTest : public CqTest {
 protected:
  tern_rsp_query_cq query() {
    tern_rsp_query_cq rsp;
    std::memset(&rsp, 0xff, sizeof(rsp));
    EXPECT_EQ(cq->query(&rsp), TERN_ST_OK);
    EXPECT_EQ(rsp.rsvd_1b, 0);
    EXPECT_EQ(rsp.rsvd_1c, 0U);
    return rsp;
  }
};

TEST_F(QueryCqTest, IndicesAndState) {
  EXPECT_EQ(query().pi, 0U);
  EXPECT_EQ(query().log_size, 3);
  EXPECT_EQ(query().eqn, cmd.eqn);
  EXPECT_EQ(query().generation, cq->generation());
  EXPECT_EQ(query().state, 0);
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(push());
  consume(2);
  EXPECT_EQ(query().pi, 5U);
  EXPECT_EQ(query().ci, 2U);
  EXPECT_EQ(query().reported, 0U);
  arm(5, 1);
  EXPECT_EQ(query().state, TERN_CQ_ST_ARMED);
  ASSERT_TRUE(push());
  EXPECT_EQ(query().state, 0);
  EXPECT_EQ(query().reported, 6U);
  arm(6, 2, true);
  EXPECT_EQ(query().state, TERN_CQ_ST_ARMED | TERN_CQ_ST_SOLICITED);
  tern_cmd_modify_cq moderation{.count = 7, .period = 8};
  ASSERT_EQ(cq->modify(moderation), TERN_ST_OK);
  EXPECT_EQ(query().count, 7);
  EXPECT_EQ(query().period, 8);
}

TEST_F(QueryCqTest, FailedQueuesAndRecordsOutOfReach) {
  for (std::uint32_t i = 0; i < kCqes; ++i) ASSERT_TRUE(push());
  ASSERT_FALSE(push());
  EXPECT_EQ(query().state, TERN_CQ_ST_FAILED);
  EXPECT_EQ(query().pi, kCqes);
  host.punch(cmd.record, 64);
  tern_rsp_query_cq rsp;
  EXPECT_EQ(cq->query(&rsp), TERN_ST_DMA_ERROR);
}

// ---- RESIZE_CQ ----

// Adds the software side of the queue: buffer, consumer index, and the number of polled CQEs.
class ResizeTest : public CqTest {
 protected:
  struct Buffer {
    std::uint64_t addr;
    std::uint8_t log_size;
    std::uint32_t base;
    [[nodiscard]] std::uint32_t size() const { return 1U << log_size; }
  };
  Buffer buf{cmd.pages.addr, 3, 0};
  std::uint32_t ci = 0;
  std::uint64_t polled = 0;  // number of CQEs; pushed CQEs have consecutive wr_ids

  tern_cmd_resize_cq resize_command(std::uint8_t log_size) {
    tern_cmd_resize_cq c{.pages = direct(sizeof(tern_cqe) << log_size), .log_size = log_size};
    return c;
  }
  std::uint64_t slot(const Buffer& b, std::uint32_t index) const {
    return b.addr + ((index - b.base) & (b.size() - 1)) * sizeof(tern_cqe);
  }
  bool ready(std::uint32_t index) {
    const auto e = host.get<tern_cqe>(slot(buf, index));
    return (e.phase & TERN_CQE_PHASE) == (~((index - buf.base) >> buf.log_size) & 1);
  }
  // Polls up to `n` entries and checks that they are in order, without gaps or duplicates.
  unsigned poll(unsigned n) {
    unsigned got = 0;
    for (; got < n && ready(ci); ++got, ++ci) {
      EXPECT_EQ(host.get<tern_cqe>(slot(buf, ci)).wr_id, ++polled);
    }
    consume(ci);
    return got;
  }
  // As in the data book: the record stays, and unconsumed CQEs are copied in front of new ones.
  Status resize(std::uint8_t log_size) {
    const tern_cmd_resize_cq c = resize_command(log_size);
    Buffer fresh{c.pages.addr, log_size, 0};
    tern_rsp_resize_cq rsp{};
    const Status st = cq->resize(c, &rsp);
    if (st != TERN_ST_OK) return st;
    fresh.base = rsp.pi;
    for (std::uint32_t i = ci; i != fresh.base; ++i) {
      auto e = host.get<tern_cqe>(slot(buf, i));
      e.phase = 0;
      host.put(slot(fresh, i), e);
    }
    buf = fresh;
    return TERN_ST_OK;
  }
  void arm_now(unsigned seq, bool only_solicited = false) { arm(ci, seq, only_solicited); }
};

TEST_F(ResizeTest, TheNextEntryGoesToTheNewBuffer) {
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(push());
  EXPECT_EQ(poll(3), 3U);
  const Buffer old = buf;
  ASSERT_EQ(resize(5), TERN_ST_OK);
  EXPECT_EQ(buf.base, 5U);
  ASSERT_TRUE(push());
  const auto e = host.get<tern_cqe>(buf.addr);
  EXPECT_EQ(e.wr_id, 6U) << "slot 0";
  EXPECT_EQ(e.phase, 1U) << "the first pass over this array";
  EXPECT_EQ(host.get<tern_cqe>(old.addr + 5 * sizeof(e)).wr_id, 0U);
  EXPECT_EQ(poll(100), 3U);
}

TEST_F(ResizeTest, NothingIsLostOrDoubledWhateverTheSizes) {
  std::uint64_t pushed = 0;
  for (unsigned step = 0; step < 20000; ++step) {
    const std::uint64_t r = host.random();
    if (r % 4 != 0 && pushed - polled < buf.size()) {
      ASSERT_TRUE(push());
      ++pushed;
    }
    if (r % 5 == 0) (void)poll(static_cast<unsigned>((r >> 8) % 6));
    if (r % 11 == 0) {
      const auto log_size = static_cast<std::uint8_t>(1 + (r >> 16) % 6);
      const bool fits = pushed - polled <= 1U << log_size;
      ASSERT_EQ(resize(log_size), fits ? TERN_ST_OK : TERN_ST_BAD_PARAM) << step;
    }
  }
  (void)poll(100);
  EXPECT_EQ(polled, pushed);
  EXPECT_GT(pushed, 5000U);
  EXPECT_FALSE(cq->broken());
}

TEST_F(ResizeTest, FullToTheBrim) {
  for (int i = 0; i < 8; ++i) ASSERT_TRUE(push());
  EXPECT_EQ(resize(2), TERN_ST_BAD_PARAM) << "8 do not fit 4";
  ASSERT_EQ(resize(3), TERN_ST_OK);
  EXPECT_EQ(poll(1), 1U);
  ASSERT_TRUE(push());
  EXPECT_FALSE(push()) << "still eight";
  EXPECT_EQ(count(TERN_CNT_CQ_OVERRUNS), 1U);
  EXPECT_EQ(poll(100), 8U);
}

TEST_F(ResizeTest, CommandsChecksEveryField) {
  const std::pair<Status, std::function<void(tern_cmd_resize_cq&)>> rows[] = {
      {TERN_ST_BAD_PARAM, [](auto& c) { c.log_size = 0; }},
      {TERN_ST_BAD_PARAM, [](auto& c) { c.log_size = 23; }},
      {TERN_ST_BAD_PARAM, [](auto& c) { c.log_size = 255; }},
      {TERN_ST_BAD_PARAM, [](auto& c) { c.pages.addr += 8; }},
      {TERN_ST_BAD_PARAM, [](auto& c) { c.pages.kind = 3; }},
      {TERN_ST_BAD_PARAM, [this](auto& c) { c.pages = list(1), c.log_size = 7; }},
      {TERN_ST_DMA_ERROR, [this](auto& c) { c.pages = list(1), host.punch(c.pages.addr, 8); }},
  };
  ASSERT_TRUE(push());
  int row = 0;
  for (const auto& [st, spoil] : rows) {
    tern_cmd_resize_cq c = resize_command(4);
    spoil(c);
    tern_rsp_resize_cq rsp{};
    EXPECT_EQ(cq->resize(c, &rsp), st) << "row " << row;
    ++row;
  }
  ASSERT_TRUE(push());
  EXPECT_EQ(poll(100), 2U) << "nothing has changed";
  EXPECT_EQ(cq->page_entries(), 0U);
}

TEST_F(ResizeTest, ConsumerIndexThatCannotBe) {
  ASSERT_TRUE(push());
  for (const std::uint32_t wrong : {2U, 0xfffffff0U, 0x80000000U}) {
    const tern_cmd_resize_cq c = resize_command(6);
    consume(wrong);
    tern_rsp_resize_cq rsp{};
    EXPECT_EQ(cq->resize(c, &rsp), TERN_ST_BAD_STATE) << wrong;
  }
  consume(0);
  EXPECT_FALSE(cq->broken());
  ASSERT_TRUE(push());
  EXPECT_EQ(poll(100), 2U);
}

TEST_F(ResizeTest, RecordOutOfReach) {
  ASSERT_TRUE(push());
  host.punch(cmd.record, 64);
  tern_rsp_resize_cq rsp{};
  EXPECT_EQ(cq->resize(resize_command(6), &rsp), TERN_ST_DMA_ERROR);
  EXPECT_FALSE(cq->broken()) << "nothing has changed";
}

TEST_F(ResizeTest, DeadQueueStaysDead) {
  for (int i = 0; i < 9; ++i) (void)push();
  ASSERT_TRUE(cq->broken());
  EXPECT_EQ(resize(6), TERN_ST_BAD_STATE);
  EXPECT_EQ(cq->modify({0, 1, 1}), TERN_ST_BAD_STATE);
}

TEST_F(ResizeTest, AnArmSurvives) {
  ASSERT_TRUE(push());
  EXPECT_EQ(poll(1), 1U);
  arm_now(0);
  ASSERT_EQ(resize(5), TERN_ST_OK);
  EXPECT_EQ(events(), 0U);
  ASSERT_TRUE(push());
  EXPECT_EQ(events(), 1U);
  ASSERT_EQ(resize(2), TERN_ST_OK);
  cq->arm();
  EXPECT_EQ(events(), 0U) << "the word went along; it has fired";
  EXPECT_EQ(poll(1), 1U);
  arm_now(1, true);
  ASSERT_EQ(resize(1), TERN_ST_OK);
  ASSERT_TRUE(push());
  EXPECT_EQ(events(), 0U);
  ASSERT_TRUE(solicited());
  EXPECT_EQ(events(), 1U);
}

TEST_F(ResizeTest, TheOldBufferIsLeftAlone) {
  ASSERT_TRUE(push());
  const Buffer old = buf;
  ASSERT_EQ(resize(3), TERN_ST_OK);
  host.punch(old.addr, kCqes * sizeof(tern_cqe));
  for (int i = 0; i < 7; ++i) ASSERT_TRUE(push());
  arm_now(0);
  EXPECT_EQ(events(), 1U);
  EXPECT_EQ(poll(100), 8U);
  for (int i = 0; i < 8; ++i) ASSERT_TRUE(push());
  EXPECT_EQ(poll(100), 8U);
}

TEST_F(ResizeTest, KeepsOnlyWhatTheNewQueueNeeds) {
  tern_cmd_resize_cq c = resize_command(7);
  c.pages = list(40);
  tern_rsp_resize_cq rsp{};
  ASSERT_EQ(cq->resize(c, &rsp), TERN_ST_OK);
  EXPECT_EQ(cq->page_entries(), 2U);
}

// ---- MODIFY_CQ ----

class ModerationTest : public CqTest {
 protected:
  Status moderate(std::uint16_t n, std::uint16_t period) { return cq->modify({77, n, period}); }
  // Advances time and runs the timers, as the device does.
  void wait(Nanos ns) {
    host.advance(ns);
    (void)device.datapath.timers.run(host.now(), 64);
  }
};

TEST_F(ModerationTest, CountOrPeriod) {
  ASSERT_EQ(moderate(3, 10), TERN_ST_OK);
  arm(0, 0);
  ASSERT_TRUE(push());
  ASSERT_TRUE(push());
  EXPECT_EQ(events(), 0U);
  ASSERT_TRUE(push());
  EXPECT_EQ(events(), 1U) << "the third";
  wait(1'000'000);
  EXPECT_EQ(events(), 0U) << "the period ended with the event";

  consume(3);
  arm(3, 1);
  wait(1'000'000);
  EXPECT_EQ(events(), 0U) << "nothing to tell";
  ASSERT_TRUE(push());
  wait(6000);
  ASSERT_TRUE(push());
  wait(3999);
  EXPECT_EQ(events(), 0U);
  wait(1);
  EXPECT_EQ(events(), 1U) << "10 us after the first of them";
  ASSERT_TRUE(push());
  wait(1'000'000);
  EXPECT_EQ(events(), 0U) << "not armed";
}

TEST_F(ModerationTest, Limits) {
  EXPECT_EQ(moderate(2, 0), TERN_ST_BAD_PARAM) << "the last one would never be told";
  EXPECT_EQ(moderate(0xffff, 0), TERN_ST_BAD_PARAM);
  arm(0, 0);
  ASSERT_TRUE(push());
  EXPECT_EQ(events(), 1U) << "a command that is refused changes nothing";
  EXPECT_EQ(moderate(0xffff, 0xffff), TERN_ST_OK);
  EXPECT_EQ(moderate(0, 0), TERN_ST_OK);
  EXPECT_EQ(moderate(1, 0), TERN_ST_OK);
}

TEST_F(ModerationTest, CountOfOneIsEachAndNoneIsThePeriodAlone) {
  for (const auto period : {std::uint16_t{0}, std::uint16_t{50}}) {
    ASSERT_EQ(moderate(1, period), TERN_ST_OK);
    const auto seq = static_cast<unsigned>(period != 0);
    arm(static_cast<std::uint32_t>(wr_id), seq);
    ASSERT_TRUE(push());
    EXPECT_EQ(events(), 1U);
  }
  ASSERT_EQ(moderate(0, 50), TERN_ST_OK);
  arm(2, 2);
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(push());
  EXPECT_EQ(events(), 0U);
  wait(50'000);
  EXPECT_EQ(events(), 1U);
}

TEST_F(ModerationTest, OffTellsAtOnceWhatWaits) {
  ASSERT_EQ(moderate(8, 1000), TERN_ST_OK);
  arm(0, 0);
  ASSERT_TRUE(push());
  EXPECT_EQ(events(), 0U);
  ASSERT_EQ(moderate(0, 0), TERN_ST_OK);
  EXPECT_EQ(events(), 1U);

  ASSERT_EQ(moderate(8, 1000), TERN_ST_OK);
  arm(1, 1);
  ASSERT_TRUE(push());
  ASSERT_TRUE(push());
  ASSERT_EQ(moderate(2, 1000), TERN_ST_OK);
  EXPECT_EQ(events(), 1U) << "two are enough now";
  consume(3);
  arm(3, 2);
  ASSERT_TRUE(push());
  ASSERT_EQ(moderate(5, 20), TERN_ST_OK);
  wait(20'000);
  EXPECT_EQ(events(), 1U) << "the new period counts from the change";
}

TEST_F(ModerationTest, WhatWasThereBeforeTheArmCounts) {
  ASSERT_EQ(moderate(4, 10), TERN_ST_OK);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(push());
  arm(1, 0);
  EXPECT_EQ(events(), 0U) << "two were not seen";
  ASSERT_TRUE(push());
  EXPECT_EQ(events(), 0U);
  ASSERT_TRUE(push());
  EXPECT_EQ(events(), 1U);
  consume(5);

  ASSERT_TRUE(push());
  arm(5, 1);
  EXPECT_EQ(events(), 0U);
  wait(10'000);
  EXPECT_EQ(events(), 1U) << "its period began with the arm";

  for (int i = 0; i < 2; ++i) ASSERT_TRUE(push());
  consume(6);
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(push());
  arm(6, 2);
  EXPECT_EQ(events(), 1U) << "six at once";
}

TEST_F(ModerationTest, ArmingAgainDoesNotPutThePeriodOff) {
  ASSERT_EQ(moderate(8, 10), TERN_ST_OK);
  arm(0, 0);
  ASSERT_TRUE(push());
  wait(6000);
  arm(0, 0);
  wait(4000);
  EXPECT_EQ(events(), 1U);
  // An arm whose CI covers all CQEs cancels the period.
  arm(1, 1);
  ASSERT_TRUE(push());
  consume(2);
  arm(2, 1);
  wait(100'000);
  EXPECT_EQ(events(), 0U);
  ASSERT_TRUE(push());
  wait(10'000);
  EXPECT_EQ(events(), 1U);
}

TEST_F(ModerationTest, OnlyWhatTheArmCountsIsCounted) {
  ASSERT_EQ(moderate(2, 10), TERN_ST_OK);
  arm(0, 0, true);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(push());
  wait(100'000);
  EXPECT_EQ(events(), 0U) << "none of them solicits";
  ASSERT_TRUE(solicited());
  EXPECT_EQ(events(), 0U);
  ASSERT_TRUE(push(0, TERN_CQE_WR_FLUSH_ERR));
  EXPECT_EQ(events(), 1U) << "an error counts as one";
  consume(5);
  ASSERT_TRUE(solicited());
  ASSERT_TRUE(push());
  arm(5, 1, true);
  EXPECT_EQ(events(), 0U) << "one of the two";
  wait(10'000);
  EXPECT_EQ(events(), 1U);
}

TEST_F(ModerationTest, ADeadOrDestroyedQueueTellsNothing) {
  ASSERT_EQ(moderate(100, 10), TERN_ST_OK);
  arm(0, 0);
  for (int i = 0; i < 9; ++i) (void)push();
  ASSERT_TRUE(cq->broken());
  wait(100'000);
  EXPECT_EQ(events(), 0U);
  EXPECT_EQ(device.datapath.timers.next(), kNever);

  cq = std::make_unique<Cq>(device.datapath, cmd, eq.get());
  ASSERT_EQ(cq->init(), TERN_ST_OK);
  ASSERT_EQ(moderate(100, 10), TERN_ST_OK);
  arm(0, 0);
  ASSERT_TRUE(push());
  EXPECT_NE(device.datapath.timers.next(), kNever);
  cq.reset();
  wait(100'000);
  EXPECT_EQ(events(), 0U);
}

TEST_F(ModerationTest, EventsComeAtMostSoOften) {
  ASSERT_EQ(moderate(4, 1000), TERN_ST_OK);
  std::uint64_t total = 0;
  unsigned seq = 0;
  arm(0, seq);
  for (std::uint32_t i = 0; i < 400; ++i) {
    ASSERT_TRUE(push());
    host.advance(100);
    if (const std::uint64_t n = events(); n != 0) {
      total += n;
      consume(i + 1);
      arm(i + 1, ++seq);
    }
  }
  EXPECT_EQ(total, 100U);
}

// ---- TERN_CQ_F_IGNORE_OVERRUN ----

class OverrunTest : public CqTest {
 protected:
  OverrunTest() {
    cmd.flags = TERN_CQ_F_IGNORE_OVERRUN;
    cq = std::make_unique<Cq>(device.datapath, cmd, eq.get());
    EXPECT_EQ(cq->init(), TERN_ST_OK);
  }
};

TEST_F(OverrunTest, OldEntriesAreOverwritten) {
  const std::uint64_t before = host.maps;
  for (std::uint32_t i = 0; i < 5 * kCqes; ++i) ASSERT_TRUE(push());
  EXPECT_EQ(host.maps - before, 5 * kCqes) << "the record is not read";
  for (std::uint32_t i = 0; i < kCqes; ++i) {
    EXPECT_EQ(cqe(i).wr_id, 4 * kCqes + i + 1);
    EXPECT_EQ(cqe(i).phase, 1U);
  }
  EXPECT_FALSE(cq->broken());
  EXPECT_EQ(count(TERN_CNT_CQ_OVERRUNS), 0U);
  EXPECT_EQ(device.datapath.async_events.waiting(), 0U);
}

TEST_F(OverrunTest, EventsGoOn) {
  arm(0, 0);
  for (std::uint32_t i = 0; i < 3 * kCqes; ++i) ASSERT_TRUE(push());
  EXPECT_EQ(events(), 1U);
  arm(3 * kCqes, 1);
  ASSERT_TRUE(push());
  EXPECT_EQ(events(), 1U);
}

TEST_F(OverrunTest, UnreachableMemoryStillKills) {
  host.punch(cmd.pages.addr, 64);
  EXPECT_FALSE(push());
  EXPECT_TRUE(cq->broken());
  EXPECT_EQ(count(TERN_CNT_DMA_ERRORS), 1U);
}

TEST_F(OverrunTest, ResizeNeedsAnIndexThatIsRight) {
  for (std::uint32_t i = 0; i < kCqes + 1; ++i) ASSERT_TRUE(push());
  tern_cmd_resize_cq c{.pages = direct(16 * sizeof(tern_cqe)), .log_size = 4};
  tern_rsp_resize_cq rsp{};
  EXPECT_EQ(cq->resize(c, &rsp), TERN_ST_BAD_STATE) << "an entry was overwritten unread";
  consume(1);
  EXPECT_EQ(cq->resize(c, &rsp), TERN_ST_OK);
  EXPECT_EQ(rsp.pi, kCqes + 1);
}

}  // namespace
}  // namespace tern

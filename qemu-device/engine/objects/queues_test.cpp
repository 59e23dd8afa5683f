// SPDX-License-Identifier: GPL-2.0-or-later
#include <algorithm>
#include <chrono>
#include <deque>
#include <functional>

#include "objects/queue_fixture.h"

namespace tern {
namespace {

// ---- QueueBuffer ----

using QueueBufferTest = QueueTest;

TEST_F(QueueBufferTest, TheListMustCoverTheQueue) {
  const tern_pages good = list(3);
  auto st = [&](tern_pages p, std::uint64_t bytes) {
    QueueBuffer b(device.registry.page_budget);
    return b.load(host, p, bytes);
  };
  EXPECT_EQ(st(good, 1), TERN_ST_OK);
  EXPECT_EQ(st(good, 3 * 4096), TERN_ST_OK);
  EXPECT_EQ(st(good, 3 * 4096 + 1), TERN_ST_BAD_PARAM);
  EXPECT_EQ(st(good, std::uint64_t{1} << 45), TERN_ST_BAD_PARAM);
  tern_pages p = good;
  p.num = 0;
  EXPECT_EQ(st(p, 64), TERN_ST_BAD_PARAM);
  p = good;
  p.page_shift = 11;
  EXPECT_EQ(st(p, 64), TERN_ST_BAD_PARAM);
  p.page_shift = 32;
  EXPECT_EQ(st(p, 64), TERN_ST_BAD_PARAM);
  p.page_shift = 255;
  EXPECT_EQ(st(p, 64), TERN_ST_BAD_PARAM);
  p = good;
  p.kind = 3;
  EXPECT_EQ(st(p, 64), TERN_ST_BAD_PARAM);
  p = good;
  p.rsvd_e = 1;
  EXPECT_EQ(st(p, 64), TERN_ST_BAD_PARAM);
  p = good;
  p.addr = 64;
  EXPECT_EQ(st(p, 64), TERN_ST_DMA_ERROR);

  p = direct(4096);
  EXPECT_EQ(st(p, 4096), TERN_ST_OK);
  p.addr += 32;
  EXPECT_EQ(st(p, 4096), TERN_ST_BAD_PARAM) << "rings are 64-byte aligned";
  p.addr = UINT64_MAX - 63;
  EXPECT_EQ(st(p, 4096), TERN_ST_BAD_PARAM) << "wraps";
}

TEST_F(QueueBufferTest, KeepsOnlyWhatTheQueueNeeds) {
  QueueBuffer b(device.registry.page_budget);
  ASSERT_EQ(b.load(host, list(40), 4097), TERN_ST_OK);
  EXPECT_EQ(b.page_entries(), 2U);
  EXPECT_EQ(device.registry.page_budget.held(), 2U);
  QueueBuffer none(device.registry.page_budget);
  ASSERT_EQ(none.load(host, direct(4096), 4096), TERN_ST_OK);
  EXPECT_EQ(none.page_entries(), 0U);
  b = std::move(none);
  EXPECT_EQ(b.page_entries(), 0U);
}

TEST_F(QueueBufferTest, ReadsAcrossPages) {
  std::vector<std::uint64_t> page;
  QueueBuffer b(device.registry.page_budget);
  ASSERT_EQ(b.load(host, list(2, &page), 8192), TERN_ST_OK);
  host.put<std::uint32_t>(page[0] + 4092, 0x11111111);
  host.put<std::uint32_t>(page[1], 0x22222222);
  std::uint64_t word = 0;
  ASSERT_TRUE(b.read(host, 4092, std::as_writable_bytes(std::span(&word, 1))));
  EXPECT_EQ(word, 0x2222222211111111U);
  EXPECT_FALSE(b.read(host, 8188, std::as_writable_bytes(std::span(&word, 1)))) << "past the end";
  host.punch(page[1], 8);
  EXPECT_FALSE(b.read(host, 4092, std::as_writable_bytes(std::span(&word, 1))));
}

TEST_F(QueueBufferTest, EntriesThroughAnyMapping) {
  const tern_pages p = direct(4096);
  QueueBuffer b(device.registry.page_budget);
  ASSERT_EQ(b.load(host, p, 4096), TERN_ST_OK);
  for (const std::uint64_t limit : {0, 1, 2, 3, 4, 5, 63}) {
    host.short_span = limit;
    const auto tag = static_cast<std::uint32_t>(0xabcd0000 + limit);
    std::array<std::uint32_t, 16> entry;
    for (std::uint32_t i = 0; i < 16; ++i) entry[i] = tag + i;
    EXPECT_TRUE(b.publish(host, 128, std::as_bytes(std::span(entry))));
    EXPECT_EQ((host.get<std::array<std::uint32_t, 16>>(p.addr + 128)), entry);
  }
  host.short_span = 0;
  host.punch(p.addr + 128, 64);
  const std::array<std::byte, 64> entry{};
  EXPECT_FALSE(b.publish(host, 128, entry));
  host.punch(p.addr + 128, 8);
  EXPECT_FALSE(b.publish(host, 128, entry)) << "a hole at its start";
  host.restore(p.addr + 128);
  host.punch(p.addr + 160, 8);
  EXPECT_FALSE(b.publish(host, 128, entry)) << "a hole inside";
}

TEST_F(QueueBufferTest, NothingPastTheList) {
  QueueBuffer b(device.registry.page_budget);
  ASSERT_EQ(b.load(host, list(1), 4096), TERN_ST_OK);
  const std::array<std::byte, 64> entry{};
  EXPECT_FALSE(b.publish(host, 4096, entry));
  EXPECT_FALSE(b.publish(host, UINT64_MAX - 63, entry));
}

// ---- Record ----

using RecordTest = QueueTest;

TEST_F(RecordTest, WordsThroughAnyMapping) {
  const Record record(host.alloc(256, 256));
  const std::uint64_t addr = host.alloc(256, 256);
  const Record other(addr);
  for (const std::uint64_t limit : {0, 1, 2, 3, 4, 5, 63}) {
    host.short_span = limit;
    const auto tag = static_cast<std::uint32_t>(0xabcd0000 + limit);
    EXPECT_TRUE(other.store32(host, 128, tag));
    EXPECT_EQ(other.load32(host, 128), tag);
    EXPECT_EQ(host.get<std::uint32_t>(addr + 128), tag);
    EXPECT_EQ(record.load32(host, 128), 0U);
  }
  host.short_span = 0;
  host.punch(addr + 128, 4);
  EXPECT_FALSE(other.load32(host, 128));
  EXPECT_FALSE(other.store32(host, 128, 1));
  EXPECT_FALSE(Record(UINT64_MAX - 63).load32(host, 64)) << "not wrapped to address 0";
}

TEST_F(RecordTest, AlignedToItsSize) {
  EXPECT_TRUE(Record(0x1100).fits<tern_qp_record>());
  EXPECT_FALSE(Record(0x1180).fits<tern_qp_record>());
  EXPECT_TRUE(Record(0x1180).fits<tern_srq_record>());
  EXPECT_FALSE(Record(0x1140).fits<tern_srq_record>());
  EXPECT_TRUE(Record(0x1140).fits<tern_eq_record>());
  EXPECT_FALSE(Record(0x1120).fits<tern_eq_record>());
}

// ---- Eq ----

TEST_F(EqTest, CreationChecksEveryField) {
  const tern_cmd_create_eq good = command();
  const std::pair<Status, std::function<void(tern_cmd_create_eq&)>> rows[] = {
      {TERN_ST_OK, [](auto&) {}},
      {TERN_ST_OK, [](auto& c) { c.kind = TERN_EQ_ASYNC; }},
      {TERN_ST_OK, [](auto& c) { c.vector = 31; }},
      {TERN_ST_BAD_PARAM, [](auto& c) { c.vector = 32; }},
      {TERN_ST_BAD_PARAM, [](auto& c) { c.vector = 0xffff; }},
      {TERN_ST_OK, [](auto& c) { c.kind = TERN_EQ_FAULT; }},
      {TERN_ST_BAD_PARAM, [](auto& c) { c.kind = 3; }},
      {TERN_ST_BAD_PARAM, [](auto& c) { c.log_size = 3; }},
      {TERN_ST_BAD_PARAM, [](auto& c) { c.log_size = 21; }},
      {TERN_ST_BAD_PARAM, [](auto& c) { c.log_size = 255; }},
      {TERN_ST_BAD_PARAM, [](auto& c) { c.record += 4; }},
      {TERN_ST_BAD_PARAM, [](auto& c) { c.record += sizeof(tern_eq_record) / 2; }},
      {TERN_ST_OK, [](auto& c) { c.record += sizeof(tern_eq_record); }},
      {TERN_ST_OK, [this](auto& c) { c.pages = list(1), c.log_size = 8; }},
      {TERN_ST_BAD_PARAM, [this](auto& c) { c.pages = list(1), c.log_size = 9; }},
      {TERN_ST_OK, [this](auto& c) { c.pages = list(1), c.log_size = 6, c.kind = TERN_EQ_FAULT; }},
      {TERN_ST_BAD_PARAM,
       [this](auto& c) { c.pages = list(1), c.log_size = 7, c.kind = TERN_EQ_FAULT; }},
      {TERN_ST_BAD_PARAM, [](auto& c) { c.pages.kind = 9; }},
  };
  int row = 0;
  for (const auto& [st, spoil] : rows) {
    tern_cmd_create_eq cmd = good;
    spoil(cmd);
    EXPECT_EQ(Eq(device.datapath, cmd).init(), st) << "row " << row;
    ++row;
  }
}

TEST_F(EqTest, EntriesPhasesAndVector) {
  const auto cmd = command();
  Eq eq(device.datapath, cmd);
  ASSERT_EQ(eq.init(), TERN_ST_OK);
  for (std::uint32_t i = 0; i < 5 * kSize; ++i) {
    ASSERT_EQ(eq.pi(), i);
    ASSERT_TRUE(eq.post(device.datapath, TERN_EV_COMPLETION, 1000 + i));
    EXPECT_TRUE(raised(3));
    const tern_eqe e = at(cmd, i % kSize);
    EXPECT_EQ(e.type, TERN_EV_COMPLETION);
    EXPECT_EQ(e.id, 1000 + i);
    EXPECT_EQ(e.detail, 0U);
    EXPECT_EQ(e.phase, (i / kSize) % 2 == 0 ? 1U : 0U);
    set_ci(cmd, i + 1);
  }
}

TEST_F(EqTest, FullAndConsumed) {
  const auto cmd = command();
  Eq eq(device.datapath, cmd);
  ASSERT_EQ(eq.init(), TERN_ST_OK);
  for (std::uint32_t i = 0; i < kSize; ++i)
    ASSERT_TRUE(eq.post(device.datapath, TERN_EV_COMPLETION, i));
  (void)raised(3);
  EXPECT_FALSE(eq.post(device.datapath, TERN_EV_COMPLETION, 99));
  EXPECT_FALSE(raised(3));
  EXPECT_EQ(at(cmd, 0).id, 0U) << "nothing was overwritten";
  EXPECT_FALSE(eq.consumed(device.datapath, 0));
  set_ci(cmd, 1);
  EXPECT_TRUE(eq.consumed(device.datapath, 0));
  EXPECT_FALSE(eq.consumed(device.datapath, 1));
  EXPECT_TRUE(eq.post(device.datapath, TERN_EV_COMPLETION, 99));
  EXPECT_FALSE(eq.post(device.datapath, TERN_EV_COMPLETION, 100));
  // An index ahead of the device, or one that went back, consumes nothing.
  set_ci(cmd, kSize + 2);
  EXPECT_FALSE(eq.consumed(device.datapath, 1));
  EXPECT_FALSE(eq.post(device.datapath, TERN_EV_COMPLETION, 100));
  set_ci(cmd, 0);
  EXPECT_FALSE(eq.post(device.datapath, TERN_EV_COMPLETION, 100));
  set_ci(cmd, kSize + 1);
  EXPECT_TRUE(eq.consumed(device.datapath, kSize));
}

TEST_F(EqTest, UnreachableMemoryIsFatal) {
  const auto cmd = command();
  Eq eq(device.datapath, cmd);
  ASSERT_EQ(eq.init(), TERN_ST_OK);
  host.punch(cmd.pages.addr, 16);
  EXPECT_FALSE(eq.post(device.datapath, TERN_EV_COMPLETION, 1));
  EXPECT_TRUE(status() & TERN_STATUS_FATAL);
  EXPECT_EQ(device.reg_read(TERN_REG_FATAL), static_cast<std::uint32_t>(TERN_FATAL_EQ_DMA));
  EXPECT_TRUE(raised(0));

  device.reset();
  host.restore(cmd.pages.addr);
  ASSERT_TRUE(eq.post(device.datapath, TERN_EV_COMPLETION, 1));
  host.punch(cmd.record, 64);
  EXPECT_FALSE(eq.consumed(device.datapath, 0));
  EXPECT_TRUE(status() & TERN_STATUS_FATAL);
}

// ---- AsyncEvents ----

class AsyncTest : public EqTest {
 protected:
  AsyncTest() {
    cmd = command();
    cmd.kind = TERN_EQ_ASYNC;
  }
  void connect() {
    eq = std::make_unique<Eq>(device.datapath, cmd);
    ASSERT_EQ(eq->init(), TERN_ST_OK);
    device.datapath.async_events.eq = eq.get();
  }
  ~AsyncTest() override { device.datapath.async_events.eq = nullptr; }
  tern_cmd_create_eq cmd;
  std::unique_ptr<Eq> eq;
  AsyncEvents& events = device.datapath.async_events;
};

TEST_F(AsyncTest, WaitsForTheQueueOnceEach) {
  events.raise(device.datapath, TERN_EV_PORT_CHANGE, 0);
  events.raise(device.datapath, TERN_EV_CQ_ERR, 7);
  events.raise(device.datapath, TERN_EV_PORT_CHANGE, 0);
  events.raise(device.datapath, TERN_EV_CQ_ERR, 8);
  EXPECT_EQ(events.waiting(), 3U);
  EXPECT_EQ(device.datapath.counters.rdma[TERN_CNT_EQ_COALESCED], 1U);
  connect();
  events.flush(device.datapath);
  EXPECT_EQ(events.waiting(), 0U);
  EXPECT_EQ(eq->pi(), 3U);
  EXPECT_EQ(at(cmd, 0).type, TERN_EV_PORT_CHANGE);
  EXPECT_EQ(at(cmd, 1).id, 7U);
  EXPECT_EQ(at(cmd, 2).id, 8U);
  // An event that was delivered may be raised again.
  events.raise(device.datapath, TERN_EV_PORT_CHANGE, 0);
  EXPECT_EQ(eq->pi(), 4U);
}

TEST_F(AsyncTest, KeepsTheOrderPastAFullQueue) {
  connect();
  for (std::uint32_t i = 0; i < kSize + 5; ++i) events.raise(device.datapath, TERN_EV_QP_FATAL, i);
  EXPECT_EQ(events.waiting(), 5U);
  set_ci(cmd, 3);
  events.raise(device.datapath, TERN_EV_QP_FATAL, 100);
  EXPECT_EQ(events.waiting(), 6U) << "nothing overtakes what waits";
  events.flush(device.datapath);
  EXPECT_EQ(events.waiting(), 3U);
  EXPECT_EQ(at(cmd, 0).id, kSize);
  EXPECT_EQ(at(cmd, 2).id, kSize + 2);
  set_ci(cmd, kSize);
  events.flush(device.datapath);
  EXPECT_EQ(at(cmd, 5).id, 100U);
  EXPECT_EQ(events.waiting(), 0U);
}

TEST_F(AsyncTest, CarryTheGeneration) {
  events.raise(device.datapath, TERN_EV_CQ_ERR, 7, 0x80000001);
  events.raise(device.datapath, TERN_EV_CQ_ERR, 7, 0x80000002);
  EXPECT_EQ(events.waiting(), 2U) << "of two objects";
  connect();
  events.flush(device.datapath);
  events.raise(device.datapath, TERN_EV_CQ_ERR, 7, 0x80000003);
  for (std::uint32_t i = 0; i < 3; ++i) {
    EXPECT_EQ(at(cmd, i).id, 7U);
    EXPECT_EQ(at(cmd, i).generation, 0x80000001 + i);
  }
  events.raise(device.datapath, TERN_EV_PORT_CHANGE, 1);
  EXPECT_EQ(at(cmd, 3).generation, 0U);
}

TEST_F(AsyncTest, ForgetsWhatIsGone) {
  for (std::uint16_t type = 1; type < TERN_EV_NUM; ++type) events.raise(device.datapath, type, 5);
  events.raise(device.datapath, TERN_EV_CQ_ERR, 6);
  events.forget(5, [](std::uint16_t type) { return type == TERN_EV_CQ_ERR; });
  EXPECT_EQ(events.waiting(), TERN_EV_NUM - 1U);
  events.raise(device.datapath, TERN_EV_CQ_ERR, 5);
  EXPECT_EQ(events.waiting(), TERN_EV_NUM + 0U) << "a new object with that number";
  events.clear();
  EXPECT_EQ(events.waiting(), 0U);
  connect();
  events.flush(device.datapath);
  EXPECT_EQ(eq->pi(), 0U);
}

double forget_time(AsyncEvents& events) {
  constexpr unsigned kTimes = 50;
  double best = 1e9;
  for (unsigned run = 0; run < 5; ++run) {
    const auto begin = std::chrono::steady_clock::now();
    for (unsigned i = 0; i < kTimes; ++i) {
      events.forget(1'000'000 + i, [](std::uint16_t) { return true; });
    }
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - begin;
    best = std::min(best, took.count() / kTimes);
  }
  return best;
}

// A driver without an asynchronous EQ may let any number of events wait: to destroy an object must
// not search them all.
TEST_F(AsyncTest, ForgettingIsNoSearch) {
  for (std::uint32_t i = 0; i < 16; ++i) events.raise(device.datapath, TERN_EV_QP_FATAL, i);
  const double few = forget_time(events);
  for (std::uint32_t i = 0; i < 50'000; ++i) events.raise(device.datapath, TERN_EV_QP_FATAL, i);
  EXPECT_LT(forget_time(events), 50 * few);
}

TEST_F(AsyncTest, WaitingEventsArePostedInSlices) {
  constexpr std::uint32_t kLog = 12;
  constexpr std::uint32_t kMany = 3000;
  cmd.log_size = kLog;
  cmd.pages = direct(sizeof(tern_eqe) << kLog);
  for (std::uint32_t i = 0; i < kMany; ++i) events.raise(device.datapath, TERN_EV_QP_FATAL, i);
  connect();
  enable();
  device.doorbell(0, TERN_DB_CMD_EQ_CI << 28);
  std::uint64_t before = 0;
  do {
    EXPECT_GT(eq->pi(), before);
    EXPECT_LE(eq->pi() - before, 256U);
    before = eq->pi();
  } while (device.run(65536));
  EXPECT_EQ(eq->pi(), kMany);
  for (std::uint32_t i = 0; i < kMany; ++i) ASSERT_EQ(at(cmd, i).id, i);
}

// ---- Cq ----

// A user that completes into the next CQ, as a QP does that flushes a receive WQE.
struct ChainUser {
  static void notify(void* self) { static_cast<ChainUser*>(self)->failed(); }
  static constexpr CqUser::Kind kKind{&notify, nullptr};
  CqUser user{kKind, this};
  Cq* next = nullptr;
  unsigned* depth = nullptr;
  unsigned* deepest = nullptr;
  bool notified = false;

  void failed() {
    EXPECT_FALSE(notified) << "once";
    notified = true;
    *deepest = std::max(*deepest, ++*depth);
    tern_cqe cqe{};
    if (next != nullptr) {
      EXPECT_FALSE(next->push(cqe));
    }
    --*depth;
  }
};

// Every CQ of a chain is full, and the failure of one overruns the next one. A process can make
// such a chain of QPs.
TEST_F(CqTest, AChainOfFailuresDoesNotNest) {
  constexpr std::size_t kLength = 3000;
  enable();
  unsigned depth = 0;
  unsigned deepest = 0;
  std::deque<Cq> cqs;
  std::deque<ChainUser> users;
  for (std::size_t i = 0; i < kLength; ++i) {
    Cq& made = cqs.emplace_back(device.datapath, cmd, nullptr);
    ASSERT_EQ(made.init(), TERN_ST_OK);
    for (std::uint32_t n = 0; n < kCqes; ++n) {
      tern_cqe cqe{};
      ASSERT_TRUE(made.push(cqe));
    }
    if (i != 0) users.back().next = &made;
    ChainUser& user = users.emplace_back();
    user.depth = &depth;
    user.deepest = &deepest;
    made.attach(user.user);
  }
  tern_cqe cqe{};
  EXPECT_FALSE(cqs.front().push(cqe));
  EXPECT_FALSE(users.front().notified) << "later";
  bool more = true;
  while (more) {
    const std::uint64_t before = device.datapath.visits;
    more = device.run(65536);
    EXPECT_LE(device.datapath.visits - before, 256U);
  }
  EXPECT_TRUE(users.back().notified);
  EXPECT_EQ(deepest, 1U);
  EXPECT_TRUE(cqs.front().used()) << "a user that knows is still a user";
  users.clear();
  EXPECT_FALSE(cqs.front().used());
}

// Otherwise the runner would call a device for ever that does nothing.
TEST_F(CqTest, AStoppedDeviceNotifiesNobody) {
  enable();
  for (std::uint32_t n = 0; n < kCqes; ++n) ASSERT_TRUE(push());
  EXPECT_FALSE(push());
  device.datapath.fatal(TERN_FATAL_AQ_DMA);
  EXPECT_FALSE(device.run(65536));
}

// EQEs of CQs that are gone occupy the EQ until software has consumed them, which it does not tell.
TEST_F(CqTest, AnEventWithoutRoomIsPostedLater) {
  enable();
  for (std::uint32_t i = 0; i < kSize; ++i)
    ASSERT_TRUE(eq->post(device.datapath, TERN_EV_COMPLETION, 1000 + i));
  arm(0, 1);
  ASSERT_TRUE(push());
  EXPECT_EQ(eq->pi(), kSize) << "full";
  set_ci(eq_cmd, kSize);
  EXPECT_NE(device.next_deadline(), kNever);
  host.clock = device.next_deadline();
  (void)device.run(65536);
  EXPECT_EQ(eq->pi(), kSize + 1);
  EXPECT_EQ(at(eq_cmd, 0).id, 77U);
  EXPECT_EQ(device.next_deadline(), kNever);
}

TEST_F(CqTest, CreationChecksEveryField) {
  const std::pair<Status, std::function<void(tern_cmd_create_cq&)>> rows[] = {
      {TERN_ST_OK, [](auto&) {}},
      {TERN_ST_OK, [](auto& c) { c.log_size = 1; }},
      {TERN_ST_BAD_PARAM, [](auto& c) { c.log_size = 0; }},
      {TERN_ST_BAD_PARAM, [](auto& c) { c.log_size = 23; }},
      {TERN_ST_BAD_PARAM, [](auto& c) { c.log_size = 200; }},
      {TERN_ST_BAD_PARAM, [](auto& c) { c.record += sizeof(tern_cq_record) / 2; }},
      {TERN_ST_OK, [](auto& c) { c.record += sizeof(tern_cq_record); }},
      {TERN_ST_OK, [this](auto& c) { c.pages = list(1), c.log_size = 6; }},
      {TERN_ST_BAD_PARAM, [this](auto& c) { c.pages = list(1), c.log_size = 7; }},
      {TERN_ST_OK, [](auto& c) { c.flags = TERN_CQ_F_IGNORE_OVERRUN; }},
      {TERN_ST_BAD_PARAM, [](auto& c) { c.flags = 2; }},
      {TERN_ST_BAD_PARAM, [](auto& c) { c.flags = 0x83; }},
      {TERN_ST_BAD_PARAM, [](auto& c) { c.pages.addr += 8; }},
  };
  int row = 0;
  for (const auto& [st, spoil] : rows) {
    tern_cmd_create_cq bad = cmd;
    spoil(bad);
    EXPECT_EQ(Cq(device.datapath, bad, eq.get()).init(), st) << "row " << row;
    ++row;
  }
  EXPECT_EQ(eq->users(), 1U) << "the one of the fixture";
}

TEST_F(CqTest, EntriesPhasesAndTime) {
  for (std::uint32_t i = 0; i < 5 * kCqes; ++i) {
    host.advance(10);
    ASSERT_TRUE(push());
    const tern_cqe e = cqe(i % kCqes);
    EXPECT_EQ(e.wr_id, i + 1);
    EXPECT_EQ(e.timestamp, host.clock);
    EXPECT_EQ(e.phase, (i / kCqes) % 2 == 0 ? 1U : 0U);
    consume(i + 1);
  }
  EXPECT_EQ(events(), 0U) << "never armed";
}

TEST_F(CqTest, ReadsTheRecordOnlyWhenItLooksFull) {
  const std::uint64_t before = host.maps;
  for (std::uint32_t i = 0; i < kCqes; ++i) ASSERT_TRUE(push());
  EXPECT_EQ(host.maps - before, kCqes);
  consume(kCqes);
  for (std::uint32_t i = 0; i < kCqes; ++i) ASSERT_TRUE(push());
  EXPECT_EQ(host.maps - before, 2 * kCqes + 1);
}

TEST_F(CqTest, OverflowKillsTheQueue) {
  for (std::uint32_t i = 0; i < kCqes; ++i) ASSERT_TRUE(push());
  EXPECT_FALSE(cq->broken());
  EXPECT_FALSE(push());
  EXPECT_TRUE(cq->broken());
  EXPECT_EQ(cqe(0).wr_id, 1U) << "nothing was overwritten";
  EXPECT_EQ(count(TERN_CNT_CQ_OVERRUNS), 1U);
  EXPECT_EQ(device.datapath.async_events.waiting(), 1U);
  consume(kCqes);
  EXPECT_FALSE(push()) << "for ever";
  EXPECT_EQ(count(TERN_CNT_CQ_OVERRUNS), 1U);
  EXPECT_EQ(device.datapath.async_events.waiting(), 1U);
  arm(0, 0);
  EXPECT_EQ(events(), 0U);
}

TEST_F(CqTest, ImpossibleConsumerIndexIsAnOverflow) {
  for (const std::uint32_t ci : {kCqes + 1, 0xffffffffU, 0x80000000U}) {
    cq = std::make_unique<Cq>(device.datapath, cmd, eq.get());
    ASSERT_EQ(cq->init(), TERN_ST_OK);
    consume(ci);
    for (std::uint32_t i = 0; i < kCqes; ++i) ASSERT_TRUE(push());
    EXPECT_FALSE(push()) << ci;
    EXPECT_TRUE(cq->broken());
  }
}

TEST_F(CqTest, UnreachableMemoryKillsTheQueue) {
  ASSERT_TRUE(push());
  host.punch(cmd.pages.addr + sizeof(tern_cqe), 64);
  EXPECT_FALSE(push());
  EXPECT_TRUE(cq->broken());
  EXPECT_EQ(count(TERN_CNT_DMA_ERRORS), 1U);
  EXPECT_EQ(count(TERN_CNT_CQ_OVERRUNS), 0U);
  EXPECT_EQ(device.datapath.async_events.waiting(), 1U);
  EXPECT_FALSE(status() & TERN_STATUS_FATAL) << "the user's memory, not the device's";
}

TEST_F(CqTest, UnreachableRecordKillsTheQueue) {
  host.punch(cmd.record, 64);
  for (std::uint32_t i = 0; i < kCqes; ++i) ASSERT_TRUE(push());
  EXPECT_FALSE(push());
  EXPECT_EQ(count(TERN_CNT_DMA_ERRORS), 1U);

  cq = std::make_unique<Cq>(device.datapath, cmd, eq.get());
  ASSERT_EQ(cq->init(), TERN_ST_OK);
  cq->arm();
  EXPECT_TRUE(cq->broken());
}

TEST_F(CqTest, ArmFiresOnceWithTheNextEntry) {
  arm(0, 0);
  EXPECT_EQ(events(), 0U);
  ASSERT_TRUE(push());
  EXPECT_TRUE(raised(3));
  const tern_eqe e = at(eq_cmd, 0);
  EXPECT_EQ(e.type, TERN_EV_COMPLETION);
  EXPECT_EQ(e.id, 77U);
  EXPECT_EQ(events(), 1U);
  ASSERT_TRUE(push());
  EXPECT_EQ(events(), 0U);
  arm(2, 0);
  ASSERT_TRUE(push());
  EXPECT_EQ(events(), 0U) << "that sequence number has fired";
  arm(3, 1);
  EXPECT_EQ(events(), 0U);
  ASSERT_TRUE(push());
  EXPECT_EQ(events(), 1U);
}

TEST_F(CqTest, ArmFiresAtOnceForWhatIsThere) {
  ASSERT_TRUE(push());
  ASSERT_TRUE(push());
  arm(1, 0);
  EXPECT_EQ(events(), 1U) << "entry 1 was not seen";
  arm(2, 1);
  EXPECT_EQ(events(), 0U) << "all were seen";
  ASSERT_TRUE(push());
  EXPECT_EQ(events(), 1U);
}

TEST_F(CqTest, ArmNeedsNoDoorbellBeforeTheEntry) {
  store_arm(0, 0);
  ASSERT_TRUE(push());
  EXPECT_EQ(events(), 0U);
  device.datapath.read_arms();
  EXPECT_EQ(events(), 1U);
  EXPECT_EQ(reported(), 1U);
  device.datapath.read_arms();
  ASSERT_TRUE(push());
  device.datapath.read_arms();
  EXPECT_EQ(events(), 0U) << "that sequence number has fired";
  EXPECT_EQ(reported(), 1U) << "software that arms now must kick";

  store_arm(2, 1);
  device.datapath.read_arms();
  EXPECT_EQ(events(), 0U) << "no entry was written";
  ASSERT_TRUE(push());
  ASSERT_TRUE(push());
  device.datapath.read_arms();
  EXPECT_EQ(events(), 1U);
  EXPECT_EQ(reported(), 4U);
}

TEST_F(CqTest, SolicitedArmIsWidenedWithoutADoorbell) {
  arm(0, 0, true);
  ASSERT_TRUE(push());
  device.datapath.read_arms();
  EXPECT_EQ(events(), 0U);
  store_arm(1, 0);
  ASSERT_TRUE(push());
  device.datapath.read_arms();
  EXPECT_EQ(events(), 1U);
  EXPECT_EQ(reported(), 2U);
}

TEST_F(CqTest, UnreachableReportedIndexKillsTheQueue) {
  arm(0, 0);
  host.punch(cmd.record + offsetof(tern_cq_record, reported), 4);
  ASSERT_TRUE(push());
  EXPECT_EQ(events(), 1U);
  EXPECT_TRUE(cq->broken());
  EXPECT_EQ(count(TERN_CNT_DMA_ERRORS), 1U);
  device.datapath.read_arms();
}

TEST_F(CqTest, DestroyedBeforeItsArmIsRead) {
  store_arm(0, 0);
  ASSERT_TRUE(push());
  cq.reset();
  device.datapath.read_arms();
  EXPECT_EQ(events(), 0U);
}

TEST_F(CqTest, SequenceNumbersWrap) {
  for (unsigned i = 0; i < 20; ++i) {
    arm(i, i);
    EXPECT_EQ(events(), 0U);
    ASSERT_TRUE(push());
    EXPECT_EQ(events(), 1U);
    arm(i, i);
    EXPECT_EQ(events(), 0U);
    consume(i + 1);
  }
}

TEST_F(CqTest, SolicitedArm) {
  arm(0, 0, true);
  ASSERT_TRUE(push());
  EXPECT_EQ(events(), 0U);
  ASSERT_TRUE(solicited());
  EXPECT_EQ(events(), 1U);
  arm(1, 1, true);
  EXPECT_EQ(events(), 0U) << "entry 1 is solicited and was not seen, but an event told of it";
  ASSERT_TRUE(push(0, TERN_CQE_WR_FLUSH_ERR));
  EXPECT_EQ(events(), 1U) << "an error counts";
  ASSERT_TRUE(push());
  arm(2, 2, true);
  EXPECT_EQ(events(), 0U) << "entry 3 does not count";
  ASSERT_TRUE(solicited());
  EXPECT_EQ(events(), 1U);
  ASSERT_TRUE(solicited());
  ASSERT_TRUE(push());
  arm(6, 3, true);
  EXPECT_EQ(events(), 0U) << "entry 5 counts and came after the event, but was seen";
  arm(5, 3, true);
  EXPECT_EQ(events(), 1U) << "entry 5 was not seen";
}

// perftest takes the event, arms, then polls the CQEs that the event reported.
TEST_F(CqTest, ArmBeforePollIsNotWokenForWhatItWasTold) {
  arm(0, 0);
  ASSERT_TRUE(push());
  EXPECT_EQ(events(), 1U);
  arm(0, 1);
  EXPECT_EQ(events(), 0U);
  consume(1);
  ASSERT_TRUE(push());
  EXPECT_EQ(events(), 1U);
  // A CQE that arrives between event and arm is reported.
  ASSERT_TRUE(push());
  arm(1, 2);
  EXPECT_EQ(events(), 1U);
}

TEST_F(CqTest, SolicitedDoesNotNarrowAnArm) {
  arm(0, 0, false);
  arm(0, 0, true);
  ASSERT_TRUE(push());
  EXPECT_EQ(events(), 1U);
  arm(1, 1, true);
  arm(1, 1, false);
  ASSERT_TRUE(push());
  EXPECT_EQ(events(), 1U) << "but any widens it";
  arm(2, 2, false);
  arm(2, 3, true);
  ASSERT_TRUE(push());
  EXPECT_EQ(events(), 0U) << "another number is another arm";
  ASSERT_TRUE(solicited());
  EXPECT_EQ(events(), 1U);
}

TEST_F(CqTest, ArmThatIsNotValidDoesNothing) {
  arm(0, 0, false, false);
  ASSERT_TRUE(push());
  EXPECT_EQ(events(), 0U);
}

TEST_F(CqTest, IndexOfAnArmComparesIn24Bits) {
  constexpr std::uint32_t kLap = 1 << 24;
  for (std::uint32_t i = 0; i < kLap + 2; ++i) {
    if (i % kCqes == 0) consume(i);
    ASSERT_TRUE(push());
  }
  arm(kLap + 1, 0);
  EXPECT_EQ(events(), 1U);
  arm(kLap + 2, 1);
  EXPECT_EQ(events(), 0U);
  arm(kLap + 100, 1);
  EXPECT_EQ(events(), 0U) << "ahead of what was written";
  consume(kLap + 2);
  ASSERT_TRUE(push());
  EXPECT_EQ(events(), 1U);
}

TEST_F(CqTest, UnconsumedEventTakesTheNextOne) {
  arm(0, 0);
  ASSERT_TRUE(push());
  EXPECT_EQ(eq->pi(), 1U);
  for (unsigned seq = 1; seq < 50; ++seq) {
    arm(seq, seq);
    consume(seq);
    ASSERT_TRUE(push());
    EXPECT_EQ(eq->pi(), 1U) << "folded";
  }
  EXPECT_EQ(count(TERN_CNT_EQ_COALESCED), 49U);
  EXPECT_EQ(events(), 1U);
  arm(50, 50);
  ASSERT_TRUE(push());
  EXPECT_EQ(events(), 1U);
}

TEST_F(CqTest, FullEventQueueLeavesTheArm) {
  for (std::uint32_t i = 0; i < kSize; ++i)
    ASSERT_TRUE(eq->post(device.datapath, TERN_EV_COMPLETION, 1));
  arm(0, 0);
  ASSERT_TRUE(push());
  EXPECT_EQ(eq->pi(), kSize);
  set_ci(eq_cmd, 1);
  ASSERT_TRUE(push());
  EXPECT_EQ(eq->pi(), kSize + 1);
}

TEST_F(CqTest, WithoutEventQueue) {
  Cq polled(device.datapath, cmd, nullptr);
  ASSERT_EQ(polled.init(), TERN_ST_OK);
  arm(0, 0);
  cq->arm();
  polled.arm();
  tern_cqe e{};
  ASSERT_TRUE(polled.push(e));
  EXPECT_EQ(events(), 0U);
}

TEST_F(CqTest, UsersOfTheEventQueueAreCounted) {
  EXPECT_EQ(eq->users(), 1U);
  cq.reset();
  EXPECT_EQ(eq->users(), 0U);
}

}  // namespace
}  // namespace tern

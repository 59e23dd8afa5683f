// SPDX-License-Identifier: GPL-2.0-or-later
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <random>
#include <vector>

#include "core/block_pool.h"
#include "core/table.h"
#include "core/timers.h"
#include "core/types.h"

namespace tern {
namespace {

TEST(Psn, WrapsAt24Bits) {
  EXPECT_EQ(Psn(0xffffff).next(), Psn(0));
  EXPECT_EQ(Psn(0).prev(), Psn(0xffffff));
  EXPECT_EQ(Psn(0x1000005), Psn(5));
}

TEST(Psn, ComparesInASignedWindow) {
  EXPECT_EQ(Psn(5).ahead_of(Psn(3)), 2);
  EXPECT_EQ(Psn(3).ahead_of(Psn(5)), -2);
  EXPECT_EQ(Psn(1).ahead_of(Psn(0xfffffe)), 3);
  EXPECT_EQ(Psn(0xfffffe).ahead_of(Psn(1)), -3);
  EXPECT_EQ(Psn(0x7fffff).ahead_of(Psn(0)), 0x7fffff);
  EXPECT_EQ(Psn(0x800000).ahead_of(Psn(0)), -0x800000);
}

TEST(Table, NumbersFromFirstAndReusesTheOldestLast) {
  Table<int> table(2, 3);
  EXPECT_EQ(table.insert(std::make_unique<int>(10)), 2U);
  EXPECT_EQ(table.insert(std::make_unique<int>(11)), 3U);
  table.erase(2);
  // Unused numbers come before freed ones, so that a stale reference finds nothing.
  EXPECT_EQ(table.insert(std::make_unique<int>(12)), 4U);
  table.erase(3);
  EXPECT_EQ(table.insert(std::make_unique<int>(13)), 2U);
  EXPECT_EQ(table.insert(std::make_unique<int>(14)), 3U);
  EXPECT_TRUE(table.full());
  EXPECT_EQ(*table.find(4), 12);
  EXPECT_EQ(table.count(), 3U);
}

TEST(Table, FindsNothingOutsideItsRange) {
  Table<int> table(2, 3);
  table.insert(std::make_unique<int>(1));
  EXPECT_EQ(table.find(0), nullptr);
  EXPECT_EQ(table.find(1), nullptr);
  EXPECT_EQ(table.find(3), nullptr);
  EXPECT_EQ(table.find(UINT32_MAX), nullptr);
  table.erase(1);
  table.erase(77);
  table.erase(2);
  table.erase(2);
  EXPECT_EQ(table.count(), 0U);
}

struct Recorded {
  Recorded(TimerQueue& queue, std::vector<int>& log_, int id_)
      : log(log_),
        id(id_),
        timer(
            queue,
            [](void* p) {
              auto* self = static_cast<Recorded*>(p);
              self->log.push_back(self->id);
            },
            this) {}
  std::vector<int>& log;
  int id;
  Timer timer;
};

TEST(Timers, FireInOrderOfTheirDeadlines) {
  TimerQueue queue;
  std::vector<int> log;
  Recorded a(queue, log, 1), b(queue, log, 2), c(queue, log, 3);
  a.timer.arm(30);
  b.timer.arm(10);
  c.timer.arm(20);
  EXPECT_EQ(queue.next(), 10U);
  EXPECT_FALSE(queue.run(9, 10));
  EXPECT_TRUE(log.empty());
  EXPECT_FALSE(queue.run(20, 10));
  EXPECT_EQ(log, (std::vector<int>{2, 3}));
  a.timer.arm(5);
  EXPECT_EQ(queue.next(), 5U);
  EXPECT_FALSE(queue.run(20, 10));
  EXPECT_EQ(log, (std::vector<int>{2, 3, 1}));
  EXPECT_EQ(queue.next(), kNever);
}

TEST(Timers, StopAtTheLimitAndSaySo) {
  TimerQueue queue;
  std::vector<int> log;
  Recorded a(queue, log, 1), b(queue, log, 2);
  a.timer.arm(1);
  b.timer.arm(2);
  EXPECT_TRUE(queue.run(5, 1));
  EXPECT_FALSE(queue.run(5, 1));
  EXPECT_EQ(log.size(), 2U);
}

TEST(Timers, CancelAndDestructionRemoveThem) {
  TimerQueue queue;
  std::vector<int> log;
  auto a = std::make_unique<Recorded>(queue, log, 1);
  Recorded b(queue, log, 2);
  a->timer.arm(1);
  b.timer.arm(2);
  a.reset();
  EXPECT_EQ(queue.next(), 2U);
  b.timer.cancel();
  b.timer.cancel();
  EXPECT_EQ(queue.next(), kNever);
}

TEST(Timers, WithoutAnArmedOneThereIsNoDeadline) {
  TimerQueue queue;
  std::vector<int> log;
  Recorded a(queue, log, 1);
  a.timer.arm_lazily(10);
  a.timer.cancel_lazily();
  EXPECT_EQ(queue.next(), kNever);
  EXPECT_FALSE(queue.run(100, 10));
  EXPECT_TRUE(log.empty());
  a.timer.arm_lazily(200);
  EXPECT_LE(queue.next(), 200U);
  EXPECT_FALSE(queue.run(199, 10));
  EXPECT_TRUE(log.empty());
  EXPECT_EQ(queue.next(), 200U);
  EXPECT_FALSE(queue.run(200, 10));
  EXPECT_EQ(log, std::vector<int>{1});
}

TEST(Timers, MoveWithTheirDeadlines) {
  TimerQueue from, to;
  std::vector<int> log;
  Recorded a(from, log, 1), b(from, log, 2), c(to, log, 3), idle(from, log, 4);
  a.timer.arm(30);
  b.timer.arm_lazily(10);
  b.timer.arm_lazily(20);
  c.timer.arm(25);
  for (Recorded* const timer : {&a, &b, &idle}) timer->timer.move_to(to);
  EXPECT_EQ(from.next(), kNever);
  EXPECT_FALSE(from.run(100, 10));
  EXPECT_FALSE(to.run(29, 10));
  EXPECT_EQ(log, (std::vector<int>{2, 3}));
  a.timer.move_to(from);
  EXPECT_EQ(to.next(), kNever);
  EXPECT_EQ(from.next(), 30U);
  EXPECT_FALSE(idle.timer.armed());
}

TEST(Timers, AgreeWithASortedListUnderRandomUse) {
  std::mt19937 random(7);
  TimerQueue queue;
  std::vector<int> log;
  std::vector<std::unique_ptr<Recorded>> timers;
  std::vector<Nanos> deadline(64, kNever);
  for (int i = 0; i < 64; ++i) timers.push_back(std::make_unique<Recorded>(queue, log, i));
  Nanos now = 0;
  for (int step = 0; step < 20000; ++step) {
    const std::size_t i = random() % 64;
    // The timers with odd numbers are lazy.
    Timer& timer = timers[i]->timer;
    deadline[i] = random() % 4 == 0 ? kNever : now + random() % 100;
    if (i % 2 == 0) {
      deadline[i] == kNever ? timer.cancel() : timer.arm(deadline[i]);
    } else {
      deadline[i] == kNever ? timer.cancel_lazily() : timer.arm_lazily(deadline[i]);
    }
    const Nanos first = *std::min_element(deadline.begin(), deadline.end());
    ASSERT_LE(queue.next(), first);
    ASSERT_EQ(queue.next() == kNever, first == kNever);
    if (random() % 8 == 0) {
      now += random() % 50;
      log.clear();
      ASSERT_FALSE(queue.run(now, 1000));
      Nanos last = 0;
      for (const int id : log) {
        Nanos& due = deadline[std::size_t(id)];
        ASSERT_LE(due, now);
        if (id % 2 == 0) {  // a lazy timer may run before others that are due, too
          ASSERT_LE(last, due);
          last = due;
        }
        due = kNever;
      }
    }
  }
}

TEST(PooledRing, HoldsABlockOnlyWhileItHasElements) {
  BlockPool pool;
  PooledRing<std::uint64_t> ring(pool);
  ring.set_capacity(8);
  EXPECT_EQ(pool.taken(), 0U);
  for (std::uint64_t i = 0; i < 8; ++i) ring.push(i);
  EXPECT_NE(pool.taken(), 0U);
  EXPECT_EQ(ring.room(), 0U);
  // Far enough for its counter to wrap.
  for (std::uint64_t i = 8; i < 70000; ++i) {
    ASSERT_EQ(ring.front(), i - 8);
    ring.pop();
    ASSERT_EQ(ring.room(), 1U);
    ring.push(i);
    ASSERT_EQ(ring.back(), i);
    ASSERT_EQ(ring[3], i - 4);
  }
  ring.keep_front();
  EXPECT_EQ(ring.size(), 1U);
  EXPECT_EQ(ring.front(), 69992U);
  ring.pop();
  EXPECT_TRUE(ring.empty());
  EXPECT_EQ(pool.taken(), 0U);
}

TEST(PooledRing, MovesToAnotherPool) {
  BlockPool from, to;
  PooledRing<std::uint64_t> ring(from);
  Pooled<std::array<std::byte, 100>> one(from);
  ring.set_capacity(16);
  ring.push(7);
  one.take()[99] = std::byte{9};
  const std::size_t taken = from.taken();
  ring.move_to(to);
  one.move_to(to);
  EXPECT_EQ(from.taken(), 0U);
  EXPECT_EQ(to.taken(), taken);
  EXPECT_EQ(ring.front(), 7U);
  EXPECT_EQ((*one)[99], std::byte{9});
  ring.clear();
  one.give();
  EXPECT_EQ(to.taken(), 0U);
  ring.push(8);
  one.take();
  EXPECT_EQ(from.taken(), 0U);
}

}  // namespace
}  // namespace tern

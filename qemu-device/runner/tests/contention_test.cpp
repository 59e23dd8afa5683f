// SPDX-License-Identifier: GPL-2.0-or-later
#include "contention.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <chrono>
#include <thread>

#include "doorbell_ring.h"

namespace tern::runner {
namespace {

constexpr std::uint64_t kMs = 1'000'000;

// A clock whose times the test sets.
class FakeClock final : public CpuClock {
 public:
  explicit FakeClock(const CpuTimes& times, const bool& works) : times_(times), works_(works) {}
  bool read(CpuTimes& times) override {
    if (works_) times = times_;
    return works_;
  }

 private:
  const CpuTimes& times_;
  const bool& works_;
};

class ContentionTest : public testing::Test {
 protected:
  ContentionTest() { contention.start(std::make_unique<FakeClock>(times, works)); }
  std::optional<Contention::Verdict> after(std::uint64_t ran_ms, std::uint64_t waited_ms) {
    times.ran += ran_ms * kMs;
    times.waited += waited_ms * kMs;
    return contention.judge();
  }
  std::uint64_t pause_after(std::uint64_t ran_ms, std::uint64_t waited_ms) {
    const auto verdict = after(ran_ms, waited_ms);
    EXPECT_TRUE(verdict.has_value());
    return verdict ? verdict->pause / kMs : 0;
  }

  CpuTimes times{100 * kMs, 50 * kMs};
  bool works = true;
  Contention contention;
};

TEST_F(ContentionTest, JudgesOnceInAWindow) {
  EXPECT_FALSE(after(0, 0)) << "what was before the start does not count";
  EXPECT_FALSE(after(10, 0));
  EXPECT_FALSE(after(9, 0));
  const auto verdict = after(1, 0);
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->ran, 20 * kMs);
  EXPECT_EQ(verdict->waited, 0U);
  EXPECT_EQ(verdict->pause, 0U);
  EXPECT_FALSE(after(19, 0)) << "a new window";
}

TEST_F(ContentionTest, AQuarterOfTheWindowIsAllowed) {
  EXPECT_EQ(pause_after(15, 5), 0U);
  EXPECT_EQ(pause_after(14, 6), 200U);
}

TEST_F(ContentionTest, ThePauseDoublesWhileContentionLasts) {
  for (const unsigned pause : {200U, 400U, 800U, 1600U, 3200U, 6400U, 6400U})
    EXPECT_EQ(pause_after(0, 20), pause);
  EXPECT_EQ(pause_after(20, 0), 0U);
  EXPECT_EQ(pause_after(0, 20), 200U) << "from the start";
}

TEST_F(ContentionTest, WakingUpDoesNotCount) {
  times.waited += 1000 * kMs;
  contention.skip();
  EXPECT_EQ(pause_after(20, 0), 0U);
}

// A thread that yields waits often, and for as long as the others work before they yield.
TEST_F(ContentionTest, WaitsAreBriefOnAverageOrLong) {
  using Level = Contention::Level;
  contention.start(std::make_unique<FakeClock>(times, works), kMs);
  const auto level = [this](std::uint64_t waited_ms, std::uint64_t waits) {
    times.waits += waits;
    return after(20 - waited_ms, waited_ms).value().level;
  };
  EXPECT_EQ(level(5, 1), Level::kNone);
  EXPECT_EQ(level(19, 19), Level::kLong);
  EXPECT_EQ(level(19, 20), Level::kBrief);
}

TEST_F(ContentionTest, ThePauseHasAMaximum) {
  contention.start(std::make_unique<FakeClock>(times, works), 0, 500 * kMs);
  for (const unsigned pause : {200U, 400U, 500U, 500U}) EXPECT_EQ(pause_after(0, 20), pause);
}

TEST_F(ContentionTest, WithoutFiguresThereIsNone) {
  works = false;
  EXPECT_FALSE(after(0, 1000));
  works = true;
  EXPECT_EQ(pause_after(0, 0), 200U) << "the figures are back";
  contention.start(nullptr);
  EXPECT_FALSE(after(0, 1000));
}

void expect_to_count(CpuClock& clock) {
  CpuTimes before, after;
  ASSERT_TRUE(clock.read(before));
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  do {
    ASSERT_TRUE(clock.read(after));
  } while (after.ran - before.ran < 2 * kMs && std::chrono::steady_clock::now() < end);
  EXPECT_GE(after.ran - before.ran, 2 * kMs);
  EXPECT_GE(after.waited, before.waited);
  EXPECT_GT(after.waits, 0U);
}

TEST(ThreadClock, CountsTheTimeThatAThreadRan) { expect_to_count(*open_thread_clock()); }

TEST(ThreadClock, NeedsNoFile) {
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit none{0, limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const auto clock = open_thread_clock();
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  ASSERT_NE(clock, nullptr);
  expect_to_count(*clock);
  CpuTimes before, after;
  ASSERT_TRUE(clock->read(before));
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  ASSERT_TRUE(clock->read(after));
  EXPECT_GE(after.waited - before.waited, 1 * kMs);
  EXPECT_GT(after.waits, before.waits);
}

TEST(DoorbellRing, KeepsTheOrderAndHasAnEnd) {
  DoorbellRing ring;
  std::uint32_t put = 0, taken = 0;
  for (int round = 0; round < 5; ++round) {
    EXPECT_FALSE(ring.pending());
    while (ring.put({put * 8ULL, put})) ++put;
    EXPECT_EQ(put - taken, DoorbellRing::kSize);
    EXPECT_TRUE(ring.pending());
    const auto take = [&](const Doorbell& doorbell) {
      EXPECT_EQ(doorbell.value, taken);
      EXPECT_EQ(doorbell.offset, taken * 8ULL);
      ++taken;
    };
    EXPECT_TRUE(ring.take_all(take));
    EXPECT_FALSE(ring.take_all(take));
    ASSERT_TRUE(ring.put({put * 8ULL, put}));
    ++put;
    EXPECT_TRUE(ring.take_all(take));
    EXPECT_EQ(taken, put);
  }
}

TEST(DoorbellRing, BetweenTwoThreads) {
  constexpr std::uint32_t kCount = 200'000;
  DoorbellRing ring;
  std::thread poster([&ring] {
    for (std::uint32_t i = 0; i < kCount;) {
      if (ring.put({i + 1ULL, i})) {
        ++i;
      } else {
        std::this_thread::yield();
      }
    }
  });
  std::uint32_t taken = 0;
  while (taken < kCount) {
    const bool some = ring.take_all([&](const Doorbell& doorbell) {
      ASSERT_EQ(doorbell.value, taken);
      ASSERT_EQ(doorbell.offset, taken + 1ULL);
      ++taken;
    });
    if (!some) std::this_thread::yield();
  }
  poster.join();
}

}  // namespace
}  // namespace tern::runner

// SPDX-License-Identifier: GPL-2.0-or-later
// Adapters that a hypervisor saves and loads.
#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "clock.h"
#include "fixture.h"
#include "migration.h"

namespace tern::daemon {
namespace {

// The thread of the event log reads it while a state is loaded. For the thread sanitizer.
TEST(AdapterClockTest, IsReadWhileItIsSet) {
  constexpr std::uint64_t kYear = std::uint64_t{31'536'000} * 1'000'000'000;
  AdapterClock clock;
  std::thread reader([&clock] {
    for (int i = 0; i < 10'000; ++i) EXPECT_LT(clock.now(), clock_ns() + 2 * kYear);
  });
  for (int i = 0; i < 1'000; ++i) {
    clock.set(clock_ns() + kYear);
    clock.reset();
  }
  reader.join();
  EXPECT_LT(clock.now(), clock_ns() + kYear);
}

constexpr std::uint32_t kDm = 1 << 20;

// Machines on adapters 1 and 2; adapter 3 is like adapter 2, and free.
struct MigrationTest : PairFixture {
  MigrationTest() : PairFixture(2, kProperties) { add(3, kProperties); }
  // An adapter with the MAC address of adapter 2.
  void add(unsigned id, const std::string& properties) {
    parts.add(parse_adapter(path(id) + ",mac=52:54:00:77:00:02,zero-copy=on" + properties)).start();
  }
  std::vector<std::byte> save() {
    std::vector<std::byte> state;
    EXPECT_EQ(b->client.enter(Client::kCopy), 0);
    EXPECT_EQ(b->client.save(state), 0);
    return state;
  }
  // Has machine b load a state in another adapter.
  int load(unsigned id, std::span<const std::byte> state) {
    b->use(path(id));
    EXPECT_EQ(b->client.enter(Client::kResuming), 0);
    if (const int error = b->client.load(state)) return error;
    return b->client.enter(Client::kRunning);
  }
  // The clock of machine b's adapter.
  std::uint64_t clock() {
    const std::uint64_t low = b->reg_read(TERN_REG_CLOCK_LO);
    return std::uint64_t{b->reg_read(TERN_REG_CLOCK_HI)} << 32 | low;
  }
  void set_link(unsigned id, bool up) {
    EXPECT_TRUE(adapter(id).call([&] { adapter(id).set_link(up); }));
  }
  void set_faults(unsigned id, const std::string& rules) {
    EXPECT_TRUE(adapter(id).call([&] { EXPECT_EQ(adapter(id).set_faults(rules), ""); }));
  }
  // Without the counts.
  std::string faults(unsigned id) {
    std::string rules;
    EXPECT_TRUE(adapter(id).call([&] { rules = adapter(id).faults(); }));
    return rules.substr(0, rules.find("  #"));
  }

  static constexpr char kProperties[] = ",lanes=1,migration=on,dm-size=1M";
};

TEST_F(MigrationTest, AConnectionGoesOn) {
  exchange(*qa, *qb, 1);
  exchange(*qb, *qa, 2);
  EXPECT_EQ(load(3, save()), 0);
  exchange(*qa, *qb, 3);
  exchange(*qb, *qa, 4);
}

TEST_F(MigrationTest, BothEndsAreBusy) {
  std::ranges::fill(qa->source(), std::byte{0xa5});
  std::ranges::fill(qb->source(), std::byte{0x5a});
  for (unsigned i = 0; i < 20; ++i) {
    qa->post(test::Qp::kBytes);
    qb->post(test::Qp::kBytes);
  }
  qa->ring();
  qb->ring();
  ASSERT_TRUE(test::wait_until([&] { return qa->poll() >= 2 && qb->poll() >= 2; }));
  const std::vector<std::byte> state = save();
  EXPECT_EQ(load(3, state), 0);
  ASSERT_TRUE(qa->drain());
  ASSERT_TRUE(qb->drain());
  EXPECT_EQ(qa->failed() + qb->failed(), 0U);
  EXPECT_TRUE(std::ranges::equal(qa->source(), qb->target()));
  EXPECT_TRUE(std::ranges::equal(qb->source(), qa->target()));
  exchange(*qa, *qb, 5);
}

TEST_F(MigrationTest, DeviceMemoryMoves) {
  std::vector<std::byte> memory(kDm);
  std::mt19937 random(7);
  for (std::byte& byte : memory) byte = static_cast<std::byte>(random());
  for (std::uint32_t at = 0; at < kDm; at += 4096)
    ASSERT_EQ(b->client.write(TERN_BAR_DM, at, &memory[at], 4096), 0);
  EXPECT_EQ(load(3, save()), 0);
  std::vector<std::byte> found(kDm);
  for (std::uint32_t at = 0; at < kDm; at += 4096)
    ASSERT_EQ(b->client.read(TERN_BAR_DM, at, &found[at], 4096), 0);
  EXPECT_TRUE(memory == found);
}

TEST_F(MigrationTest, AStoppedAdapterDoesNothing) {
  std::ranges::fill(qa->source(), std::byte{1});
  std::ranges::fill(qb->target(), std::byte{0});
  const std::vector<std::byte> state = save();
  EXPECT_FALSE(state.empty());
  qa->post(64);
  qa->ring();
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_LT(qa->poll(), qa->posted());
  EXPECT_EQ(qb->target()[0], std::byte{0});
  // The migration is cancelled.
  EXPECT_EQ(b->client.enter(Client::kRunning), 0);
  ASSERT_TRUE(qa->drain());
  EXPECT_EQ(qa->failed(), 0U);
  EXPECT_EQ(qb->target()[0], std::byte{1});
  exchange(*qb, *qa, 6);
}

TEST_F(MigrationTest, WrongStatesAreRefused) {
  std::vector<std::byte> state = save();
  add(4, ",lanes=1,migration=on,dm-size=1M,max-mw=0");
  EXPECT_EQ(load(4, state), EINVAL) << "another property";
  EXPECT_EQ(load(3, std::span(state).first(state.size() - 1)), EINVAL) << "too short";
  std::vector<std::byte> damaged = state;
  damaged[8 + 4096] ^= std::byte{0xff};
  EXPECT_EQ(load(3, damaged), EINVAL) << "damaged";
  state.push_back(std::byte{0});
  EXPECT_EQ(load(3, state), EINVAL) << "too long";
  state.pop_back();
  std::ranges::fill(std::span(state).first(8), std::byte{0xff});
  EXPECT_EQ(load(3, state), EINVAL) << "an endless state";
  // The adapter is as new after a reset.
  EXPECT_EQ(b->client.reset(), 0);
  b->client.connect(path(2));
  expect_usable(3);
}

// What follows a size that is refused takes neither memory nor time.
TEST(MigrationStreamTest, NothingFollowsWhatIsRefused) {
  for (const std::uint64_t size : {std::uint64_t{1} << 60, UINT64_MAX, UINT64_MAX - 7}) {
    MigrationStream stream({});
    stream.load();
    ASSERT_TRUE(stream.write(0, std::as_bytes(std::span(&size, 1))));
    EXPECT_FALSE(stream.take(sizeof(size)));
    EXPECT_FALSE(stream.take(MigrationStream::kWindow));
    EXPECT_TRUE(stream.state().empty());
  }
}

// The hosts started at different times: the first adapter's clock is an hour ahead of the second's.
TEST_F(MigrationTest, TheClockGoesOn) {
  constexpr std::uint64_t kHour = 3'600'000'000'000;
  const std::uint64_t before = clock();
  std::vector<std::byte> state = save();
  // The time is at the end of the state.
  const auto change_time = [&](auto&& change) {
    std::uint64_t size = 0;
    std::uint64_t time = 0;
    std::memcpy(&size, state.data(), sizeof(size));
    std::memcpy(&time, &state[size], sizeof(time));
    time = change(time);
    std::memcpy(&state[size], &time, sizeof(time));
  };
  change_time([](std::uint64_t time) { return time + kHour; });
  EXPECT_EQ(load(3, state), 0);
  EXPECT_GE(clock(), before + kHour);
  exchange(*qb, *qa, 1);
  // A request is lost, and the next host repeats it.
  set_link(1, false);
  qb->post(64);
  qb->ring();
  std::this_thread::sleep_for(std::chrono::milliseconds(10));
  state = save();
  set_link(1, true);
  add(4, kProperties);
  EXPECT_EQ(load(4, state), 0);
  ASSERT_TRUE(qb->drain());
  EXPECT_EQ(qb->failed(), 0U);
  EXPECT_GE(clock(), before + kHour);
  exchange(*qa, *qb, 2);
  change_time([](std::uint64_t) { return UINT64_MAX; });
  EXPECT_EQ(load(3, state), EINVAL);
}

// A hypervisor sets none for whoever comes next.
TEST_F(MigrationTest, RulesOfFaultsStayWithTheHost) {
  set_faults(2, "drop tx nth=1000000");
  set_faults(3, "drop rx nth=1000000");
  const std::vector<std::byte> state = save();
  EXPECT_EQ(load(3, state), 0);
  EXPECT_EQ(faults(3), "drop rx nth=1000000");
  EXPECT_EQ(load(2, std::span(state).first(state.size() - 1)), EINVAL);
  EXPECT_EQ(faults(2), "drop tx nth=1000000");
}

// Otherwise it would run with an empty device, or while the hypervisor takes it for stopped.
TEST_F(MigrationTest, AResetByTheGuestDoesNotEndAMigration) {
  const std::vector<std::byte> state = save();
  b->use(path(3));
  EXPECT_EQ(b->client.enter(Client::kResuming), 0);
  EXPECT_EQ(b->client.reset_function(), 0);
  EXPECT_EQ(b->client.enter(Client::kRunning), EINVAL) << "nothing was loaded";
  EXPECT_EQ(b->client.enter(Client::kResuming), 0);
  EXPECT_EQ(b->client.reset_function(), 0);
  EXPECT_EQ(b->client.load(state), 0);
  EXPECT_EQ(b->client.enter(Client::kRunning), 0);
  exchange(*qa, *qb, 1);
}

TEST_F(MigrationTest, DirtyPagesAreRefused) {
  constexpr std::uint16_t kDirtyPages = 14;
  const std::array<std::uint32_t, 4> start{sizeof(start), 1};
  EXPECT_EQ(b->client.command(kDirtyPages, std::as_bytes(std::span(start))), ENOTSUP);
}

TEST_F(MigrationTest, HostileRegisters) {
  for (const std::uint32_t state : {3U, 5U, 6U, 7U, 8U, 0x7fffffffU, ~0U}) {
    const int error = b->client.enter(state);
    EXPECT_EQ(error, state == 3 ? 0 : EINVAL) << state;
    EXPECT_EQ(b->client.enter(Client::kRunning), 0);
  }
  std::array<std::byte, 64> data{};
  const auto write = [&](std::uint64_t at, std::uint32_t len) {
    return b->client.write(Client::kMigration, at, data.data(), len);
  };
  const std::uint64_t end = 4096 + MigrationStream::kWindow;
  EXPECT_NE(write(4096, 64), 0) << "nothing is loaded";
  EXPECT_EQ(b->client.enter(Client::kResuming), 0);
  EXPECT_NE(write(32, 8), 0);
  EXPECT_NE(write(end - 8, 64), 0);
  EXPECT_EQ(write(end - 64, 64), 0);
  for (const std::uint64_t n : {MigrationStream::kWindow + 1, ~std::uint64_t{0}})
    EXPECT_NE(b->client.write(Client::kMigration, 24, &n, sizeof(n)), 0);
  EXPECT_EQ(b->client.enter(Client::kRunning), EINVAL) << "no state was written";
  EXPECT_EQ(b->client.reset(), 0);
  std::uint64_t size = 0;
  EXPECT_NE(b->client.read(Client::kMigration, 16, &size, sizeof(size)), 0);
  // Reads beyond the window's content.
  EXPECT_EQ(b->client.enter(Client::kCopy), 0);
  EXPECT_NE(b->client.read(Client::kMigration, 4096, data.data(), 64), 0);
  EXPECT_EQ(b->client.enter(Client::kStopped), 0);
  EXPECT_EQ(b->client.enter(Client::kRunning), 0);
}

TEST_F(MigrationTest, AHypervisorGoesInTheMiddle) {
  (void)save();
  b->client.connect(path(2));
  EXPECT_EQ(b->client.enter(Client::kResuming), 0);
  b->client.connect(path(3));
  expect_usable(2);
}

TEST(MigrationOption, NeedsOneLane) {
  EXPECT_THROW((void)parse_adapter("/tmp/x,migration=on,lanes=2"), std::invalid_argument);
  EXPECT_TRUE(parse_adapter("/tmp/x,migration=on,lanes=1").migration);
}

}  // namespace
}  // namespace tern::daemon

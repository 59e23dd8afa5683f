// SPDX-License-Identifier: GPL-2.0-or-later
// Adapters with several lanes, each with a thread. Each process of a machine has a protection
// domain, so different lanes serve them.
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "adapter.h"
#include "client.h"
#include "fixture.h"
#include "unix_socket.h"

namespace tern::daemon {
namespace {

using test::Qp;
using test::wait_until;

constexpr unsigned kLanes = 3;
constexpr unsigned kProcesses = 4;  // one more than lanes

struct LanesTest : AdapterFixture {
  explicit LanesTest(const std::string& properties = "") {
    make(2, ",lanes=" + std::to_string(kLanes) + properties);
    a = &attach(1);
    b = &attach(2);
  }
  // QPs of two machines, one in each process of a machine, connected.
  std::vector<std::pair<std::unique_ptr<Qp>, std::unique_ptr<Qp>>> processes(TestMachine& x,
                                                                             TestMachine& y) {
    std::vector<std::pair<std::unique_ptr<Qp>, std::unique_ptr<Qp>>> pairs;
    for (unsigned i = 0; i < kProcesses; ++i) {
      pairs.emplace_back(std::make_unique<Qp>(x, x.alloc_pd()),
                         std::make_unique<Qp>(y, y.alloc_pd()));
      connect(*pairs.back().first, *pairs.back().second);
    }
    return pairs;
  }
  // Posts WRITEs of every QP at the same time, several times, and compares their data.
  template <class Pairs>
  static void exchange_all(Pairs& pairs, unsigned rounds = 20) {
    constexpr std::uint32_t kBytes = 100'000;
    for (unsigned round = 0; round < rounds; ++round) {
      for (std::size_t i = 0; i < pairs.size(); ++i) {
        auto& [from, to] = pairs[i];
        std::ranges::fill(from->source().first(kBytes), static_cast<std::byte>(round + 7 * i));
        from->post(kBytes, 3);
        from->ring();
      }
      for (std::size_t i = 0; i < pairs.size(); ++i) {
        auto& [from, to] = pairs[i];
        ASSERT_TRUE(from->drain());
        ASSERT_EQ(from->failed(), 0U);
        ASSERT_TRUE(std::ranges::all_of(to->target().first(kBytes), [&](std::byte v) {
          return v == static_cast<std::byte>(round + 7 * i);
        }));
        ASSERT_EQ(to->target()[kBytes], std::byte{0});
      }
    }
  }
  TestMachine* a;
  TestMachine* b;
};

TEST_F(LanesTest, Across) {
  auto pairs = processes(*a, *b);
  exchange_all(pairs);
  EXPECT_EQ(fabric.ports()[0].counters().out_discards, 0U);
  EXPECT_EQ(fabric.ports()[1].counters().out_discards, 0U);
}

TEST_F(LanesTest, Loopback) {
  auto pairs = processes(*a, *a);
  exchange_all(pairs);
  EXPECT_EQ(fabric.ports()[0].counters().in_frames, 0U) << "none passes through the switch";
}

TEST_F(LanesTest, AdaptersWithOneLane) {
  parts.add(parse_adapter(path(3) + ",mac=52:54:00:77:00:03,lanes=1")).start();
  auto pairs = processes(*a, attach(3));
  exchange_all(pairs);
  for (auto& [x, y] : pairs) std::swap(x, y);
  exchange_all(pairs);
}

TEST_F(LanesTest, InterruptsOfAllLanes) {
  auto pairs = processes(*a, *b);
  for (unsigned round = 0; round < 20; ++round) {
    for (auto& [from, to] : pairs) {
      from->arm();
      from->post(64);
      from->ring();
      ASSERT_TRUE(a->wait_interrupt());
      ASSERT_TRUE(from->drain());
      a->take_events();
    }
  }
}

// More doorbells than a lane's ring holds, most of them for queues without work.
TEST_F(LanesTest, ManyDoorbells) {
  auto pairs = processes(*a, *b);
  for (unsigned i = 0; i < 1000; ++i) {
    for (auto& [from, to] : pairs) a->doorbell(a->uar(), TERN_DB_CMD_SQ, from->number());
    a->ring(a->uar(), field_prep(TERN_DB_CMD_MASK, TERN_DB_CMD_PAGE));
  }
  exchange_all(pairs, 2);
}

// Commands stop the lanes again and again, and make QPs change their lane, while all exchange data.
TEST_F(LanesTest, CommandsUnderTraffic) {
  auto pairs = processes(*a, *b);
  std::atomic<bool> stop = false;
  std::thread control([&] {
    while (!stop) {
      EXPECT_TRUE(adapter(1).call([&] { (void)adapter(1).status(); }));
      EXPECT_TRUE(adapter(2).call([&] { (void)adapter(2).status(); }));
    }
  });
  for (unsigned round = 0; round < 10; ++round) {
    for (auto& [from, to] : pairs) {
      from->post(Qp::kBytes, 4);
      from->ring();
    }
    for (unsigned i = 0; i < 8; ++i) {
      const std::uint32_t pd = a->alloc_pd();
      test::TestMr& mr = a->reg(1 << 16, {.pd = pd, .kind = TERN_PAGES_DIRECT});
      a->dereg(mr);
      a->destroy(TERN_CMD_FREE_PD, pd);
    }
    for (auto& [from, to] : pairs) {
      ASSERT_TRUE(from->drain());
      ASSERT_EQ(from->failed(), 0U);
    }
  }
  stop = true;
  control.join();
}

// Fault rules take all QPs to lane 0, and the end of the rules takes them back.
TEST_F(LanesTest, QpsMoveUnderTraffic) {
  auto pairs = processes(*a, *b);
  std::atomic<bool> stop = false;
  std::thread control([&] {
    for (unsigned i = 0; !stop; ++i) {
      const bool rules = i % 2 == 0;
      for (const unsigned id : {1U, 2U}) {
        EXPECT_TRUE(adapter(id).call(
            [&] { EXPECT_EQ(adapter(id).set_faults(rules ? "drop tx nth=100000000" : ""), ""); }));
      }
    }
  });
  exchange_all(pairs);
  stop = true;
  control.join();
}

TEST_F(LanesTest, ResetUnderTraffic) {
  for (unsigned round = 0; round < 5; ++round) {
    auto pairs = processes(*a, *b);
    for (auto& [from, to] : pairs) {
      from->post(Qp::kBytes, 8);
      from->ring();
      to->post(Qp::kBytes, 8);
      to->ring();
    }
    for (TestMachine* const m : {a, b}) {
      EXPECT_EQ(m->client.reset(), 0);
      m->forget();
      m->set_bus_master(true);
      m->bring_up();
    }
    // The next QPs have the same numbers and PSNs.
    for (const Port& port : fabric.ports())
      ASSERT_TRUE(wait_until([&] { return port.queue_length() == 0; }));
  }
  auto pairs = processes(*a, *b);
  exchange_all(pairs, 2);
}

TEST_F(LanesTest, HypervisorsGoUnderTraffic) {
  parts.add(parse_adapter(path(3) + ",mac=52:54:00:77:00:03,lanes=4")).start();
  for (unsigned round = 0; round < 5; ++round) {
    TestMachine c(path(3), 3);
    c.bring_up();
    auto pairs = processes(c, *b);
    for (auto& [from, to] : pairs) {
      from->post(Qp::kBytes, 8);
      from->ring();
    }
  }
  auto pairs = processes(*a, *b);
  exchange_all(pairs, 2);
}

// The file of a hypervisor's memory becomes shorter, and lanes find out.
TEST_F(LanesTest, MemoryGoesUnderTraffic) {
  parts.add(parse_adapter(path(3) + ",mac=52:54:00:77:00:03,lanes=4")).start();
  TestMachine c(path(3), 3);
  c.bring_up();
  auto pairs = processes(*a, c);
  for (auto& [from, to] : pairs) {
    from->post(Qp::kBytes, 8);
    from->ring();
  }
  ASSERT_EQ(ftruncate(c.file.get(), 0), 0);
  EXPECT_TRUE(wait_until([&] { return !attached(3); }));
  auto others = processes(*a, *b);
  exchange_all(others, 2);
}

// A receiver that takes nothing holds up its senders only, and only until the watchdog.
TEST_F(LanesTest, LanesThatWaitForSpace) {
  ASSERT_TRUE(adapter(2).call([&] {
    PortPolicy policy = adapter(2).port().policy();
    policy.queue = 2 * EgressQueue::kFrameMax;
    adapter(2).port().set_policy(policy);
  }));
  auto pairs = processes(*a, *b);
  auto inside = processes(*a, *a);
  for (unsigned round = 0; round < 5; ++round) {
    exchange_all(pairs, 1);
    exchange_all(inside, 1);
  }
}

// The descriptor of an interrupt takes no more, and a lane waits for it while a command waits for
// the lane.
TEST_F(LanesTest, BlockedLanesStop) {
  auto pairs = processes(*a, *b);
  const Descriptor full = checked(eventfd(0, EFD_CLOEXEC), "eventfd");
  ASSERT_EQ(eventfd_write(full.get(), UINT64_MAX - 1), 0);
  ASSERT_EQ(a->client.set_vector(TestMachine::kCompletionVector, full.get()), 0);
  for (auto& [from, to] : pairs) {
    from->arm();
    from->post(8, 4);
  }
  // No answer comes.
  std::thread hypervisor([&] {
    for (auto& [from, to] : pairs) {
      const std::uint32_t db = field_prep(TERN_DB_CMD_MASK, TERN_DB_CMD_SQ) | from->number();
      a->client.write(TERN_BAR_UAR, (std::uint64_t{a->uar()} << 12) + TERN_UAR_DB, &db, 4);
    }
  });
  EXPECT_TRUE(wait_until([&] {
    const auto soon = std::chrono::steady_clock::now() + std::chrono::milliseconds(100);
    return !adapter(1).post([] {}).wait(soon);
  })) << "the adapter's thread waits, too";
  parts.remove(parts.adapters().at(0));
  hypervisor.join();
}

// A process that makes and frees objects all the time does not stop those of other lanes.
TEST_F(LanesTest, CommandsLeaveLanesTheirTurns) {
  auto pairs = processes(*a, *b);
  std::atomic<bool> stop = false;
  std::thread control([&] {
    while (!stop) EXPECT_TRUE(adapter(1).call([&] { (void)adapter(1).status(); }));
  });
  exchange_all(pairs, 10);
  stop = true;
  control.join();
}

}  // namespace
}  // namespace tern::daemon

// SPDX-License-Identifier: GPL-2.0-or-later
// Hypervisors that are killed, as processes of their own, while others exchange data.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <functional>
#include <memory>
#include <random>
#include <thread>

#include "adapter.h"
#include "client.h"
#include "fixture.h"

namespace tern::daemon {
namespace {

using test::Qp;
using test::wait_until;

constexpr unsigned kVictim = 3;
constexpr unsigned kPeer = 4;

// Machines on adapters 1 and 2 exchange data all the time; that on adapter kVictim is killed.
struct KillTest : PairFixture {
  explicit KillTest(const std::string& properties = "") : PairFixture(4, properties) {
    others = std::thread([this] {
      for (unsigned seed = 0; !stop && !HasFatalFailure(); ++seed, ++rounds) {
        exchange(*qa, *qb, seed);
        exchange(*qb, *qa, seed + 1);
      }
    });
  }
  ~KillTest() override {
    stop = true;
    others.join();
  }
  KillTest(const KillTest&) = delete;
  KillTest& operator=(const KillTest&) = delete;

  // Runs `machine` in a process that has to kill itself, or to be killed by `killer`.
  static void run_and_kill(
      const std::function<void()>& machine,
      const std::function<void(pid_t)>& killer = [](pid_t) {}) {
    const pid_t pid = fork();
    ASSERT_GE(pid, 0);
    if (pid == 0) {
      machine();
      _exit(1);
    }
    killer(pid);
    int status = 0;
    ASSERT_EQ(waitpid(pid, &status, 0), pid);
    ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
        << "it was not killed: " << status;
  }
  // The adapter of the dead is as new, its link is down, and the others have gone on meanwhile.
  void expect_reset() {
    ASSERT_TRUE(wait_until([&] { return !attached(kVictim); }));
    EXPECT_FALSE(fabric.ports()[kVictim - 1].link());
    Adapter::Status status{};
    ASSERT_TRUE(adapter(kVictim).call([&] { status = adapter(kVictim).status(); }));
    EXPECT_EQ(status.memory, 0U);
    EXPECT_EQ(status.engine.live_qps, 0U);
    EXPECT_EQ(status.engine.live_keys, 0U);
    EXPECT_EQ(status.engine.page_entries, 0U);
    const unsigned before = rounds;
    EXPECT_TRUE(wait_until([&] { return rounds != before; })) << "the others do not go on";
    EXPECT_TRUE(attached(1));
    EXPECT_TRUE(attached(2));
  }

  std::atomic<unsigned> rounds = 0;
  std::atomic<bool> stop = false;
  std::thread others;
};

// What a machine does until its QPs are connected. Returns the number of messages.
unsigned start_machine(const std::string& path, const Client::Hook& before_command) {
  unsigned messages = 0;
  TestMachine m(path, kVictim, [&](int fd, std::span<const std::byte> message) {
    ++messages;
    if (before_command) before_command(fd, message);
  });
  m.bring_up();
  Qp x(m);
  Qp y(m);
  x.connect(y);
  y.connect(x);
  return messages;
}

// Without polling each command is a message.
struct KillAtMessageTest : KillTest {
  KillAtMessageTest() : KillTest(",poll=off") {}
};

TEST_F(KillAtMessageTest, AtEachMessage) {
  const unsigned messages = start_machine(path(kVictim), {});
  ASSERT_TRUE(wait_until([&] { return !attached(kVictim); }));
  ASSERT_GT(messages, 20U);
  for (unsigned at = 0; at < messages; ++at) {
    // Before the message, in the middle of it, and with the whole message sent and no answer read.
    for (const unsigned halves : {0U, 1U, 2U}) {
      SCOPED_TRACE(testing::Message() << "message " << at << ", halves sent: " << halves);
      run_and_kill([&] {
        unsigned left = at;
        start_machine(path(kVictim), [&](int fd, std::span<const std::byte> message) {
          if (left-- != 0) return;
          const std::size_t len = message.size() * halves / 2;
          if (len != 0 && send(fd, message.data(), len, MSG_NOSIGNAL) != static_cast<ssize_t>(len))
            return;
          raise(SIGKILL);
        });
      });
      expect_reset();
      if (HasFailure()) return;
    }
  }
  expect_usable(kVictim);
}

TEST_F(KillTest, UnderTraffic) {
  TestMachine& peer = attach(kPeer);
  std::minstd_rand random(20260101);
  for (unsigned round = 0; round < 25; ++round) {
    SCOPED_TRACE(round);
    auto victim = std::make_unique<TestMachine>(path(kVictim), kVictim);
    victim->bring_up();
    Qp there(*victim);
    Qp here(peer);
    // Few retries: the peer shall notice soon.
    there.connect(here, 8, 1);
    here.connect(there, 8, 1);
    here.post(Qp::kBytes, 16);
    here.ring();
    const auto machine = [&] {
      for (unsigned n = 0;; ++n) {
        there.poll();
        if (there.free_slots() < 8) continue;
        there.post(1 + n * 7919 % Qp::kBytes, 1 + n % 8);
        there.ring();
        if (n % 16 == 0) there.arm();
      }
    };
    run_and_kill(machine, [&](pid_t pid) {
      // The connection is the process's from now on.
      victim.reset();
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 20'000));
      kill(pid, SIGKILL);
    });
    expect_reset();
    EXPECT_TRUE(here.drain()) << "the peer does not notice";
    peer.take_events();
    EXPECT_TRUE(attached(kPeer));
    if (HasFailure()) return;
  }
  expect_usable(kVictim);
}

}  // namespace
}  // namespace tern::daemon

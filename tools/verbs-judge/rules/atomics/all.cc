// SPDX-License-Identifier: GPL-2.0-or-later
// Atomics under contention: several QPs of one device change one word at once.
#include <algorithm>
#include <atomic>
#include <exception>
#include <functional>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "rule.h"

namespace guest::atomics {
namespace {

constexpr std::uint64_t kWord = 64;  // the offset of the word in the memory
constexpr std::uint64_t kGuard = 0x5a5a5a5a5a5a5a5a;

// A word, and QPs whose other ends may change it.
class Contest {
 public:
  // With `device`, the requesters belong to another context than the word.
  explicit Contest(const Env& env, std::size_t pairs, const Device* device = nullptr)
      : link_(local_link(env.dev)), memory_(env.dev.pd(), 4096, kAllAccess) {
    if (env.dev.attr().atomic_cap == IBV_ATOMIC_NONE) skip("atomic_cap is IBV_ATOMIC_NONE");
    for (std::size_t i = 0; i < pairs; i++) {
      const Device& from = device != nullptr && i % 2 == 1 ? *device : env.dev;
      pairs_.push_back(std::make_unique<Pair>(from, *link_));
    }
    memory_.store64(kWord - 8, kGuard);
    memory_.store64(kWord + 8, kGuard);
  }

  [[nodiscard]] std::size_t size() const { return pairs_.size(); }
  [[nodiscard]] const Memory& memory() const { return memory_; }
  [[nodiscard]] std::uint64_t value() const { return memory_.load64(kWord); }
  // Runs an atomic, or a READ or WRITE of the word at `at`, and returns what it fetched.
  std::uint64_t run(std::size_t i, ibv_wr_opcode opcode, std::uint64_t compare_add = 0,
                    std::uint64_t swap = 0, std::uint64_t at = kWord) const {
    const Pair& pair = *pairs_.at(i);
    Send send{.opcode = opcode, .sges = {pair.local.memory().sge(0, 8)}};
    send.raddr = memory_.address(at);
    send.rkey = memory_.rkey();
    send.compare_add = compare_add;
    send.swap = swap;
    if (opcode == IBV_WR_RDMA_WRITE) pair.local.memory().store64(0, swap);
    pair.run(send);
    return pair.local.memory().load64(0);
  }
  std::uint64_t add(std::size_t i, std::uint64_t by = 1) const {
    return run(i, IBV_WR_ATOMIC_FETCH_AND_ADD, by);
  }
  std::uint64_t swap(std::size_t i, std::uint64_t expected, std::uint64_t to) const {
    return run(i, IBV_WR_ATOMIC_CMP_AND_SWP, expected, to);
  }
  void require_guards() const {
    require(memory_.load64(kWord - 8) == kGuard && memory_.load64(kWord + 8) == kGuard,
            "a word beside has changed");
  }
  // Runs the body for each QP in a thread of its own.
  void at_once(const std::function<void(std::size_t)>& body) const {
    std::vector<std::exception_ptr> broken(size());
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < size(); i++) {
      threads.emplace_back([&body, &broken, i] {
        try {
          body(i);
        } catch (...) {
          broken[i] = std::current_exception();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const std::exception_ptr& error : broken) {
      if (error) std::rethrow_exception(error);
    }
    require_guards();
  }

 private:
  std::unique_ptr<Link> link_;
  Memory memory_;
  std::vector<std::unique_ptr<Pair>> pairs_;
};

// Each adder gets another old value, and nothing is lost.
void count(const Contest& contest, unsigned each) {
  std::vector<std::vector<std::uint64_t>> got(contest.size());
  contest.at_once([&](std::size_t i) {
    for (unsigned n = 0; n < each; n++) got[i].push_back(contest.add(i));
  });
  const std::uint64_t total = std::uint64_t{each} * contest.size();
  require(contest.value() == total, "{} after {} additions of 1", contest.value(), total);
  std::set<std::uint64_t> all;
  for (const auto& values : got) {
    for (std::size_t n = 0; n < values.size(); n++) {
      require(all.insert(values[n]).second, "two additions returned {}", values[n]);
      require(n == 0 || values[n] > values[n - 1], "{} after {} on one QP", values[n],
              values[n - 1]);
    }
  }
  require(all.empty() || *all.rbegin() == total - 1, "an addition returned {}", *all.rbegin());
}

void adders(const Env& env) { count(Contest(env, 4), 2 * env.effort); }

void contexts(const Env& env) {
  const Device other(ibv_get_device_name(env.dev.context()->device), -1);
  count(Contest(env, 4, &other), 2 * env.effort);
}

// Many additions are outstanding on each QP.
void deep(const Env& env) {
  constexpr std::uint64_t kDepth = 32;
  if (env.dev.attr().atomic_cap == IBV_ATOMIC_NONE) skip("atomic_cap is IBV_ATOMIC_NONE");
  const Memory word(env.dev.pd(), 4096, kAllAccess);
  std::vector<std::unique_ptr<Pair>> pairs;
  for (int i = 0; i < 3; i++) pairs.push_back(std::make_unique<Pair>(env.dev));
  std::set<std::uint64_t> all;
  const unsigned rounds = std::max(1U, env.effort / 10);
  for (unsigned round = 0; round < rounds; round++) {
    for (const auto& pair : pairs) {
      std::vector<Send> sends;
      for (std::uint64_t n = 0; n < kDepth; n++) {
        sends.push_back({.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
                         .sges = {pair->local.memory().sge(n * 8, 8)},
                         .wr_id = n,
                         .raddr = word.address(kWord),
                         .rkey = word.rkey(),
                         .compare_add = 3});
      }
      pair->post(sends);
    }
    for (const auto& pair : pairs) {
      for (std::uint64_t n = 0; n < kDepth; n++) pair->expect(n);
      for (std::uint64_t n = 0; n < kDepth; n++) {
        require(all.insert(pair->local.memory().load64(n * 8)).second, "an old value twice");
      }
    }
  }
  const std::uint64_t total = 3 * kDepth * pairs.size() * rounds;
  require(word.load64(kWord) == total, "{}, not {}", word.load64(kWord), total);
  require(*all.rbegin() == total - 3 && all.size() == total / 3, "old values are missing");
}

// A lock by CMP_AND_SWP guards a number that is read, increased and written.
void lock(const Env& env) {
  const unsigned each = std::max(1U, env.effort / 4);
  constexpr std::uint64_t kNumber = 512;
  constexpr unsigned kMost = 1000000;  // attempts
  const Contest contest(env, 3);
  contest.at_once([&](std::size_t i) {
    for (unsigned n = 0; n < each; n++) {
      unsigned attempts = 0;
      while (contest.swap(i, 0, i + 1) != 0) {
        require(++attempts < kMost, "the lock is never free");
      }
      const std::uint64_t number = contest.run(i, IBV_WR_RDMA_READ, 0, 0, kNumber);
      contest.run(i, IBV_WR_RDMA_WRITE, 0, number + 1, kNumber);
      const std::uint64_t owner = contest.swap(i, i + 1, 0);
      require(owner == i + 1, "the lock of {} has owner {}", i + 1, owner);
    }
  });
  const std::uint64_t number = contest.memory().load64(kNumber);
  require(number == std::uint64_t{each} * contest.size(), "{} after {} turns", number,
          each * contest.size());
}

// Additions and loops of CMP_AND_SWP on the same word.
void mixed(const Env& env) {
  const unsigned each = std::max(1U, env.effort / 2);
  const Contest contest(env, 4);
  contest.at_once([&](std::size_t i) {
    std::uint64_t seen = 0;
    for (unsigned n = 0; n < each; n++) {
      if (i % 2 == 0) {
        contest.add(i);
        continue;
      }
      for (std::uint64_t old = seen; (seen = contest.swap(i, old, old + 1)) != old; old = seen) {
      }
    }
  });
  const std::uint64_t total = std::uint64_t{each} * contest.size();
  require(contest.value() == total, "{} after {} steps", contest.value(), total);
}

// The fetched value of a failed CMP_AND_SWP is that of one moment, never a mixture.
void whole(const Env& env) {
  constexpr std::uint64_t kA = 0x1111111111111111;
  constexpr std::uint64_t kB = 0xeeeeeeeeeeeeeeee;
  const Contest contest(env, 3);
  contest.memory().store64(kWord, kA);
  std::atomic<bool> done = false;
  contest.at_once([&](std::size_t i) {
    if (i == 0) {
      for (unsigned n = 0; n < 2 * env.effort; n++) {
        const std::uint64_t from = n % 2 == 0 ? kA : kB;
        const std::uint64_t old = contest.swap(0, from, ~from);
        if (old != from) done = true;
        require(old == from, "{:#x} where only one QP writes {:#x}", old, from);
      }
      done = true;
      return;
    }
    while (!done) {
      const std::uint64_t value = contest.swap(i, 7, 8);
      require(value == kA || value == kB, "{:#x}", value);
    }
  });
}

// Two regions of one memory: the word is the same.
void two_regions(const Env& env) {
  const Contest contest(env, 2);
  const MrPtr mr(ibv_reg_mr(env.dev.pd(), contest.memory().bytes().data(), 4096, kAllAccess));
  if (!mr) fail_errno("ibv_reg_mr");
  const Pair by_other(env.dev);
  const unsigned each = 2 * env.effort;
  std::exception_ptr broken;
  std::thread other([&] {
    try {
      for (unsigned n = 0; n < each; n++) {
        Send send{.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
                  .sges = {by_other.local.memory().sge(0, 8)},
                  .raddr = reinterpret_cast<std::uintptr_t>(mr->addr) + kWord,
                  .rkey = mr->rkey,
                  .compare_add = 1};
        by_other.run(send);
      }
    } catch (...) {
      broken = std::current_exception();
    }
  });
  try {
    contest.at_once([&](std::size_t i) {
      for (unsigned n = 0; n < each; n++) contest.add(i);
    });
  } catch (...) {
    other.join();
    throw;
  }
  other.join();
  if (broken) std::rethrow_exception(broken);
  require(contest.value() == std::uint64_t{3} * each, "{}", contest.value());
}

// Only a device of IBV_ATOMIC_GLOB promises this.
void with_cpu(const Env& env) {
  if (env.dev.attr().atomic_cap != IBV_ATOMIC_GLOB) skip("atomic_cap is not IBV_ATOMIC_GLOB");
  const Contest contest(env, 2);
  auto* const word =
      reinterpret_cast<std::uint64_t*>(contest.memory().bytes().subspan(kWord).data());
  // The device keeps its words in the byte order of the host.
  std::atomic_ref<std::uint64_t> shared(*word);
  const unsigned each = 2 * env.effort;
  std::atomic<bool> done = false;
  std::uint64_t own = 0;
  std::thread cpu([&] {
    for (; !done; own++) shared.fetch_add(1);
  });
  std::string why;
  try {
    contest.at_once([&](std::size_t i) {
      for (unsigned n = 0; n < each; n++) contest.add(i);
    });
  } catch (const Failure& failure) {
    why = failure.what();
  }
  done = true;
  cpu.join();
  require(why.empty(), "{}", why);
  require(contest.value() == own + std::uint64_t{2} * each, "{} of {} additions are lost",
          own + std::uint64_t{2} * each - contest.value(), own);
}

}  // namespace

Rules all() {
  return {
      {"adders", "FETCH_AND_ADD of several QPs: none is lost, and each has its own old value",
       adders},
      {"contexts", "so it is for QPs of several contexts of the device", contexts},
      {"deep", "so it is with many requests outstanding on each QP", deep},
      {"lock", "CMP_AND_SWP makes a lock, which has one owner at a time", lock},
      {"mixed", "FETCH_AND_ADD and CMP_AND_SWP on one word are atomic to each other", mixed},
      {"whole", "an atomic fetches the value of one moment", whole},
      {"two_regions", "atomics by the keys of two regions of one memory are atomic to each other",
       two_regions},
      {"with_cpu", "with IBV_ATOMIC_GLOB atomics of the CPU are atomic to those of the device",
       with_cpu, "ibv_query_device(3)"},
  };
}

}  // namespace guest::atomics

// SPDX-License-Identifier: GPL-2.0-or-later
// A separate program, built without sanitizers: their atomic operations order more than the
// processor does.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "doorbell_ring.h"

namespace tern::runner {
namespace {

// The handshake of Runner::doorbell() and a worker that goes idle: each stores, then reads what the
// other stores. At least one of them must see the other's store.
TEST(DoorbellRing, PosterAndIdleWorkerSeeEachOther) {
  DoorbellRing ring;
  std::atomic<bool> idle = false;
  std::atomic<bool> saw_idle = false;
  std::atomic<unsigned> begun = 0;
  std::atomic<unsigned> ended = 0;
  std::atomic<bool> ends = false;
  std::thread poster([&] {
    for (unsigned round = 1;; ++round) {
      while (begun.load(std::memory_order_acquire) != round) {
        if (ends) return;
      }
      const bool put = ring.put({0, round});
      saw_idle = idle.load(std::memory_order_seq_cst) || !put;
      ended.store(round, std::memory_order_release);
    }
  });
  unsigned rounds = 0;
  unsigned missed = 0;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(2);
  while (std::chrono::steady_clock::now() < end) {
    for (int i = 0; i < 1000; ++i) {
      idle = false;
      ring.take_all([](const Doorbell&) {});
      begun.store(++rounds, std::memory_order_release);
      // About as long as the other thread needs to see it, varied by round.
      for (std::atomic<unsigned> n = 0; n < rounds % 32;
           n.fetch_add(1, std::memory_order_relaxed)) {
      }
      idle.store(true, std::memory_order_seq_cst);
      const bool saw_doorbell = ring.pending();
      while (ended.load(std::memory_order_acquire) != rounds) {
      }
      missed += !saw_doorbell && !saw_idle;
    }
  }
  ends = true;
  poster.join();
  EXPECT_EQ(missed, 0U) << "of " << rounds;
}

}  // namespace
}  // namespace tern::runner

// SPDX-License-Identifier: GPL-2.0-or-later
// A lock for a few stores. A mutex has a read-modify-write in unlock(), too, which waits until all
// earlier stores are in the cache: those of a whole frame, whose lines are in another processor's
// cache.
#pragma once

#include <sched.h>

#include <atomic>

namespace tern::daemon {

class SpinLock {
 public:
  void lock() {
    while (held_.exchange(true, std::memory_order_acquire)) wait();
  }
  void unlock() { held_.store(false, std::memory_order_release); }

 private:
  void wait() const {
    constexpr unsigned kSpins = 200;
    for (unsigned i = 0; held_.load(std::memory_order_relaxed); ++i) {
      // The holder may be waiting for this processor.
      if (i >= kSpins) sched_yield();
    }
  }

  std::atomic<bool> held_ = false;
};

}  // namespace tern::daemon

// SPDX-License-Identifier: GPL-2.0-or-later
// Time from the processor's cycle counter. Under emulation clock_gettime() is a system call and
// reads a timer's port, which costs more than a message.
#pragma once

#include <x86intrin.h>

#include <chrono>
#include <cstdint>
#include <thread>

namespace guest::bench {

inline std::uint64_t ticks() { return __rdtsc(); }

// Nanoseconds per tick, measured once.
inline double tick_ns() {
  static const double ns = [] {
    using Clock = std::chrono::steady_clock;
    const auto begin = Clock::now();
    const std::uint64_t first = ticks();
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    const auto end = Clock::now();
    return std::chrono::duration<double, std::nano>(end - begin).count() /
           static_cast<double>(ticks() - first);
  }();
  return ns;
}

inline double seconds_since(std::uint64_t first) {
  return static_cast<double>(ticks() - first) * tick_ns() / 1e9;
}

}  // namespace guest::bench

// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <atomic>
#include <cstdint>
#include <ctime>

namespace tern::daemon {

inline std::uint64_t clock_ns(clockid_t clock = CLOCK_MONOTONIC) {
  timespec t;
  clock_gettime(clock, &t);
  return static_cast<std::uint64_t>(t.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(t.tv_nsec);
}

// The clock of an adapter, which goes on when the adapter moves to another host. The adapter's
// thread sets it, while others may read it.
class AdapterClock {
 public:
  [[nodiscard]] std::uint64_t now() const { return clock_ns() + ahead(); }
  // Continues from this time.
  void set(std::uint64_t now) { ahead_.store(now - clock_ns(), std::memory_order_relaxed); }
  void reset() { ahead_.store(0, std::memory_order_relaxed); }
  // The time of the host at a time of this clock. It saturates: a saved deadline may be anything.
  [[nodiscard]] std::uint64_t host_time(std::uint64_t at) const {
    const std::uint64_t ahead = this->ahead();
    const std::uint64_t time = at - ahead;
    const bool behind = ahead >> 63;
    if (behind) return time < at ? UINT64_MAX : time;
    return time > at ? 0 : time;
  }

 private:
  [[nodiscard]] std::uint64_t ahead() const { return ahead_.load(std::memory_order_relaxed); }

  std::atomic<std::uint64_t> ahead_ = 0;  // modulo 2^64
};

inline timespec timespec_of(std::uint64_t ns) {
  return {static_cast<std::time_t>(ns / 1'000'000'000), static_cast<long>(ns % 1'000'000'000)};
}

}  // namespace tern::daemon

// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstdint>
#include <ctime>

namespace tern::daemon {

inline std::uint64_t clock_ns(clockid_t clock = CLOCK_MONOTONIC) {
  timespec t;
  clock_gettime(clock, &t);
  return static_cast<std::uint64_t>(t.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(t.tv_nsec);
}

// The clock of an adapter, which goes on when the adapter moves to another host. Only the thread of
// an adapter with one lane sets it.
class AdapterClock {
 public:
  [[nodiscard]] std::uint64_t now() const { return clock_ns() + ahead_; }
  // Continues from this time.
  void set(std::uint64_t now) { ahead_ = now - clock_ns(); }
  // Other threads read it, which must not see a write.
  void reset() {
    if (ahead_ != 0) ahead_ = 0;
  }
  // The time of the host at a time of this clock. It saturates: a saved deadline may be anything.
  [[nodiscard]] std::uint64_t host_time(std::uint64_t at) const {
    const std::uint64_t time = at - ahead_;
    const bool behind = ahead_ >> 63;
    if (behind) return time < at ? UINT64_MAX : time;
    return time > at ? 0 : time;
  }

 private:
  std::uint64_t ahead_ = 0;  // modulo 2^64
};

inline timespec timespec_of(std::uint64_t ns) {
  return {static_cast<std::time_t>(ns / 1'000'000'000), static_cast<long>(ns % 1'000'000'000)};
}

}  // namespace tern::daemon

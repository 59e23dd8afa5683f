// SPDX-License-Identifier: GPL-2.0-or-later
// Whether other threads need the processor that the worker polls on.
//
// The kernel does not report contention for a processor, but it reports how long a thread waited for one.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

namespace tern::runner {

// Of one thread since it began, in ns.
struct CpuTimes {
  std::uint64_t ran = 0;
  std::uint64_t waited = 0;  // ready to run, without a processor
};

class CpuClock {
 public:
  virtual ~CpuClock() = default;
  // False, and `times` is as before: there are no figures.
  virtual bool read(CpuTimes& times) = 0;
};

// The calling thread's, by /proc/thread-self/schedstat. Null where the kernel has none.
std::unique_ptr<CpuClock> open_schedstat();

class Contention {
 public:
  // Judged over so much time running or waiting to run, in ns.
  static constexpr std::uint64_t kWindow = 20'000'000;
  // There is contention if the thread waited for more than one part in so many.
  static constexpr std::uint64_t kPart = 4;
  // Polling then pauses for so long; the pause doubles while contention lasts.
  static constexpr std::uint64_t kMinPause = 200'000'000;
  static constexpr std::uint64_t kMaxPause = 6'400'000'000;

  // A null clock: there is never contention.
  void start(std::unique_ptr<CpuClock> clock);
  // The thread slept: the time until it was woken and ran does not count.
  void skip();

  struct Verdict {
    std::uint64_t ran;
    std::uint64_t waited;
    std::uint64_t pause;  // ns without polling; 0: no contention
  };
  // Once in a window; nothing in between.
  std::optional<Verdict> judge();

 private:
  std::unique_ptr<CpuClock> clock_;
  CpuTimes last_;
  std::uint64_t ran_ = 0;  // in this window
  std::uint64_t waited_ = 0;
  std::uint64_t pause_ = kMinPause;  // at the next contention
};

}  // namespace tern::runner

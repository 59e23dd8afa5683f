// SPDX-License-Identifier: GPL-2.0-or-later
// Detects contention for the processor that a thread polls on.
//
// The kernel does not report contention for a processor, but it reports how long a thread waited
// for one.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

namespace tern::runner {

// Times of one thread since it began, in ns.
struct CpuTimes {
  std::uint64_t ran = 0;
  std::uint64_t waited = 0;  // ready to run, without a processor
  std::uint64_t waits = 0;   // number of waits
};

class CpuClock {
 public:
  virtual ~CpuClock() = default;
  // Returns false, with `times` unchanged, if the times are not available.
  virtual bool read(CpuTimes& times) = 0;
};

// The clock of the calling thread: /proc/thread-self/schedstat or, if that cannot be opened, as in
// a sandbox, one that counts all time in which the thread does not run as waited.
std::unique_ptr<CpuClock> open_thread_clock();

class Contention {
 public:
  // Contention is measured over this much time running or waiting to run, in ns.
  static constexpr std::uint64_t kWindow = 20'000'000;
  // There is contention if the thread waited for more than one kPart-th of the window.
  static constexpr std::uint64_t kPart = 4;
  // The thread then backs off for kMinPause ns; the pause doubles while contention lasts, up to
  // kMaxPause or the limit given to start().
  static constexpr std::uint64_t kMinPause = 200'000'000;
  static constexpr std::uint64_t kMaxPause = 6'400'000'000;

  // With a null clock there is never contention. Waits of less than `brief` ns on average are
  // brief: a thread that yields between two polls waits that long for others that do the same.
  void start(std::unique_ptr<CpuClock> clock, std::uint64_t brief = 0,
             std::uint64_t max_pause = kMaxPause);
  // Excludes the time that the thread slept, until it was woken and ran.
  void skip();

  // Level of the waits in the window: kNone if they are short in total, kBrief if they are brief on
  // average, else kLong.
  enum class Level : std::uint8_t { kNone, kBrief, kLong };
  struct Verdict {
    std::uint64_t ran;
    std::uint64_t waited;
    Level level;
    std::uint64_t pause;  // ns; 0 if there is no contention
  };
  // Returns a result once in a window, and nothing in between.
  std::optional<Verdict> judge();

 private:
  std::unique_ptr<CpuClock> clock_;
  CpuTimes last_;
  std::uint64_t ran_ = 0;  // in this window
  std::uint64_t waited_ = 0;
  std::uint64_t waits_ = 0;
  std::uint64_t brief_ = 0;
  std::uint64_t max_pause_ = kMaxPause;
  std::uint64_t pause_ = kMinPause;  // of the next contention
};

}  // namespace tern::runner

// SPDX-License-Identifier: GPL-2.0-or-later
// Timers in a heap of intrusive nodes: arm() and cancel() do not allocate once the heap has grown.
#pragma once

#include <cstddef>
#include <vector>

#include "core/types.h"

namespace tern {

class TimerQueue;

class Timer {
 public:
  Timer(TimerQueue& queue, void (*expired)(void*), void* context)
      : queue_(queue), expired_(expired), context_(context) {}
  ~Timer() { cancel(); }
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

  void arm(Nanos deadline);  // replaces an earlier deadline
  void cancel();
  [[nodiscard]] bool armed() const { return index_ != kIdle; }

 private:
  friend class TimerQueue;
  static constexpr std::size_t kIdle = SIZE_MAX;
  TimerQueue& queue_;
  void (*expired_)(void*);
  void* context_;
  Nanos deadline_ = 0;
  std::size_t index_ = kIdle;
};

class TimerQueue {
 public:
  [[nodiscard]] Nanos next() const { return heap_.empty() ? kNever : heap_[0]->deadline_; }
  // Runs timers due at `now`, at most `limit` of them; returns true if more are due.
  bool run(Nanos now, unsigned limit);

 private:
  friend class Timer;
  void place(std::size_t i, Timer* t);
  void up(std::size_t i);
  void down(std::size_t i);
  std::vector<Timer*> heap_;
};

}  // namespace tern

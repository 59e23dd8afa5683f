// SPDX-License-Identifier: GPL-2.0-or-later
// Timers in a heap of intrusive nodes: arm() and cancel() do not allocate once the heap has grown.
#pragma once

#include <cstddef>
#include <vector>

#include "core/types.h"

namespace tern {

class Archive;
class TimerQueue;

class Timer {
 public:
  Timer(TimerQueue& queue, void (*expired)(void*), void* context)
      : queue_(&queue), expired_(expired), context_(context) {}
  ~Timer() { cancel(); }
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

  void arm(Nanos deadline);  // replaces an earlier deadline
  void cancel();
  // The same for a deadline that moves with each packet. They leave the heap alone unless the
  // deadline becomes earlier, so that TimerQueue::next() may be earlier than any deadline.
  void arm_lazily(Nanos deadline) {
    if (index_ == kIdle || deadline < key()) return arm(deadline);
    set(deadline);
  }
  void cancel_lazily() { set(kNever); }
  [[nodiscard]] bool armed() const { return deadline_ != kNever; }
  // Moves the timer to another queue; it keeps its deadline.
  void move_to(TimerQueue& queue);

 private:
  friend class Archive;
  friend class TimerQueue;
  static constexpr std::size_t kIdle = SIZE_MAX;
  [[nodiscard]] Nanos key() const;
  void set(Nanos deadline);
  TimerQueue* queue_;
  void (*expired_)(void*);
  void* context_;
  Nanos deadline_ = kNever;
  std::size_t index_ = kIdle;  // in the heap
};

class TimerQueue {
 public:
  // Returns kNever if no timer is armed: then the clock need not be read for run().
  [[nodiscard]] Nanos next() const { return armed_ == 0 ? kNever : heap_[0].key; }
  // Runs timers due at `now`, at most `limit` of them; returns true if more are due.
  bool run(Nanos now, unsigned limit);

 private:
  friend class Archive;
  friend class Timer;
  // A timer with the deadline that it had when it was placed here; its own may be later.
  struct Node {
    Nanos key;
    Timer* timer;
  };
  void place(std::size_t i, Node node);
  void up(std::size_t i);
  void down(std::size_t i);
  void remove(std::size_t i);
  std::vector<Node> heap_;
  std::size_t armed_ = 0;  // number of armed timers; all are in the heap
};

inline Nanos Timer::key() const { return queue_->heap_[index_].key; }

inline void Timer::set(Nanos deadline) {
  queue_->armed_ += std::size_t{deadline != kNever} - std::size_t{armed()};
  deadline_ = deadline;
}

}  // namespace tern

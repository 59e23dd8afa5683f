// SPDX-License-Identifier: GPL-2.0-or-later
#include "core/timers.h"

namespace tern {

void TimerQueue::place(std::size_t i, Timer* t) {
  heap_[i] = t;
  t->index_ = i;
}

void TimerQueue::up(std::size_t i) {
  Timer* const t = heap_[i];
  while (i > 0) {
    const std::size_t parent = (i - 1) / 2;
    if (heap_[parent]->deadline_ <= t->deadline_) break;
    place(i, heap_[parent]);
    i = parent;
  }
  place(i, t);
}

void TimerQueue::down(std::size_t i) {
  Timer* const t = heap_[i];
  for (;;) {
    std::size_t child = 2 * i + 1;
    if (child >= heap_.size()) break;
    if (child + 1 < heap_.size() && heap_[child + 1]->deadline_ < heap_[child]->deadline_) ++child;
    if (t->deadline_ <= heap_[child]->deadline_) break;
    place(i, heap_[child]);
    i = child;
  }
  place(i, t);
}

void Timer::arm(Nanos deadline) {
  const bool later = armed() && deadline >= deadline_;
  deadline_ = deadline;
  if (!armed()) {
    queue_.heap_.push_back(this);
    index_ = queue_.heap_.size() - 1;
    queue_.up(index_);
  } else if (later) {
    queue_.down(index_);
  } else {
    queue_.up(index_);
  }
}

void Timer::cancel() {
  if (!armed()) return;
  auto& heap = queue_.heap_;
  Timer* const last = heap.back();
  heap.pop_back();
  if (last != this) {
    queue_.place(index_, last);
    queue_.up(index_);
    queue_.down(last->index_);
  }
  index_ = kIdle;
}

bool TimerQueue::run(Nanos now, unsigned limit) {
  for (; limit > 0; --limit) {
    if (next() > now) return false;
    Timer* const t = heap_[0];
    t->cancel();
    t->expired_(t->context_);
  }
  return next() <= now;
}

}  // namespace tern

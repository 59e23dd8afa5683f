// SPDX-License-Identifier: GPL-2.0-or-later
#include "core/timers.h"

namespace tern {

void TimerQueue::place(std::size_t i, Node node) {
  heap_[i] = node;
  node.timer->index_ = i;
}

void TimerQueue::up(std::size_t i) {
  const Node node = heap_[i];
  while (i > 0) {
    const std::size_t parent = (i - 1) / 2;
    if (heap_[parent].key <= node.key) break;
    place(i, heap_[parent]);
    i = parent;
  }
  place(i, node);
}

void TimerQueue::down(std::size_t i) {
  const Node node = heap_[i];
  for (;;) {
    std::size_t child = 2 * i + 1;
    if (child >= heap_.size()) break;
    if (child + 1 < heap_.size() && heap_[child + 1].key < heap_[child].key) ++child;
    if (node.key <= heap_[child].key) break;
    place(i, heap_[child]);
    i = child;
  }
  place(i, node);
}

void TimerQueue::remove(std::size_t i) {
  heap_[i].timer->index_ = Timer::kIdle;
  const Node last = heap_.back();
  heap_.pop_back();
  if (i == heap_.size()) return;
  place(i, last);
  up(i);
  down(last.timer->index_);
}

void Timer::arm(Nanos deadline) {
  set(deadline);
  auto& heap = queue_->heap_;
  if (index_ == kIdle) {
    index_ = heap.size();
    heap.push_back({deadline, this});
    queue_->up(index_);
    return;
  }
  const bool later = deadline >= key();
  heap[index_].key = deadline;
  if (later) {
    queue_->down(index_);
  } else {
    queue_->up(index_);
  }
}

void Timer::cancel() {
  set(kNever);
  if (index_ != kIdle) queue_->remove(index_);
}

void Timer::move_to(TimerQueue& queue) {
  const Nanos deadline = deadline_;
  cancel();
  queue_ = &queue;
  if (deadline != kNever) arm(deadline);
}

bool TimerQueue::run(Nanos now, unsigned limit) {
  for (; limit > 0; --limit) {
    if (next() > now) return false;
    Timer* const t = heap_[0].timer;
    if (t->deadline_ <= now) {
      t->cancel();
      t->expired_(t->context_);
    } else if (t->deadline_ == kNever) {
      remove(0);
    } else {
      t->arm(t->deadline_);
    }
  }
  return next() <= now;
}

}  // namespace tern

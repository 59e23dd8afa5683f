// SPDX-License-Identifier: GPL-2.0-or-later
#include "task_queue.h"

#include <utility>

namespace tern::daemon {

TaskQueue::Ticket TaskQueue::post(std::function<void()> task) {
  auto entry = std::make_shared<Task>();
  entry->run = std::move(task);
  Ticket ticket(entry);
  const std::lock_guard lock(mutex_);
  tasks_.push_back(std::move(entry));
  waiting_.store(true, std::memory_order_seq_cst);
  return ticket;
}

bool TaskQueue::Ticket::wait(Time until) {
  if (done_.wait_until(until) == std::future_status::ready) return true;
  if (!task_->taken.exchange(true)) return false;
  done_.wait();
  return true;
}

void TaskQueue::run() {
  std::vector<std::shared_ptr<Task>> tasks;
  {
    const std::lock_guard lock(mutex_);
    tasks.swap(tasks_);
    waiting_.store(false, std::memory_order_relaxed);
  }
  for (const auto& task : tasks) {
    if (task->taken.exchange(true)) continue;
    task->run();
    task->done.set_value();
  }
}

}  // namespace tern::daemon

// SPDX-License-Identifier: GPL-2.0-or-later
#include "task_queue.h"

#include <chrono>
#include <future>
#include <memory>

namespace tern::daemon {

namespace {

// How long call() waits.
constexpr auto kPatience = std::chrono::seconds(3);

}  // namespace

bool TaskQueue::call(const std::function<void()>& task, const std::function<void()>& wake) {
  auto done = std::make_shared<std::promise<void>>();
  std::future<void> future = done->get_future();
  // Of the two, the one that sets it decides whether the task runs.
  auto taken = std::make_shared<std::atomic<bool>>(false);
  {
    const std::lock_guard lock(mutex_);
    tasks_.emplace_back([&task, done, taken] {
      if (taken->exchange(true)) return;
      task();
      done->set_value();
    });
    waiting_.store(true, std::memory_order_seq_cst);
  }
  wake();
  if (future.wait_for(kPatience) == std::future_status::ready) return true;
  if (!taken->exchange(true)) return false;
  future.wait();
  return true;
}

void TaskQueue::run() {
  std::vector<std::function<void()>> tasks;
  {
    const std::lock_guard lock(mutex_);
    tasks.swap(tasks_);
    waiting_.store(false, std::memory_order_relaxed);
  }
  for (const auto& task : tasks) task();
}

}  // namespace tern::daemon

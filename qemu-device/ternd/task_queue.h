// SPDX-License-Identifier: GPL-2.0-or-later
// Tasks that other threads post to a thread and wait for.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <vector>

namespace tern::daemon {

class TaskQueue {
 private:
  struct Task {
    std::function<void()> run;
    std::promise<void> done;
    // Set by the thread or by the waiting one: the first decides whether the task runs.
    std::atomic<bool> taken = false;
  };

 public:
  // Limit for a thread to begin a task.
  static constexpr std::chrono::seconds kWaitLimit{3};

  // A posted task. Objects that it refers to must live until wait() returns.
  class Ticket {
   public:
    using Time = std::chrono::steady_clock::time_point;
    // Returns false, and the task does not run, if the thread has not begun it by then.
    bool wait(Time until = std::chrono::steady_clock::now() + kWaitLimit);

   private:
    friend class TaskQueue;
    explicit Ticket(std::shared_ptr<Task> task)
        : task_(std::move(task)), done_(task_->done.get_future()) {}
    std::shared_ptr<Task> task_;
    std::future<void> done_;
  };

  // Any other thread, which then wakes the thread.
  Ticket post(std::function<void()> task);

  // The thread.
  [[nodiscard]] bool empty() const { return !waiting_.load(std::memory_order_seq_cst); }
  void run();

 private:
  std::mutex mutex_;
  std::atomic<bool> waiting_ = false;
  std::vector<std::shared_ptr<Task>> tasks_;
};

}  // namespace tern::daemon

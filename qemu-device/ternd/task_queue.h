// SPDX-License-Identifier: GPL-2.0-or-later
// Tasks that other threads give to a thread, and wait for.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <vector>

namespace tern::daemon {

class TaskQueue {
 public:
  // Any other thread: has `task` run by the thread, which `wake` wakes. Returns false if the thread did
  // not take it in time.
  bool call(const std::function<void()>& task, const std::function<void()>& wake);

  // The thread.
  [[nodiscard]] bool empty() const { return !waiting_.load(std::memory_order_seq_cst); }
  void run();

 private:
  std::mutex mutex_;
  std::atomic<bool> waiting_ = false;
  std::vector<std::function<void()>> tasks_;
};

}  // namespace tern::daemon

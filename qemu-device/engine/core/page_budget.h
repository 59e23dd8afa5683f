// SPDX-License-Identifier: GPL-2.0-or-later
// Page list entries: bounds how many all objects of a device hold, and counts how many its commands
// have read.
#pragma once

#include <cstdint>

namespace tern {

class PageBudget {
 public:
  explicit PageBudget(std::uint64_t limit) : limit_(limit) {}
  PageBudget(const PageBudget&) = delete;
  PageBudget& operator=(const PageBudget&) = delete;

  // Call it before allocating `entries`. Returns false if they exceed the limit.
  [[nodiscard]] bool charge(std::uint64_t entries) {
    if (entries > limit_ - held_) return false;
    held_ += entries;
    return true;
  }
  void release(std::uint64_t entries) { held_ -= entries; }
  [[nodiscard]] std::uint64_t held() const { return held_; }
  [[nodiscard]] std::uint64_t limit() const { return limit_; }

  // Adds to the work of a command: entries read, or other work of the same cost. A slice of
  // commands ends after a certain amount of work.
  void work(std::uint64_t entries) { worked_ += entries; }
  [[nodiscard]] std::uint64_t worked() const { return worked_; }

 private:
  std::uint64_t limit_;
  std::uint64_t held_ = 0;
  std::uint64_t worked_ = 0;
};

}  // namespace tern

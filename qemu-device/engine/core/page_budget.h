// SPDX-License-Identifier: GPL-2.0-or-later
// Entries of page lists: how many all objects of a device may hold together, and how many its commands have read.
#pragma once

#include <cstdint>

namespace tern {

class PageBudget {
 public:
  explicit PageBudget(std::uint64_t limit) : limit_(limit) {}
  PageBudget(const PageBudget&) = delete;
  PageBudget& operator=(const PageBudget&) = delete;

  // Before the memory for so many entries is allocated. False: they would be too many.
  [[nodiscard]] bool charge(std::uint64_t entries) {
    if (entries > limit_ - held_) return false;
    held_ += entries;
    return true;
  }
  void release(std::uint64_t entries) { held_ -= entries; }
  [[nodiscard]] std::uint64_t held() const { return held_; }
  [[nodiscard]] std::uint64_t limit() const { return limit_; }

  // Work that a command has made: entries read, or as many as take as long. A slice of commands ends when it has made enough.
  void work(std::uint64_t entries) { worked_ += entries; }
  [[nodiscard]] std::uint64_t worked() const { return worked_; }

 private:
  std::uint64_t limit_;
  std::uint64_t held_ = 0;
  std::uint64_t worked_ = 0;
};

}  // namespace tern

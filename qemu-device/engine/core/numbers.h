// SPDX-License-Identifier: GPL-2.0-or-later
// Allocator of object numbers. Freed numbers are reused last, the oldest first, so that stale
// references find nothing for as long as possible.
#pragma once

#include <cstdint>
#include <deque>

namespace tern {

class Numbers {
 public:
  // Numbers 0 .. reserved + capacity - 1; take() never returns the `reserved` lowest.
  explicit Numbers(std::uint32_t capacity, std::uint32_t reserved = 0)
      : limit_(reserved + capacity), reserved_(reserved), used_(reserved) {}

  [[nodiscard]] bool none_left() const { return used_ == limit_ && free_.empty(); }
  // All reserved numbers and all numbers ever taken are below used().
  [[nodiscard]] std::uint32_t used() const { return used_; }

  // A number must be left.
  std::uint32_t take() {
    if (used_ < limit_) return used_++;
    const std::uint32_t number = free_.front();
    free_.pop_front();
    return number;
  }
  void give_back(std::uint32_t number) { free_.push_back(number); }
  void clear() {
    used_ = reserved_;
    free_.clear();
  }

 private:
  std::uint32_t limit_;
  std::uint32_t reserved_;
  std::uint32_t used_;
  std::deque<std::uint32_t> free_;
};

}  // namespace tern

// SPDX-License-Identifier: GPL-2.0-or-later
// Numbers of objects. A number that came back is the last to be given out again, so that a stale reference hits nothing for as
// long as possible.
#pragma once

#include <cstdint>
#include <deque>

namespace tern {

class Numbers {
 public:
  // 0 .. reserved + capacity - 1, of which take() never gives out the `reserved` lowest.
  explicit Numbers(std::uint32_t capacity, std::uint32_t reserved = 0)
      : limit_(reserved + capacity), reserved_(reserved), used_(reserved) {}

  [[nodiscard]] bool none_left() const { return used_ == limit_ && free_.empty(); }
  // All that were ever given out, and the reserved, are below.
  [[nodiscard]] std::uint32_t used() const { return used_; }

  // There must be one left.
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

// SPDX-License-Identifier: GPL-2.0-or-later
// Allocator of object numbers. Freed numbers are reused last, the oldest first, so that stale
// references find nothing for as long as possible.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "core/archive.h"

namespace tern {

class Numbers {
 public:
  // Numbers 0 .. reserved + capacity - 1; take() never returns the `reserved` lowest.
  explicit Numbers(std::uint32_t capacity, std::uint32_t reserved = 0)
      : limit_(reserved + capacity), reserved_(reserved), used_(reserved) {}

  [[nodiscard]] bool none_left() const { return used_ == limit_ && free_.empty(); }
  // All reserved numbers and all numbers ever taken are below used().
  [[nodiscard]] std::uint32_t used() const { return used_; }

  [[nodiscard]] std::uint32_t limit() const { return limit_; }
  [[nodiscard]] const std::deque<std::uint32_t>& free() const { return free_; }

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
  // The saved state, in two parts: how many numbers were used, and which are free. `live(number)`:
  // whether a number is in use.
  void state(Archive& ar) {
    ar(used_);
    if (!ar.require(used_ >= reserved_ && used_ <= limit_, "there are too many objects"))
      used_ = reserved_;
  }
  template <class F>
  void free_state(Archive& ar, F&& live) {
    free_.resize(ar.count(free_.size(), limit_, sizeof(free_.front())));
    std::vector<bool> seen(ar.reading() ? used_ : 0);
    for (std::uint32_t& number : free_) {
      ar(number);
      if (!ar.reading()) continue;
      if (!ar.require(number >= reserved_ && number < used_ && !seen[number] && !live(number),
                      "a number is free twice, or in use"))
        return;
      seen[number] = true;
    }
  }

 private:
  std::uint32_t limit_;
  std::uint32_t reserved_;
  std::uint32_t used_;
  std::deque<std::uint32_t> free_;
};

}  // namespace tern

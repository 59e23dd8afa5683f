// SPDX-License-Identifier: GPL-2.0-or-later
// Numbered objects that lie in a row, for what is looked up for every packet: an object is found without a look at anything
// else, so that its lines can be on their way into the cache before it is wanted. Numbers are given out as Table gives them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

namespace tern {

// T{} is a vacant place, which T::vacant() tells.
template <class T>
class Slab {
 public:
  // Numbers first .. first + capacity - 1.
  Slab(std::uint32_t first, std::uint32_t capacity) : first_(first), capacity_(capacity) {}

  // Inserts what make(number) returns, which is not vacant, and returns the number; the slab must not be full.
  template <class F>
  std::uint32_t insert(F&& make) {
    std::uint32_t i;
    if (used_ < capacity_) {
      i = used_++;
      if (i % kChunk == 0) chunks_.push_back(std::make_unique<T[]>(kChunk));
    } else {
      i = free_.front();
      free_.pop_front();
    }
    at(i) = make(first_ + i);
    ++count_;
    return first_ + i;
  }

  [[nodiscard]] T* find(std::uint32_t number) const {
    const std::uint32_t i = number - first_;
    if (i >= used_) return nullptr;
    T& object = at(i);
    return object.vacant() ? nullptr : &object;
  }
  // find() will be called soon.
  void prefetch(std::uint32_t number) const {
    if (const std::uint32_t i = number - first_; i < used_) __builtin_prefetch(&at(i));
  }

  void erase(std::uint32_t number) {
    if (T* const object = find(number)) {
      *object = T{};
      free_.push_back(number - first_);
      --count_;
    }
  }

  void clear() {
    chunks_.clear();
    free_.clear();
    used_ = count_ = 0;
  }

  [[nodiscard]] std::uint32_t count() const { return count_; }

 private:
  static constexpr std::uint32_t kChunk = 1024;
  [[nodiscard]] T& at(std::uint32_t i) const { return chunks_[i / kChunk][i % kChunk]; }

  std::uint32_t first_;
  std::uint32_t capacity_;
  std::uint32_t used_ = 0;  // places that were ever given out
  std::uint32_t count_ = 0;
  std::vector<std::unique_ptr<T[]>> chunks_;
  std::deque<std::uint32_t> free_;
};

}  // namespace tern

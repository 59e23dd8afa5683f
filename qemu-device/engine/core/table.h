// SPDX-License-Identifier: GPL-2.0-or-later
// Numbered objects. A freed number is the last to be given out again, so that a stale
// reference hits nothing for as long as possible.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

namespace tern {

template <class T>
class Table {
 public:
  // Numbers first .. first + capacity - 1.
  Table(std::uint32_t first, std::uint32_t capacity) : first_(first), capacity_(capacity) {}

  // The number the next insert() gets, or nothing when the table is full.
  [[nodiscard]] bool full() const { return count_ == capacity_; }

  // Inserts and returns the number; the table must not be full.
  std::uint32_t insert(std::unique_ptr<T> object) {
    std::uint32_t i;
    if (slots_.size() < capacity_) {
      i = static_cast<std::uint32_t>(slots_.size());
      slots_.push_back(std::move(object));
    } else {
      i = free_.front();
      free_.pop_front();
      slots_[i] = std::move(object);
    }
    ++count_;
    return first_ + i;
  }

  [[nodiscard]] T* find(std::uint32_t number) const {
    const std::uint32_t i = number - first_;
    return i < slots_.size() ? slots_[i].get() : nullptr;
  }

  void erase(std::uint32_t number) {
    const std::uint32_t i = number - first_;
    if (i >= slots_.size() || !slots_[i]) return;
    slots_[i].reset();
    free_.push_back(i);
    --count_;
  }

  void clear() {
    slots_.clear();
    free_.clear();
    count_ = 0;
  }

  [[nodiscard]] std::uint32_t count() const { return count_; }

  template <class F>
  void for_each(F&& f) const {
    for (std::uint32_t i = 0; i < slots_.size(); ++i) {
      if (slots_[i]) f(first_ + i, *slots_[i]);
    }
  }

 private:
  std::uint32_t first_;
  std::uint32_t capacity_;
  std::uint32_t count_ = 0;
  std::vector<std::unique_ptr<T>> slots_;
  std::deque<std::uint32_t> free_;
};

}  // namespace tern

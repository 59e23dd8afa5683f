// SPDX-License-Identifier: GPL-2.0-or-later
// Numbered objects, each allocated separately.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "core/numbers.h"

namespace tern {

template <class T>
class Table {
 public:
  // Numbers first .. first + reserved + capacity - 1. insert() never uses the `reserved` lowest;
  // only put() does.
  Table(std::uint32_t first, std::uint32_t capacity, std::uint32_t reserved = 0)
      : first_(first), reserved_(reserved), numbers_(capacity, reserved) {
    slots_.resize(reserved);
  }

  // Whether insert() has no number left.
  [[nodiscard]] bool full() const { return numbers_.none_left(); }

  // Inserts and returns the number; the table must not be full.
  std::uint32_t insert(std::unique_ptr<T> object) {
    const std::uint32_t i = numbers_.take();
    if (i == slots_.size()) {
      slots_.push_back(std::move(object));
    } else {
      slots_[i] = std::move(object);
    }
    ++count_;
    return first_ + i;
  }

  // Stores `object` under a reserved number, which must be free.
  void put(std::uint32_t number, std::unique_ptr<T> object) {
    slots_[number - first_] = std::move(object);
    ++count_;
  }

  [[nodiscard]] T* find(std::uint32_t number) const {
    const std::uint32_t i = number - first_;
    return i < slots_.size() ? slots_[i].get() : nullptr;
  }

  // `withhold`: the number is not reused before release().
  void erase(std::uint32_t number, bool withhold = false) {
    const std::uint32_t i = number - first_;
    if (i >= slots_.size() || !slots_[i]) return;
    slots_[i].reset();
    if (i >= reserved_ && !withhold) numbers_.give_back(i);
    --count_;
  }

  // Frees a number that erase() withheld.
  void release(std::uint32_t number) { numbers_.give_back(number - first_); }

  void clear() {
    slots_.clear();
    slots_.resize(reserved_);
    numbers_.clear();
    count_ = 0;
  }

  [[nodiscard]] std::uint32_t count() const { return count_; }
  // All numbers in use are below it.
  [[nodiscard]] std::uint32_t end() const {
    return first_ + static_cast<std::uint32_t>(slots_.size());
  }

  // make(number, object): writing, describes what the object is made from; reading, where `object`
  // is null, makes one from it, or returns null if that is impossible. The objects' own state is
  // described by the caller.
  template <class F>
  void state(Archive& ar, F&& make) {
    std::uint32_t number = 0;
    const std::uint32_t most = first_ + numbers_.limit();
    const std::uint32_t left = ar.count(count_, numbers_.limit(), sizeof(number));
    if (!ar.reading()) {
      for_each([&](std::uint32_t n, T& object) {
        ar(n);
        (void)make(n, &object);
      });
    }
    for (std::uint32_t i = 0; ar.reading() && i < left; ++i) {
      ar(number);
      const std::uint32_t at = number - first_;
      if (!ar.require(number >= first_ && number < most && (at >= slots_.size() || !slots_[at]),
                      "an object has a wrong number"))
        return;
      std::unique_ptr<T> object = make(number, nullptr);
      if (!ar.require(object != nullptr, "an object is wrong")) return;
      if (at >= slots_.size()) slots_.resize(at + 1);
      slots_[at] = std::move(object);
      ++count_;
    }
    numbers_.state(ar);
    numbers_.free_state(ar, [&](std::uint32_t at) { return at < slots_.size() && slots_[at]; });
    if (!ar.reading()) return;
    if (ar.require(slots_.size() <= numbers_.used(), "an object has a number that was never used"))
      slots_.resize(numbers_.used());
  }
  // Tells for each number below end() whether erase() has withheld it.
  [[nodiscard]] std::vector<bool> withheld() const {
    std::vector<bool> flags(end());
    for (std::uint32_t at = reserved_; at < slots_.size(); ++at) flags[first_ + at] = !slots_[at];
    for (const std::uint32_t at : numbers_.free()) flags[first_ + at] = false;
    return flags;
  }

  template <class F>
  void for_each(F&& f) const {
    for (std::uint32_t i = 0; i < slots_.size(); ++i) {
      if (slots_[i]) f(first_ + i, *slots_[i]);
    }
  }

 private:
  std::uint32_t first_;
  std::uint32_t reserved_;
  std::uint32_t count_ = 0;
  Numbers numbers_;
  std::vector<std::unique_ptr<T>> slots_;
};

}  // namespace tern

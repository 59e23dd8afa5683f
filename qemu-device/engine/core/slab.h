// SPDX-License-Identifier: GPL-2.0-or-later
// Numbered objects in contiguous memory, for those looked up with every packet: the number alone
// gives the address, so that an object can be prefetched.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/large_pages.h"
#include "core/numbers.h"

namespace tern {

// T{} is vacant, and T::vacant() reports that.
template <class T>
class Slab {
 public:
  // Numbers first .. first + capacity - 1.
  Slab(std::uint32_t first, std::uint32_t capacity) : first_(first), numbers_(capacity) {}
  Slab(const Slab&) = delete;
  Slab& operator=(const Slab&) = delete;
  ~Slab() { clear(); }

  // Inserts the result of make(number), which must not be vacant, and returns the number. The slab
  // must not be full.
  template <class F>
  std::uint32_t insert(F&& make) {
    const std::uint32_t before = numbers_.used();
    const std::uint32_t i = numbers_.take();
    if (i == before) {
      if (i % kInPage == 0) pages_.push_back(new_large_page());
      std::construct_at(&at(i));
    }
    at(i) = make(first_ + i);
    ++count_;
    return first_ + i;
  }

  [[nodiscard]] T* find(std::uint32_t number) const {
    const std::uint32_t i = number - first_;
    if (i >= numbers_.used()) return nullptr;
    T& object = at(i);
    return object.vacant() ? nullptr : &object;
  }
  // Hint that find() will be called soon.
  void prefetch(std::uint32_t number) const {
    if (const std::uint32_t i = number - first_; i < numbers_.used()) __builtin_prefetch(&at(i));
  }

  void erase(std::uint32_t number) {
    if (T* const object = find(number)) {
      *object = T{};
      numbers_.give_back(number - first_);
      --count_;
    }
  }

  // item(number, object): describes an object. Reading, it gets a vacant one, and leaves it vacant
  // if the state is wrong.
  template <class F>
  void state(Archive& ar, F&& item) {
    numbers_.state(ar);
    if (ar.reading()) {
      for (std::uint32_t i = 0; i < numbers_.used(); ++i) {
        if (i % kInPage == 0) pages_.push_back(new_large_page());
        std::construct_at(&at(i));
      }
    }
    const std::uint32_t left = ar.count(count_, numbers_.used(), sizeof(std::uint32_t));
    std::uint32_t i = 0;
    for (std::uint32_t n = 0; n < left && ar.ok(); ++n, ++i) {
      while (!ar.reading() && at(i).vacant()) ++i;
      ar(i);
      if (!ar.require(i < numbers_.used() && at(i).vacant() == ar.reading(),
                      "an object has a wrong number"))
        return;
      item(first_ + i, at(i));
      if (ar.reading() && ar.require(!at(i).vacant(), "an object is wrong")) ++count_;
    }
    numbers_.free_state(ar, [&](std::uint32_t number) { return !at(number).vacant(); });
  }

  void clear() {
    for (std::uint32_t i = 0; i < numbers_.used(); ++i) std::destroy_at(&at(i));
    pages_.clear();
    numbers_.clear();
    count_ = 0;
  }

  [[nodiscard]] std::uint32_t count() const { return count_; }
  template <class F>
  void for_each(F&& f) {
    for (std::uint32_t i = 0; i < numbers_.used(); ++i) {
      if (!at(i).vacant()) f(first_ + i, at(i));
    }
  }

 private:
  static constexpr std::uint32_t kInPage = kLargePage / sizeof(T);
  [[nodiscard]] T& at(std::uint32_t i) const {
    return reinterpret_cast<T*>(pages_[i / kInPage].get())[i % kInPage];
  }

  std::uint32_t first_;
  std::uint32_t count_ = 0;
  Numbers numbers_;
  std::vector<LargePage> pages_;
};

}  // namespace tern

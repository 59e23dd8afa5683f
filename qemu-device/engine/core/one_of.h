// SPDX-License-Identifier: GPL-2.0-or-later
// Storage for an object of one of several classes derived from Base. It is smaller than a variant
// plus a pointer to Base.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

namespace tern {

template <class Base, class... Classes>
class OneOf {
 public:
  OneOf() = default;
  ~OneOf() {
    if (object_ != nullptr) std::destroy_at(object_);
  }
  OneOf(const OneOf&) = delete;
  OneOf& operator=(const OneOf&) = delete;

  // Call it once.
  template <class Class, class... Args>
  void emplace(Args&&... args) {
    static_assert((std::is_same_v<Class, Classes> || ...));
    object_ = ::new (static_cast<void*>(room_)) Class(std::forward<Args>(args)...);
  }
  [[nodiscard]] Base* operator->() const { return object_; }
  [[nodiscard]] Base& operator*() const { return *object_; }

 private:
  Base* object_ = nullptr;
  alignas(Classes...) std::byte room_[std::max({sizeof(Classes)...})];
};

}  // namespace tern

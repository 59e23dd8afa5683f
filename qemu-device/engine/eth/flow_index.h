// SPDX-License-Identifier: GPL-2.0-or-later
// Hash table of objects that the caller hashes and compares. A lookup probes a bounded number of
// places, whatever the hashes are.
#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace tern::eth {

template <class T>
class FlowIndex {
 public:
  // Places that a lookup probes at most.
  static constexpr std::size_t kMaxProbe = 64;
  static constexpr std::size_t kMinPlaces = 8;
  static constexpr std::size_t kMaxPlaces = 65536;

  FlowIndex() : places_(kMinPlaces) {}

  // Returns the object with this hash for which equal(object) holds, or null.
  template <class F>
  [[nodiscard]] T* find(std::uint32_t hash, F&& equal) const {
    const std::size_t mask = places_.size() - 1;
    for (std::size_t n = 0; n < kMaxProbe; ++n) {
      const Place& place = places_[(hash + n) & mask];
      if (!place.object) return nullptr;
      if (place.hash == hash && equal(*place.object)) return place.object.get();
    }
    return nullptr;
  }

  // Returns null if there is no free place: too many hashes collide.
  T* insert(std::uint32_t hash, std::unique_ptr<T> object) {
    T* const inserted = object.get();
    // At most half of the places are taken, so that unsuccessful lookups end soon.
    if (2 * (count_ + 1) > places_.size() && !grow()) return nullptr;
    while (!put(places_, hash, object)) {
      if (!grow()) return nullptr;
    }
    ++count_;
    return inserted;
  }

  void erase(std::uint32_t hash, const T* object) {
    const std::size_t mask = places_.size() - 1;
    std::size_t hole = hash & mask;
    while (places_[hole].object.get() != object) hole = (hole + 1) & mask;
    places_[hole].object.reset();
    --count_;
    // Objects after the hole move up, but not before their first place.
    for (std::size_t i = (hole + 1) & mask; places_[i].object; i = (i + 1) & mask) {
      if (((i - places_[i].hash) & mask) < ((i - hole) & mask)) continue;
      places_[hole] = std::move(places_[i]);
      hole = i;
    }
  }

  [[nodiscard]] std::size_t count() const { return count_; }

 private:
  struct Place {
    std::unique_ptr<T> object;
    std::uint32_t hash = 0;
  };

  [[nodiscard]] static bool put(std::vector<Place>& places, std::uint32_t hash,
                                std::unique_ptr<T>& object) {
    const std::size_t mask = places.size() - 1;
    for (std::size_t n = 0; n < kMaxProbe; ++n) {
      Place& place = places[(hash + n) & mask];
      if (place.object) continue;
      place = {std::move(object), hash};
      return true;
    }
    return false;
  }

  [[nodiscard]] bool grow() {
    if (places_.size() == kMaxPlaces) return false;
    std::vector<Place> larger(2 * places_.size());
    // Insert in the present order: no object's distance from its first place grows.
    const std::size_t start = first_hole();
    for (std::size_t n = 0; n < places_.size(); ++n) {
      Place& place = places_[(start + n) & (places_.size() - 1)];
      if (!place.object) continue;
      [[maybe_unused]] const bool fits = put(larger, place.hash, place.object);
      assert(fits);
    }
    places_ = std::move(larger);
    return true;
  }

  [[nodiscard]] std::size_t first_hole() const {
    std::size_t at = 0;
    while (places_[at].object) ++at;
    return at;
  }

  std::vector<Place> places_;  // a power of two, never full
  std::size_t count_ = 0;
};

}  // namespace tern::eth

// SPDX-License-Identifier: GPL-2.0-or-later
// The expected bytes of all memories. Where requests race, a byte may have one of several values.
#pragma once

#include <bitset>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "explain.h"

namespace guest::generator {

using Values = std::bitset<256>;  // the values that a byte may have

class Memories {
 public:
  Memories();
  [[nodiscard]] std::vector<std::uint8_t>& bytes(int mem) {
    return bytes_.at(static_cast<std::size_t>(mem));
  }
  // Records what the requests of an explained burst may have written.
  void apply(Book& book, const Burst& burst, const Explanation& how);
  // Compares one memory, and takes over what is there. Returns what is wrong.
  std::string compare(int mem, std::span<const std::byte> actual);
  void settle() { blurred_.clear(); }

 private:
  struct Writer {
    std::size_t op = 0;
    int stream = 0;
    bool certain = false;
    Values values{};
  };
  using Place = std::uint64_t;
  struct Effect {
    std::size_t op = 0;
    int stream = 0;
    bool certain = false;
    std::vector<Place> to{};
    std::vector<Place> from{};          // as many, or
    std::vector<std::uint8_t> bytes{};  // the bytes themselves, or neither: any
    std::size_t any = 0;                // the first bytes may be any
  };

  void add_effects(Book& book, const Burst& burst, const Explanation& how);
  void add_atomic(const Request& r, const Part& part, std::size_t op, int stream);
  [[nodiscard]] std::uint8_t at(Place p) const {
    return bytes_.at(p >> 32)[static_cast<std::uint32_t>(p)];
  }
  [[nodiscard]] bool touched(Place p, std::size_t but) const;
  [[nodiscard]] Values source(Place p, const Effect& reader) const;
  void write(const Effect& e);

  std::vector<std::vector<std::uint8_t>> bytes_;
  std::vector<Effect> effects_;
  std::unordered_map<Place, std::vector<std::size_t>> touched_;  // by which requests
  std::unordered_map<Place, std::vector<Writer>> blurred_;
};

}  // namespace guest::generator

// SPDX-License-Identifier: GPL-2.0-or-later
// A fuzzer's input as a stream of numbers, padded with zeros.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace tern::fuzz {

class Input {
 public:
  explicit Input(std::span<const std::uint8_t> bytes) : rest_(bytes) {}

  [[nodiscard]] bool empty() const { return rest_.empty(); }
  template <std::unsigned_integral T>
  T take() {
    T value{};
    const auto piece = bytes(sizeof(T));
    if (!piece.empty()) std::memcpy(&value, piece.data(), piece.size());
    return value;
  }
  std::uint8_t u8() { return take<std::uint8_t>(); }
  std::uint16_t u16() { return take<std::uint16_t>(); }
  std::uint32_t u32() { return take<std::uint32_t>(); }
  std::uint64_t u64() { return take<std::uint64_t>(); }
  // 0 .. n - 1.
  unsigned pick(unsigned n) { return u8() % n; }
  // The next `n` bytes, or as many as are left.
  std::span<const std::uint8_t> bytes(std::size_t n) {
    const auto piece = rest_.first(std::min(n, rest_.size()));
    rest_ = rest_.subspan(piece.size());
    return piece;
  }

 private:
  std::span<const std::uint8_t> rest_;
};

}  // namespace tern::fuzz

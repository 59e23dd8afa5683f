// SPDX-License-Identifier: GPL-2.0-or-later
// Strong types for numbers that must not be confused.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <cstring>
#include <optional>

namespace tern {

template <class Tag, class T = std::uint32_t>
struct Strong {
  T value{};
  constexpr Strong() = default;
  constexpr explicit Strong(T v) : value(v) {}
  friend constexpr auto operator<=>(const Strong&, const Strong&) = default;
};

using Qpn = Strong<struct QpnTag>;
using Cqn = Strong<struct CqnTag>;
using Eqn = Strong<struct EqnTag>;
using Pdn = Strong<struct PdnTag>;
using Srqn = Strong<struct SrqnTag>;
using Uar = Strong<struct UarTag>;
using Key = Strong<struct KeyTag>;  // index << 8 | variant; lkeys and rkeys

// Packet sequence number: 24 bits, compared in a window of +-2^23 (IBTA 9.7.2).
class Psn {
 public:
  constexpr Psn() = default;
  constexpr explicit Psn(std::uint32_t v) : v_(v & kMask) {}
  [[nodiscard]] constexpr std::uint32_t value() const { return v_; }
  [[nodiscard]] constexpr Psn plus(std::uint32_t n) const { return Psn(v_ + n); }
  [[nodiscard]] constexpr Psn next() const { return plus(1); }
  [[nodiscard]] constexpr Psn prev() const { return Psn(v_ - 1); }
  // Distance from `base` to this PSN; negative if this PSN is before `base`.
  [[nodiscard]] constexpr std::int32_t ahead_of(Psn base) const {
    const std::uint32_t d = (v_ - base.v_) & kMask;
    return d & 0x800000U ? static_cast<std::int32_t>(d) - 0x1000000 : static_cast<std::int32_t>(d);
  }
  friend constexpr bool operator==(const Psn&, const Psn&) = default;

 private:
  static constexpr std::uint32_t kMask = 0xffffff;
  std::uint32_t v_{};
};

using Gid = std::array<std::uint8_t, 16>;
using Mac = std::array<std::uint8_t, 6>;

// The same as ==, without a function call: every packet needs a comparison.
inline bool same(const Gid& a, const Gid& b) {
  std::array<std::uint64_t, 2> x;
  std::array<std::uint64_t, 2> y;
  std::memcpy(x.data(), a.data(), sizeof(a));
  std::memcpy(y.data(), b.data(), sizeof(b));
  return ((x[0] ^ y[0]) | (x[1] ^ y[1])) == 0;
}

// Whether [start, start + len) does not wrap around 2^64.
constexpr bool in_range(std::uint64_t start, std::uint64_t len) {
  return len == 0 || start + (len - 1) >= start;
}

using Nanos = std::uint64_t;
inline constexpr Nanos kNever = UINT64_MAX;

}  // namespace tern

// SPDX-License-Identifier: GPL-2.0-or-later
// Parameters of congestion control: those of QUERY_CC and SET_CC, and as the text of a property.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/types.h"
#include "tern_hw.hpp"

namespace tern {

class Archive;

// The largest rate that the engine calculates with, in bit/s: products with a time fit 64 bits.
inline constexpr std::uint64_t kMaxRate = 4'000'000'000'000;

class CongestionParams {
 public:
  CongestionParams();  // the defaults of the contract

  [[nodiscard]] std::uint32_t get(unsigned index) const { return values_[index]; }
  [[nodiscard]] std::uint64_t bits_per_second(unsigned index) const {
    return std::uint64_t{values_[index]} * 1'000'000;
  }
  [[nodiscard]] Nanos nanos(unsigned index) const { return Nanos{values_[index]} * 1'000; }
  // Whether the feature (TERN_CC_RP_ENABLE, TERN_CC_NP_ENABLE) is on for service level `sl`.
  [[nodiscard]] bool enabled(unsigned feature, std::uint8_t sl) const {
    return (values_[feature] >> (sl & 7U) & 1) != 0;
  }

  void state(Archive& ar);
  // Returns false, and changes nothing, if the value is out of range.
  [[nodiscard]] bool set(unsigned index, std::uint32_t value);

 private:
  std::array<std::uint32_t, TERN_CC_NUM> values_;
};

// Parses "on", "off", or words NAME=VALUE separated by spaces; other parameters get their defaults.
// On an error returns nothing, with the reason in `error`.
[[nodiscard]] std::optional<CongestionParams> parse_congestion(std::string_view text,
                                                               std::string& error);

}  // namespace tern

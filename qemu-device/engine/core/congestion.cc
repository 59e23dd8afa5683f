// SPDX-License-Identifier: GPL-2.0-or-later
#include "core/congestion.h"

#include <algorithm>
#include <charconv>

#include "core/archive.h"

namespace tern {

namespace {

struct Range {
  std::string_view name;
  std::uint32_t min;
  std::uint32_t max;
  std::uint32_t preset;
};

constexpr std::array<Range, TERN_CC_NUM> make_ranges() {
  std::array<Range, TERN_CC_NUM> ranges{};
#define TERN_CC_PARAM(index, name, min, max, preset) ranges[index] = Range{name, min, max, preset};
#include "tern_cc.h"
  return ranges;
}

constexpr auto kRanges = make_ranges();
static_assert(std::ranges::none_of(kRanges, [](const Range& r) { return r.name.empty(); }));
static_assert(std::ranges::all_of(kRanges, [](const Range& r) {
  return r.min <= r.preset && r.preset <= r.max;
}));

bool set_word(CongestionParams& params, std::string_view word, std::string& error) {
  const std::size_t equals = std::min(word.find('='), word.size());
  const std::string_view name = word.substr(0, equals);
  const auto* const range = std::ranges::find(kRanges, name, &Range::name);
  if (range == kRanges.end()) {
    error = "there is no parameter '" + std::string(name) + "'";
    return false;
  }
  const std::string_view text = word.substr(std::min(equals + 1, word.size()));
  std::uint32_t value = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status == std::errc() && end == text.data() + text.size() &&
      params.set(static_cast<unsigned>(range - kRanges.begin()), value)) {
    return true;
  }
  error = std::string(name) + " must be from " + std::to_string(range->min) + " to " +
          std::to_string(range->max);
  return false;
}

}  // namespace

CongestionParams::CongestionParams() {
  std::ranges::transform(kRanges, values_.begin(), &Range::preset);
}

void CongestionParams::state(Archive& ar) {
  for (unsigned i = 0; i < values_.size(); ++i) {
    std::uint32_t value = values_[i];
    ar(value);
    if (ar.reading()) ar.require(set(i, value), "a parameter of congestion control is wrong");
  }
}

bool CongestionParams::set(unsigned index, std::uint32_t value) {
  if (index >= kRanges.size() || value < kRanges[index].min || value > kRanges[index].max)
    return false;
  values_[index] = value;
  return true;
}

std::optional<CongestionParams> parse_congestion(std::string_view text, std::string& error) {
  CongestionParams params;
  if (text == "on") return params;
  if (text == "off") text = "rp_enable=0 np_enable=0";
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(' '));
    text.remove_prefix(std::min(word.size() + 1, text.size()));
    if (!word.empty() && !set_word(params, word, error)) return std::nullopt;
  }
  return params;
}

}  // namespace tern

// SPDX-License-Identifier: GPL-2.0-or-later
// The properties of an adapter that every front end offers, in one table: the C surface checks
// values by it, QEMU's glue makes its properties from it, and ternd parses and lists them by it.
// config.h has the defaults of those that the engine uses.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "core/config.h"

namespace tern {

struct Property {
  enum class Type : std::uint8_t {
    kNumber,
    kSize,    // a number that users may write with K, M or G
    kSwitch,  // on (1) or off (0)
    kChoice,  // the index of one of `words`
    kText,
  };
  // What else a number has to be, apart from `min` to `max`.
  enum class Form : std::uint8_t { kAny, kMultipleOf64K, kPowerOfTwo, kZeroToo };
  // Where Config has the value; monostate: the front end has it.
  using Member = std::variant<std::monostate, bool Config::*, std::uint16_t Config::*,
                              std::uint32_t Config::*, std::uint64_t Config::*>;

  const char* name;
  Type type;
  const char* help;
  std::uint64_t min = 0;
  std::uint64_t max = 0;
  Form form = Form::kAny;
  Member member{};
  std::uint64_t initial = 0;    // the default
  const char* words = nullptr;  // kChoice: separated by '|'; kText: the default, or null

  [[nodiscard]] bool allows(std::uint64_t value) const;
  // The allowed values, for people: "from 1500 to 9216", "on or off"; empty for a text.
  [[nodiscard]] std::string range() const;
  // The default as users write it; empty for none.
  [[nodiscard]] std::string default_text() const;
  // The help with the range.
  [[nodiscard]] std::string description() const;
  // The index of a word of a choice.
  [[nodiscard]] std::optional<std::uint64_t> index_of(std::string_view word) const;
  // "property 'mtu' must be from 1500 to 9216"
  [[nodiscard]] std::string refusal() const;

  // For a property with a member.
  void set(Config& config, std::uint64_t value) const;
  [[nodiscard]] std::uint64_t get(const Config& config) const;
};

[[nodiscard]] std::span<const Property> properties();
// Null if there is none of this name.
[[nodiscard]] const Property* find_property(std::string_view name);

// Checks the properties of a configuration, and those that depend on each other. Returns the
// error, or "" if there is none.
[[nodiscard]] std::string check_properties(const Config& config);

}  // namespace tern

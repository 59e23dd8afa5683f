// SPDX-License-Identifier: GPL-2.0-or-later
// The table of properties, for a host written in C.
#include "core/properties.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "handles.h"

static_assert(TERN_PROPERTY_TEXT == static_cast<int>(tern::Property::Type::kText));
static_assert(TERN_NUM_PROPERTY_TYPES == TERN_PROPERTY_TEXT + 1);

namespace tern::capi {

namespace {

struct Field {
  std::string_view name;
  std::ptrdiff_t offset;
};
#define TERN_FIELD(name, member) \
  Field { name, offsetof(TernProperties, member) }
constexpr auto kFields = std::to_array<Field>({
    TERN_FIELD("dm-size", dm_size),
    TERN_FIELD("uar-size", uar_size),
    TERN_FIELD("max-qp", max_qp),
    TERN_FIELD("max-cq", max_cq),
    TERN_FIELD("max-mr", max_mr),
    TERN_FIELD("max-mw", max_mw),
    TERN_FIELD("tm-tags", tm_tags),
    TERN_FIELD("eth-queues", eth_queues),
    TERN_FIELD("max-pages", max_pages),
    TERN_FIELD("vectors", vectors),
    TERN_FIELD("mtu", mtu),
    TERN_FIELD("speed", speed),
    TERN_FIELD("mw-type", mw_type),
    TERN_FIELD("odp", odp),
    TERN_FIELD("congestion", congestion),
    TERN_FIELD("poll", poll),
    TERN_FIELD("pcap", pcap),
    TERN_FIELD("pcap-limit", pcap_limit),
    TERN_FIELD("events", events),
    TERN_FIELD("events-limit", events_limit),
});
#undef TERN_FIELD

// The table in C, and the strings that it refers to.
struct Table {
  Table() {
    texts.reserve(2 * properties().size());
    for (const Property& p : properties()) {
      const auto* const field = std::ranges::find(kFields, p.name, &Field::name);
      const char* const help = texts.emplace_back(p.description()).c_str();
      const std::string initial = p.default_text();
      const bool words = p.type == Property::Type::kChoice || p.type == Property::Type::kText;
      const char* const text =
          words && !initial.empty() ? texts.emplace_back(initial).c_str() : nullptr;
      all.push_back({p.name, help, static_cast<TernPropertyType>(p.type), p.initial, text,
                     field == kFields.end() ? -1 : field->offset});
    }
  }
  std::vector<std::string> texts;
  std::vector<TernProperty> all;
};

const Table& table() {
  static const Table table;
  return table;
}

// The value of a property that is not a text; nullopt if it is no word of a choice.
std::optional<std::uint64_t> value_of(const Property& p, const std::byte* field) {
  if (p.type == Property::Type::kSwitch) return *reinterpret_cast<const bool*>(field) ? 1 : 0;
  if (p.type != Property::Type::kChoice) return *reinterpret_cast<const std::uint64_t*>(field);
  const char* const word = *reinterpret_cast<char* const*>(field);
  return word == nullptr ? p.initial : p.index_of(word);
}

}  // namespace

std::optional<Config> to_config(const TernProperties& values, std::string& error) {
  Config config;
  for (const Field& field : kFields) {
    const Property& p = *find_property(field.name);
    if (p.type == Property::Type::kText) continue;
    const auto value = value_of(p, reinterpret_cast<const std::byte*>(&values) + field.offset);
    if (!value || !p.allows(*value)) {
      error = p.refusal();
      return std::nullopt;
    }
    p.set(config, *value);
  }
  error = check_properties(config);
  if (!error.empty()) return std::nullopt;
  if (values.congestion != nullptr) {
    const auto params = parse_congestion(values.congestion, error);
    if (!params) {
      error = "property 'congestion' must be on, off or parameters: " + error;
      return std::nullopt;
    }
    config.congestion = *params;
  }
  return config;
}

}  // namespace tern::capi

const TernProperty* tern_property(std::size_t i) {
  const auto& all = tern::capi::table().all;
  return i < all.size() ? &all[i] : nullptr;
}

const TernProperty* tern_property_named(const char* name) {
  const auto& all = tern::capi::table().all;
  const auto at = std::ranges::find(all, std::string_view(name), &TernProperty::name);
  return at == all.end() ? nullptr : &*at;
}

bool tern_properties_check(const TernProperties* p, char* error, std::size_t len) {
  std::string why;
  if (tern::capi::to_config(*p, why)) return true;
  tern::capi::copy_text(why, error, len);
  return false;
}

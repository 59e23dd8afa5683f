// SPDX-License-Identifier: GPL-2.0-or-later
#include "core/properties.h"

#include <algorithm>
#include <array>
#include <bit>
#include <type_traits>

#include "tern_event_log.hpp"
#include "tern_hw.hpp"

namespace tern {

namespace {

using Type = Property::Type;
using Form = Property::Form;

constexpr std::uint64_t kKi = 1024;
constexpr std::uint64_t kMi = kKi * kKi;
constexpr std::uint64_t kGi = kKi * kMi;
constexpr std::uint64_t kPi = kMi * kGi;

// BAR4 has this size, rounded up to a power of two, and lies at a multiple of it. One of 64 GiB
// still fits beside a guest's memory in the 39 address bits of small processors.
constexpr std::uint64_t kMaxDmSize = 64 * kGi;
constexpr std::uint64_t kDmUnit = std::uint64_t{1} << TERN_PAGE_SHIFT_MAX;
// A page for the kernel and another, of the largest page size.
constexpr std::uint64_t kMinUar = 2 * kDmUnit;
// Doorbells and keys have 24 bits for the number of a queue, region or window; 0 and 1 are never
// allocated.
constexpr std::uint64_t kMaxObjects = TERN_DB_NUM_MASK - 1;
constexpr std::uint64_t kMinPages = 1024;  // fewer are of no use
// The headers of the files, and the record that ends a log.
constexpr std::uint64_t kMinPcap = 24;
constexpr std::uint64_t kMinLog = sizeof(tern_log_header) + sizeof(tern_log_event);
constexpr std::uint64_t kMaxFile = 4 * kPi;

template <class T>
Property number(const char* name, T Config::* member, std::uint64_t min, std::uint64_t max,
                const char* help) {
  return {.name = name,
          .type = Type::kNumber,
          .help = help,
          .min = min,
          .max = max,
          .member = member,
          .initial = Config{}.*member};
}

Property size(const char* name, std::uint64_t Config::* member, std::uint64_t min,
              std::uint64_t max, Form form, const char* help) {
  Property p = number(name, member, min, max, help);
  p.type = Type::kSize;
  p.form = form;
  return p;
}

Property text(const char* name, const char* initial, const char* help) {
  return {.name = name, .type = Type::kText, .help = help, .words = initial};
}

// The first word is the default.
Property choice(const char* name, const char* words, std::uint64_t number, const char* help,
                Property::Member member = {}) {
  return {.name = name,
          .type = Type::kChoice,
          .help = help,
          .max = number - 1,
          .member = member,
          .words = words};
}

// On by default.
Property on_off(const char* name, Property::Member member, const char* help) {
  return {
      .name = name, .type = Type::kSwitch, .help = help, .max = 1, .member = member, .initial = 1};
}

Property file_limit(const char* name, std::uint64_t min, const char* help) {
  return {.name = name,
          .type = Type::kSize,
          .help = help,
          .min = min,
          .max = kMaxFile,
          .form = Form::kZeroToo};
}

const auto& table() {
  static const auto all = std::to_array<Property>({
      text("mac", nullptr, "permanent address of the port"),
      size("dm-size", &Config::dm_size, 0, kMaxDmSize, Form::kMultipleOf64K,
           "bytes of device memory, in BAR4; 0 for none"),
      size("uar-size", &Config::uar_bar_size, kMinUar, kGi, Form::kPowerOfTwo,
           "doorbell BAR; a page for each process"),
      number("max-qp", &Config::max_qp, 1, kMaxObjects, "queue pairs"),
      number("max-cq", &Config::max_cq, 1, kMaxObjects, "completion queues"),
      number("max-mr", &Config::max_mr, 1, kMaxObjects, "memory regions"),
      number("max-mw", &Config::max_mw, 0, kMaxObjects - 1, "memory windows; 0 for none"),
      number("tm-tags", &Config::max_tags, 0, 4096,
             "tags that a shared receive queue holds for tag matching; 0 for no tag matching"),
      number("eth-queues", &Config::max_eth_queues, 1, 16,
             "pairs of Ethernet queues; a driver uses one for each vector but the first"),
      size("max-pages", &Config::max_pages, kMinPages, 4 * kGi, Form::kAny,
           "page list entries of all regions and queues together; each takes 8 bytes of the "
           "process"),
      number("vectors", &Config::num_vectors, 2, TERN_MAX_VECTORS,
             "MSI-X vectors; the first serves admin and events"),
      number("mtu", &Config::max_mtu, 1500, 9216, "largest Ethernet MTU in bytes"),
      number("speed", &Config::link_speed, 1, UINT32_MAX,
             "port speed reported to software, in Mbit/s; the PCI Express link is one that "
             "sustains it"),
      choice("mw-type", "2b|2a", 2,
             "type 2 memory windows, checked by QP number (2a) or by QP number and PD (2b)",
             &Config::mw_type_2a),
      on_off("odp", &Config::odp,
             "on-demand paging; off for an adapter whose software must pin its memory"),
      text("congestion", "on",
           "congestion control (Documentation/congestion.rst): on, off, or parameters such as "
           "'rp_ai_rate=5 np_enable=0'"),
      on_off("poll", {},
             "poll busy send queues while a processor is free for it, so that software rings fewer "
             "doorbells"),
      text("pcap", nullptr, "file for a capture of all frames, looped back ones included"),
      file_limit("pcap-limit", kMinPcap,
                 "bytes after which the capture ends, with a whole frame; 0 for none"),
      text("events", nullptr,
           "file for a log of what happens inside: doorbells, WQEs, packets, key checks, CQEs"),
      file_limit("events-limit", kMinLog, "bytes after which the log ends; 0 for none"),
      text("faults", nullptr,
           "rules of faults to inject (Documentation/faults.rst), separated by ';'"),
      choice("icrc", "check|warn|off", 3,
             "packets with a wrong ICRC: check (drop), warn (count and accept) or off (accept)"),
  });
  return all;
}

// Calls use(word) for each word of a choice until it returns false.
template <class Use>
void for_words(std::string_view words, Use&& use) {
  for (;;) {
    const std::size_t end = words.find('|');
    if (!use(words.substr(0, end)) || end == std::string_view::npos) return;
    words.remove_prefix(end + 1);
  }
}

// With the largest unit that leaves a whole number.
std::string size_text(std::uint64_t bytes) {
  constexpr std::string_view kUnits = "KMGTP";
  std::size_t unit = 0;
  for (; unit < kUnits.size() && bytes != 0 && bytes % kKi == 0; ++unit) bytes /= kKi;
  return std::to_string(bytes) + (unit == 0 ? "" : std::string(1, kUnits[unit - 1]));
}

}  // namespace

std::span<const Property> properties() { return table(); }

const Property* find_property(std::string_view name) {
  const auto at = std::ranges::find(table(), name, &Property::name);
  return at == table().end() ? nullptr : &*at;
}

bool Property::allows(std::uint64_t value) const {
  switch (form) {
    case Form::kZeroToo:
      if (value == 0) return true;
      break;
    case Form::kMultipleOf64K:
      if (value % kDmUnit != 0) return false;
      break;
    case Form::kPowerOfTwo:
      if (!std::has_single_bit(value)) return false;
      break;
    case Form::kAny:
      break;
  }
  return value >= min && value <= max;
}

std::string Property::range() const {
  std::string range;
  switch (type) {
    case Type::kSwitch:
      return "on or off";
    case Type::kText:
      return "";
    case Type::kChoice:
      for_words(words, [&range](std::string_view word) {
        range.append(range.empty() ? "" : " or ").append(word);
        return true;
      });
      return range;
    case Type::kNumber:
    case Type::kSize:
      break;
  }
  if (form == Form::kZeroToo) range = "0, or ";
  if (form == Form::kMultipleOf64K) range = "a multiple of 64K ";
  if (form == Form::kPowerOfTwo) range = "a power of two ";
  const auto shown =
      type == Type::kSize ? size_text : [](std::uint64_t n) { return std::to_string(n); };
  return range + "from " + shown(min) + " to " + shown(max);
}

std::string Property::default_text() const {
  switch (type) {
    case Type::kText:
      return words != nullptr ? words : "";
    case Type::kChoice:
      return std::string(std::string_view(words).substr(0, std::string_view(words).find('|')));
    case Type::kSwitch:
      return initial != 0 ? "on" : "off";
    case Type::kSize:
      return size_text(initial);
    case Type::kNumber:
      break;
  }
  return std::to_string(initial);
}

std::string Property::description() const {
  const bool numeric = type == Type::kNumber || type == Type::kSize;
  return numeric ? std::string(help) + "; " + range() : help;
}

std::optional<std::uint64_t> Property::index_of(std::string_view word) const {
  std::uint64_t index = 0;
  std::optional<std::uint64_t> found;
  for_words(words, [&](std::string_view each) {
    if (each == word) found = index;
    ++index;
    return !found;
  });
  return found;
}

std::string Property::refusal() const {
  return "property '" + std::string(name) + "' must be " + range();
}

void Property::set(Config& config, std::uint64_t value) const {
  std::visit(
      [&](auto m) {
        if constexpr (!std::is_same_v<decltype(m), std::monostate>)
          config.*m = static_cast<std::remove_reference_t<decltype(config.*m)>>(value);
      },
      member);
}

std::uint64_t Property::get(const Config& config) const {
  return std::visit(
      [&](auto m) -> std::uint64_t {
        if constexpr (std::is_same_v<decltype(m), std::monostate>) {
          return 0;
        } else {
          return config.*m;
        }
      },
      member);
}

std::string check_properties(const Config& config) {
  for (const Property& p : table()) {
    if (p.member.index() != 0 && !p.allows(p.get(config))) return p.refusal();
  }
  if (config.max_mw > kMaxObjects - config.max_mr) {
    return "properties 'max-mr' and 'max-mw' must be at most " + std::to_string(kMaxObjects) +
           " together";
  }
  return "";
}

}  // namespace tern

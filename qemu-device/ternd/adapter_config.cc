// SPDX-License-Identifier: GPL-2.0-or-later
#include "adapter_config.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <fstream>
#include <functional>
#include <stdexcept>
#include <thread>

#include "core/congestion.h"
#include "core/limits.h"

namespace tern::daemon {

namespace {

constexpr std::uint64_t kKi = 1024;
constexpr std::uint64_t kMi = kKi * kKi;

[[noreturn]] void wrong(std::string_view name, const std::string& what) {
  throw std::invalid_argument("property '" + std::string(name) + "' " + what);
}

struct Unit {
  std::string_view suffix;
  double factor;
};

// Parses a number with one of the units.
double scaled(std::string_view name, std::string_view text, std::initializer_list<Unit> units,
              const char* example) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string_view rest(end, static_cast<std::size_t>(text.data() + text.size() - end));
  const auto* const unit = std::ranges::find(units, rest, &Unit::suffix);
  if (error != std::errc() || !std::isfinite(value) || value < 0 ||
      (unit == units.end() && !rest.empty())) {
    wrong(name,
          std::string("must be a number such as ") + example + ", not '" + std::string(text) + "'");
  }
  return rest.empty() ? value : value * unit->factor;
}

std::uint64_t whole(std::string_view name, double value, std::uint64_t min, std::uint64_t max) {
  if (value < static_cast<double>(min) || value > static_cast<double>(max) ||
      value != std::floor(value)) {
    wrong(name, "must be from " + std::to_string(min) + " to " + std::to_string(max));
  }
  return static_cast<std::uint64_t>(value);
}

double size_of(std::string_view name, std::string_view text) {
  return scaled(name, text, {{"K", 0x1p10}, {"M", 0x1p20}, {"G", 0x1p30}}, "64K or 16M");
}

std::uint64_t size(std::string_view name, std::string_view text, std::uint64_t min,
                   std::uint64_t max) {
  return whole(name, size_of(name, text), min, max);
}

std::uint32_t number(std::string_view name, std::string_view text, std::uint32_t min,
                     std::uint32_t max) {
  return static_cast<std::uint32_t>(whole(name, scaled(name, text, {}, "100"), min, max));
}

double probability(std::string_view name, std::string_view text) {
  const double value = scaled(name, text, {{"%", 0.01}}, "0.01 or 1%");
  if (value > 1) wrong(name, "must be from 0 to 1, or from 0% to 100%");
  return value;
}

std::string_view one_of(std::string_view name, std::string_view text,
                        std::initializer_list<std::string_view> values) {
  if (std::ranges::find(values, text) != values.end()) return text;
  std::string list;
  for (const auto value : values) list += (list.empty() ? "" : ", ") + std::string(value);
  wrong(name, "must be one of " + list);
}

std::array<std::uint8_t, 6> parse_mac(std::string_view name, std::string_view text) {
  std::array<std::uint8_t, 6> mac{};
  std::size_t at = 0;
  for (std::uint8_t& byte : mac) {
    const auto [end, error] = std::from_chars(text.data() + std::min(at, text.size()),
                                              text.data() + text.size(), byte, 16);
    const auto used = static_cast<std::size_t>(end - text.data());
    const bool last = &byte == &mac.back();
    if (error != std::errc() || used != at + 2 ||
        (last ? used != text.size() : used >= text.size() || text[used] != ':')) {
      wrong(name, "must be an address such as 52:54:00:12:34:56");
    }
    at = used + 1;
  }
  if ((mac[0] & 1) != 0) wrong(name, "must not be a group address");
  return mac;
}

using PortSetter = void (*)(PortPolicy& p, std::string_view name, std::string_view value);
struct PortProperty {
  const char* name;
  const char* help;
  PortSetter set;
};

// The value of a property of the table that is not a text.
std::uint64_t value_of(const Property& p, std::string_view text) {
  switch (p.type) {
    case Property::Type::kSwitch:
      if (text == "on" || text == "off") return text == "on" ? 1 : 0;
      break;
    case Property::Type::kChoice:
      if (const auto index = p.index_of(text)) return *index;
      break;
    default: {
      const bool is_size = p.type == Property::Type::kSize;
      const double value = is_size ? size_of(p.name, text) : scaled(p.name, text, {}, "100");
      // A double holds every number below 2^53.
      if (value == std::floor(value) && value < 0x1p53 &&
          p.allows(static_cast<std::uint64_t>(value)))
        return static_cast<std::uint64_t>(value);
    }
  }
  throw std::invalid_argument(p.refusal());
}

CongestionParams parse_congestion_of(std::string_view name, std::string_view text) {
  std::string why;
  const auto params = parse_congestion(text, why);
  if (!params) wrong(name, "must be on, off or parameters: " + why);
  return *params;
}

// What the daemon does with properties of the table that have no place in Config, and with its own.
using NumberSetter = void (*)(AdapterConfig& c, std::uint64_t value);
struct NumberProperty {
  std::string_view name;
  NumberSetter set;
};
constexpr auto kNumbers = std::to_array<NumberProperty>({
    {"poll", [](auto& c, auto v) { c.poll = v != 0; }},
    {"pcap-limit", [](auto& c, auto v) { c.pcap_limit = v; }},
    {"events-limit", [](auto& c, auto v) { c.events_limit = v; }},
    {"icrc",
     [](auto& c, auto v) {
       constexpr std::array kModes{IcrcMode::kCheck, IcrcMode::kWarn, IcrcMode::kOff};
       c.icrc = kModes.at(v);
     }},
});

using TextSetter = void (*)(AdapterConfig& c, std::string_view name, std::string_view value);
struct TextProperty {
  std::string_view name;
  TextSetter set;
  const char* help = nullptr;  // of one that the table does not have
};
constexpr auto kTexts = std::to_array<TextProperty>({
    {"name", [](auto& c, auto, auto v) { c.name = v; },
     "of the port, in metrics and ternctl (the socket's file name without its suffix)"},
    {"user", [](auto& c, auto, auto v) { c.user = v; },
     "owner of the socket, who alone may connect besides root and the group (as the umask says)"},
    {"group", [](auto& c, auto, auto v) { c.group = v; }, "whose members may connect as well"},
    {"mac", [](auto& c, auto n, auto v) { c.engine.mac = parse_mac(n, v); }},
    {"lanes", [](auto& c, auto n, auto v) { c.engine.lanes = number(n, v, 1, kMaxLanes); },
     "threads that serve queue pairs, 1 to 16; those of a protection domain share one (one for "
     "four processors, and at most 4)"},
    {"zero-copy",
     [](auto& c, auto n, auto v) { c.zero_copy = one_of(n, v, {"on", "off"}) == "on"; },
     "whether this adapter and others with zero-copy=on copy payload straight from the memory of "
     "each other's guests; their hypervisors can make each other wait (off)"},
    {"migration",
     [](auto& c, auto n, auto v) { c.migration = one_of(n, v, {"on", "off"}) == "on"; },
     "whether the hypervisor may save and load the adapter, which then has one lane, by the first "
     "version of VFIO's protocol (off)"},
    {"congestion",
     [](auto& c, auto n, auto v) { c.engine.congestion = parse_congestion_of(n, v); }},
    {"pcap", [](auto& c, auto, auto v) { c.pcap = v; }},
    {"events", [](auto& c, auto, auto v) { c.events = v; }},
    {"faults", [](auto& c, auto, auto v) { c.faults = v; }},
});

// Returns false if an adapter has no property of this name besides those of its port.
bool set_adapter_property(AdapterConfig& c, std::string_view name, std::string_view text) {
  const auto* const by_text = std::ranges::find(kTexts, name, &TextProperty::name);
  if (by_text != kTexts.end()) {
    by_text->set(c, name, text);
    return true;
  }
  const Property* const p = find_property(name);
  if (p == nullptr) return false;
  const std::uint64_t value = value_of(*p, text);
  p->set(c.engine, value);
  const auto* const number = std::ranges::find(kNumbers, name, &NumberProperty::name);
  if (number != kNumbers.end()) number->set(c, value);
  return true;
}

const std::vector<PortProperty>& port_properties() {
  static const std::vector<PortProperty> properties = {
      {"queue", "bytes that may wait to leave the switch through the port, 20K to 4M (512K)",
       [](auto& p, auto n, auto v) { p.queue = size(n, v, 2 * EgressQueue::kFrameMax, 4 * kMi); }},
      {"full", "what a full queue does: block the sender, or drop the frame (block)",
       [](auto& p, auto n, auto v) { p.drop = one_of(n, v, {"block", "drop"}) == "drop"; }},
      {"rate", "limit in bits a second, such as 10G; 0 for none (0)",
       [](auto& p, auto n, auto v) {
         p.rate = whole(n, scaled(n, v, {{"K", 1e3}, {"M", 1e6}, {"G", 1e9}}, "10G or 500M"), 0,
                        1'000'000'000'000);
       }},
      {"delay", "of each frame, such as 10us; at most 10 s (0)",
       [](auto& p, auto n, auto v) {
         const double ns =
             scaled(n, v, {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}}, "10us or 1ms");
         if (ns > 10e9) wrong(n, "must be at most 10s");
         p.delay = static_cast<std::uint64_t>(ns);
       }},
      {"red-min", "queue length in bytes from which on packets are marked (ECN) (0)",
       [](auto& p, auto n, auto v) { p.red_min = size(n, v, 0, 4 * kMi); }},
      {"red-max", "queue length from which on all packets are marked; 0: none are (0)",
       [](auto& p, auto n, auto v) { p.red_max = size(n, v, 0, 4 * kMi); }},
      {"red-probability", "of marking a packet just below red-max (1)",
       [](auto& p, auto n, auto v) { p.red_probability = probability(n, v); }},
      {"loss", "probability that a frame is lost (0)",
       [](auto& p, auto n, auto v) { p.loss = probability(n, v); }},
      {"vlan", "makes it an access port of this VLAN; 0: a trunk (0)",
       [](auto& p, auto n, auto v) { p.vlan = static_cast<std::uint16_t>(number(n, v, 0, 4094)); }},
  };
  return properties;
}

// Returns a locally administered address, always the same for `path` on this machine.
std::array<std::uint8_t, 6> default_mac(const std::string& path) {
  std::string id;
  std::ifstream("/etc/machine-id") >> id;
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : id + path) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  std::array<std::uint8_t, 6> mac{};
  for (std::uint8_t& byte : mac) {
    byte = static_cast<std::uint8_t>(hash >> 56);
    hash <<= 8;
  }
  mac[0] = static_cast<std::uint8_t>((mac[0] & 0xfc) | 2);
  return mac;
}

void check(const AdapterConfig& c) {
  if (c.path.empty()) throw std::invalid_argument("an adapter needs the path of a socket");
  if (const std::string why = check_properties(c.engine); !why.empty())
    throw std::invalid_argument(why);
  if (c.migration && c.engine.lanes != 1)
    throw std::invalid_argument("property 'migration' needs lanes=1");
  if (c.port.red_max != 0 && c.port.red_min >= c.port.red_max)
    wrong("red-min", "must be less than 'red-max'");
}

}  // namespace

bool set_port_property(PortPolicy& policy, std::string_view name, std::string_view value) {
  const auto& all = port_properties();
  const auto at =
      std::ranges::find(all, name, [](const PortProperty& p) { return std::string_view(p.name); });
  if (at == all.end()) return false;
  at->set(policy, name, value);
  return true;
}

std::vector<PropertyHelp> adapter_properties() {
  std::vector<PropertyHelp> all;
  for (const TextProperty& p : kTexts) {
    if (p.help != nullptr) all.push_back({std::string(p.name), p.help});
  }
  for (const Property& p : properties()) {
    std::string initial = p.default_text();
    if (p.name == std::string_view("mac")) initial = "made of this machine's identity and the path";
    all.push_back({p.name, p.description() + (initial.empty() ? "" : " (" + initial + ")")});
  }
  for (const PortProperty& p : port_properties()) all.push_back({p.name, p.help});
  return all;
}

AdapterConfig parse_adapter(std::string_view text) {
  AdapterConfig config;
  // Guests need processors, too.
  config.engine.lanes = std::clamp(std::thread::hardware_concurrency() / 4, 1U, 4U);
  std::size_t comma = text.find(',');
  config.path = text.substr(0, comma);
  while (comma != std::string_view::npos) {
    text.remove_prefix(comma + 1);
    comma = text.find(',');
    const std::string_view item = text.substr(0, comma);
    const std::size_t equals = item.find('=');
    const std::string_view name = item.substr(0, equals);
    if (equals == std::string_view::npos)
      wrong(name, "has no value: write " + std::string(name) + "=VALUE");
    const std::string_view value = item.substr(equals + 1);
    if (!set_adapter_property(config, name, value) &&
        !set_port_property(config.port, name, value)) {
      throw std::invalid_argument("there is no property '" + std::string(name) +
                                  "': --adapter help lists them");
    }
  }
  if (config.name.empty()) {
    const std::string file = config.path.substr(config.path.rfind('/') + 1);
    config.name = file.substr(0, file.rfind('.'));
  }
  Mac& mac = config.engine.mac;
  if (std::ranges::all_of(mac, [](std::uint8_t b) { return b == 0; }))
    mac = default_mac(config.path);
  check(config);
  return config;
}

}  // namespace tern::daemon

// SPDX-License-Identifier: GPL-2.0-or-later
#include "adapter_config.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <fstream>
#include <functional>
#include <stdexcept>

#include "event_writer.h"

namespace tern::daemon {

namespace {

constexpr std::uint64_t kKi = 1024;
constexpr std::uint64_t kMi = kKi * kKi;
constexpr std::uint64_t kGi = kKi * kMi;
constexpr std::uint32_t kObjects = (1U << 24) - 2;

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

std::uint64_t size(std::string_view name, std::string_view text, std::uint64_t min,
                   std::uint64_t max) {
  return whole(name,
               scaled(name, text, {{"K", 0x1p10}, {"M", 0x1p20}, {"G", 0x1p30}}, "64K or 16M"), min,
               max);
}

std::uint64_t limit_of_log(std::string_view name, std::string_view text) {
  const std::uint64_t limit = size(name, text, 0, UINT64_MAX >> 12);
  constexpr std::uint64_t kLeast = runner::EventWriter::kLeastLimit;
  if (limit != 0 && limit < kLeast) wrong(name, "must be 0 or at least " + std::to_string(kLeast));
  return limit;
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

bool on_off(std::string_view name, std::string_view text) {
  if (text == "on") return true;
  if (text == "off") return false;
  wrong(name, "must be on or off");
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

using Setter = void (*)(AdapterConfig& c, std::string_view name, std::string_view value);
struct Property {
  PropertyHelp help;
  Setter set;
};

using PortSetter = void (*)(PortPolicy& p, std::string_view name, std::string_view value);
struct PortProperty {
  PropertyHelp help;
  PortSetter set;
};

const std::vector<Property>& own_properties() {
  static const std::vector<Property> properties = {
      {{"name",
        "of the port, in metrics and ternctl; default: the socket's file name without its suffix"},
       [](auto& c, auto, auto v) { c.name = v; }},
      {{"user",
        "owner of the socket, who alone may connect besides root and the group; default: as the "
        "umask says"},
       [](auto& c, auto, auto v) { c.user = v; }},
      {{"group", "whose members may connect as well"}, [](auto& c, auto, auto v) { c.group = v; }},
      {{"mac",
        "permanent address of the port; default: made of this machine's identity and the path"},
       [](auto& c, auto n, auto v) { c.mac = parse_mac(n, v); }},
      {{"dm-size",
        "bytes of device memory, in BAR4, a multiple of 64 KiB up to 2 GiB; 0 for none, which "
        "makes doorbells cheaper (16M)"},
       [](auto& c, auto n, auto v) { c.dm_size = size(n, v, 0, 2 * kGi); }},
      {{"uar-size", "doorbell BAR, a power of two from 128K to 1G; a page for each process (16M)"},
       [](auto& c, auto n, auto v) { c.uar_size = size(n, v, 128 * kKi, kGi); }},
      {{"max-qp", "queue pairs (16384)"},
       [](auto& c, auto n, auto v) { c.max_qp = number(n, v, 1, kObjects); }},
      {{"max-cq", "completion queues (16384)"},
       [](auto& c, auto n, auto v) { c.max_cq = number(n, v, 1, kObjects); }},
      {{"max-mr", "memory regions (65536)"},
       [](auto& c, auto n, auto v) { c.max_mr = number(n, v, 1, kObjects); }},
      {{"max-mw", "memory windows; 0 for none (65536)"},
       [](auto& c, auto n, auto v) { c.max_mw = number(n, v, 0, kObjects); }},
      {{"tm-tags",
        "tags that a shared receive queue holds for tag matching, up to 4096; 0 for no tag "
        "matching (1024)"},
       [](auto& c, auto n, auto v) { c.tm_tags = number(n, v, 0, 4096); }},
      {{"eth-queues",
        "pairs of Ethernet queues, 1 to 16; a driver uses one for each vector but the first (16)"},
       [](auto& c, auto n, auto v) { c.eth_queues = number(n, v, 1, 16); }},
      {{"max-pages",
        "page list entries of all regions and queues together; each takes 8 bytes of the daemon "
        "(64M)"},
       [](auto& c, auto n, auto v) { c.max_pages = size(n, v, 1024, 4 * kGi); }},
      {{"vectors", "MSI-X vectors, 2 to 128; the first serves admin and events (32)"},
       [](auto& c, auto n, auto v) { c.vectors = number(n, v, 2, 128); }},
      {{"mtu", "largest Ethernet MTU, 1500 to 9216 bytes (9000)"},
       [](auto& c, auto n, auto v) { c.mtu = number(n, v, 1500, 9216); }},
      {{"speed", "port speed reported to software, in Mbit/s (100000)"},
       [](auto& c, auto n, auto v) { c.speed = number(n, v, 1, UINT32_MAX); }},
      {{"mw-type",
        "type 2 memory windows: 2a (checked by QP number) or 2b (by QP number and PD; the "
        "default)"},
       [](auto& c, auto n, auto v) { c.mw_type_2a = one_of(n, v, {"2a", "2b"}) == "2a"; }},
      {{"poll", "poll busy send queues while a processor is free for it: on or off (on)"},
       [](auto& c, auto n, auto v) { c.poll = on_off(n, v); }},
      {{"pcap", "file for a capture of all frames, looped back ones included"},
       [](auto& c, auto, auto v) { c.pcap = v; }},
      {{"pcap-limit", "bytes after which the capture ends; 0 for none (0)"},
       [](auto& c, auto n, auto v) { c.pcap_limit = size(n, v, 0, UINT64_MAX >> 12); }},
      {{"events",
        "file for a log of what happens inside: doorbells, WQEs, packets, key checks, CQEs"},
       [](auto& c, auto, auto v) { c.events = v; }},
      {{"events-limit", "bytes after which the log ends; 0 for none (0)"},
       [](auto& c, auto n, auto v) { c.events_limit = limit_of_log(n, v); }},
      {{"congestion",
        "congestion control (Documentation/congestion.rst): on, off, or parameters such as "
        "'rp_ai_rate=5 np_enable=0' (on)"},
       [](auto& c, auto, auto v) { c.congestion = v; }},
      {{"faults", "rules of faults to inject (Documentation/faults.rst), separated by ';'"},
       [](auto& c, auto, auto v) { c.faults = v; }},
      {{"icrc", "what happens to packets with a wrong ICRC: check, warn or off (check)"},
       [](auto& c, auto n, auto v) {
         const auto mode = one_of(n, v, {"check", "warn", "off"});
         c.icrc = mode == "check"  ? IcrcMode::kCheck
                  : mode == "warn" ? IcrcMode::kWarn
                                   : IcrcMode::kOff;
       }},
  };
  return properties;
}

const std::vector<PortProperty>& port_properties() {
  static const std::vector<PortProperty> properties = {
      {{"queue", "bytes that may wait to leave the switch through the port, 20K to 4M (512K)"},
       [](auto& p, auto n, auto v) { p.queue = size(n, v, 2 * EgressQueue::kFrameMax, 4 * kMi); }},
      {{"full", "what a full queue does: block the sender, or drop the frame (block)"},
       [](auto& p, auto n, auto v) { p.drop = one_of(n, v, {"block", "drop"}) == "drop"; }},
      {{"rate", "limit in bits a second, such as 10G; 0 for none (0)"},
       [](auto& p, auto n, auto v) {
         p.rate = whole(n, scaled(n, v, {{"K", 1e3}, {"M", 1e6}, {"G", 1e9}}, "10G or 500M"), 0,
                        1'000'000'000'000);
       }},
      {{"delay", "of each frame, such as 10us; at most 10 s (0)"},
       [](auto& p, auto n, auto v) {
         p.delay = static_cast<std::uint64_t>(
             scaled(n, v, {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}}, "10us or 1ms"));
         if (p.delay > 10'000'000'000) wrong(n, "must be at most 10s");
       }},
      {{"red-min", "queue length in bytes from which on packets are marked (ECN) (0)"},
       [](auto& p, auto n, auto v) { p.red_min = size(n, v, 0, 4 * kMi); }},
      {{"red-max", "queue length from which on all packets are marked; 0: none are (0)"},
       [](auto& p, auto n, auto v) { p.red_max = size(n, v, 0, 4 * kMi); }},
      {{"red-probability", "of marking a packet just below red-max (1)"},
       [](auto& p, auto n, auto v) { p.red_probability = probability(n, v); }},
      {{"loss", "probability that a frame is lost (0)"},
       [](auto& p, auto n, auto v) { p.loss = probability(n, v); }},
      {{"vlan", "makes it an access port of this VLAN; 0: a trunk (0)"},
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
  if (c.dm_size % (64 * kKi) != 0) wrong("dm-size", "must be a multiple of 64 KiB");
  if (!std::has_single_bit(c.uar_size)) wrong("uar-size", "must be a power of two");
  if (c.max_mw > kObjects - c.max_mr)
    wrong("max-mw", "and 'max-mr' together exceed " + std::to_string(kObjects));
  if (c.port.red_max != 0 && c.port.red_min >= c.port.red_max)
    wrong("red-min", "must be less than 'red-max'");
}

}  // namespace

bool set_port_property(PortPolicy& policy, std::string_view name, std::string_view value) {
  const auto& all = port_properties();
  const auto at = std::ranges::find(
      all, name, [](const PortProperty& p) { return std::string_view(p.help.name); });
  if (at == all.end()) return false;
  at->set(policy, name, value);
  return true;
}

const std::vector<PropertyHelp>& adapter_properties() {
  static const std::vector<PropertyHelp> all = [] {
    std::vector<PropertyHelp> help;
    for (const auto& p : own_properties()) help.push_back(p.help);
    for (const auto& p : port_properties()) help.push_back(p.help);
    return help;
  }();
  return all;
}

AdapterConfig parse_adapter(std::string_view text) {
  AdapterConfig config;
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
    const auto& own = own_properties();
    const auto at = std::ranges::find(
        own, name, [](const Property& p) { return std::string_view(p.help.name); });
    if (at != own.end()) {
      at->set(config, name, value);
    } else if (!set_port_property(config.port, name, value)) {
      throw std::invalid_argument("there is no property '" + std::string(name) +
                                  "': --adapter help lists them");
    }
  }
  if (config.name.empty()) {
    const std::string file = config.path.substr(config.path.rfind('/') + 1);
    config.name = file.substr(0, file.rfind('.'));
  }
  if (std::ranges::all_of(config.mac, [](std::uint8_t b) { return b == 0; }))
    config.mac = default_mac(config.path);
  check(config);
  return config;
}

}  // namespace tern::daemon

// SPDX-License-Identifier: GPL-2.0-or-later
#include "commands.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <functional>
#include <iterator>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string_view>

#include "version.h"

namespace tern::daemon {

namespace {

using Json = nlohmann::ordered_json;

std::string text_of(const std::array<std::uint8_t, 6>& mac) {
  std::array<char, 18> text{};
  std::snprintf(text.data(), text.size(), "%02x:%02x:%02x:%02x:%02x:%02x", mac[0], mac[1], mac[2], mac[3], mac[4], mac[5]);
  return text.data();
}

Json describe(const Port& port) {
  const PortPolicy p = port.policy();
  const PortCounters c = port.counters();
  return {{"link", port.link()},
          {"queue_bytes", port.queue_length()},
          {"properties",
           {{"queue", p.queue},
            {"full", p.drop ? "drop" : "block"},
            {"rate", p.rate},
            {"delay", std::to_string(p.delay) + "ns"},
            {"red-min", p.red_min},
            {"red-max", p.red_max},
            {"red-probability", p.red_probability},
            {"loss", p.loss},
            {"vlan", p.vlan}}},
          {"counters",
           {{"in_frames", c.in_frames},
            {"in_bytes", c.in_bytes},
            {"in_discards", c.in_discards},
            {"out_frames", c.out_frames},
            {"out_bytes", c.out_bytes},
            {"out_discards", c.out_discards},
            {"out_lost", c.out_lost},
            {"out_marked", c.out_marked},
            {"blocked", c.blocked},
            {"watchdog", c.watchdog}}}};
}

void call(Adapter& adapter, const std::function<void()>& task) {
  if (!adapter.call(task)) throw std::runtime_error("adapter '" + adapter.config().name + "' does not respond: its hypervisor keeps it waiting");
}

void call(Uplink& uplink, const std::function<void()>& task) {
  if (!uplink.call(task)) throw std::runtime_error("uplink '" + uplink.port().name() + "' does not respond");
}

Json describe(Adapter& adapter) {
  Json j = {{"name", adapter.config().name}, {"path", adapter.config().path}, {"mac", text_of(adapter.config().mac)}};
  Adapter::Status status{};
  const bool responds = adapter.call([&] { status = adapter.status(); });
  j["responds"] = responds;
  if (responds) {
    j["attached"] = status.attached;
    j["memory"] = status.memory;
    j["queue_pairs"] = status.engine.live_qps;
    j["keys"] = status.engine.live_keys;
    j["page_entries"] = status.engine.page_entries;
  }
  j["port"] = describe(adapter.port());
  return j;
}

Json list(const Parts& parts, const Json&, Descriptor) {
  Json adapters = Json::array();
  Json uplinks = Json::array();
  for (Adapter& adapter : parts.adapters) adapters.push_back(describe(adapter));
  for (Uplink& uplink : parts.uplinks) {
    uplinks.push_back({{"name", uplink.port().name()}, {"unfinished", uplink.unfinished()}, {"overruns", uplink.overruns()}, {"port", describe(uplink.port())}});
  }
  return {{"version", kVersion}, {"adapters", adapters}, {"uplinks", uplinks}};
}

Adapter* find_adapter(const Parts& parts, const std::string& name) {
  for (Adapter& adapter : parts.adapters) {
    if (adapter.config().name == name) return &adapter;
  }
  return nullptr;
}

Uplink* find_uplink(const Parts& parts, const std::string& name) {
  for (Uplink& uplink : parts.uplinks) {
    if (uplink.port().name() == name) return &uplink;
  }
  return nullptr;
}

Adapter& adapter_of(const Parts& parts, const Json& request) {
  const auto name = request.at("adapter").get<std::string>();
  if (Adapter* const adapter = find_adapter(parts, name)) return *adapter;
  throw std::invalid_argument("there is no adapter '" + name + "'");
}

// Calls `run` with the adapter or the uplink that the request names, by "port" or, for an adapter, by
// "adapter".
template <typename Run>
auto with_port(const Parts& parts, const Json& request, Run run) {
  if (request.contains("adapter")) return run(adapter_of(parts, request));
  const auto name = request.at("port").get<std::string>();
  if (Adapter* const adapter = find_adapter(parts, name)) return run(*adapter);
  if (Uplink* const uplink = find_uplink(parts, name)) return run(*uplink);
  throw std::invalid_argument("there is no port '" + name + "'");
}

Json link(const Parts& parts, const Json& request, Descriptor) {
  Adapter& adapter = adapter_of(parts, request);
  const bool up = request.at("up").get<bool>();
  call(adapter, [&] { adapter.set_link(up); });
  return Json::object();
}

// Without "rules": reads them.
Json faults(const Parts& parts, const Json& request, Descriptor) {
  const bool set = request.contains("rules");
  const std::string rules = set ? request.at("rules").get<std::string>() : "";
  std::string error;
  std::string text;
  with_port(parts, request, [&](auto& user) {
    call(user, [&] {
      if (set) error = user.set_faults(rules);
      text = user.faults();
    });
  });
  if (!error.empty()) throw std::invalid_argument(error);
  return {{"rules", text}};
}

Json icrc(const Parts& parts, const Json& request, Descriptor) {
  Adapter& adapter = adapter_of(parts, request);
  const auto name = request.at("mode").get<std::string>();
  if (name != "check" && name != "warn" && name != "off") throw std::invalid_argument("'mode' is check, warn or off");
  const TernIcrcMode mode = name == "check" ? TERN_ICRC_CHECK : name == "warn" ? TERN_ICRC_WARN : TERN_ICRC_OFF;
  call(adapter, [&] { adapter.set_icrc(mode); });
  return Json::object();
}

// Without "on": says whether it is.
Json removed(const Parts& parts, const Json& request, Descriptor) {
  Adapter& adapter = adapter_of(parts, request);
  const bool set = request.contains("on");
  const bool on = set && request.at("on").get<bool>();
  bool is = false;
  call(adapter, [&] {
    if (set) adapter.set_removed(on);
    is = adapter.removed();
  });
  return {{"removed", is}};
}

// The file comes as a descriptor, because the daemon opens none. Without one, the capture ends.
Json capture(const Parts& parts, const Json& request, Descriptor file) {
  const auto limit = request.value("limit", std::uint64_t{0});
  std::unique_ptr<Capture> capture;
  if (file) capture = std::make_unique<Capture>(std::move(file), limit);
  with_port(parts, request, [&](auto& user) { call(user, [&] { user.set_capture(std::move(capture)); }); });
  return Json::object();
}

Json port(const Parts& parts, const Json& request, Descriptor) {
  Port& port = with_port(parts, request, [](auto& user) -> std::reference_wrapper<Port> { return user.port(); });
  PortPolicy policy = port.policy();
  const Json changes = request.value("properties", Json::object());
  for (const auto& [name, value] : changes.items()) {
    if (!set_port_property(policy, name, value.get<std::string>())) throw std::invalid_argument("a port has no property '" + name + "'");
  }
  if (policy.red_max != 0 && policy.red_min >= policy.red_max) throw std::invalid_argument("'red-min' must be less than 'red-max'");
  if (!changes.empty()) port.set_policy(policy);
  return describe(port);
}

using Command = Json (*)(const Parts&, const Json&, Descriptor);
struct Entry {
  std::string_view name;
  Command run;
};
constexpr Entry kCommands[] = {{"list", list}, {"link", link}, {"faults", faults}, {"icrc", icrc}, {"removed", removed}, {"capture", capture}, {"port", port}};

}  // namespace

std::string run_command(const Parts& parts, const std::string& request, Descriptor file) {
  Json answer;
  try {
    const Json json = Json::parse(request);
    const auto name = json.at("command").get<std::string>();
    const auto* const entry = std::ranges::find(kCommands, name, &Entry::name);
    if (entry == std::end(kCommands)) throw std::invalid_argument("there is no command '" + name + "'");
    answer = {{"result", entry->run(parts, json, std::move(file))}};
  } catch (const std::exception& e) {
    answer = {{"error", e.what()}};
  }
  return answer.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace tern::daemon

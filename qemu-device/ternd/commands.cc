// SPDX-License-Identifier: GPL-2.0-or-later
#include "commands.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <functional>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "version.h"

namespace tern::daemon {

namespace {

using Json = nlohmann::ordered_json;
using Files = std::vector<Descriptor>;

std::string text_of(const std::array<std::uint8_t, 6>& mac) {
  std::array<char, 18> text{};
  std::snprintf(text.data(), text.size(), "%02x:%02x:%02x:%02x:%02x:%02x", mac[0], mac[1], mac[2],
                mac[3], mac[4], mac[5]);
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
  if (!adapter.call(task))
    throw std::runtime_error("adapter '" + adapter.config().name +
                             "' does not respond: its hypervisor keeps it waiting");
}

void call(Uplink& uplink, const std::function<void()>& task) {
  if (!uplink.call(task))
    throw std::runtime_error("uplink '" + uplink.name() + "' does not respond");
}

Json describe(Adapter& adapter, bool responds, const Adapter::Status& status) {
  Json j = {{"name", adapter.config().name},
            {"path", adapter.config().path},
            {"mac", text_of(adapter.config().engine.mac)}};
  j["responds"] = responds;
  if (responds) {
    j["attached"] = status.attached;
    j["memory"] = status.memory;
    j["regions"] = status.regions;
    j["most_regions"] = adapter.most_regions();
    j["queue_pairs"] = status.engine.live_qps;
    j["keys"] = status.engine.live_keys;
    j["page_entries"] = status.engine.page_entries;
  }
  j["port"] = describe(adapter.port());
  return j;
}

Json list(Parts& parts, const Json&, Files) {
  Json adapters = Json::array();
  Json uplinks = Json::array();
  for (const AdapterAnswer& a : ask_all(parts.adapters()))
    adapters.push_back(describe(*a.adapter, a.responds, a.status));
  for (const auto& uplink : parts.uplinks()) {
    uplinks.push_back({{"name", uplink->name()},
                       {"kind", uplink->kind()},
                       {"unfinished", uplink->unfinished()},
                       {"overruns", uplink->overruns()},
                       {"port", describe(uplink->port())}});
  }
  return {{"version", kVersion}, {"adapters", adapters}, {"uplinks", uplinks}};
}

std::shared_ptr<Adapter> adapter_of(Parts& parts, const Json& request) {
  const auto name = request.at("adapter").get<std::string>();
  if (auto adapter = parts.adapter(name)) return adapter;
  throw std::invalid_argument("there is no adapter '" + name + "'");
}

std::shared_ptr<Uplink> uplink_of(Parts& parts, const Json& request) {
  const auto name = request.at("uplink").get<std::string>();
  if (auto uplink = parts.uplink(name)) return uplink;
  throw std::invalid_argument("there is no uplink '" + name + "'");
}

// Calls `run` with the adapter or the uplink that the request names, by "port" or, for an adapter,
// by "adapter".
template <typename Run>
auto with_port(Parts& parts, const Json& request, Run run) {
  if (request.contains("adapter")) return run(*adapter_of(parts, request));
  const auto name = request.at("port").get<std::string>();
  if (const auto adapter = parts.adapter(name)) return run(*adapter);
  if (const auto uplink = parts.uplink(name)) return run(*uplink);
  throw std::invalid_argument("there is no port '" + name + "'");
}

Json link(Parts& parts, const Json& request, Files) {
  const auto adapter = adapter_of(parts, request);
  const bool up = request.at("up").get<bool>();
  call(*adapter, [&] { adapter->set_link(up); });
  return Json::object();
}

Json speed(Parts& parts, const Json& request, Files) {
  const auto adapter = adapter_of(parts, request);
  const auto mbps = request.at("mbps").get<std::uint64_t>();
  const std::uint32_t most = adapter->config().engine.link_speed;
  if (mbps == 0 || mbps > most)
    throw std::invalid_argument("'mbps' must be 1 to " + std::to_string(most));
  call(*adapter, [&] { adapter->set_speed(static_cast<std::uint32_t>(mbps)); });
  return Json::object();
}

// Sets rules, or without "rules" returns them.
Json faults(Parts& parts, const Json& request, Files) {
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

Json icrc(Parts& parts, const Json& request, Files) {
  const auto adapter = adapter_of(parts, request);
  const auto name = request.at("mode").get<std::string>();
  if (name != "check" && name != "warn" && name != "off")
    throw std::invalid_argument("'mode' is check, warn or off");
  const IcrcMode mode = name == "check"  ? IcrcMode::kCheck
                        : name == "warn" ? IcrcMode::kWarn
                                         : IcrcMode::kOff;
  call(*adapter, [&] { adapter->set_icrc(mode); });
  return Json::object();
}

// Removes or puts back the function, or without "on" returns whether it is removed.
Json removed(Parts& parts, const Json& request, Files) {
  const auto adapter = adapter_of(parts, request);
  const bool set = request.contains("on");
  const bool on = set && request.at("on").get<bool>();
  bool is = false;
  call(*adapter, [&] {
    if (set) adapter->set_removed(on);
    is = adapter->removed();
  });
  return {{"removed", is}};
}

// The file is passed as a descriptor, because the daemon opens none. Without one, the capture ends.
Json capture(Parts& parts, const Json& request, Files files) {
  const auto limit = request.value("limit", std::uint64_t{0});
  std::unique_ptr<Capture> capture;
  if (!files.empty()) capture = std::make_unique<Capture>(std::move(files.front()), limit);
  // Destroy the previous capture here: its file may be slow.
  with_port(parts, request, [&](auto& user) {
    call(user, [&] { capture = user.set_capture(std::move(capture)); });
  });
  return Json::object();
}

Json port(Parts& parts, const Json& request, Files) {
  Port& port = with_port(parts, request,
                         [](auto& user) -> std::reference_wrapper<Port> { return user.port(); });
  PortPolicy policy = port.policy();
  const Json changes = request.value("properties", Json::object());
  for (const auto& [name, value] : changes.items()) {
    if (!set_port_property(policy, name, value.get<std::string>()))
      throw std::invalid_argument("a port has no property '" + name + "'");
  }
  if (policy.red_max != 0 && policy.red_min >= policy.red_max)
    throw std::invalid_argument("'red-min' must be less than 'red-max'");
  if (!changes.empty()) port.set_policy(policy);
  return describe(port);
}

// Returns the descriptor for `what`: "files" names the descriptors in their order.
Descriptor file_for(const Json& request, Files& files, const char* what) {
  const Json names = request.value("files", Json::array());
  for (std::size_t i = 0; i < std::min(names.size(), files.size()); ++i) {
    if (names.at(i) == what) return std::move(files.at(i));
  }
  return Descriptor();
}

// A part that fails to start, because of a file for example, is removed.
template <typename Part>
void start(Parts& parts, std::shared_ptr<Part> part) {
  try {
    part->start();
  } catch (...) {
    parts.remove(std::move(part));
    throw;
  }
}

// The client creates the files: the daemon opens none.
Json adapter_add(Parts& parts, const Json& request, Files files) {
  const AdapterConfig config = parse_adapter(request.at("text").get<std::string>());
  Adapter::Files mine{file_for(request, files, "listener"), file_for(request, files, "pcap"),
                      file_for(request, files, "events")};
  if (!mine.listener) throw std::invalid_argument("there is no descriptor of the adapter's socket");
  const auto name = config.name;
  parts.add(config, std::move(mine));
  start(parts, parts.adapter(name));
  return {{"name", name}};
}

Json adapter_remove(Parts& parts, const Json& request, Files) {
  parts.remove(adapter_of(parts, request));
  return Json::object();
}

Uplink::Files uplink_files(const Json& request, Files& files) {
  Uplink::Files mine{file_for(request, files, "interface"), file_for(request, files, "netlink"),
                     request.at("index").get<unsigned>()};
  if (!mine.interface || !mine.netlink)
    throw std::invalid_argument("there are no descriptors of the interface");
  return mine;
}

Json uplink_add(Parts& parts, const Json& request, Files files) {
  const Uplink::Config config = Uplink::parse(request.at("text").get<std::string>());
  parts.add(config, uplink_files(request, files));
  start(parts, parts.uplink(config.name));
  return {{"name", config.name}};
}

Json uplink_remove(Parts& parts, const Json& request, Files) {
  parts.remove(uplink_of(parts, request));
  return Json::object();
}

Json uplink_reopen(Parts& parts, const Json& request, Files files) {
  const auto uplink = uplink_of(parts, request);
  Uplink::Files mine = uplink_files(request, files);
  call(*uplink, [&] { uplink->reopen(std::move(mine)); });
  return Json::object();
}

using Command = Json (*)(Parts&, const Json&, Files);
struct Entry {
  std::string_view name;
  Command run;
};
constexpr Entry kCommands[] = {
    {"list", list},
    {"link", link},
    {"speed", speed},
    {"faults", faults},
    {"icrc", icrc},
    {"removed", removed},
    {"capture", capture},
    {"port", port},
    {"adapter-add", adapter_add},
    {"adapter-remove", adapter_remove},
    {"uplink-add", uplink_add},
    {"uplink-remove", uplink_remove},
    {"uplink-reopen", uplink_reopen},
};

// Values are copied and destroyed recursively.
Json parse(const std::string& request) {
  constexpr int kDepth = 8;
  return Json::parse(request, [](int depth, Json::parse_event_t, const Json&) {
    if (depth > kDepth) throw std::invalid_argument("the request is nested too deeply");
    return true;
  });
}

}  // namespace

std::string run_command(Parts& parts, const std::string& request, std::vector<Descriptor> files) {
  Json answer;
  try {
    const Json json = parse(request);
    const auto name = json.at("command").get<std::string>();
    const auto* const entry = std::ranges::find(kCommands, name, &Entry::name);
    if (entry == std::end(kCommands))
      throw std::invalid_argument("there is no command '" + name + "'");
    answer = {{"result", entry->run(parts, json, std::move(files))}};
  } catch (const std::exception& e) {
    answer = {{"error", e.what()}};
  }
  return answer.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace tern::daemon

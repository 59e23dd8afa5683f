// SPDX-License-Identifier: GPL-2.0-or-later
// ternctl: shows and changes a running ternd through its control socket.
#include <sys/socket.h>
#include <sys/time.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "adapter_config.h"
#include "capture.h"
#include "unix_socket.h"
#include "uplink.h"
#include "version.h"

namespace {

using Json = nlohmann::ordered_json;
using tern::daemon::Descriptor;

constexpr const char* kDefaultSocket = "/run/ternd/control";

// Limit for an answer of the daemon, in s. The daemon waits up to 3 s for each of an adapter's
// thread, the threads of the others, and a file that ends.
constexpr timeval kWaitLimit{20, 0};

// A request to the daemon. The daemon opens no files: "files" names the descriptors.
struct Request {
  Json json;
  std::vector<Descriptor> files;

  void add(const char* what, Descriptor file) {
    if (!file) return;
    json["files"].push_back(what);
    files.push_back(std::move(file));
  }
};

// Sends a request and returns its result. Throws std::runtime_error with the daemon's message.
Json ask(const std::string& path, const Request& request) {
  const Descriptor socket = tern::daemon::connect_to(path);
  setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &kWaitLimit, sizeof(kWaitLimit));
  setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &kWaitLimit, sizeof(kWaitLimit));
  const std::string line = request.json.dump() + "\n";
  std::vector<int> files;
  for (const Descriptor& file : request.files) files.push_back(file.get());
  if (!tern::daemon::send_message(socket.get(), std::as_bytes(std::span(line)), files))
    throw std::runtime_error("ternd does not listen");
  std::string answer;
  std::array<char, 4096> data{};
  while (answer.empty() || answer.back() != '\n') {
    const ssize_t got = recv(socket.get(), data.data(), data.size(), 0);
    if (got == 0)
      throw std::runtime_error(
          "ternd does not serve this user, has too many clients, or has ended");
    if (got < 0) throw std::runtime_error("ternd does not answer");
    answer.append(data.data(), static_cast<std::size_t>(got));
  }
  const Json json = Json::parse(answer);
  if (json.contains("error")) throw std::runtime_error(json.at("error").get<std::string>());
  return json.at("result");
}

std::string scaled(double value, const char* unit) {
  const char* const prefixes[] = {"", "k", "M", "G", "T"};
  std::size_t i = 0;
  for (; value >= 1000 && i + 1 < std::size(prefixes); ++i) value /= 1000;
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), i == 0 ? "%.0f %s%s" : "%.1f %s%s", value, prefixes[i],
                unit);
  return text.data();
}

void print_list(const Json& result) {
  std::printf("%-16s %-5s %-9s %-17s %6s %12s %12s %10s\n", "PORT", "LINK", "GUEST", "MAC", "QPS",
              "IN", "OUT", "DISCARDS");
  const auto port_columns = [](const Json& port) {
    const Json& c = port.at("counters");
    std::printf(
        " %12s %12s %10s\n", scaled(c.at("in_bytes").get<double>(), "B").c_str(),
        scaled(c.at("out_bytes").get<double>(), "B").c_str(),
        scaled(c.at("out_discards").get<double>() + c.at("in_discards").get<double>(), "").c_str());
  };
  for (const Json& a : result.at("adapters")) {
    const bool responds = a.at("responds").get<bool>();
    std::printf("%-16s %-5s %-9s %-17s %6s", a.at("name").get<std::string>().c_str(),
                a.at("port").at("link").get<bool>() ? "up" : "down",
                !responds                      ? "stuck"
                : a.at("attached").get<bool>() ? "attached"
                                               : "-",
                a.at("mac").get<std::string>().c_str(),
                responds ? std::to_string(a.at("queue_pairs").get<unsigned>()).c_str() : "-");
    port_columns(a.at("port"));
  }
  for (const Json& u : result.at("uplinks")) {
    std::printf("%-16s %-5s %-9s %-17s %6s", u.at("name").get<std::string>().c_str(),
                u.at("port").at("link").get<bool>() ? "up" : "down", "uplink", "-", "-");
    port_columns(u.at("port"));
  }
}

void print_port(const Json& port) {
  std::printf("link %s, %llu bytes wait\n", port.at("link").get<bool>() ? "up" : "down",
              port.at("queue_bytes").get<unsigned long long>());
  for (const char* part : {"properties", "counters"}) {
    for (const auto& [name, value] : port.at(part).items()) {
      std::printf("%-16s %s\n", name.c_str(),
                  value.is_string() ? value.get<std::string>().c_str() : value.dump().c_str());
    }
  }
}

struct Arguments {
  std::string socket = kDefaultSocket;
  bool json = false;
  std::string name;
  std::string text;
  std::uint32_t speed = 0;
  std::optional<std::string> rules;
  std::string file;
  std::uint64_t limit = 0;
  std::vector<std::string> properties;
};

void name_of_port(CLI::App* command, Arguments& a) {
  command->add_option("port", a.name, "an adapter's or uplink's name")->required();
}

void add_commands(CLI::App& app, Arguments& a) {
  app.add_subcommand("list", "adapters, uplinks and their ports");
  auto* const show = app.add_subcommand("port", "show a port; with properties, change it");
  name_of_port(show, a);
  show->add_option("properties", a.properties, "PROPERTY=VALUE, such as rate=10G or delay=20us");
  auto* const link = app.add_subcommand("link", "set the link of an adapter up or down");
  link->add_option("adapter", a.name)->required();
  link->add_option("state", a.text)->required()->check(CLI::IsMember({"up", "down"}));
  auto* const speed = app.add_subcommand("speed", "set the speed that an adapter's port reports");
  speed->add_option("adapter", a.name)->required();
  speed->add_option("mbps", a.speed, "Mbit/s, up to the adapter's property")->required();
  auto* const faults = app.add_subcommand("faults",
                                          "show the rules of faults of a port, or replace them; "
                                          "'add RULES', 'remove RULES'; '' removes all");
  name_of_port(faults, a);
  faults->add_option("rules", a.rules, "rules, separated by ';'");
  auto* const icrc =
      app.add_subcommand("icrc", "what an adapter does with packets that have a wrong ICRC");
  icrc->add_option("adapter", a.name)->required();
  icrc->add_option("mode", a.text)->required()->check(CLI::IsMember({"check", "warn", "off"}));
  auto* const removed = app.add_subcommand(
      "removed", "remove an adapter by surprise, or put one back; without a state, show it");
  removed->add_option("adapter", a.name)->required();
  removed->add_option("state", a.text)->check(CLI::IsMember({"on", "off"}));
  auto* const capture = app.add_subcommand(
      "capture", "capture all frames of a port in a file; without a file, end the capture");
  name_of_port(capture, a);
  capture->add_option("file", a.file);
  capture->add_option("--limit", a.limit, "bytes after which the capture ends");

  auto* const adapter =
      app.add_subcommand("adapter", "add or remove an adapter")->require_subcommand(1);
  adapter->add_subcommand("add", "add an adapter; takes what ternd's --adapter takes")
      ->add_option("adapter", a.text, "PATH[,PROPERTY=VALUE]...")
      ->required()
      ->allow_extra_args(false);
  adapter->add_subcommand("remove", "detach an adapter's hypervisor, and remove the adapter")
      ->add_option("adapter", a.name)
      ->required();
  auto* const uplink =
      app.add_subcommand("uplink", "add, remove or reopen an uplink")->require_subcommand(1);
  uplink->add_subcommand("add", "add an uplink; takes what ternd's --uplink takes")
      ->add_option("uplink", a.text, "tap=NAME|packet=NAME[,PROPERTY=VALUE]...")
      ->required()
      ->allow_extra_args(false);
  uplink->add_subcommand("remove", "remove an uplink")->add_option("uplink", a.name)->required();
  uplink->add_subcommand("reopen", "open an uplink's interface again, after it was deleted")
      ->add_option("uplink", a.name)
      ->required();
}

// Finds an entry of "adapters" or "uplinks".
Json find(const Arguments& a, const char* kind) {
  const Json list = ask(a.socket, {{{"command", "list"}}, {}});
  for (const Json& part : list.at(kind)) {
    if (part.at("name") == a.name) return part;
  }
  throw std::runtime_error("ternd has no '" + a.name + "'");
}

std::string hex(std::uint8_t byte) {
  std::array<char, 3> text{};
  std::snprintf(text.data(), text.size(), "%02x", byte);
  return text.data();
}

void add_adapter(const Arguments& a, Request& request) {
  using namespace tern::daemon;
  const AdapterConfig config = parse_adapter(a.text);
  // The default address depends on files that the daemon cannot read.
  std::string mac;
  for (const std::uint8_t byte : config.engine.mac) mac += (mac.empty() ? "" : ":") + hex(byte);
  request.json["text"] = a.text + ",mac=" + mac;
  request.add("listener", listen_at(config.path, 0, socket_rights(config.user, config.group)));
  if (!config.pcap.empty()) request.add("pcap", create_file(config.pcap));
  if (!config.events.empty()) request.add("events", create_file(config.events));
}

void add_interface(const tern::daemon::Uplink::Config& config, Request& request) {
  auto files = tern::daemon::Uplink::open(config);
  request.json["index"] = files.index;
  request.add("interface", std::move(files.interface));
  request.add("netlink", std::move(files.netlink));
}

// `command`: of the control socket, such as "port" or "adapter-add".
Request make_request(const std::string& command, const Arguments& a) {
  using tern::daemon::HostInterface;
  Request request{{{"command", command}}, {}};
  Json& json = request.json;
  if (command == "link" || command == "speed" || command == "icrc" || command == "removed" ||
      command == "adapter-remove")
    json["adapter"] = a.name;
  if (command == "port" || command == "faults" || command == "capture") json["port"] = a.name;
  if (command == "uplink-remove" || command == "uplink-reopen") json["uplink"] = a.name;
  if (command == "port") {
    json["properties"] = Json::object();
    for (const std::string& p : a.properties) {
      const std::size_t equals = p.find('=');
      if (equals == std::string::npos)
        throw std::runtime_error("write PROPERTY=VALUE, not '" + p + "'");
      json["properties"][p.substr(0, equals)] = p.substr(equals + 1);
    }
  }
  if (command == "link") json["up"] = a.text == "up";
  if (command == "speed") json["mbps"] = a.speed;
  if (command == "faults" && a.rules) json["rules"] = *a.rules;
  if (command == "icrc") json["mode"] = a.text;
  if (command == "removed" && !a.text.empty()) json["on"] = a.text == "on";
  if (command == "capture" && !a.file.empty()) {
    json["limit"] = a.limit;
    request.add("capture", tern::daemon::create_file(a.file));
  }
  if (command == "adapter-add") add_adapter(a, request);
  if (command == "uplink-add") {
    json["text"] = a.text;
    add_interface(tern::daemon::Uplink::parse(a.text), request);
  }
  if (command == "uplink-reopen") {
    const bool tap = find(a, "uplinks").at("kind") == "tap";
    add_interface({tap ? HostInterface::Kind::kTap : HostInterface::Kind::kPacket, a.name, {}},
                  request);
  }
  return request;
}

void print(const std::string& command, const Json& result) {
  if (command == "list") print_list(result);
  if (command == "port") print_port(result);
  if (command == "faults") std::fputs(result.at("rules").get<std::string>().c_str(), stdout);
  if (command == "removed") std::puts(result.at("removed").get<bool>() ? "on" : "off");
}

int run(int argc, char** argv) {
  Arguments a;
  CLI::App app("Shows and changes a running ternd.", "ternctl");
  app.set_version_flag("--version", std::string("ternctl ") + tern::daemon::kVersion);
  app.add_option("--socket", a.socket, "the control socket of ternd")
      ->envname("TERND_CONTROL")
      ->capture_default_str();
  app.add_flag("--json", a.json, "print the answer as JSON");
  app.require_subcommand(1);
  app.fallthrough();
  add_commands(app, a);
  CLI11_PARSE(app, argc, argv);

  std::string command;
  for (const CLI::App* at = &app; !at->get_subcommands().empty();) {
    at = at->get_subcommands().front();
    command += (command.empty() ? "" : "-") + at->get_name();
  }
  // The daemon cannot remove a socket: remove it here if nobody listens on it afterwards.
  struct Socket {
    std::string path;
    ~Socket() {
      try {
        if (!path.empty()) tern::daemon::remove_stale_socket(path);
      } catch (const std::system_error&) {
        // The path is too long for a socket: none is there.
      }
    }
  } left;
  if (command == "adapter-add") left.path = tern::daemon::parse_adapter(a.text).path;
  if (command == "adapter-remove") left.path = find(a, "adapters").at("path").get<std::string>();
  const Json result = ask(a.socket, make_request(command, a));
  if (a.json) {
    std::puts(result.dump(2).c_str());
  } else {
    print(command, result);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "ternctl: %s\n", e.what());
    return 1;
  }
}

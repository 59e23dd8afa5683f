// SPDX-License-Identifier: GPL-2.0-or-later
// ternctl: shows and changes a running ternd through its control socket.
#include <fcntl.h>
#include <sys/socket.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "unix_socket.h"
#include "version.h"

namespace {

using Json = nlohmann::ordered_json;
using tern::daemon::Descriptor;

constexpr const char* kDefaultSocket = "/run/ternd/control";

// Sends a request, with a descriptor if there is one, and returns its result. Throws
// std::runtime_error with the daemon's message.
Json ask(const std::string& path, const Json& request, int file = -1) {
  const Descriptor socket = tern::daemon::connect_to(path);
  const std::string line = request.dump() + "\n";
  const auto files = std::span(&file, file >= 0 ? 1U : 0U);
  if (!tern::daemon::send_message(socket.get(), std::as_bytes(std::span(line)), files)) throw std::runtime_error("ternd does not listen");
  std::string answer;
  std::array<char, 4096> data{};
  while (answer.empty() || answer.back() != '\n') {
    const ssize_t got = recv(socket.get(), data.data(), data.size(), 0);
    if (got <= 0) throw std::runtime_error("ternd does not answer");
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
  std::snprintf(text.data(), text.size(), i == 0 ? "%.0f %s%s" : "%.1f %s%s", value, prefixes[i], unit);
  return text.data();
}

void print_list(const Json& result) {
  std::printf("%-16s %-5s %-9s %-17s %6s %12s %12s %10s\n", "PORT", "LINK", "GUEST", "MAC", "QPS", "IN", "OUT", "DISCARDS");
  const auto port_columns = [](const Json& port) {
    const Json& c = port.at("counters");
    std::printf(" %12s %12s %10s\n", scaled(c.at("in_bytes").get<double>(), "B").c_str(), scaled(c.at("out_bytes").get<double>(), "B").c_str(),
                scaled(c.at("out_discards").get<double>() + c.at("in_discards").get<double>(), "").c_str());
  };
  for (const Json& a : result.at("adapters")) {
    const bool responds = a.at("responds").get<bool>();
    std::printf("%-16s %-5s %-9s %-17s %6s", a.at("name").get<std::string>().c_str(), a.at("port").at("link").get<bool>() ? "up" : "down",
                !responds ? "stuck" : a.at("attached").get<bool>() ? "attached" : "-", a.at("mac").get<std::string>().c_str(),
                responds ? std::to_string(a.at("queue_pairs").get<unsigned>()).c_str() : "-");
    port_columns(a.at("port"));
  }
  for (const Json& u : result.at("uplinks")) {
    std::printf("%-16s %-5s %-9s %-17s %6s", u.at("name").get<std::string>().c_str(), u.at("port").at("link").get<bool>() ? "up" : "down",
                "uplink", "-", "-");
    port_columns(u.at("port"));
  }
}

void print_port(const Json& port) {
  std::printf("link %s, %llu bytes wait\n", port.at("link").get<bool>() ? "up" : "down", port.at("queue_bytes").get<unsigned long long>());
  for (const char* part : {"properties", "counters"}) {
    for (const auto& [name, value] : port.at(part).items()) {
      std::printf("%-16s %s\n", name.c_str(), value.is_string() ? value.get<std::string>().c_str() : value.dump().c_str());
    }
  }
}

struct Arguments {
  std::string socket = kDefaultSocket;
  bool json = false;
  std::string name;
  std::string text;
  std::string file;
  std::uint64_t limit = 0;
  std::vector<std::string> properties;
};

void print_json(const Json& result) { std::puts(result.dump(2).c_str()); }

int run(int argc, char** argv) {
  Arguments a;
  CLI::App app("Shows and changes a running ternd.", "ternctl");
  app.set_version_flag("--version", std::string("ternctl ") + tern::daemon::kVersion);
  app.add_option("--socket", a.socket, "the control socket of ternd")->envname("TERND_CONTROL")->capture_default_str();
  app.add_flag("--json", a.json, "print the answer as JSON");
  app.require_subcommand(1);
  app.fallthrough();

  app.add_subcommand("list", "adapters, uplinks and their ports");
  auto* const show = app.add_subcommand("port", "show a port; with properties, change it");
  show->add_option("port", a.name, "an adapter's or uplink's name")->required();
  show->add_option("properties", a.properties, "PROPERTY=VALUE, such as rate=10G or delay=20us");
  auto* const link = app.add_subcommand("link", "set the link of an adapter up or down");
  link->add_option("adapter", a.name)->required();
  link->add_option("state", a.text)->required()->check(CLI::IsMember({"up", "down"}));
  auto* const faults = app.add_subcommand("faults", "show the rules of faults of a port, or replace them; '' removes all");
  faults->add_option("port", a.name, "an adapter's or uplink's name")->required();
  auto* const rules = faults->add_option("rules", a.text, "rules, separated by ';'");
  auto* const icrc = app.add_subcommand("icrc", "what an adapter does with packets that have a wrong ICRC");
  icrc->add_option("adapter", a.name)->required();
  icrc->add_option("mode", a.text)->required()->check(CLI::IsMember({"check", "warn", "off"}));
  auto* const capture = app.add_subcommand("capture", "capture all frames of a port in a file; without a file, end the capture");
  capture->add_option("port", a.name, "an adapter's or uplink's name")->required();
  capture->add_option("file", a.file);
  capture->add_option("--limit", a.limit, "bytes after which the capture ends");
  CLI11_PARSE(app, argc, argv);

  const std::string command = app.get_subcommands().front()->get_name();
  Json request = {{"command", command}};
  Descriptor file;
  if (command == "link" || command == "icrc") {
    request["adapter"] = a.name;
  } else if (command != "list") {
    request["port"] = a.name;
  }
  if (command == "port") {
    request["properties"] = Json::object();
    for (const std::string& p : a.properties) {
      const std::size_t equals = p.find('=');
      if (equals == std::string::npos) throw std::runtime_error("write PROPERTY=VALUE, not '" + p + "'");
      request["properties"][p.substr(0, equals)] = p.substr(equals + 1);
    }
  }
  if (command == "link") request["up"] = a.text == "up";
  if (command == "faults" && rules->count() != 0) request["rules"] = a.text;
  if (command == "icrc") request["mode"] = a.text;
  if (command == "capture" && !a.file.empty()) {
    file = tern::daemon::checked(open(a.file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644), a.file);
    request["limit"] = a.limit;
  }
  const Json result = ask(a.socket, request, file.get());
  if (a.json) {
    print_json(result);
  } else if (command == "list") {
    print_list(result);
  } else if (command == "port") {
    print_port(result);
  } else if (command == "faults") {
    std::fputs(result.at("rules").get<std::string>().c_str(), stdout);
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

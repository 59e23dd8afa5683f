// SPDX-License-Identifier: GPL-2.0-or-later
#include "options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>

#include "adapter_config.h"
#include "switch.h"
#include "version.h"

namespace tern::daemon {

namespace {

void list_properties() {
  std::puts("Properties of --adapter PATH[,PROPERTY=VALUE]... (defaults in parentheses):");
  for (const PropertyHelp& p : adapter_properties())
    std::printf("  %-16s %s\n", p.name.c_str(), p.text.c_str());
}

}  // namespace

std::optional<Options> parse_options(int argc, char** argv, int* status) {
  Options options;
  bool no_sandbox = false;
  CLI::App app(
      "Serves tern RoCEv2 adapters to hypervisors by vfio-user, and switches frames between them.",
      "ternd");
  app.set_version_flag("--version", std::string("ternd ") + kVersion);
  app.allow_config_extras(CLI::config_extras_mode::error);
  app.set_config(
      "--config", "",
      "read options from this file: one NAME = VALUE a line, lists in [\"...\", \"...\"]");
  app.add_option("--adapter", options.adapters,
                 "an adapter, and the path of its socket; `--adapter help' lists the properties")
      ->type_name("PATH[,PROPERTY=VALUE]...")
      ->allow_extra_args(false);
  app.add_option("--uplink", options.uplinks,
                 "a port of the switch to a network of the host; takes the properties of ports")
      ->type_name("tap=NAME|packet=NAME[,PROPERTY=VALUE]...")
      ->allow_extra_args(false);
  app.add_option("--pcap", options.pcap, "capture all frames that enter the switch")
      ->type_name("FILE");
  app.add_option("--control", options.control, "the socket for ternctl")->type_name("PATH");
  app.add_option("--control-group", options.control_group,
                 "the group whose members may use it, besides root and the daemon's user")
      ->type_name("GROUP");
  app.add_option("--max-adapters", options.max_adapters,
                 "adapters that there may be at a time, later ones included; each has an equal "
                 "share of the limits")
      ->type_name("N")
      ->check(CLI::Range(1U, Switch::kMaxPorts));
  app.add_option("--memory", options.memory,
                 "bytes for all adapters together, such as 4G; default: three quarters of the "
                 "host's or the control group's")
      ->type_name("SIZE")
      ->transform(CLI::AsSizeValue(false));
  app.add_option("--metrics", options.metrics,
                 "serve metrics for Prometheus at http://ADDRESS/metrics")
      ->type_name("HOST:PORT");
  app.add_flag("--no-sandbox", no_sandbox, "allow all system calls, for debuggers and sanitizers");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    *status = app.exit(e) == 0 ? 0 : 2;
    return std::nullopt;
  }
  options.sandbox = !no_sandbox;
  if (std::ranges::find(options.adapters, "help") != options.adapters.end()) {
    list_properties();
    *status = 0;
    return std::nullopt;
  }
  if (options.adapters.empty()) {
    std::fputs("ternd: there is no adapter: use --adapter PATH\n", stderr);
    *status = 2;
    return std::nullopt;
  }
  return options;
}

}  // namespace tern::daemon

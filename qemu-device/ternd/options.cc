// SPDX-License-Identifier: GPL-2.0-or-later
#include "options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>

#include "adapter_config.h"
#include "version.h"

namespace tern::daemon {

namespace {

void list_properties() {
  std::puts("Properties of --adapter PATH[,PROPERTY=VALUE]... (defaults in parentheses):");
  for (const PropertyHelp& p : adapter_properties()) std::printf("  %-16s %s\n", p.name, p.text);
}

}  // namespace

std::optional<Options> parse_options(int argc, char** argv, int* status) {
  Options options;
  bool no_sandbox = false;
  CLI::App app("Serves tern RoCEv2 adapters to hypervisors by vfio-user, and switches frames between them.", "ternd");
  app.set_version_flag("--version", std::string("ternd ") + kVersion);
  app.set_config("--config", "", "read options from this file: one NAME = VALUE a line, lists in [\"...\", \"...\"]");
  app.add_option("--adapter", options.adapters, "an adapter, and the path of its socket; `--adapter help' lists the properties")
      ->type_name("PATH[,PROPERTY=VALUE]...")
      ->allow_extra_args(false);
  app.add_option("--uplink", options.uplinks, "a port of the switch to a network of the host; takes the properties of ports")
      ->type_name("tap=NAME|packet=NAME[,PROPERTY=VALUE]...")
      ->allow_extra_args(false);
  app.add_option("--pcap", options.pcap, "capture all frames that enter the switch")->type_name("FILE");
  app.add_option("--control", options.control, "the socket for ternctl")->type_name("PATH");
  app.add_option("--metrics", options.metrics, "serve metrics for Prometheus at http://ADDRESS/metrics")->type_name("HOST:PORT");
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

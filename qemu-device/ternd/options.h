// SPDX-License-Identifier: GPL-2.0-or-later
// The command line and the configuration file of ternd.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tern::daemon {

struct Options {
  std::vector<std::string> adapters;  // PATH[,property=value]...
  std::vector<std::string> uplinks;   // tap=NAME[,property=value]... or packet=NAME...
  std::string pcap;
  std::string control;
  std::string control_group;
  std::string metrics;
  unsigned max_adapters = 0;  // 0: as many as there are, and some more
  std::uint64_t memory = 0;   // 0: HostLimits::read()
  bool sandbox = true;
};

// Returns nothing if the process must end with *status: help, version, or an error that was
// printed.
std::optional<Options> parse_options(int argc, char** argv, int* status);

}  // namespace tern::daemon

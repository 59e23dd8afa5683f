// SPDX-License-Identifier: GPL-2.0-or-later
// The properties of an adapter: those of core/properties.h, which QEMU's `-device tern` has too,
// those of its socket, and those of its port.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/config.h"
#include "core/properties.h"
#include "switch.h"
#include "wire/codec.h"

namespace tern::daemon {

struct AdapterConfig {
  std::string path;  // of the socket
  std::string user;  // who may connect, and the group that may
  std::string group;
  std::string name;        // of the port: the socket's file name without its suffix
  bool zero_copy = false;  // Port::set_zero_copy()
  bool migration = false;  // Function::Options::migration
  // The engine's properties, its address, lanes and congestion control; without device memory.
  Config engine;
  bool poll = find_property("poll")->initial != 0;
  std::string pcap;
  std::uint64_t pcap_limit = find_property("pcap-limit")->initial;
  std::string events;
  std::uint64_t events_limit = find_property("events-limit")->initial;
  std::string faults;
  IcrcMode icrc = IcrcMode::kCheck;
  PortPolicy port;
};

// Parses PATH[,PROPERTY=VALUE]... Throws std::invalid_argument, which states the error.
AdapterConfig parse_adapter(std::string_view text);

// Sets a property of a port. Returns false if there is none of that name. Throws
// std::invalid_argument for a wrong value.
bool set_port_property(PortPolicy& policy, std::string_view name, std::string_view value);

struct PropertyHelp {
  std::string name;
  std::string text;  // ends with the default in parentheses, if there is one
};
// All properties, for --adapter help.
std::vector<PropertyHelp> adapter_properties();

}  // namespace tern::daemon

// SPDX-License-Identifier: GPL-2.0-or-later
// The properties of an adapter: those of QEMU's `-device tern`, and those of its port.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "switch.h"
#include "wire/codec.h"

namespace tern::daemon {

struct AdapterConfig {
  std::string path;  // of the socket
  std::string user;  // who may connect, and the group that may
  std::string group;
  std::string name;  // of the port: the socket's file name without its suffix
  std::array<std::uint8_t, 6> mac{};
  std::uint64_t dm_size = std::uint64_t{16} << 20;
  std::uint64_t uar_size = std::uint64_t{16} << 20;
  std::uint32_t max_qp = 16384;
  std::uint32_t max_cq = 16384;
  std::uint32_t max_mr = 65536;
  std::uint32_t max_mw = 65536;
  std::uint32_t tm_tags = 1024;
  std::uint32_t eth_queues = 16;
  std::uint64_t max_pages = std::uint64_t{64} << 20;
  std::uint32_t vectors = 32;
  std::uint32_t mtu = 9000;
  std::uint32_t speed = 100000;
  bool mw_type_2a = false;
  bool poll = true;
  std::string pcap;
  std::uint64_t pcap_limit = 0;
  std::string events;
  std::uint64_t events_limit = 0;
  std::string congestion = "on";
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
  const char* name;
  const char* text;
};
// All properties, for --adapter help.
const std::vector<PropertyHelp>& adapter_properties();

}  // namespace tern::daemon

// SPDX-License-Identifier: GPL-2.0-or-later
// The commands of the control socket.
#pragma once

#include <deque>
#include <string>

#include "adapter.h"
#include "descriptor.h"
#include "uplink.h"

namespace tern::daemon {

struct Parts {
  std::deque<Adapter>& adapters;
  std::deque<Uplink>& uplinks;
};

// `request`: a JSON object {"command": NAME, ...}. Returns {"result": ...} or {"error": TEXT}.
std::string run_command(const Parts& parts, const std::string& request, Descriptor file);

}  // namespace tern::daemon

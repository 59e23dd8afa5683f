// SPDX-License-Identifier: GPL-2.0-or-later
// The commands of the control socket.
#pragma once

#include <string>
#include <vector>

#include "descriptor.h"
#include "parts.h"

namespace tern::daemon {

// `request`: a JSON object {"command": NAME, ...}. Returns {"result": ...} or {"error": TEXT}.
std::string run_command(Parts& parts, const std::string& request, std::vector<Descriptor> files);

}  // namespace tern::daemon

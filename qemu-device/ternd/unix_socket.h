// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>

#include "descriptor.h"

namespace tern::daemon {

// Removes a socket that nobody listens on: a daemon that was killed leaves its sockets behind.
void remove_stale_socket(const std::string& path);
// A socket at `path` that listens and does not block. Throws std::system_error.
Descriptor listen_at(const std::string& path);
// Connects to the socket at `path`. Throws std::system_error.
Descriptor connect_to(const std::string& path);

}  // namespace tern::daemon

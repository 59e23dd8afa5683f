// SPDX-License-Identifier: GPL-2.0-or-later
// Messages for the journal, on stderr, with systemd's priority prefix when it reads them.
#pragma once

#include <string>

namespace tern::daemon {

// Any thread. `priority` is as in syslog(3).
void write_log(int priority, const std::string& who, const std::string& message);

}  // namespace tern::daemon

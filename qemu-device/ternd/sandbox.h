// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

namespace tern::daemon {

// Gives up what the process no longer needs, in all its threads: capabilities, and system calls
// other than those that serve hypervisors that are there already. No file can be opened any more.
// Throws std::system_error.
void enter_sandbox();

}  // namespace tern::daemon

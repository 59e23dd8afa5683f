// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

namespace tern::daemon {

// Gives up all capabilities. Call it before the process has a second thread: capabilities are per
// thread, and a new thread inherits them. Throws std::system_error.
void drop_capabilities();

// Gives up, in all threads, the system calls that the process no longer needs: afterwards it can
// neither open files nor start programs. Throws std::system_error.
void enter_sandbox();

}  // namespace tern::daemon

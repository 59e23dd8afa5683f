// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

namespace tern::daemon {

// Gives up all capabilities. Before the process has a second thread: each thread has its own, and
// takes over those of the one that starts it. Throws std::system_error.
void drop_capabilities();

// Gives up, in all threads, the system calls that the process no longer needs: it can open no file
// and start no program any more. Throws std::system_error.
void enter_sandbox();

}  // namespace tern::daemon

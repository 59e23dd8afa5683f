// SPDX-License-Identifier: GPL-2.0-or-later
#include <syslog.h>

#include <csignal>
#include <cstdlib>
#include <exception>

#include "daemon.h"
#include "log.h"

int main(int argc, char** argv) {
  using namespace tern::daemon;
  int status = 0;
  const auto options = parse_options(argc, argv, &status);
  if (!options) return status;
  // Block them before there is a second thread: all threads inherit the mask.
  const sigset_t ends = Daemon::end_signals();
  sigprocmask(SIG_BLOCK, &ends, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  try {
    Daemon daemon(*options);
    daemon.run();
    // A thread that its hypervisor blocks cannot be joined, and the process ends without it.
    if (!daemon.stop()) std::_Exit(0);
  } catch (const std::exception& e) {
    write_log(LOG_ERR, "", e.what());
    return 1;
  }
  return 0;
}

// SPDX-License-Identifier: GPL-2.0-or-later
#include "log.h"

#include <unistd.h>

#include <cstdlib>

namespace tern::daemon {

void write_log(int priority, const std::string& who, const std::string& message) {
  static const bool journal = std::getenv("JOURNAL_STREAM") != nullptr;
  std::string line;
  if (journal) line += "<" + std::to_string(priority) + ">";
  line += who.empty() ? "ternd: " : "ternd: " + who + ": ";
  line += message + "\n";
  // One write, so that lines of several threads do not mix. Ignore errors: nobody could read them.
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace tern::daemon

// SPDX-License-Identifier: GPL-2.0-or-later
// Ends a program whose test hangs, with that test's result line.
#pragma once

#include <unistd.h>

#include <csignal>
#include <string>

namespace guest {

class Watchdog {
 public:
  // Allows `test` this many seconds, until the watchdog is destroyed.
  Watchdog(const std::string& test, unsigned seconds) {
    text_ = "not ok " + test + " - hangs\n";
    std::signal(SIGALRM, bark);
    ::alarm(seconds);
  }
  ~Watchdog() { ::alarm(0); }
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  static void bark(int /*signal*/) {
    ::_exit(::write(STDOUT_FILENO, text_.data(), text_.size()) > 0 ? 3 : 4);
  }

  static inline std::string text_;
};

}  // namespace guest

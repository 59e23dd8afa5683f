// SPDX-License-Identifier: GPL-2.0-or-later
// Ends a program whose test hangs, with the result line of that test.
#pragma once

#include <unistd.h>

#include <csignal>
#include <string>

namespace guest {

class Watchdog {
 public:
  // The lines that follow until it goes are of this test, and take so many seconds at most.
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

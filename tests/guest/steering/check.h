// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstdio>
#include <cstdlib>

namespace steering {

// Ends the program, with errno's text, if a system call has failed.
inline void require(bool holds, const char* what) {
  if (holds) return;
  std::perror(what);
  std::exit(2);
}

}  // namespace steering

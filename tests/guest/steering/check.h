// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include "failure.h"

namespace guest::steering {

// Fails, with errno's text, if a system call has failed.
inline void require(bool holds, const char* what) {
  if (!holds) fail_errno(what);
}

}  // namespace guest::steering

// SPDX-License-Identifier: GPL-2.0-or-later
// The rules of protection domains and of processes.
#pragma once

#include "rule.h"

namespace guest::protection {

// Objects of one process in several PDs.
Rules domains();
// Objects of several processes.
Rules processes();
Rules all();

}  // namespace guest::protection

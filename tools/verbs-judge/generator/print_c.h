// SPDX-License-Identifier: GPL-2.0-or-later
// Prints a program as C.
#pragma once

#include <string>

#include "run.h"

namespace guest::generator {

// Returns one C file of plain libibverbs calls, which does what the steps do on this runner's
// device and exits with 1 when it sees the violation that they lead to.
std::string print_c(const Steps& steps, std::uint64_t seed, Runner& runner,
                    const std::string& device);

}  // namespace guest::generator

// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>

#include "opcodes/opcodes.h"

namespace guest::opcodes {

// The page Documentation/opcode-table.rst.
std::string to_rst(const Cells& opcodes, const Cells& built, const Cells& flags,
                   const Cells& refusals);

}  // namespace guest::opcodes

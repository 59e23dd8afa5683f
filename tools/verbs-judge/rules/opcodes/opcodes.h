// SPDX-License-Identifier: GPL-2.0-or-later
// The tables of ibv_post_send(3) and ibv_wr_post(3), cell by cell.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "refusal.h"
#include "rule.h"

namespace guest::opcodes {

// What a rule shows: a cell of a table, in which the same happens through both interfaces.
struct Cell {
  std::string row;
  std::size_t type;  // in kTypes
  std::string says;  // what happens, in a word
  Rule rule;
};
using Cells = std::vector<Cell>;

Cells opcode_cells();
// Requests that only ibv_wr_*() can post.
Cells built_cells();
Cells flag_cells();
Cells refusal_cells();
Rules all();

}  // namespace guest::opcodes

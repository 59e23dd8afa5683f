// SPDX-License-Identifier: GPL-2.0-or-later
// The measurements, and the rows that they give in the tables.
#pragma once

#include <string>
#include <vector>

#include "pair.h"
#include "program.h"

namespace guest {

// The measurements print a result line for each cell.

// A row of the table. A cell says what happened, which must be the same through both APIs.
struct Row {
  std::string name;
  std::vector<std::string> cells;
};

std::vector<Row> opcode_rows(const Device& dev);
// Requests that only ibv_wr_*() can post.
std::vector<Row> built_rows(const Device& dev);
std::vector<Row> flag_rows(const Device& dev);
std::vector<Row> refusal_rows(const Device& dev);

std::string to_rst(const std::vector<Row>& opcodes, const std::vector<Row>& built,
                   const std::vector<Row>& flags, const std::vector<Row>& refusals);

// Posts three requests of which the second is wrong. ibv_post_send() must refuse the second with
// this errno and execute only the first; ibv_wr_*() must post none.
void check_refusal(const Pair& pair, Api api, const Send& wrong, int err);

}  // namespace guest

// SPDX-License-Identifier: GPL-2.0-or-later
// What is measured, and what of it goes into the table.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ends.h"

namespace guest {

// Runs body as the test NAME; prints the result line. False when it failed.
using Runner = std::function<bool(const std::string& name, const std::function<void()>& body)>;

// A cell: what happened, as the table says it, the same through both APIs.
struct Row {
  std::string name;
  std::vector<std::string> cells;
};

std::vector<Row> opcode_rows(const Device& dev, const Runner& run);
// What ibv_wr_*() alone posts.
std::vector<Row> built_rows(const Device& dev, const Runner& run);
std::vector<Row> flag_rows(const Device& dev, const Runner& run);
std::vector<Row> refusal_rows(const Device& dev, const Runner& run);

std::string to_rst(const std::vector<Row>& opcodes, const std::vector<Row>& built,
                   const std::vector<Row>& flags, const std::vector<Row>& refusals);

// A list of three of which the second is wrong is refused at the second, with this errno, and the
// first alone arrives; with ibv_wr_*() nothing does.
void check_refusal(const Ends& ends, Api api, const Send& wrong, int err);

}  // namespace guest

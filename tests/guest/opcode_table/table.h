// SPDX-License-Identifier: GPL-2.0-or-later
// The measurements, and the rows that they give in the tables.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ends.h"

namespace guest {

// Runs `body` as the test `name` and prints its result line. Returns false if it failed.
using Runner = std::function<bool(const std::string& name, const std::function<void()>& body)>;

// A row of the table. A cell says what happened, which must be the same through both APIs.
struct Row {
  std::string name;
  std::vector<std::string> cells;
};

std::vector<Row> opcode_rows(const Device& dev, const Runner& run);
// Requests that only ibv_wr_*() can post.
std::vector<Row> built_rows(const Device& dev, const Runner& run);
std::vector<Row> flag_rows(const Device& dev, const Runner& run);
std::vector<Row> refusal_rows(const Device& dev, const Runner& run);

std::string to_rst(const std::vector<Row>& opcodes, const std::vector<Row>& built,
                   const std::vector<Row>& flags, const std::vector<Row>& refusals);

// Posts three requests of which the second is wrong. ibv_post_send() must refuse the second with
// this errno and execute only the first; ibv_wr_*() must post none.
void check_refusal(const Ends& ends, Api api, const Send& wrong, int err);

}  // namespace guest

// SPDX-License-Identifier: GPL-2.0-or-later
#include "opcodes.h"

namespace guest::opcodes {

Rules all() {
  Rules rules;
  const auto add = [&rules](Cells cells, const char* authority) {
    Rules more;
    for (Cell& cell : cells) more.push_back(std::move(cell.rule));
    append(rules, std::move(more), authority);
  };
  add(opcode_cells(), "ibv_post_send(3), ibv_wr_post(3)");
  add(built_cells(), "ibv_wr_post(3)");
  add(flag_cells(), "ibv_post_send(3)");
  add(refusal_cells(), "ibv_post_send(3), ibv_post_recv(3), ibv_bind_mw(3)");
  return rules;
}

}  // namespace guest::opcodes

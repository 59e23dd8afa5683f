// SPDX-License-Identifier: GPL-2.0-or-later
// Generates Documentation/opcode-table.rst from the measurements.
#include <algorithm>
#include <format>
#include <vector>

#include "table.h"

namespace guest::opcodes {
namespace {

constexpr const char* kIntro = R"(.. SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause)
.. Written by opcode_table --rst (tests/guest/opcode_table), which fails when it measures otherwise.

============================
ibv_post_send, cell by cell
============================

The tables of ibv_post_send(3) of rdma-core 56.1, without the column of raw packets, compared with
tern. The test tried each cell with ``ibv_post_send`` and with ``ibv_wr_*()``, between two QPs of
one port.

Opcodes
=======

*works*: the request works; the test compared data and completions of both ends. *refused*: the page
has no mark there; ``ibv_post_send`` returns EINVAL, and ``ibv_create_qp_ex`` fails with EOPNOTSUPP
when its ``ibv_wr_*()`` is requested. *no offload*: the page has a mark, and the device lacks the
feature; both fail with EOPNOTSUPP. Windows are of type 2 here, as these calls require.

)";

constexpr const char* kBuilt = R"(
Two more opcodes
================

The page has no marks for these, because a ``struct ibv_send_wr`` lacks the fields for them.
``ibv_post_send`` returns EINVAL for them on every type; *works* and *refused* refer to
``ibv_wr_flush`` and ``ibv_wr_atomic_write``, with the types of ibv_wr_post(3).

)";

constexpr const char* kFlags = R"(
Flags
=====

)";

constexpr const char* kRefusals = R"(
Refused requests
================

The errno is the same from ``ibv_post_send`` and ``ibv_wr_complete``. In a list, the requests before
the wrong one are posted, and ``bad_wr`` points to it; in a session of ``ibv_wr_*()`` nothing is
posted.

)";

constexpr const char* kNotes = R"(
.. [1] A window of type 2 is for peers of the QP that bound it, and an XRC sender answers no
   requests: its peers reach targets, which are other QPs. A window of type 1, bound by
   ``ibv_bind_mw``, is open to the peers of all QPs of its PD.
.. [2] The request reaches the target, which invalidates regions that the kernel registered there by
   work request. A target has no windows. Here the key is that of an ordinary region, which cannot
   be invalidated, so the receive and the request complete with ``IBV_WC_REM_INV_REQ_ERR``.
.. [3] Checksums and segmentation are offloads of raw packets, and the attributes say so.
.. [4] Accepted; a QP without READs and similar requests has nothing to wait for. The page lists
   FENCE for RC only.
)";

// A row of a table: its name, then a cell for each type.
using Row = std::vector<std::string>;

std::vector<Row> rows_of(const Cells& cells) {
  std::vector<Row> rows;
  for (const Cell& cell : cells) {
    if (rows.empty() || rows.back()[0] != cell.row) {
      rows.emplace_back(1 + kTypes.size(), "\\-");
      rows.back()[0] = cell.row;
    }
    rows.back()[1 + cell.type] = cell.says;
  }
  return rows;
}

std::string table(const std::string& head, const Cells& cells) {
  std::vector<Row> all{{head}};
  for (const Type& type : kTypes) all[0].emplace_back(type.name);
  for (Row& row : rows_of(cells)) all.push_back(std::move(row));
  std::vector<std::size_t> widths(1 + kTypes.size(), 0);
  for (const Row& row : all) {
    for (std::size_t i = 0; i < row.size(); i++) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string rule;
  for (const std::size_t w : widths) rule += (rule.empty() ? "" : " ") + std::string(w, '=');
  std::string out = rule + "\n";
  for (std::size_t r = 0; r < all.size(); r++) {
    std::string line;
    for (std::size_t i = 0; i < all[r].size(); i++) {
      line += std::format("{:{}} ", all[r][i], widths[i]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
    if (r == 0) out += rule + "\n";
  }
  return out + rule + "\n";
}

}  // namespace

std::string to_rst(const Cells& opcodes, const Cells& built, const Cells& flags,
                   const Cells& refusals) {
  return std::string(kIntro) + table("Opcode", opcodes) + kBuilt + table("Opcode", built) + kFlags +
         table("Flag", flags) + kRefusals + table("Cause", refusals) + kNotes;
}

}  // namespace guest::opcodes

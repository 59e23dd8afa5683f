// SPDX-License-Identifier: GPL-2.0-or-later
// The page Documentation/opcode-table.rst, from what was measured.
#include <algorithm>

#include "table.h"

namespace guest {
namespace {

constexpr const char* kIntro = R"(.. SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause)
.. Written by opcode_table --rst (tests/guest/opcode_table), which fails when this file is not what it measures.

============================
ibv_post_send, cell by cell
============================

The tables of ibv_post_send(3), as rdma-core 56.1 has them, but for the column of raw packets, against what tern does. Each
cell was tried with ``ibv_post_send`` and with ``ibv_wr_*()``, between two QPs of one port.

Opcodes
=======

*works*: the request does what it says, data and completions of both ends compared. *refused*: the page has no mark there;
``ibv_post_send`` returns EINVAL, ``ibv_create_qp_ex`` fails with EOPNOTSUPP when asked for the ``ibv_wr_*()`` of it. *no
offload*: the page has a mark, and the device lacks what it takes; both fail with EOPNOTSUPP. Windows are of type 2 here, as
these calls want them.

)";

constexpr const char* kBuilt = R"(
Two more
========

The page has no marks for these: a ``struct ibv_send_wr`` has no place for what they say. ``ibv_post_send`` returns EINVAL for them
on every type; *works* and *refused* are said of ``ibv_wr_flush`` and ``ibv_wr_atomic_write``, with the types of ibv_wr_post(3).

)";

constexpr const char* kFlags = R"(
Flags
=====

)";

constexpr const char* kRefusals = R"(
What a post is refused for
==========================

The errno is the same from ``ibv_post_send`` and ``ibv_wr_complete``. Of a list, the requests before the wrong one are posted,
and ``bad_wr`` points at it; of a session of ``ibv_wr_*()`` nothing is posted.

)";

constexpr const char* kNotes = R"(
.. [1] A window of type 2 is for peers of the QP that bound it, and an XRC sender answers nobody: its peers reach targets,
   which are other QPs. One of type 1, by ``ibv_bind_mw``, is open to the peers of all QPs of its PD.
.. [2] The request reaches the target, which invalidates what the kernel registered by work request there. A target has no
   windows. With the key of an ordinary region, which cannot be invalidated, as here, the receive and the request complete
   with ``IBV_WC_REM_INV_REQ_ERR``.
.. [3] The device computes no checksums and segments nothing, and its attributes say so.
.. [4] Accepted; a QP without READs and the like has nothing to wait for. The page has FENCE for RC alone.
)";

std::size_t width(const std::string& s) { return s.size(); }

std::string table(const std::string& head, const std::vector<Row>& rows) {
  std::vector<Row> all{{.name = head, .cells = {}}};
  for (const Type& type : kTypes) {
    all[0].cells.emplace_back(type.name);
  }
  all.insert(all.end(), rows.begin(), rows.end());
  std::vector<std::size_t> widths(1 + kTypes.size(), 0);
  for (const Row& row : all) {
    widths[0] = std::max(widths[0], width(row.name));
    for (std::size_t i = 0; i < row.cells.size(); i++) {
      widths[i + 1] = std::max(widths[i + 1], width(row.cells[i]));
    }
  }
  std::string rule;
  for (const std::size_t w : widths) {
    rule += (rule.empty() ? "" : " ") + std::string(w, '=');
  }
  std::string out = rule + "\n";
  for (std::size_t r = 0; r < all.size(); r++) {
    std::string line = std::format("{:{}}", all[r].name, widths[0]);
    for (std::size_t i = 0; i < all[r].cells.size(); i++) {
      line += std::format(" {:{}}", all[r].cells[i], widths[i + 1]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
    if (r == 0) {
      out += rule + "\n";
    }
  }
  return out + rule + "\n";
}

}  // namespace

std::string to_rst(const std::vector<Row>& opcodes, const std::vector<Row>& built,
                   const std::vector<Row>& flags, const std::vector<Row>& refusals) {
  return std::string(kIntro) + table("Opcode", opcodes) + kBuilt + table("Opcode", built) + kFlags +
         table("Flag", flags) + kRefusals + table("Cause", refusals) + kNotes;
}

}  // namespace guest

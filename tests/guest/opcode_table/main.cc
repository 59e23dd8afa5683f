// SPDX-License-Identifier: GPL-2.0-or-later
// opcode_table: tests the table of ibv_post_send(3) cell by cell.
//
//   opcode_table [-d DEV] [-g GID_INDEX] --strict
//                                          prints "ok NAME" or "not ok NAME - why" for each cell
//   opcode_table --rst FILE                 also writes the measured table
//   opcode_table --compare FILE             also fails if FILE is not that table
//   opcode_table --thread-domain            in a thread domain
//
// Test: opcode-table
// Tier: quick, 600 s
// Boot: pcap
// Run: opcode_table --strict --compare /mnt/tern/Documentation/opcode-table.rst
// Proves: Ibv_post_send(3), cell by cell: each marked cell works through both interfaces, with data
//   and completions verified at both ends, and each blank cell is refused. Flags, and the errno and
//   bad_wr of wrong requests; FLUSH and ATOMIC WRITE, which only ibv_wr_*() post. It writes the
//   page Documentation/opcode-table.rst, and fails when the page differs from what it measures.
//
// Test: opcode-table-thread
// Tier: quick, 600 s
// Boot: pcap
// Run: opcode_table --strict --thread-domain --compare /mnt/tern/Documentation/opcode-table.rst
// Proves: The same with the objects in a thread domain.
#include <fstream>
#include <iterator>

#include "program.h"
#include "table.h"

namespace guest::opcodes {
namespace {

std::string read_file(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

void run(const CommandLine& line, const std::string& to, const std::string& compare) {
  const Device dev(line.device, line.gid_index, line.thread_domain ? Domain::kThread : Domain::kPd);
  const auto link = local_link(dev);
  const Env env{.dev = dev, .link = *link};
  const auto measured = [&env](Cells cells) {
    for (Cell& cell : cells) {
      if (!run_test(cell.rule.name, [&] { cell.rule.run(env); })) cell.says = "FAILS";
    }
    return cells;
  };
  const std::string rst = to_rst(measured(opcode_cells()), measured(built_cells()),
                                 measured(flag_cells()), measured(refusal_cells()));
  if (!to.empty()) std::ofstream(to) << rst;
  if (!compare.empty()) {
    run_test("documented", [&] {
      require(read_file(compare) == rst,
              "{} differs from the measured table: regenerate it with --rst", compare);
    });
  }
}

}  // namespace
}  // namespace guest::opcodes

int main(int argc, char** argv) {
  using namespace guest;
  std::string rst, compare;
  return run_program(argc, argv,
                     {.limit = 300,
                      .options = {{"rst", &rst}, {"compare", &compare}},
                      .run = [&](const CommandLine& line) { opcodes::run(line, rst, compare); }});
}

// SPDX-License-Identifier: GPL-2.0-or-later
// opcode_table: tests the table of ibv_post_send(3) cell by cell.
//
//   opcode_table [-d DEV] [-g GID_INDEX]    prints "ok NAME" or "not ok NAME - why" for each cell
//   opcode_table --rst FILE                 also writes the measured table
//   opcode_table --compare FILE             also fails if FILE is not that table
//   opcode_table --thread-domain            in a thread domain
//
// Test: opcode-table
// Tier: quick, 600 s
// Boot: pcap
// Run: opcode_table --compare /mnt/tern/Documentation/opcode-table.rst
// Results: 113
// Proves: Ibv_post_send(3), cell by cell: each marked cell works through both interfaces, with data
//   and completions verified at both ends, and each blank cell is refused. Flags, and the errno and
//   bad_wr of wrong requests; FLUSH and ATOMIC WRITE, which only ibv_wr_*() post. It writes the
//   page Documentation/opcode-table.rst, and fails when the page differs from what it measures.
//
// Test: opcode-table-thread
// Tier: quick, 600 s
// Boot: pcap
// Run: opcode_table --thread-domain --compare /mnt/tern/Documentation/opcode-table.rst
// Results: 113
// Proves: The same with the objects in a thread domain.
#include <getopt.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "table.h"

namespace guest {
namespace {

constexpr unsigned kCellLimit = 300;  // seconds

struct Options {
  std::string device = "tern0";
  int gid_index = -1;
  Domain domain = Domain::kPd;
  std::string rst;
  std::string compare;
};

Options parse(int argc, char** argv) {
  static const option kLong[] = {{"rst", required_argument, nullptr, 'r'},
                                 {"compare", required_argument, nullptr, 'c'},
                                 {"thread-domain", no_argument, nullptr, 'T'},
                                 {nullptr, 0, nullptr, 0}};
  Options o;
  int c = 0;
  while ((c = ::getopt_long(argc, argv, "d:g:", kLong, nullptr)) != -1) {
    switch (c) {
      case 'd':
        o.device = optarg;
        break;
      case 'g':
        o.gid_index = std::atoi(optarg);
        break;
      case 'r':
        o.rst = optarg;
        break;
      case 'c':
        o.compare = optarg;
        break;
      case 'T':
        o.domain = Domain::kThread;
        break;
      default:
        std::exit(2);
    }
  }
  return o;
}

bool run_cell(const std::string& name, const std::function<void()>& body) {
  std::string why;
  ::alarm(kCellLimit);
  try {
    body();
  } catch (const std::exception& e) {
    why = e.what();
  }
  ::alarm(0);
  why += take_destroy_errors();
  if (why.empty()) {
    std::printf("ok %s\n", name.c_str());
  } else {
    std::printf("not ok %s - %s\n", name.c_str(), why.c_str());
  }
  std::fflush(stdout);
  return why.empty();
}

std::string read_file(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

int run_all(const Options& options) {
  const Device dev(options.device, options.gid_index, options.domain);
  bool good = true;
  const Runner run = [&](const std::string& name, const std::function<void()>& body) {
    const bool ok = run_cell(name, body);
    good = good && ok;
    return ok;
  };
  const std::vector<Row> opcodes = opcode_rows(dev, run);
  const std::vector<Row> built = built_rows(dev, run);
  const std::vector<Row> flags = flag_rows(dev, run);
  const std::vector<Row> refusals = refusal_rows(dev, run);
  const std::string rst = to_rst(opcodes, built, flags, refusals);
  if (!options.rst.empty()) {
    std::ofstream(options.rst) << rst;
  }
  if (!options.compare.empty()) {
    run("documented", [&] {
      require(read_file(options.compare) == rst,
              "{} differs from the measured table: regenerate it with --rst", options.compare);
    });
  }
  return good ? 0 : 1;
}

}  // namespace
}  // namespace guest

int main(int argc, char** argv) {
  const guest::Options options = guest::parse(argc, argv);
  try {
    return guest::run_all(options);
  } catch (const std::exception& e) {
    std::printf("not ok setup - %s\n", e.what());
    return 1;
  }
}

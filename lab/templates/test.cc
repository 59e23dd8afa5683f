// SPDX-License-Identifier: GPL-2.0-or-later
// NAME: a WRITE arrives whole.
//
//   NAME [-d DEV] [-g GID_INDEX] [PATTERN...]
//
// Test: NAME
// Tier: full, 300 s
// Boot: pair

#include "pair.h"
#include "program.h"

namespace guest {
namespace {

void test_write(const Device& dev) {
  Pair pair(dev);
  const Range range{.offset = 64, .length = 4096};
  pair.fill(range, 1);
  pair.run(pair.request(IBV_WR_RDMA_WRITE, range, range));
  pair.remote.check(range, 1);
}

}  // namespace
}  // namespace guest

int main(int argc, char** argv) {
  using namespace guest;
  return run_program(argc, argv,
                     {.group = "NAME", .run = [](const CommandLine& line) {
                        const Device dev(line.device, line.gid_index);
                        run_tests(std::vector<Test>{{"write", [&] { test_write(dev); }}});
                      }});
}

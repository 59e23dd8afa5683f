// SPDX-License-Identifier: GPL-2.0-or-later
// devmem: tests what tern's device memory does beyond ibv_alloc_dm(3), whose rules verbs-judge
// tests.
//
//   devmem [-d DEV] [-m BYTES] [PATTERN...]
//   devmem -b                                 test a device that has neither windows nor device
//                                             memory
//
// -m: the expected max_dm_size. Prints "ok devmem/NAME" or "not ok devmem/NAME - why" for each
// test.
//
// Test: devmem
// Tier: quick, 600 s
// Boot: pcap
// Run: devmem -m 16777216
// Proves: Device memory is given in pages, and every page and every gap is used; the counts of the
//   device agree (Documentation/device-memory.rst). devmem-large: the same with 256 MiB.
//
// Test: devmem-large
// Tier: long, 1200 s
// Boot: pair
// Run: devmem -m 268435456
// Proves: The same with 256 MiB.
#include "devmem.h"

#include <vector>

namespace guest {
namespace {

void run(const CommandLine& line, std::uint64_t expected, bool bare) {
  const Device dev(line.device, line.gid_index);
  const Scene env{.dev = dev, .size = max_dm_size(dev.context()), .expected = expected};
  if (bare) set_group("bare");
  run_tests(bare ? bare_tests(env) : api_tests(env));
}

}  // namespace
}  // namespace guest

int main(int argc, char** argv) {
  using namespace guest;
  std::uint64_t expected = 0;
  bool bare = false;
  return run_program(argc, argv,
                     {.group = "devmem",
                      .options = {{"m", &expected}, {"b", &bare}},
                      .run = [&](const CommandLine& line) { run(line, expected, bare); }});
}

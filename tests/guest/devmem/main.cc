// SPDX-License-Identifier: GPL-2.0-or-later
// devmem: tests device memory as ibv_alloc_dm(3) describes it.
//
//   devmem [-d DEV] [-g GID_INDEX] [-m BYTES] [PATTERN...]   both ends on this machine
//   devmem ... -c HOST [-p PORT]                             the far end on HOST
//   devmem -s [-p PORT] [-d DEV] [-g GID_INDEX]              serve as far end for one client
//   devmem -b                                                test a device that has neither windows
//                                                            nor device memory
//
// -m: the expected max_dm_size. Prints "ok devmem/NAME" or "not ok devmem/NAME - why" for each
// test.
//
// Test: devmem-loop
// Tier: quick, 600 s
// Boot: pcap
// Run: devmem -m 16777216
// Proves: Device memory: lengths, alignments, exhaustion, the CPU's copies and every refusal;
//   requests of every type from, to and between both kinds of memory, in one machine and between
//   two, each byte of both memories compared afterwards; keys limited to their part to the byte;
//   what CPU and device see of each other. The page Documentation/device-memory.rst names each
//   rule's test. devmem-large: the same with 256 MiB.
//
// Test: devmem-large
// Tier: long, 1200 s
// Boot: pair
// Run: devmem -m 268435456
// Proves: The same with 256 MiB.
//
// Test: devmem-across
// Tier: quick, 1200 s
// Boot: pcap
// Run: across.sh 18516 -s devmem -c vm2 -m 0
// Proves: The same between two machines.
#include "devmem.h"

#include <vector>

namespace guest {
namespace {

void run(const CommandLine& line, std::uint64_t expected, bool bare) {
  const Device dev(line.device, line.gid_index);
  const auto link = bare ? nullptr : open_link(line);
  const Scene env{.dev = dev,
                  .link = link.get(),
                  .size = max_dm_size(dev.context()),
                  .expected = expected,
                  .across = !line.host.empty()};
  std::vector<Test> tests;
  const auto add = [&](const std::vector<Test>& more) {
    tests.insert(tests.end(), more.begin(), more.end());
  };
  if (bare) {
    set_group("bare");
    add(bare_tests(env));
  } else {
    if (!env.across) add(api_tests(env));
    add(data_tests(env));
    add(bounds_tests(env));
  }
  run_tests(tests);
}

}  // namespace
}  // namespace guest

int main(int argc, char** argv) {
  using namespace guest;
  std::uint64_t expected = 0;
  bool bare = false;
  return run_program(argc, argv,
                     {.group = "devmem",
                      .port = "18516",
                      .options = {{"m", &expected}, {"b", &bare}},
                      .run = [&](const CommandLine& line) { run(line, expected, bare); },
                      .serve = [](const CommandLine& line) { serve(line, true); }});
}

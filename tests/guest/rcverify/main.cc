// SPDX-License-Identifier: GPL-2.0-or-later
// rcverify: tests the behaviour of a reliable connection.
//
//   rcverify [-d DEV] [-g GID_INDEX] [-e PERCENT] [PATTERN...]   both ends on this machine
//   rcverify ... -c HOST [-p PORT]                               the other end on HOST
//   rcverify -s [-p PORT] [-d DEV] [-g GID_INDEX]                serve as that other end
//
// Prints "ok NAME" or "not ok NAME - why" for each test; the exit status is 0 only if all pass.
// -e scales what is repeated for coverage. -1 with -s serves one client and exits.
//
// Test: rcverify-loop
// Tier: quick, 600 s
// Boot: pcap
// Proves: Named tests of RC in the guest, in one machine and between two: every opcode with data
//   verified, gather and scatter, fence, solicited events, RNR, the errno of each refusal, error
//   completions and flush, CQ overflow; FLUSH and ATOMIC WRITE with each right that they need.
//
// Test: rcverify-across
// Tier: quick, 1200 s
// Boot: pcap
// Run: across.sh 18515 "-s -1" rcverify -c vm2
// Proves: The same between two machines.
//
// Test: ternd-rcverify
// Tier: full, 1200 s
// Boot: ternd
// Run: across.sh 18515 "-s -1" rcverify -c vm2
// Proves: The same through two adapters of ternd.
#include <vector>

#include "suite.h"

namespace guest {
namespace {

void run(const CommandLine& line, unsigned effort) {
  const Device dev(line.device, line.gid_index);
  const auto link = open_link(line);
  Env env{.dev = dev, .link = *link, .effort = effort};
  std::vector<Test> tests;
  for (const auto& part :
       {data_tests(env), queue_tests(env), local_error_tests(env), remote_error_tests(env),
        state_tests(env), event_tests(env), flush_tests(env)}) {
    tests.insert(tests.end(), part.begin(), part.end());
  }
  run_tests(tests);
}

}  // namespace
}  // namespace guest

int main(int argc, char** argv) {
  using namespace guest;
  unsigned effort = 100;
  bool once = false;
  return run_program(argc, argv,
                     {.port = "18515",
                      .limit = 120,
                      .options = {{"e", &effort}, {"1", &once}},
                      .run = [&](const CommandLine& line) { run(line, effort); },
                      .serve = [&](const CommandLine& line) { serve(line, once); }});
}

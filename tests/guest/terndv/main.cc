// SPDX-License-Identifier: GPL-2.0-or-later
// terndv: tests tern's direct verbs (Documentation/terndv.rst), linked with libtern.
//
//   terndv [-d DEV] [-g GID_INDEX] [-p PORT] -s                serves clients on other machines
//   terndv [-d DEV] [-g GID_INDEX] [-p PORT] [-c SERVER] [PATTERN...]
//
// Prints "ok terndv/NAME" or "not ok terndv/NAME - why" for each test.
//
// Test: terndv
// Tier: quick, 600 s
// Boot: pair
// Run: across.sh 18521 -s terndv -c vm2
// Proves: Direct verbs (Documentation/terndv.rst), by a program that is linked with libtern: WQEs
//   and CQEs written and read by hand, operations on device memory, keys queried through bind and
//   invalidation and of a stranger, and UDP source ports as a sniffer in vm2 sees them on the wire.
//   Not captured: the judge takes a connection with another source port for another one.
#include <optional>

#include "tests.h"

namespace guest {
namespace {

void run(const CommandLine& line) {
  const Device dev(line.device, line.gid_index);
  std::optional<Socket> peer;
  if (!line.host.empty()) peer.emplace(tcp_connect(line.host, line.port));
  std::vector<Test> tests;
  const Socket* const socket = peer ? &*peer : nullptr;
  for (auto& list : {query_tests(dev), post_tests(dev), dm_tests(dev), key_tests(dev),
                     sport_tests(dev, socket)}) {
    tests.insert(tests.end(), list.begin(), list.end());
  }
  run_tests(tests);
}

void serve_all(const CommandLine& line) {
  const Device dev(line.device, line.gid_index);
  const Socket listener = tcp_listen(line.port);
  for (;;) serve(dev, listener.accept());
}

}  // namespace
}  // namespace guest

int main(int argc, char** argv) {
  return guest::run_program(
      argc, argv,
      {.group = "terndv", .port = "18521", .run = guest::run, .serve = guest::serve_all});
}

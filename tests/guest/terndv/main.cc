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
// Results: 19
// Proves: Direct verbs (Documentation/terndv.rst), by a program that is linked with libtern: WQEs
//   and CQEs written and read by hand, operations on device memory, keys queried through bind and
//   invalidation and of a stranger, and UDP source ports as a sniffer in vm2 sees them on the wire.
//   Not captured: the judge takes a connection with another source port for another one.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <optional>
#include <string>

#include "tests.h"

namespace guest {
namespace {

struct Options {
  std::string device = "tern0";
  std::string port = "18521";
  std::string server;
  int gid_index = -1;
  bool serves = false;
};

int run(const Options& o, std::span<const char* const> patterns) {
  const Device dev(o.device, o.gid_index);
  if (o.serves) {
    const Socket listener = tcp_listen(o.port);
    for (;;) serve(dev, listener.accept());
  }
  std::optional<Socket> peer;
  if (!o.server.empty()) peer.emplace(tcp_connect(o.server, o.port));
  std::vector<Named> tests;
  const Socket* const socket = peer ? &*peer : nullptr;
  for (auto& list : {query_tests(dev), post_tests(dev), dm_tests(dev), key_tests(dev),
                     sport_tests(dev, socket)}) {
    tests.insert(tests.end(), list.begin(), list.end());
  }
  return run_named("terndv", tests, patterns) ? EXIT_SUCCESS : EXIT_FAILURE;
}

}  // namespace
}  // namespace guest

int main(int argc, char** argv) {
  guest::Options options;
  for (int c; (c = ::getopt(argc, argv, "c:d:g:p:s")) != -1;) {
    switch (c) {
      case 'c':
        options.server = optarg;
        break;
      case 'd':
        options.device = optarg;
        break;
      case 'g':
        options.gid_index = std::atoi(optarg);
        break;
      case 'p':
        options.port = optarg;
        break;
      case 's':
        options.serves = true;
        break;
      default:
        return EXIT_FAILURE;
    }
  }
  try {
    return guest::run(options, {argv + optind, static_cast<std::size_t>(argc - optind)});
  } catch (const std::exception& e) {
    std::printf("not ok terndv - %s\n", e.what());
    return EXIT_FAILURE;
  }
}

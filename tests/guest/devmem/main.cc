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
// Results: 95
// Proves: Device memory: lengths, alignments, exhaustion, the CPU's copies and every refusal;
//   requests of every type from, to and between both kinds of memory, in one machine and between
//   two, each byte of both memories compared afterwards; keys limited to their part to the byte;
//   what CPU and device see of each other. The page Documentation/device-memory.rst names each
//   rule's test. devmem-large: the same with 256 MiB.
//
// Test: devmem-large
// Tier: full, 1200 s
// Boot: pair
// Run: devmem -m 268435456
// Results: 95
// Proves: The same with 256 MiB.
//
// Test: devmem-across
// Tier: quick, 1200 s
// Boot: pcap
// Run: across.sh 18516 -s devmem -c vm2 -m 0
// Results: 81
// Proves: The same between two machines.
#include "devmem.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <string>
#include <vector>

namespace guest {

namespace {

struct Options {
  std::string device = "tern0";
  int gid_index = -1;
  std::string host;
  std::string port = "18516";
  std::uint64_t expected = 0;
  bool serve = false;
  bool bare = false;
  std::vector<const char*> patterns;
};

Options parse(int argc, char** argv) {
  Options o;
  int c = 0;
  while ((c = ::getopt(argc, argv, "d:g:c:p:m:sb")) != -1) {
    switch (c) {
      case 'd':
        o.device = optarg;
        break;
      case 'g':
        o.gid_index = std::atoi(optarg);
        break;
      case 'c':
        o.host = optarg;
        break;
      case 'p':
        o.port = optarg;
        break;
      case 'm':
        o.expected = std::strtoull(optarg, nullptr, 0);
        break;
      case 's':
        o.serve = true;
        break;
      case 'b':
        o.bare = true;
        break;
      default:
        std::exit(2);
    }
  }
  o.patterns.assign(argv + optind, argv + argc);
  return o;
}

int run(const Options& options) {
  const Device dev(options.device, options.gid_index);
  std::unique_ptr<Device> far_dev;
  std::unique_ptr<Server> server;
  std::unique_ptr<Wire> wire;
  if (!options.host.empty()) {
    wire = tcp_wire(options.host, options.port);
  } else if (!options.bare) {
    far_dev = std::make_unique<Device>(options.device, options.gid_index);
    server = std::make_unique<Server>(*far_dev);
    wire = local_wire(*server);
  }
  const Env env{.dev = dev,
                .wire = wire.get(),
                .size = max_dm_size(dev.context()),
                .expected = options.expected,
                .across = !options.host.empty()};
  std::vector<Named> tests;
  const auto add = [&](const std::vector<Named>& more) {
    tests.insert(tests.end(), more.begin(), more.end());
  };
  if (options.bare) {
    add(bare_tests(env));
    return run_named("bare", tests, options.patterns) ? 0 : 1;
  }
  if (!env.across) {
    add(api_tests(env));
  }
  add(data_tests(env));
  add(bounds_tests(env));
  return run_named("devmem", tests, options.patterns) ? 0 : 1;
}

}  // namespace
}  // namespace guest

int main(int argc, char** argv) {
  const guest::Options options = guest::parse(argc, argv);
  try {
    if (options.serve) {
      guest::serve(options.device, options.gid_index, options.port);
      return 0;
    }
    return guest::run(options);
  } catch (const std::exception& e) {
    std::printf("not ok devmem/setup - %s\n", e.what());
    return 1;
  }
}

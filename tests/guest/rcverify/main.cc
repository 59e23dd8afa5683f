// SPDX-License-Identifier: GPL-2.0-or-later
// rcverify: tests the behaviour of a reliable connection.
//
//   rcverify [-d DEV] [-g GID_INDEX] [-e PERCENT] [PATTERN...]   both ends on this machine
//   rcverify ... -c HOST [-p PORT]                               the other end on HOST
//   rcverify -s [-p PORT] [-d DEV] [-g GID_INDEX]                serve as that other end
//   rcverify -l                                                  list the tests
//
// Prints "ok NAME" or "not ok NAME - why" for each test; the exit status is 0 only if all pass.
// -e scales what is repeated for coverage. -1 with -s serves one client and exits.
//
// Test: rcverify-loop
// Tier: quick, 600 s
// Boot: pcap
// Results: 85
// Proves: Named tests of RC in the guest, in one machine and between two: every opcode with data
//   verified, gather and scatter, fence, solicited events, RNR, the errno of each refusal, error
//   completions and flush, CQ overflow; FLUSH and ATOMIC WRITE with each right that they need.
//
// Test: rcverify-across
// Tier: quick, 1200 s
// Boot: pcap
// Run: across.sh 18515 "-s -1" rcverify -c vm2
// Results: 85
// Proves: The same between two machines.
//
// Test: ternd-rcverify
// Tier: full, 1200 s
// Boot: ternd
// Run: across.sh 18515 "-s -1" rcverify -c vm2
// Results: 85
// Proves: The same through two adapters of ternd.
#include <fnmatch.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "suite.h"
#include "watchdog.h"

namespace guest {
namespace {

constexpr unsigned kTestLimit = 120;  // seconds

struct Options {
  std::string device = "tern0";
  int gid_index = -1;
  std::string host;
  std::string port = "18515";
  bool serve = false;
  bool once = false;
  bool list = false;
  unsigned effort = 100;
  std::vector<const char*> patterns;
};

Options parse(int argc, char** argv) {
  Options o;
  int c = 0;
  while ((c = ::getopt(argc, argv, "d:g:c:p:e:s1l")) != -1) {
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
      case 'e':
        o.effort = static_cast<unsigned>(std::atoi(optarg));
        break;
      case 's':
        o.serve = true;
        break;
      case '1':
        o.once = true;
        break;
      case 'l':
        o.list = true;
        break;
      default:
        std::exit(2);
    }
  }
  o.patterns.assign(argv + optind, argv + argc);
  return o;
}

bool chosen(const Options& options, const char* name) {
  return options.patterns.empty() || std::ranges::any_of(options.patterns, [&](const char* p) {
           return ::fnmatch(p, name, 0) == 0;
         });
}

bool run(const Test& test, Env& env) {
  const Watchdog watchdog(test.name, kTestLimit);
  const auto start = std::chrono::steady_clock::now();
  std::string why;
  try {
    test.run(env);
  } catch (const std::exception& e) {
    why = e.what();
  }
  why += take_destroy_errors();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  if (why.empty()) {
    std::printf("ok %s # %.2f s\n", test.name, took.count());
  } else {
    std::printf("not ok %s - %s\n", test.name, why.c_str());
  }
  std::fflush(stdout);
  return why.empty();
}

int run_all(const Options& options) {
  std::vector<Test> tests;
  for (const auto part : {data_tests(), queue_tests(), local_error_tests(), remote_error_tests(),
                          state_tests(), event_tests(), flush_tests()}) {
    std::ranges::copy_if(part, std::back_inserter(tests),
                         [&](const Test& t) { return chosen(options, t.name); });
  }
  if (options.list) {
    for (const Test& t : tests) {
      std::puts(t.name);
    }
    return 0;
  }
  const Device dev(options.device, options.gid_index);
  std::unique_ptr<Device> peer_dev;
  std::unique_ptr<Responder> responder;
  std::unique_ptr<Link> link;
  if (options.host.empty()) {
    peer_dev = std::make_unique<Device>(options.device, options.gid_index);
    responder = std::make_unique<Responder>(*peer_dev);
    link = local_link(*responder);
  } else {
    link = tcp_link(options.host, options.port);
  }
  Env env{.dev = dev, .link = *link, .effort = options.effort};
  std::size_t passed = 0;
  for (const Test& t : tests) {
    passed += run(t, env) ? 1U : 0U;
  }
  std::printf("# %zu of %zu passed\n", passed, tests.size());
  return passed == tests.size() && !tests.empty() ? 0 : 1;
}

}  // namespace
}  // namespace guest

int main(int argc, char** argv) {
  const guest::Options options = guest::parse(argc, argv);
  try {
    if (options.serve) {
      guest::serve(options.device, options.gid_index, options.port, options.once);
      return 0;
    }
    return guest::run_all(options);
  } catch (const std::exception& e) {
    std::printf("not ok setup - %s\n", e.what());
    return 1;
  }
}

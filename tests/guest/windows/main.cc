// SPDX-License-Identifier: GPL-2.0-or-later
// windows: tests what a memory window must allow and refuse.
//
//   windows [-d DEV] [-g GID_INDEX] [PATTERN...]       owner and peer on this machine
//   windows ... --across HOST [-p PORT]                the peer on HOST
//   windows --serve [-p PORT] [-d DEV] [-g GID_INDEX]  serve as that peer, for one run
//   windows --list                                     names, rules and descriptions, by tabs
//   windows --kind 2a|2b ...                           type 2 windows must be of this kind
//   windows --mutations[=K/N] [RULE...]                switch the device's rules off (part K of N),
//                                                      see mutate.h
//   windows --against ... [NAME]                       for Soft-RoCE; a test that crashes it runs
//                                                      only by name
//   windows --table FILE ...                           also writes NAME TAB result
//   windows --thread-domain ...                        the owner's objects in a thread domain
//
// Prints "ok NAME" or "not ok NAME - why" for each test; the exit status is 0 only if all pass.
//
// Test: windows-loop
// Tier: quick, 600 s
// Boot: pcap
// Run: windows --kind 2b
// Results: 212
// Proves: Each rule of memory windows as named tests, in one machine and between two, with windows
//   of type 2B and 2A: the life of both types; every refusal of a bind, an invalidation and an
//   access with its completions, events and QP states at both ends; regions in device memory. A
//   pattern around and inside the target shows that no byte changed
//   (Documentation/memory-windows.rst).
//
// Test: ternd-windows
// Tier: full, 900 s
// Boot: ternd
// Run: windows --kind 2b 'range*' 'under-way*'
// Results: 30
// Proves: Ranges and binds under way with an adapter of ternd.
//
// Test: windows-2a
// Tier: full, 600 s
// Boot: beside --vms 1 --device-prop mw-type=2a
// Run: windows --kind 2a
// Results: 212
// Proves: Type 2 windows of kind 2A.
//
// Test: windows-across
// Tier: quick, 1200 s
// Boot: pcap
// Run: across.sh 18516 --serve windows --across vm2 --kind 2b
// Results: 212
// Proves: The same with the peer on another machine.
#include <fnmatch.h>
#include <getopt.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "mutate.h"
#include "suite.h"
#include "watchdog.h"

namespace guest::windows {

Tests all_tests() {
  Tests tests;
  add_type1_tests(tests);
  add_type2_tests(tests);
  add_access_tests(tests);
  add_bind_tests(tests);
  add_invalidate_tests(tests);
  add_end_tests(tests);
  add_memory_tests(tests);
  return tests;
}

namespace {

constexpr unsigned kTestLimit = 300;  // seconds
constexpr const char* kSkipped = "not measured: ";

struct Options {
  std::string device = "tern0";
  int gid_index = -1;
  std::string host;
  std::string port = "18516";
  std::string kind;
  std::string table;
  Domain domain = Domain::kPd;
  bool serve = false;
  bool victim = false;
  bool list = false;
  bool mutations = false;
  Part part;
  bool against = false;
  std::vector<std::string> words;
};

Options parse(int argc, char** argv) {
  static const option kLong[] = {
      {"across", required_argument, nullptr, 'c'},    {"kind", required_argument, nullptr, 'k'},
      {"table", required_argument, nullptr, 't'},     {"serve", no_argument, nullptr, 's'},
      {"victim", no_argument, nullptr, 'v'},          {"list", no_argument, nullptr, 'l'},
      {"mutations", optional_argument, nullptr, 'm'}, {"against", no_argument, nullptr, 'a'},
      {"thread-domain", no_argument, nullptr, 'T'},   {nullptr, 0, nullptr, 0}};
  Options o;
  int c = 0;
  while ((c = ::getopt_long(argc, argv, "d:g:p:", kLong, nullptr)) != -1) {
    switch (c) {
      case 'd':
        o.device = optarg;
        break;
      case 'g':
        o.gid_index = std::atoi(optarg);
        break;
      case 'p':
        o.port = optarg;
        break;
      case 'c':
        o.host = optarg;
        break;
      case 'k':
        o.kind = optarg;
        break;
      case 't':
        o.table = optarg;
        break;
      case 'T':
        o.domain = Domain::kThread;
        break;
      case 's':
        o.serve = true;
        break;
      case 'v':
        o.victim = true;
        break;
      case 'l':
        o.list = true;
        break;
      case 'm':
        o.mutations = true;
        if (optarg != nullptr && !o.part.parse(optarg)) {
          std::exit(2);
        }
        break;
      case 'a':
        o.against = true;
        break;
      default:
        std::exit(2);
    }
  }
  o.words.assign(argv + optind, argv + argc);
  return o;
}

Tests chosen(const Options& options) {
  Tests tests = all_tests();
  std::erase_if(tests, [&](const Test& t) {
    const auto named = [&](const std::string& w) { return w == t.name; };
    if (options.against && t.crashes_soft_roce) {
      return std::ranges::none_of(options.words, named);
    }
    return !options.mutations && !options.words.empty() &&
           std::ranges::none_of(options.words, [&](const std::string& w) {
             return ::fnmatch(w.c_str(), t.name.c_str(), 0) == 0;
           });
  });
  return tests;
}

// Returns why the test failed, or "".
std::string run(const Test& test, const Env& env) {
  const Watchdog watchdog(test.name, kTestLimit);
  take_refusals();
  std::string why;
  try {
    test.run(env);
  } catch (const Skip& e) {
    why = std::string(kSkipped) + e.what();
  } catch (const std::exception& e) {
    why = e.what();
  }
  why += take_destroy_errors();
  if (why.empty() && test.rules.empty() && take_refusals() != 0) {
    why = "shows that something is refused, and names no rule";
  }
  return why;
}

bool show(const Test& test, const std::string& why, double seconds) {
  if (why.empty()) {
    std::printf("ok %s # %.2f s\n", test.name.c_str(), seconds);
  } else if (why.starts_with(kSkipped)) {
    std::printf("ok %s # SKIP %s\n", test.name.c_str(), why.c_str() + std::strlen(kSkipped));
  } else {
    std::printf("not ok %s - %s\n", test.name.c_str(), why.c_str());
    return false;
  }
  return true;
}

void list(const Tests& tests) {
  for (const Test& t : tests) {
    std::printf("%s\t%s\t%s\t%s\n", t.name.c_str(), t.crashes_soft_roce ? "crashes" : "-",
                t.rules.c_str(), t.says.c_str());
  }
}

bool run_all(const Tests& tests, const Options& options, const Env& env) {
  std::ofstream table(options.table);
  std::size_t passed = 0;
  for (const Test& t : tests) {
    const auto start = std::chrono::steady_clock::now();
    const std::string why = run(t, env);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    passed += show(t, why, took.count()) ? 1U : 0U;
    std::fflush(stdout);
    table << t.name << '\t' << (why.empty() ? "yes" : why) << std::endl;
  }
  std::printf("# %zu of %zu passed\n", passed, tests.size());
  return passed == tests.size() && !tests.empty();
}

int run_chosen(const Options& options) {
  const Tests tests = chosen(options);
  if (options.list) {
    list(tests);
    return 0;
  }
  const Device dev(options.device, options.gid_index, options.domain);
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
  const Env env{.dev = dev,
                .link = *link,
                .exact = !options.against,
                .uc_local_inv = !options.against,
                .kind = options.kind,
                .device = options.device,
                .counts = !options.against};
  if (options.mutations) {
    const Runner runner = [&](const Test& t) { return run(t, env); };
    return run_mutations(tests, options.words, options.part, runner) ? 0 : 1;
  }
  return run_all(tests, options, env) ? 0 : 1;
}

}  // namespace
}  // namespace guest::windows

int main(int argc, char** argv) {
  const guest::windows::Options options = guest::windows::parse(argc, argv);
  try {
    if (options.serve) {
      guest::serve(options.device, options.gid_index, options.port, true);
      return 0;
    }
    if (options.victim) {
      return guest::windows::be_victim(options.device, options.gid_index);
    }
    return guest::windows::run_chosen(options);
  } catch (const std::exception& e) {
    std::printf("not ok setup - %s\n", e.what());
    return 1;
  }
}

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
// Proves: Ranges and binds under way with an adapter of ternd.
//
// Test: windows-2a
// Tier: full, 600 s
// Boot: beside --vms 1 --device-prop mw-type=2a
// Run: windows --kind 2a
// Proves: Type 2 windows of kind 2A.
//
// Test: windows-across
// Tier: quick, 1200 s
// Boot: pcap
// Run: across.sh 18516 --serve windows --across vm2 --kind 2b
// Proves: The same with the peer on another machine.
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "mutate.h"
#include "suite.h"

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

struct Options {
  std::string kind;
  std::string table;
  Part part{.number = 0, .of = 1};  // 0: no mutations
  bool victim = false;
  bool list = false;
  bool against = false;
};

// Throws if the test has shown that something is refused, and names no rule.
void run(const Test& test, const Env& env) {
  take_refusals();
  test.run(env);
  require(!test.rules.empty() || take_refusals() == 0,
          "shows that something is refused, and names no rule");
}

void list(const Tests& tests) {
  for (const Test& t : tests) {
    std::printf("%s\t%s\t%s\t%s\n", t.name.c_str(), t.crashes_soft_roce ? "crashes" : "-",
                t.rules.c_str(), t.says.c_str());
  }
}

void run_all(const Tests& tests, const Options& options, const Env& env) {
  std::vector<guest::Test> plain;
  for (const Test& t : tests) plain.push_back({t.name, [&t, &env] { run(t, env); }});
  std::ofstream table(options.table);
  run_tests(plain, [&](const guest::Test& t, const Outcome& outcome) {
    table << t.name << '\t' << (outcome.skipped ? "not measured: " : "")
          << (outcome.why.empty() ? "yes" : outcome.why) << std::endl;
  });
}

void run_chosen(const CommandLine& line, const Options& options) {
  Tests tests = all_tests();
  if (options.against) {
    std::erase_if(tests, [&](const Test& t) {
      return t.crashes_soft_roce && std::ranges::find(line.words, t.name) == line.words.end();
    });
  }
  if (options.list) return list(tests);
  if (options.victim) return be_victim(line);
  const Device dev(line.device, line.gid_index, line.thread_domain ? Domain::kThread : Domain::kPd);
  const auto link = open_link(line);
  const Env env{.dev = dev,
                .link = *link,
                .exact = !options.against,
                .uc_local_inv = !options.against,
                .kind = options.kind,
                .device = line.device,
                .counts = !options.against};
  if (options.part.number == 0) return run_all(tests, options, env);
  run_mutations(tests, line.words, options.part,
                [&env](const Test& t) { return attempt(t.name, [&] { run(t, env); }).why; });
}

}  // namespace
}  // namespace guest::windows

int main(int argc, char** argv) {
  using namespace guest;
  windows::Options o;
  const auto mutations = [&o](const std::string& part) { o.part = windows::parse_part(part); };
  return run_program(argc, argv,
                     {.port = "18516",
                      .limit = 300,
                      .options = {{"kind", &o.kind},
                                  {"table", &o.table},
                                  {"victim", &o.victim},
                                  {"list", &o.list},
                                  {"mutations", mutations, optional_argument},
                                  {"against", &o.against}},
                      .run = [&o](const CommandLine& line) { windows::run_chosen(line, o); },
                      .serve = [](const CommandLine& line) { serve(line, true); }});
}

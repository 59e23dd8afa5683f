// SPDX-License-Identifier: GPL-2.0-or-later
// verbs-rules: tests the rules of verbs on a device. verbs-judge is its command for people.
//
//   verbs-rules [-d DEV] [-g GID_INDEX] [PATTERN...]   both ends on this machine
//   verbs-rules ... --across HOST [-p PORT]            the other end on HOST, where groups allow it
//   verbs-rules --serve [--keep] [-p PORT] [-d DEV]    serve as that other end, for one run or many
//   verbs-rules --list                                 the rules, as JSON, one a line
//   verbs-rules --strict ...                           the device must also choose as tern does
//   verbs-rules --trace ...                            print what each rule did, in lines of "#:"
//   verbs-rules --risky ...                            also what a kernel is known not to survive
//   verbs-rules --kind 2a|2b, --dm-size BYTES ...      what the device must be
//   verbs-rules --faults CMD ...                       gives the wire the rules of faults in $1
//
// A PATTERN is a shell pattern of GROUP/NAME; GROUP alone stands for GROUP/*. Prints a result in
// TAP for each rule: "ok", "ok # SKIP" if the device does not claim what the rule needs, "ok # NOT
// DECIDED" with what the device chose where no document decides, and "not ok".
//
// Test: verbs-judge
// Tier: quick, 900 s
// Boot: pair
// Run: verbs-judge -d tern0 --faults 'labctl faults vm1 "${1:--}"' -- --strict --kind 2b
//   --dm-size 268435456
// Skip: * atomics/with_cpu no atomic operation of tern is atomic for the CPU
// Skip: * states/wrong_path_mtu_above no MTU is above that of the port
// Proves: Every rule of verbs-judge that needs no second machine holds for tern, and what documents
//   leave open is as tern's pages say. A pattern around and inside the target of each request shows
//   that no other byte changed.
//
// Test: verbs-judge-across
// Tier: quick, 1200 s
// Boot: pcap
// Run: verbs-judge -d tern0 --peer vm2 --peer-command /mnt/tern/tools/verbs-judge/verbs-judge --
//   --strict --kind 2b
// Skip: * faults/* the capture of these machines is judged: the wire has no faults
// Proves: The same with the other end on another machine, for the groups that can.
//
// Test: verbs-judge-2a
// Tier: full, 600 s
// Boot: beside --vms 1 --device-prop mw-type=2a
// Run: verbs-judge -d tern0 --group windows -- --strict --kind 2a
// Proves: The rules of windows for type 2 windows of kind 2A.
//
// Test: ternd-verbs-judge
// Tier: full, 1800 s
// Boot: ternd
// Run: verbs-judge -d tern0 --peer vm2 --peer-command /mnt/tern/tools/verbs-judge/verbs-judge
//   --group connections,windows/range*,windows/under-way* -- --strict
// Proves: Reliable connections, ranges and binds under way with adapters of ternd.
//
// Test: verbs-judge-iommu
// Tier: full, 600 s
// Boot: iommu
// Run: verbs-rules --strict paging/write paging/protection paging/dont-need paging/unmap
//   paging/huge
// Proves: On-demand paging behind an emulated VT-d.
//
// Test: ternd-verbs-judge-iommu
// Tier: full, 600 s
// Boot: ternd-iommu
// Run: verbs-rules --strict paging/write paging/protection paging/dont-need paging/unmap
//   paging/huge
// Proves: On-demand paging behind a vIOMMU whose mappings are messages to ternd.
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "groups.h"
#include "program.h"

namespace guest {
namespace {

struct Options {
  bool list = false;
  bool risky = false;
  bool keep = false;
  unsigned effort = 100;
  std::string kind{};
  std::uint64_t dm_size = 0;
  std::string faults{};
};

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + '"';
}

void list() {
  for (const Group& group : groups()) {
    for (const Rule& rule : group.rules()) {
      std::printf(
          "{\"group\": %s, \"about\": %s, \"name\": %s, \"says\": %s, \"authority\": %s, "
          "\"risk\": %s, \"across\": %s}\n",
          quoted(group.name).c_str(), quoted(group.about).c_str(),
          quoted(std::string(group.name) + "/" + rule.name).c_str(), quoted(rule.says).c_str(),
          quoted(rule.authority.empty() ? group.authority : rule.authority).c_str(),
          quoted(rule.risk).c_str(), group.across ? "true" : "false");
    }
  }
}

// Ends of groups that do not go across are in this process.
void run(const CommandLine& line, const Options& options) {
  if (options.list) return list();
  const Device dev(line.device, line.gid_index, line.thread_domain ? Domain::kThread : Domain::kPd);
  const auto far = open_link(line);
  const auto near = line.host.empty() ? nullptr : local_link(dev);
  const auto env = [&](Link& link) {
    return Env{.dev = dev,
               .link = link,
               .effort = options.effort,
               .kind = options.kind,
               .dm_size = options.dm_size,
               .faults = options.faults};
  };
  const Env across = env(*far);
  const Env here = env(near ? *near : *far);
  std::vector<Test> tests;
  for (const Group& group : groups()) {
    if (!line.host.empty() && !group.across) continue;
    for (const Rule& rule : group.rules()) {
      if (!rule.risk.empty() && !options.risky) continue;
      tests.push_back({std::string(group.name) + "/" + rule.name,
                       [run = rule.run, &group, &env = group.across ? across : here] {
                         if (!group.iwarp && env.dev.iwarp()) {
                           skip("iWARP connects by rdma_cm alone");
                         }
                         run(env);
                       }});
    }
  }
  run_tests(tests);
}

}  // namespace
}  // namespace guest

int main(int argc, char** argv) {
  using namespace guest;
  Options o;
  return run_program(argc, argv,
                     {.port = "18515",
                      .limit = 300,
                      .options = {{"list", &o.list},
                                  {"risky", &o.risky},
                                  {"keep", &o.keep},
                                  {"e", &o.effort},
                                  {"kind", &o.kind},
                                  {"dm-size", &o.dm_size},
                                  {"faults", &o.faults}},
                      .run = [&o](const CommandLine& line) { run(line, o); },
                      .serve = [&o](const CommandLine& line) { serve(line, !o.keep); }});
}

// SPDX-License-Identifier: GPL-2.0-or-later
// micro: tests how one lost, delayed, duplicated or corrupted packet affects one operation:
// completions and data at both ends, and every counter that indicates trouble.
//
//   micro [-g GID_INDEX] [PATTERN...]                 both ends on this machine
//   micro [-g GID_INDEX] -c MACHINE [PATTERN...]      the other end on another machine of the lab
//   micro -s [-g GID_INDEX]                           serve as that other end, for one client
#include <array>
#include <chrono>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "cases.h"
#include "lab.h"

namespace guest {
namespace {

// Counters that must not move unless the case names them.
constexpr std::array<const char*, 17> kTrouble = {
    "out_of_buffer",
    "out_of_sequence",
    "duplicate_request",
    "rnr_nak_retry_err",
    "packet_seq_err",
    "implied_nak_seq_err",
    "local_ack_timeout_err",
    "resp_local_length_error",
    "resp_cqe_error",
    "req_cqe_error",
    "req_cqe_flush_error",
    "req_remote_invalid_request",
    "req_remote_access_errors",
    "resp_remote_access_errors",
    "rx_icrc_encapsulated",
    "rx_malformed",
    "dma_errors",
};

std::string with_numbers(std::string rules, const Pair& pair, std::uint64_t page) {
  const auto replace = [&rules](const std::string& what, std::uint64_t number) {
    for (auto at = rules.find(what); at != std::string::npos; at = rules.find(what)) {
      rules.replace(at, what.size(), std::to_string(number));
    }
  };
  replace("{here}", pair.local.endpoint().qpn);
  replace("{there}", pair.remote.endpoint().qpn);
  replace("{page}", page);
  return rules;
}

// The two machines of a run, or one if both ends are here.
class Bench {
 public:
  explicit Bench(const std::string& peer) : there_(peer), alone_(peer.empty()) {}

  void run(const Case& c, Env& env);
  void clear();

 private:
  void set(const Case& c, const Pair& pair);
  void check_applied(const Case& c) const;
  void check_counters(const Machine& machine, const Counters& before,
                      const std::vector<Moves>& moves) const;

  Machine here_{""};
  Machine there_;
  bool alone_;
};

void Bench::clear() {
  here_.set_faults("");
  there_.set_faults("");
  there_.set_icrc("check");
}

void Bench::set(const Case& c, const Pair& pair) {
  const std::string here = with_numbers(c.rules_here, pair, pair.local.memory().physical());
  const std::string there = with_numbers(c.rules_there, pair, pair.remote.physical());
  there_.set_icrc(c.icrc_there);
  if (alone_) {
    here_.set_faults(here + ";" + there);
    return;
  }
  here_.set_faults(here);
  there_.set_faults(there);
}

void Bench::check_applied(const Case& c) const {
  std::vector<std::uint64_t> applied = here_.applied();
  if (!alone_) {
    const auto more = there_.applied();
    applied.insert(applied.end(), more.begin(), more.end());
  }
  for (const std::uint64_t n : applied) {
    require(c.every_rule_once ? n == 1 : n >= 1, "a rule was applied {} times", n);
  }
}

// Waits until the counters in `moves` have moved as expected and all others are unchanged. Asserts
// nothing about time.
void Bench::check_counters(const Machine& machine, const Counters& before,
                           const std::vector<Moves>& moves) const {
  std::set<std::string> names(kTrouble.begin(), kTrouble.end());
  for (const Moves& m : moves) names.insert(m.counter);
  std::string wrong;
  for (int tries = 0; tries < 20; tries++) {
    wrong.clear();
    const Counters now = machine.counters();
    for (const std::string& name : names) {
      std::uint64_t least = 0;
      std::uint64_t most = 0;
      for (const Moves& m : moves) {
        if (name == m.counter) {
          least += m.least;
          most += m.most != 0 ? m.most : m.least;
        }
      }
      const std::uint64_t moved = now.at(name) - before.at(name);
      if (moved < least || moved > most) {
        wrong += std::format("{} {} moved by {}, not {} to {}; ", machine.name(), name, moved,
                             least, most);
      }
    }
    if (wrong.empty()) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  fail("{}", wrong);
}

void Bench::run(const Case& c, Env& env) {
  const Pair pair(env, c.options);
  const Counters here = here_.counters();
  const Counters there = there_.counters();
  set(c, pair);
  c.run(pair);
  check_applied(c);
  if (alone_) {
    std::vector<Moves> both = c.here;
    both.insert(both.end(), c.there.begin(), c.there.end());
    check_counters(here_, here, both);
    return;
  }
  check_counters(here_, here, c.here);
  check_counters(there_, there, c.there);
}

void run(const CommandLine& line) {
  const Device dev(line.device, line.gid_index);
  const auto link = open_link(line);
  Env env{.dev = dev, .link = *link};
  Bench bench(line.host);
  bench.clear();
  set_group(line.host.empty() ? "micro/loopback" : "micro/across");
  std::vector<Test> tests;
  for (const Case& c : cases()) {
    tests.push_back({c.name, [&] {
                       try {
                         bench.run(c, env);
                       } catch (...) {
                         bench.clear();
                         throw;
                       }
                       bench.clear();
                     }});
  }
  run_tests(tests);
}

}  // namespace
}  // namespace guest

int main(int argc, char** argv) {
  using namespace guest;
  return run_program(argc, argv,
                     {.group = "micro",
                      .port = "18517",
                      .limit = 300,
                      .run = run,
                      .serve = [](const CommandLine& line) { serve(line, true); }});
}

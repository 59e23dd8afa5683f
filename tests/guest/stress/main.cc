// SPDX-License-Identifier: GPL-2.0-or-later
// stress: every operation over many connections between two machines of the lab, while their
// devices inject faults in both directions. Every byte is verified at both ends.
//
//   stress [-g GID_INDEX] [-r ROUNDS] [-w] -c MACHINE [PATTERN...]
//   stress -s [-g GID_INDEX]                     serve as the other end, for one client
//
// With -w nothing is injected and no counter is checked: move.sh moves the machines meanwhile.
//
// Test: stress
// Tier: full, 1200 s
// Boot: faults
// Run: across.sh 18518 -s stress -c vm2
// Proves: Every operation over RC, XRC, UC and UD between two machines, 20 flows at once, while
//   both devices lose 0.1, 1 and 5 % of their packets, and lose, duplicate, swap and damage 1 %
//   each. Contents and order come from a seed, so each end verifies every byte by itself. RC and
//   XRC deliver each message once and in order, also over PSN wrap, RNR and a READ that is
//   requested again, answer each atomic with the value before it, and leave completed data alone;
//   UC and UD deliver whole messages in order. Counters of retries must move, those of errors must
//   not. The test ends after a number of messages.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <string>
#include <vector>

#include "lab.h"
#include "program.h"
#include "side.h"

namespace guest {
namespace {

constexpr unsigned kLimit = 900;  // seconds per case
constexpr std::uint64_t kSeed = 20;

struct Case {
  const char* name;
  std::vector<std::string> rules;  // for outgoing packets; a seed is added to each
  bool in_order;
  std::vector<const char*> must_move;  // counters, summed over both machines
  std::vector<const char*> must_not_move;
};

const std::vector<const char*> kRetries = {"out_of_sequence", "packet_seq_err", "duplicate_request",
                                           "implied_nak_seq_err", "local_ack_timeout_err"};

// Counters that no fault on the wire may move.
const std::vector<const char*> kErrors = {"rnr_nak_retry_err",
                                          "resp_local_length_error",
                                          "resp_cqe_error",
                                          "req_cqe_error",
                                          "req_cqe_flush_error",
                                          "resp_cqe_flush_error",
                                          "req_remote_access_errors",
                                          "req_remote_invalid_request",
                                          "resp_remote_access_errors",
                                          "qkey_violations",
                                          "dma_errors",
                                          "cq_overruns",
                                          "bad_doorbell"};

std::vector<Case> cases(bool whole_wire) {
  if (whole_wire) return {{"whole-wire", {}, true, {}, {}}};
  std::vector<const char*> all = kRetries;
  all.push_back("rx_icrc_encapsulated");
  std::vector<const char*> whole = kErrors;
  whole.insert(whole.end(), {"rx_icrc_encapsulated", "rx_malformed"});
  return {
      {"loss-0.1-percent", {"drop tx rate=0.1%"}, true, {}, whole},
      {"loss-1-percent", {"drop tx rate=1%"}, true, kRetries, whole},
      {"loss-5-percent", {"drop tx rate=5%"}, true, kRetries, whole},
      {"everything-1-percent",
       {"drop tx rate=1%", "duplicate tx rate=1%", "reorder=3 tx rate=1%",
        "corrupt=any tx rate=1%"},
       false,
       all,
       kErrors},
  };
}

// Counters that are printed but not checked.
constexpr std::array kTold = {"tx_rdma_packets", "rx_rdma_packets", "out_of_buffer"};

std::string rules_of(const Case& c, unsigned seed) {
  std::string text;
  for (const std::string& rule : c.rules) {
    text += (text.empty() ? "" : "; ") + rule + " seed=" + std::to_string(seed++);
  }
  return text;
}

std::uint64_t sum(const std::vector<std::uint64_t>& numbers) {
  std::uint64_t all = 0;
  for (const std::uint64_t n : numbers) all += n;
  return all;
}

// The faults and counters of both machines.
class Bench {
 public:
  explicit Bench(const std::string& peer) : there_(peer) {}

  void clear() const {
    here_.set_faults("");
    there_.set_faults("");
  }
  void set(const Case& c) {
    before_here_ = here_.counters();
    before_there_ = there_.counters();
    here_.set_faults(rules_of(c, 100));
    there_.set_faults(rules_of(c, 200));
  }
  void check(const Case& c) const;

 private:
  void check_rules(const Machine& machine) const;

  Machine here_{""};
  Machine there_;
  Counters before_here_;
  Counters before_there_;
};

// Checks that each rule was applied.
void Bench::check_rules(const Machine& machine) const {
  const auto applied = machine.applied();
  require(!applied.empty() && std::ranges::find(applied, 0U) == applied.end(),
          "a rule of {} was never applied", machine.name());
  note("{}: {} packets lost, doubled, late or damaged", machine.name(), sum(applied));
}

void Bench::check(const Case& c) const {
  if (!c.rules.empty()) {
    check_rules(here_);
    check_rules(there_);
  }
  const Counters here = here_.counters();
  const Counters there = there_.counters();
  const auto moved = [&](const char* name) {
    return here.at(name) - before_here_.at(name) + there.at(name) - before_there_.at(name);
  };
  std::string told;
  const auto tell = [&](const char* name) { told += std::format(" {} {}", name, moved(name)); };
  std::ranges::for_each(kTold, tell);
  std::ranges::for_each(kRetries, tell);
  tell("rx_icrc_encapsulated");
  std::printf("#%s\n", told.c_str());
  for (const char* name : c.must_not_move) {
    require(moved(name) == 0, "{} moved by {}", name, moved(name));
  }
  for (const char* name : c.must_move) require(moved(name) != 0, "{} did not move", name);
}

// All reliable messages must arrive, and a good part of the unreliable ones: a UC WRITE without
// immediate data does not show that it arrived.
void check_totals(const Totals& here, const Totals& there, std::uint64_t rounds) {
  note("messages: {} of RC and XRC, {} of UC and {} of UD that arrived",
       here.reliable + there.reliable, here.uc + there.uc, here.ud + there.ud);
  const std::uint64_t sent = rounds * kRound;  // in each flow
  for (const Totals& t : {here, there}) {
    require(t.reliable == sent * kReliableFlows, "{} reliable messages, not {}", t.reliable,
            sent * kReliableFlows);
    require(t.uc > sent * kUcFlows / 4, "{} messages of UC are few", t.uc);
    require(t.ud > sent * kUdFlows / 2, "{} messages of UD are few", t.ud);
  }
}

void play(const Case& c, Bench& bench, const Device& dev, const CommandLine& line,
          std::uint64_t rounds) {
  const Job job{.seed = kSeed, .rounds = rounds, .in_order = c.in_order};
  bench.set(c);
  {
    const Socket peer = tcp_connect(line.host, line.port);
    peer.write(&job, sizeof(job));
    Side end(dev, peer, job, false);
    end.run();
    check_totals(end.totals(), end.totals_there(), rounds);
  }
  bench.check(c);
}

void run(const CommandLine& line, std::uint64_t rounds, bool whole_wire) {
  require(!line.host.empty() && rounds != 0, "needs a machine and rounds");
  const Device dev(line.device, line.gid_index);
  Bench bench(line.host);
  bench.clear();
  std::vector<Test> tests;
  const std::vector<Case> all = cases(whole_wire);
  for (const Case& c : all) {
    tests.push_back({c.name, [&] {
                       try {
                         play(c, bench, dev, line, rounds);
                       } catch (...) {
                         bench.clear();
                         throw;
                       }
                       bench.clear();
                     }});
  }
  run_tests(tests);
  const Socket peer = tcp_connect(line.host, line.port);
  const Job nothing;
  peer.write(&nothing, sizeof(nothing));
}

// The client reports a failed case; the server just gets ready for the next one.
void serve_all(const CommandLine& line) {
  const Device dev(line.device, line.gid_index);
  const Socket listener = tcp_listen(line.port);
  for (;;) {
    const Socket peer = listener.accept();
    Job job;
    if (!peer.read(&job, sizeof(job)) || job.rounds == 0) return;
    ::alarm(kLimit);
    try {
      Side(dev, peer, job, true).run();
    } catch (const std::exception& e) {
      std::fprintf(stderr, "# other end: %s\n", e.what());
    }
    const std::string errors = take_destroy_errors();
    if (!errors.empty()) report(false, "other-end", errors);
    ::alarm(0);
  }
}

}  // namespace
}  // namespace guest

int main(int argc, char** argv) {
  using namespace guest;
  std::uint64_t rounds = 25;
  bool whole_wire = false;
  return run_program(argc, argv,
                     {.group = "stress",
                      .port = "18518",
                      .limit = kLimit,
                      .options = {{"r", &rounds}, {"w", &whole_wire}},
                      .run = [&](const CommandLine& line) { run(line, rounds, whole_wire); },
                      .serve = serve_all});
}

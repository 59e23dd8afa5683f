// SPDX-License-Identifier: GPL-2.0-or-later
// micro: tests how one lost, delayed, duplicated or corrupted packet affects one operation:
// completions and data at both ends, and every counter that indicates trouble.
//
//   micro [-g GID_INDEX] [PATTERN...]                 both ends on this machine
//   micro [-g GID_INDEX] -c MACHINE [PATTERN...]      the other end on another machine of the lab
//   micro -s [-g GID_INDEX]                           serve as that other end, for one client
#include <fnmatch.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "cases.h"
#include "lab.h"

namespace guest {
namespace {

constexpr char kPort[] = "18517";
constexpr unsigned kLimit = 300;  // seconds per case; bounds a hang

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

struct Options {
  int gid_index = -1;
  std::string peer;
  bool serve = false;
  std::vector<const char*> patterns;
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
  for (const Moves& m : moves) {
    names.insert(m.counter);
  }
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
    if (wrong.empty()) {
      return;
    }
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

bool run_case(const Case& c, Bench& bench, Env& env, const char* where) {
  ::alarm(kLimit);
  std::string why;
  try {
    bench.run(c, env);
  } catch (const std::exception& e) {
    why = e.what();
  }
  try {
    bench.clear();
  } catch (const std::exception& e) {
    why += e.what();
  }
  why += take_destroy_errors();
  ::alarm(0);
  std::printf(why.empty() ? "ok micro/%s/%s%s\n" : "not ok micro/%s/%s - %s\n", where, c.name,
              why.c_str());
  std::fflush(stdout);
  return why.empty();
}

int run_all(const Options& options) {
  const Device dev("tern0", options.gid_index);
  std::unique_ptr<Device> peer_dev;
  std::unique_ptr<Responder> responder;
  std::unique_ptr<Link> link;
  if (options.peer.empty()) {
    peer_dev = std::make_unique<Device>("tern0", options.gid_index);
    responder = std::make_unique<Responder>(*peer_dev);
    link = local_link(*responder);
  } else {
    link = tcp_link(options.peer, kPort);
  }
  Env env{.dev = dev, .link = *link};
  Bench bench(options.peer);
  bench.clear();
  const char* const where = options.peer.empty() ? "loopback" : "across";
  std::size_t run = 0;
  std::size_t passed = 0;
  for (const Case& c : cases()) {
    const bool chosen =
        options.patterns.empty() || std::ranges::any_of(options.patterns, [&](const char* p) {
          return ::fnmatch(p, c.name, 0) == 0;
        });
    if (chosen) {
      run++;
      passed += run_case(c, bench, env, where) ? 1U : 0U;
    }
  }
  std::printf("# %zu of %zu passed\n", passed, run);
  return passed == run && run != 0 ? 0 : 1;
}

Options parse(int argc, char** argv) {
  Options o;
  int c = 0;
  while ((c = ::getopt(argc, argv, "g:c:s")) != -1) {
    switch (c) {
      case 'g':
        o.gid_index = std::atoi(optarg);
        break;
      case 'c':
        o.peer = optarg;
        break;
      case 's':
        o.serve = true;
        break;
      default:
        std::exit(2);
    }
  }
  o.patterns.assign(argv + optind, argv + argc);
  return o;
}

}  // namespace
}  // namespace guest

int main(int argc, char** argv) {
  const guest::Options options = guest::parse(argc, argv);
  try {
    if (options.serve) {
      guest::serve("tern0", options.gid_index, guest::kPort, true);
      return 0;
    }
    return guest::run_all(options);
  } catch (const std::exception& e) {
    std::printf("not ok micro/setup - %s\n", e.what());
    return 1;
  }
}

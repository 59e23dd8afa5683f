// SPDX-License-Identifier: GPL-2.0-or-later
// Kills processes that use the device, between two verbs or at any moment, and checks that nothing
// is left behind. Each victim walks a random program of verbs with traffic in flight. Half of them
// share an XRC domain with a second process; some have forked. Afterwards the device's objects, the
// kernel's pins and restrack must be as before the first victim.
//
// usage: killer [--rounds N] [--seed N] [--device NAME] [--verbose]
//        killer --replay ROUND-SEED      only the round that a failure named
//        killer --self-test              a deliberate leak must fail the test and be named
//        killer --victim SEED            one process that runs until it is killed, even without its
//                                        device
//
// Test: killer
// Tier: full, 1800 s
// Boot: single
// Run: killer --rounds 80
// Proves: 80 processes (killer-long: 200) that run a random program of verbs, with traffic in
//   flight, windows bound and device memory mapped, are killed after a verb or at any moment; half
//   of them share an XRC domain with a second process, some have forked. After each, the device's
//   objects, the kernel's pins and restrack are as before. A failure names the round's seed; killer
//   --replay SEED runs it alone.
//
// Test: killer-self-test
// Tier: long, 1200 s
// Boot: single
// Run: killer --self-test
// Proves: A process that keeps one object of each kind past a round's end: killer must fail then,
//   and name every count that is not as before; the same round without it passes.
//
// Test: killer-long
// Tier: long, 1800 s
// Boot: single
// Proves: The same with 200 processes.

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <optional>
#include <string>
#include <thread>

#include "counts.h"
#include "leak.h"
#include "map.h"
#include "program.h"
#include "shared.h"
#include "victim.h"

namespace guest::killer {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr const char* kXrcdFile = "/run/killer.xrcd";
// For a process to reach its verb, and to die.
constexpr auto kLimit = std::chrono::seconds(120);

struct Settings {
  std::string device = "tern0";
  std::uint64_t seed = 3;
  unsigned rounds = 200;
  bool verbose = false;
  bool self_test = false;
  bool leak = false;  // leak objects after the round of a replay
  std::optional<std::uint64_t> replay;
  std::optional<std::uint64_t> victim;
};

// All random choices of a round, derived from its seed.
struct Plan {
  explicit Plan(std::uint64_t seed) : random(seed) {
    by_moment = random.below(10) < 3;
    partner = random.one_in(2);
    kill_after[0] = 1 + random.below(160);
    kill_after[1] = 1 + random.below(160);
    moment = milliseconds(random.below(400));
    grace = milliseconds(random.one_in(2) ? 0 : random.below(60));
    program_seed[0] = random.next();
    program_seed[1] = random.next();
  }
  Random random;
  bool by_moment;  // otherwise after a number of verbs
  bool partner;
  std::uint32_t kill_after[2];
  milliseconds moment;
  milliseconds grace;  // how long the second process and forked ones outlive the first
  std::uint64_t program_seed[2];
};

class Killer {
 public:
  explicit Killer(const Settings& settings) : settings_(settings) {
    // Orphaned children are reparented to us, so that we reap all of them.
    prctl(PR_SET_CHILD_SUBREAPER, 1);
  }

  void run_all();
  // Returns whether nothing is left.
  bool replay(std::uint64_t seed);
  [[noreturn]] void victim(std::uint64_t seed, unsigned role, std::uint32_t kill_after);

 private:
  void round(std::uint64_t seed);
  pid_t start(const Plan& plan, unsigned role, pid_t group);
  bool wait_for(pid_t pid, Clock::time_point deadline);
  void reap(pid_t group);
  bool judge(const std::string& name, std::uint64_t seed);
  void remember_round();
  std::string describe() const;

  const Settings settings_;
  Shared* const shared_ = new_shared<Shared>();
  Counts baseline_;
  bool clean_ = true;  // nothing is left so far
  unsigned by_moment_ = 0;
  std::array<unsigned, kGoals> rounds_with_{};
};

void Killer::victim(std::uint64_t seed, unsigned role, std::uint32_t kill_after) {
  Options options;
  options.device = settings_.device;
  options.seed = seed;
  options.kill_after = kill_after;
  options.careful = settings_.victim.has_value();
  options.xrcd_fd = open(kXrcdFile, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  Victim(options, *shared_, shared_->role[role]).run();
}

pid_t Killer::start(const Plan& plan, unsigned role, pid_t group) {
  const pid_t pid = fork();
  if (pid < 0) throw std::runtime_error("fork");
  if (pid == 0) {
    setpgid(0, group);
    victim(plan.program_seed[role], role, plan.by_moment ? 0 : plan.kill_after[role]);
  }
  setpgid(pid, group == 0 ? pid : group);  // parent and child both do this, as either can run first
  return pid;
}

bool Killer::wait_for(pid_t pid, Clock::time_point deadline) {
  while (waitpid(pid, nullptr, WNOHANG) == 0) {
    if (Clock::now() > deadline) return false;
    std::this_thread::sleep_for(milliseconds(1));
  }
  return true;
}

void Killer::reap(pid_t group) {
  const auto deadline = Clock::now() + kLimit;
  for (;;) {
    kill(-group, SIGKILL);
    const pid_t pid = waitpid(-1, nullptr, WNOHANG);
    if (pid < 0) return;
    if (pid == 0 && Clock::now() > deadline)
      throw std::runtime_error("a killed process does not die");
    if (pid == 0) std::this_thread::sleep_for(milliseconds(1));
  }
}

void Killer::round(std::uint64_t seed) {
  const Plan plan(seed);
  new (shared_) Shared{};
  const pid_t first = start(plan, 0, 0);
  if (plan.partner) start(plan, 1, first);
  if (plan.by_moment) {
    std::this_thread::sleep_for(plan.moment);
    ++by_moment_;
  } else if (!wait_for(first, Clock::now() + kLimit)) {
    clean_ = false;
    report(false, "progress", std::format("{}; again: killer --replay {:#x}", describe(), seed));
  } else {
    std::this_thread::sleep_for(plan.grace);
  }
  reap(first);
}

void Killer::remember_round() {
  for (std::size_t i = 0; i < kGoals; ++i) {
    if (shared_->role[0].live[i] + shared_->role[1].live[i] > 0) ++rounds_with_[i];
  }
}

std::string Killer::describe() const {
  std::string text;
  for (const Role& role : shared_->role) {
    const char* last = role.last;
    if (last == nullptr) continue;
    text += (text.empty() ? "verb " : ", other process verb ") + std::to_string(role.verbs) + " (" +
            last + ")";
  }
  return text.empty() ? "before the first verb" : "after " + text;
}

bool Killer::judge(const std::string& name, std::uint64_t seed) {
  const std::string left = settle(settings_.device, baseline_, std::chrono::seconds(30));
  if (left.empty()) return true;
  clean_ = false;
  report(false, name,
         std::format("killed {}: {}; again: killer --replay {:#x}", describe(), left, seed));
  baseline_ = read_counts(settings_.device);
  return false;
}

bool Killer::replay(std::uint64_t seed) {
  baseline_ = read_counts(settings_.device);
  round(seed);
  if (settings_.leak) plant_leak(settings_.device);
  if (!judge("replay", seed)) return false;
  return report(true, "replay", "", "killed " + describe());
}

void Killer::run_all() {
  Random seeds(settings_.seed);
  // The first user of a device leaves caches behind for good.
  round(seeds.next());
  std::this_thread::sleep_for(milliseconds(500));
  baseline_ = read_counts(settings_.device);
  by_moment_ = 0;
  note("seed {}", settings_.seed);
  const auto begin = Clock::now();
  for (unsigned i = 1; i <= settings_.rounds; ++i) {
    const std::uint64_t seed = seeds.next();
    round(seed);
    remember_round();
    if (settings_.verbose) note("{} {:#x}: {}", i, seed, describe());
    judge("round-" + std::to_string(i), seed);
  }
  if (clean_) report(true, std::format("nothing-is-left-after-{}-kills", settings_.rounds));
  note("{} of them at a moment, the others after a verb; {}", by_moment_,
       std::chrono::duration_cast<std::chrono::seconds>(Clock::now() - begin));
  for (const Kind& kind : kKinds) {
    const unsigned wanted = std::max(settings_.rounds / 20, 1U);
    const unsigned rounds = rounds_with_[kind.goal];
    const bool enough = rounds >= wanted;
    const std::string name = std::string("killed-with-") + kind.name;
    if (!enough && shared_->role[0].missing[kind.goal]) {
      report_skip(name, "the device has none");
      continue;
    }
    const std::string kills = std::format("{} of {} kills", rounds, settings_.rounds);
    report(enough, name, kills, kills);
  }
}

struct Outcome {
  int status;
  std::string output;
};

// Replays a round in a child process.
Outcome replay_apart(const Settings& settings) {
  int out[2];
  if (pipe2(out, O_CLOEXEC) != 0) throw std::runtime_error("pipe");
  std::fflush(stdout);
  const pid_t pid = fork();
  if (pid < 0) throw std::runtime_error("fork");
  if (pid == 0) {
    dup2(out[1], STDOUT_FILENO);
    int status = 2;
    try {
      status = Killer(settings).replay(settings.seed) ? 0 : 1;
    } catch (const std::exception& error) {
      std::printf("%s\n", error.what());
    }
    std::fflush(stdout);
    _exit(status);
  }
  close(out[1]);
  Outcome outcome{};
  char buffer[4096];
  for (ssize_t n; (n = read(out[0], buffer, sizeof(buffer))) > 0;)
    outcome.output.append(buffer, static_cast<std::size_t>(n));
  close(out[0]);
  int status = 0;
  waitpid(pid, &status, 0);
  outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return outcome;
}

// Returns why the outcome of a leaking round is wrong; empty if it is right.
std::string leak_missed(const Outcome& outcome) {
  if (outcome.status != 1) return "exit status " + std::to_string(outcome.status);
  if (!outcome.output.starts_with("not ok killer/replay - ")) return "said " + outcome.output;
  std::string missed;
  for (const std::string name : kLeakedCounts) {
    if (outcome.output.find(" " + name + " ") == std::string::npos) missed += " " + name;
  }
  return missed.empty() ? "" : "not named:" + missed + "; said " + outcome.output;
}

// The same round without a leak, with one, and without again: only the leak may make a difference.
void self_test(Settings settings) {
  const auto clean = [&](const char* name) {
    const Outcome outcome = replay_apart(settings);
    report(outcome.status == 0, name, "said " + outcome.output);
  };
  // The first user of a device leaves caches behind for good.
  (void)replay_apart(settings);
  std::this_thread::sleep_for(milliseconds(500));
  clean("no-leak-is-none");
  settings.leak = true;
  const Outcome leaked = replay_apart(settings);
  const std::string missed = leak_missed(leaked);
  report(missed.empty(), "planted-leak-is-found", missed);
  std::printf("# it said: %s", leaked.output.c_str());
  settings.leak = false;
  std::this_thread::sleep_for(milliseconds(500));
  clean("gone-with-the-leak");
}

}  // namespace
}  // namespace guest::killer

int main(int argc, char** argv) {
  using namespace guest;
  killer::Settings s;
  const auto seed_of = [](std::optional<std::uint64_t>& to) {
    return [&to](const std::string& seed) { to = std::stoull(seed, nullptr, 0); };
  };
  return run_program(argc, argv,
                     {.group = "killer",
                      .options = {{"rounds", &s.rounds},
                                  {"seed", &s.seed},
                                  {"replay", seed_of(s.replay)},
                                  {"victim", seed_of(s.victim)},
                                  {"self-test", &s.self_test},
                                  {"verbose", &s.verbose}},
                      .run = [&s](const CommandLine& line) {
                        s.device = line.device;
                        if (s.self_test) return killer::self_test(s);
                        killer::Killer killer(s);
                        if (s.victim) killer.victim(*s.victim, 0, 0);
                        s.replay ? (void)killer.replay(*s.replay) : killer.run_all();
                      }});
}

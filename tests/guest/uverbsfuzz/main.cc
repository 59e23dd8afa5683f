// SPDX-License-Identifier: GPL-2.0-or-later
// Fuzzes uverbs: processes make random calls of the library and of the kernel's two interfaces,
// mostly valid ones, scribble on their queues, map and unmap, fork, and are killed. Nothing may
// crash, and nothing may be left behind.
//
// usage: uverbsfuzz [--seed N|clock] [--seconds N] [--processes N] [--device NAME] [--user]
//                  [--disturb]
//   --user         as uid 1000 instead of root
//   --disturb      resets, unbinds and removes the device meanwhile, and unloads the drivers
//   --core-bugs    also sends what Linux itself gets wrong (main.cc has the list)
//   --plant object|task   leaves something behind on purpose
//        uverbsfuzz --replay SEED [--user]   one process
//        uverbsfuzz --self-test              what is planted must be found
//
// Three defects of ib_core would spoil the counts, so that these calls are not made without
// --core-bugs:
//   * GET_CONTEXT a second time on a file, or one that fails after ib_alloc_ucontext(): the
//     caller's task_struct stays for ever. A context that is refused during a removal has the same
//     effect; each of them allows one task_struct more.
//   * modify_wq with a state out of range: the WQ stays locked, and the kernel warns at close.
//   * attach_mcast and detach_mcast of a QP that was opened: its mutex is not initialized.
//
// Test: uverbsfuzz
// Tier: long, 600 s
// Boot: single
// Run: uverbsfuzz --seconds 20
// Proves: Processes of several threads make random calls, as root or as uid 1000: mostly valid ones
//   through the library, and requests of the kernel's two interfaces with wrong lengths, handles of
//   other objects and bad pointers. They scribble on their queues and doorbell records, ring
//   doorbells of others, map random offsets, take away registered memory, fork, close the file, and
//   are killed. -disturbed: meanwhile the device is reset, unbound, pulled out and put back, and
//   the drivers are unloaded. Every process ends, the kernel is silent, objects, pins and slabs are
//   as before, and the same seed makes the same calls. Each type of object was made and each class
//   of call succeeded at least once. uverbsfuzz --replay SEED runs one process. The calls that
//   spoil the counts because of defects of ib_core need --core-bugs. Lane debug, make test-full:
//   uverbsfuzz-long and uverbsfuzz-long-user, 15 minutes each with a new seed.
//
// Test: uverbsfuzz-long
// Tier: long, 1800 s
// Lane: debug
// Boot: single
// Run: uverbsfuzz --seed clock --seconds 900 --disturb
// Proves: 15 minutes of uverbsfuzz-disturbed with a new seed.
//
// Test: uverbsfuzz-self-test
// Tier: long, 600 s
// Boot: single
// Run: uverbsfuzz --self-test
// Proves: An object and a number of tasks that stay, and a run that makes no call: uverbsfuzz must
//   fail then, and say why.
//
// Test: uverbsfuzz-user
// Tier: full, 600 s
// Boot: single
// Run: uverbsfuzz --seconds 15 --user
// Proves: The same as uid 1000.
//
// Test: uverbsfuzz-disturbed
// Tier: full, 600 s
// Boot: single
// Run: uverbsfuzz --seconds 25 --disturb
// Proves: The same while the device is reset, removed and its drivers are unloaded.
//
// Test: uverbsfuzz-long-user
// Tier: long, 1800 s
// Lane: debug
// Boot: single
// Run: uverbsfuzz --seed clock --seconds 900 --disturb --user
// Proves: The same as uid 1000.
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <exception>
#include <filesystem>
#include <fstream>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "counts.h"
#include "disturb.h"
#include "lab.h"
#include "life.h"
#include "map.h"
#include "program.h"
#include "regress.h"
#include "slabs.h"

namespace guest::uverbsfuzz {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Clock = std::chrono::steady_clock;

constexpr uid_t kUser = 1000;
// For a killed process to die, and for counts to settle.
constexpr auto kLongest = seconds(300);
constexpr unsigned kWarmUp = 5;  // seconds

struct Settings {
  LifeOptions life;
  unsigned run_seconds = 20;
  unsigned processes = 4;
  bool user = false;
  bool disturbs = false;
  bool self_test = false;
  std::optional<std::uint64_t> replay;
  std::string plant;
};

void become_user() {
  const rlimit locked{8 << 20, 8 << 20};
  if (setrlimit(RLIMIT_MEMLOCK, &locked) != 0 || setgroups(0, nullptr) != 0 || setgid(kUser) != 0 ||
      setuid(kUser) != 0) {
    std::perror("setuid");
    _exit(4);
  }
}

class Fuzzer {
 public:
  explicit Fuzzer(const Settings& settings) : settings_(settings) {
    shared_ = tally_;
    // Children of dead processes come to us, so that we see all of them end.
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    close(open("/run/uverbsfuzz.xrcd", O_RDWR | O_CREAT | O_CLOEXEC, 0644));
    std::ofstream("/proc/sys/debug/exception-trace") << "0\n";
  }

  void run();
  void replay(std::uint64_t seed);

 private:
  struct Child {
    pid_t pid;
    Clock::time_point killed_at;
    bool killed = false;
  };

  template <typename F>
  pid_t start(F body);
  pid_t start_life(std::uint64_t seed, bool orderly);
  int finish(pid_t pid);
  static void reap_orphans();
  bool incomplete() const;
  void fuzz(unsigned for_seconds, std::uint64_t seed);
  bool reap(std::vector<Child>& children);
  bool end_all(std::vector<Child>& children);
  void regress();
  void reproduce();
  void plant();
  void judge_objects(const Counts& before);
  void judge_slabs(const Counts& before, std::uint64_t lives, std::uint64_t refused);
  void judge_reach();
  static void note_disturbance() { ++shared_->disturbed; }

  static inline Tally* shared_ = nullptr;
  const Settings settings_;
  Tally* const tally_ = new_shared<Tally>();
  std::vector<pid_t> planted_;
  pid_t disturber_ = 0;
  int disturber_status_ = 0;
  bool disturber_ended_ = false;
  std::uint64_t lives_ = 0;
  std::uint64_t by_signal_ = 0;
  std::uint64_t killed_ = 0;
};

template <typename F>
pid_t Fuzzer::start(F body) {
  std::fflush(stdout);
  const pid_t pid = fork();
  if (pid < 0) throw std::runtime_error("fork");
  if (pid > 0) {
    setpgid(pid, pid);  // parent and child both do this, as either can run first
    return pid;
  }
  setpgid(0, 0);
  const rlimit none{0, 0};
  setrlimit(RLIMIT_CORE, &none);
  int status = 5;
  try {
    status = body();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
  }
  std::fflush(stdout);
  _exit(status);
}

pid_t Fuzzer::start_life(std::uint64_t seed, bool orderly) {
  return start([this, seed, orderly] {
    if (settings_.user) become_user();
    // Without it the library complains of objects that the kernel destroyed at a removal.
    setenv("RDMAV_ALLOW_DISASSOC_DESTROY", "1", 1);
    if (std::getenv("UVERBSFUZZ_TRACE") == nullptr) {
      const int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
      dup2(null, STDERR_FILENO);
    }
    LifeOptions options = settings_.life;
    options.seed = seed;
    options.orderly = orderly;
    return live(options, *tally_);
  });
}

int Fuzzer::finish(pid_t pid) {
  int status = disturber_status_;
  // reap() may have met the process that disturbs.
  if (waitpid(pid, &status, 0) < 0 && pid != disturber_) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// Forked children of processes that are dead may die a little later.
void Fuzzer::reap_orphans() {
  while (waitpid(-1, nullptr, WNOHANG) > 0) {
  }
}

// Returns whether no killed process lives for too long.
bool Fuzzer::reap(std::vector<Child>& children) {
  int status = 0;
  for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
    if (pid == disturber_) {
      disturber_status_ = status;
      disturber_ended_ = true;
    }
    const auto it = std::ranges::find(children, pid, &Child::pid);
    if (it == children.end()) continue;
    if (WIFSIGNALED(status) && !it->killed) ++by_signal_;
    killed_ += it->killed;
    kill(-pid, SIGKILL);  // what it has forked
    children.erase(it);
  }
  const auto now = Clock::now();
  for (Child& child : children) {
    if (!child.killed && now >= child.killed_at) {
      kill(-child.pid, SIGKILL);
      child.killed = true;
    }
    if (child.killed && now > child.killed_at + kLongest) {
      const std::string path = "/proc/" + std::to_string(child.pid) + "/task/*/stack";
      report(false, "every-process-ends", shell("cat " + path + " | head -n 12"));
      return false;
    }
  }
  return true;
}

bool Fuzzer::end_all(std::vector<Child>& children) {
  for (Child& child : children) child.killed_at = std::min(child.killed_at, Clock::now());
  while (!children.empty()) {
    if (!reap(children)) return false;
    std::this_thread::sleep_for(milliseconds(5));
  }
  return true;
}

// Whether there is more to do when the time is over: an emulated machine under load is slow.
bool Fuzzer::incomplete() const {
  if (disturber_ != 0 && !disturber_ended_) return true;
  for (std::size_t i = 0; i < kGoals; ++i) {
    if (tally_->reached[i] == 0 && !(settings_.user && needs_root(i))) return true;
  }
  return false;
}

void Fuzzer::fuzz(unsigned for_seconds, std::uint64_t seed) {
  Random seeds(seed);
  std::vector<Child> children;
  const auto end = Clock::now() + seconds(for_seconds);
  const auto latest = end + kLongest;
  while (Clock::now() < end || (for_seconds > kWarmUp && Clock::now() < latest && incomplete())) {
    if (!reap(children)) throw std::runtime_error("a killed process does not die");
    while (children.size() < settings_.processes) {
      const std::uint64_t life = seeds.next();
      // Half of them are killed early.
      const unsigned moment = seeds.one_in(2) ? seeds.below(1500) : 20000;
      const pid_t pid = start_life(life, false);
      children.push_back({pid, Clock::now() + milliseconds(moment)});
      ++lives_;
    }
    std::this_thread::sleep_for(milliseconds(2));
  }
  if (!end_all(children)) throw std::runtime_error("a killed process does not die");
}

void Fuzzer::regress() {
  for (const Regression& regression : regressions()) {
    int out[2];
    if (pipe2(out, O_CLOEXEC) != 0) throw std::runtime_error("pipe");
    const pid_t pid = start([&] {
      become_user();
      const std::string wrong = regression.run(settings_.life.device);
      (void)!write(out[1], wrong.data(), wrong.size());
      return wrong.empty() ? 0 : 1;
    });
    close(out[1]);
    std::array<char, 512> text{};
    const ssize_t n = read(out[0], text.data(), text.size() - 1);
    close(out[0]);
    const int status = finish(pid);
    report(status == 0, std::string("as-a-user-") + regression.name,
           n > 0 ? text.data() : "exit status " + std::to_string(status));
  }
}

// The same seed makes the same calls, which have the same results.
void Fuzzer::reproduce() {
  std::array<std::uint64_t, 3> traces{};
  for (std::size_t i = 0; i < traces.size(); ++i) {
    tally_->trace = 0;
    const int status = finish(start_life(settings_.life.seed + i / 2, true));
    traces[i] = tally_->trace;
    if (traces[i] == 0) {
      report(false, "same-seed-same-calls", "exit status " + std::to_string(status));
      return;
    }
  }
  report(traces[0] == traces[1], "same-seed-same-calls", "the results differ");
  report(traces[0] != traces[2], "other-seed-other-calls", "the results are the same");
}

// What a leak would look like: objects, or tasks, that outlive the run.
void Fuzzer::plant() {
  if (settings_.plant == "object") {
    planted_.push_back(start([this] {
      LifeOptions options = settings_.life;
      ibv_device** const list = ibv_get_device_list(nullptr);
      ibv_context* const verbs = ibv_open_device(list[0]);
      if (ibv_alloc_pd(verbs) == nullptr) return 1;
      pause();
      return 0;
    }));
  } else if (settings_.plant == "task") {
    // Few enough that nothing else of a process exceeds what may stay.
    constexpr int kTasks = 80;
    for (int i = 0; i < kTasks; ++i) {
      planted_.push_back(start([] {
        pause();
        return 0;
      }));
    }
  }
  if (!planted_.empty()) std::this_thread::sleep_for(seconds(1));
}

void Fuzzer::judge_objects(const Counts& before) {
  Counts after;
  const auto end = Clock::now() + seconds(planted_.empty() ? 60 : 2);
  do {
    std::this_thread::sleep_for(milliseconds(100));
    reap_orphans();
    after = read_counts(settings_.life.device);
  } while (after != before && Clock::now() < end);
  report(after == before, "objects-are-back", difference(before, after));
}

void Fuzzer::judge_slabs(const Counts& before, std::uint64_t lives, std::uint64_t refused) {
  // A leak of one object per life would exceed this.
  const auto allowed = static_cast<std::int64_t>(300 + lives / 4);
  const auto tasks = static_cast<std::int64_t>(40 + lives / 20 + refused);
  std::string text;
  Counts after;
  const auto end = Clock::now() + seconds(planted_.empty() ? 60 : 2);
  do {
    std::this_thread::sleep_for(milliseconds(500));
    after = read_slabs();
    text = grown(before, after, allowed, tasks);
  } while (!text.empty() && Clock::now() < end);
  note("slabs, of which {} may stay: {}", allowed, difference(before, after));
  report(text.empty(), "slabs-are-back", text);
}

void Fuzzer::judge_reach() {
  for (std::size_t i = 0; i < kGoals; ++i) {
    const std::uint64_t n = tally_->reached[i];
    const std::string name = "reached-" + std::string(kGoalNames[i]);
    if (settings_.user && needs_root(i)) {
      report(n == 0, "refused-" + std::string(kGoalNames[i]), "a user made " + std::to_string(n));
    } else {
      report(n > 0, name, "not once");
    }
    note("{} {}", name, n);
  }
}

void Fuzzer::replay(std::uint64_t seed) {
  setenv("UVERBSFUZZ_TRACE", "1", 1);
  note("exit status {}", finish(start_life(seed, false)));
}

void Fuzzer::run() {
  const std::uint64_t seed = settings_.life.seed;
  note("seed {}, as {}{}", seed, settings_.user ? "a user" : "root",
       settings_.disturbs ? ", disturbed" : "");
  std::system("kernel-complaints --mark uverbsfuzz");
  regress();
  reproduce();
  // The first users of a device, and its first removal, leave caches behind for good.
  fuzz(settings_.run_seconds == 0 ? 0 : kWarmUp, seed + 1);
  if (settings_.disturbs) {
    const std::string failed = disturb(settings_.life.device, seed, 0, 3, note_disturbance);
    if (!failed.empty()) throw std::runtime_error("the device is not back after " + failed);
  }
  std::this_thread::sleep_for(seconds(2));
  const Counts slabs = read_slabs();
  const Counts objects = read_counts(settings_.life.device);
  const std::uint64_t refused = tally_->refused_opens;
  lives_ = killed_ = by_signal_ = 0;
  for (auto& goal : tally_->reached) goal = 0;
  if (settings_.disturbs) {
    disturber_ = start([this, seed] {
      const std::string failed = disturb(settings_.life.device, seed, settings_.run_seconds,
                                         disturbances(), note_disturbance);
      if (!failed.empty()) note("the device is not back after {}", failed);
      return failed.empty() ? 0 : 1;
    });
  }
  fuzz(settings_.run_seconds, seed);
  report(true, "every-process-ends");
  if (disturber_ != 0) {
    report(finish(disturber_) == 0, "device-is-back", "see /run/uverbsfuzz.disturb");
    report(tally_->disturbed > 0, "was-disturbed", "not once");
  }
  plant();
  judge_objects(objects);
  judge_slabs(slabs, lives_, tally_->refused_opens - refused);
  for (const pid_t pid : planted_) kill(pid, SIGKILL);
  for (const pid_t pid : planted_) finish(pid);
  judge_reach();
  const std::string complaints = shell("kernel-complaints --since uverbsfuzz | head -n 3");
  report(complaints.empty(), "kernel-is-quiet", complaints);
  note(
      "{} processes, {} killed, {} ended by a signal; {} calls, {} contexts refused, {} "
      "disturbances",
      lives_, killed_, by_signal_, tally_->calls.load(), tally_->refused_opens.load(),
      tally_->disturbed.load());
}

// Each planted defect must be found, and named.
void self_test() {
  static constexpr struct {
    const char* name;
    const char* options;
    const char* line;
  } plants[] = {
      {"object", "--seconds 6 --plant object", "not ok uverbsfuzz/objects-are-back - "},
      {"task", "--seconds 6 --plant task", "not ok uverbsfuzz/slabs-are-back - task_struct"},
      {"idle", "--seconds 0", "not ok uverbsfuzz/reached-pd - not once"},
  };
  const std::string self = std::filesystem::read_symlink("/proc/self/exe");
  for (const auto& plant : plants) {
    const std::string text = shell(self + " " + plant.options + "; echo status $?");
    const bool found = text.find(plant.line) != std::string::npos && text.ends_with("status 1\n");
    report(found, std::string("planted-") + plant.name + "-is-found",
           "said " + text.substr(text.size() < 300 ? 0 : text.size() - 300));
  }
}

}  // namespace
}  // namespace guest::uverbsfuzz

int main(int argc, char** argv) {
  using namespace guest;
  uverbsfuzz::Settings s;
  s.life.seed = 3;
  return run_program(
      argc, argv,
      {.group = "uverbsfuzz",
       .options = {{"seed",
                    [&s](const std::string& seed) {
                      s.life.seed = seed == "clock" ? static_cast<std::uint64_t>(time(nullptr))
                                                    : std::stoull(seed, nullptr, 0);
                    }},
                   {"seconds", &s.run_seconds},
                   {"processes", &s.processes},
                   {"replay",
                    [&s](const std::string& seed) { s.replay = std::stoull(seed, nullptr, 0); }},
                   {"plant", &s.plant},
                   {"user", &s.user},
                   {"disturb", &s.disturbs},
                   {"core-bugs", &s.life.core_bugs},
                   {"self-test", &s.self_test}},
       .run = [&s](const CommandLine& line) {
         s.life.device = line.device;
         if (s.self_test) return uverbsfuzz::self_test();
         uverbsfuzz::Fuzzer fuzzer(s);
         s.replay ? fuzzer.replay(*s.replay) : fuzzer.run();
       }});
}

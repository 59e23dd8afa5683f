// SPDX-License-Identifier: GPL-2.0-or-later
// verbs-generate: runs random programs of verbs on a device and compares all that they observe with
// a model.
//
//   verbs-generate [-d DEV] [-g GID_INDEX] [--seeds FROM[-TO]] [--steps N] [--seconds S]
//   verbs-generate ... --timeout-factor N  on a busy machine: wait N times as long for datagrams
//   verbs-generate ... --program FILE    run a saved program, of the seed given by --seeds
//   verbs-generate ... --list            print the program of a seed, and do not run it
//   verbs-generate ... --save FILE       save a program that fails
//   verbs-generate ... --shrink          reduce a program that fails
//   verbs-generate ... --print-c FILE    write a program that fails as C
//   verbs-generate ... --log FILE        write what each step did, to compare devices; no bursts
//   verbs-generate ... --caps[=LIST]     print the capabilities, or use these
//   verbs-generate ... --without LIST    do without these capabilities
//   verbs-generate ... --risky           also what the kernel of Soft-RoCE does not survive
//   verbs-generate ... --forge           also programs that lie to their library about windows
//   verbs-generate ... --processes       end 1 in a process of its own, which steps kill
//   verbs-generate ... --until-found     run until a violation; exit status 0 if there is one
//   verbs-generate ... --self-test       falsify what is observed; each kind must be found
//   verbs-generate ... --rules           count the requests that break one rule of windows only
//   verbs-generate ... --verbose         a result line for each seed
//
// Prints TAP. A log has no numbers that a device chooses: no keys, addresses, QP numbers or times;
// a step is followed by what it did, the names of the statuses and a hash of all memory.
//
// Test: verbs-generate
// Tier: quick, 600 s
// Boot: pair
// Run: verbs-generate --seeds 1-150
// Results: 1
// Proves: 150 random programs of verbs do on tern what the model allows: every completion, every
//   byte of all memory.
//
// Test: verbs-generate-processes
// Tier: full, 600 s
// Boot: pair
// Run: verbs-generate --processes --seeds 1-40
// Results: 1
// Proves: The same with an end in a process of its own, which steps kill.
//
// Test: verbs-generate-self
// Tier: full, 600 s
// Boot: pair
// Run: verbs-generate --self-test
// Proves: Each kind of violation is found when what is observed is falsified.
#include <chrono>
#include <cstdio>
#include <fstream>
#include <sstream>

#include "caps.h"
#include "plan.h"
#include "print_c.h"
#include "program.h"
#include "run.h"
#include "shrink.h"
#include "steps.h"

namespace guest::generator {
namespace {

struct Options {
  std::string seeds = "1";
  unsigned steps = 150;
  unsigned seconds = 0;
  unsigned timeout_factor = 1;
  bool shrink = false;
  bool list = false;
  bool print_caps = false;
  bool risky = false;
  bool forge = false;
  bool processes = false;
  bool until_found = false;
  bool self_test = false;
  bool verbose = false;
  bool rules = false;
  std::string program{};
  std::string save{};
  std::string print_c{};
  std::string log{};
  std::string caps{};
  std::string without{};
};

struct Range {
  std::uint64_t from = 1;
  std::uint64_t to = 1;
};

Range parse_range(const std::string& text) {
  const std::size_t dash = text.find('-');
  Range range;
  range.from = range.to = std::stoull(text);
  if (dash != std::string::npos) {
    range.to = dash + 1 == text.size() ? ~std::uint64_t{0} : std::stoull(text.substr(dash + 1));
  }
  return range;
}

Caps caps_of(const CommandLine& line, const Options& o) {
  Caps caps = o.caps.empty() ? query_caps(line.device, line.gid_index) : parse_words(o.caps);
  if (o.risky) caps.insert("risky");
  if (o.forge) caps.insert("forge");
  if (o.processes) caps.insert("processes");
  if (!o.log.empty()) caps.erase("bursts");
  for (const std::string& word : parse_words(o.without)) caps.erase(word);
  return caps;
}

std::string read(const std::string& file) {
  std::ifstream in(file);
  require(in.good(), "{} cannot be read", file);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

std::string lines_of(const Steps& steps) {
  std::string text;
  for (const Step& s : steps) text += to_text(s) + "\n";
  return text;
}

class Main {
 public:
  Main(const CommandLine& line, const Options& o)
      : o_(o),
        range_(parse_range(o.seeds)),
        caps_(caps_of(line, o)),
        where_{.device = line.device, .gid_index = line.gid_index, .processes = o.processes} {}

  void run() {
    if (o_.print_caps) note("caps: {}", to_text(caps_));
    if (o_.list) return list();
    if (o_.rules) return rules();
    if (o_.print_caps && o_.seeds == "1" && o_.program.empty()) return;
    if (o_.self_test) return self_test();
    start();
    if (!o_.program.empty()) {
      one(range_.from, parse(read(o_.program)));
    } else {
      all();
    }
  }

 private:
  void start() {
    runner_ = std::make_unique<Runner>(where_, caps_);
    runner_->timeout_factor = o_.timeout_factor;
    if (o_.log.empty()) return;
    log_.open(o_.log);
    runner_->log = [this](const std::string& text) { log_ << text << '\n'; };
  }
  void list() {
    const Steps steps =
        o_.program.empty() ? plan(range_.from, o_.steps, caps_) : parse(read(o_.program));
    std::printf("%s", lines_of(steps).c_str());
  }
  void rules() {
    Coverage coverage;
    for (std::uint64_t seed = range_.from; seed <= range_.to; seed++) {
      plan(seed, o_.steps, caps_, &coverage);
    }
    const std::uint64_t steps = (range_.to - range_.from + 1) * o_.steps;
    note("of {} steps, break this rule and no other:", steps);
    for (const auto& [rule, count] : coverage) note("{:20} {}", rule, count);
  }
  void all() {
    const auto start = std::chrono::steady_clock::now();
    std::uint64_t seeds = 0;
    for (std::uint64_t seed = range_.from; seed <= range_.to && failures_ < 5; seed++) {
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
      if (o_.seconds != 0 && took.count() > o_.seconds) break;
      const bool ok = one(seed, plan(seed, o_.steps, caps_));
      seeds++;
      if (!ok && o_.until_found) {
        note("found by seed {}: {} seeds, {} steps", seed, seeds, runner_->executed());
        return;
      }
      if (seeds % 100 == 0)
        note("{} seeds, {} steps, {:.0f} s", seeds, runner_->executed(), took.count());
      if (seed == ~std::uint64_t{0}) break;
    }
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    const auto steps = static_cast<double>(runner_->executed());
    report(o_.until_found == (failures_ != 0), o_.until_found ? "found" : "seeds", "",
           std::format("{} seeds, {} steps, {:.0f} steps a second, {} messages lost", seeds,
                       runner_->executed(), steps / took.count(), runner_->lost()));
  }
  bool one(std::uint64_t seed, const Steps& steps) {
    const std::string name = std::format("seed-{}", seed);
    try {
      if (log_.is_open()) log_ << "seed " << seed << '\n';
      runner_->run(steps, seed);
      if (o_.verbose || !o_.program.empty()) report(true, name);
      return true;
    } catch (const Violation& v) {
      failures_++;
      const std::string what =
          std::format("step {} ({}): {}: {}", v.step, to_text(steps.at(v.step)), v.kind, v.what());
      o_.until_found ? note("{}: {}", name, what) : static_cast<void>(report(false, name, what));
      failed(seed, steps, v);
      return false;
    }
  }
  void failed(std::uint64_t seed, Steps steps, const Violation& v) {
    const std::string kind = v.kind;
    const auto fails = [&](const Steps& some) {
      try {
        runner_->run(some, seed);
      } catch (const Violation& again) {
        return again.kind == kind;
      }
      return false;
    };
    restart();
    steps.resize(v.step + 1);
    if (o_.shrink) steps = shrink(steps, fails);
    if (o_.shrink) note("shrunk to {} steps:", steps.size());
    if (o_.shrink) {
      for (const Step& s : steps) note("  {}", to_text(s));
    }
    if (!o_.save.empty()) std::ofstream(o_.save) << lines_of(steps);
    restart();
    if (!o_.print_c.empty())
      std::ofstream(o_.print_c) << print_c(steps, seed, *runner_, where_.device);
    restart();
  }
  // Objects that a violation left in any state must not disturb the next program.
  void restart() {
    const std::uint64_t executed = runner_->executed();
    runner_.reset();
    start();
    runner_->count(executed);
  }
  void self_test();

  Options o_;
  Range range_;
  Caps caps_;
  RunOptions where_;
  std::unique_ptr<Runner> runner_;
  std::ofstream log_;
  unsigned failures_ = 0;
};

void Main::self_test() {
  for (int i = 1; i < static_cast<int>(Sabotage::kCount); i++) {
    const auto sabotage = static_cast<Sabotage>(i);
    start();
    std::string found;
    for (std::uint64_t seed = 1; seed <= 60 && found.empty(); seed++) {
      runner_->sabotage = sabotage;
      try {
        runner_->run(plan(seed, o_.steps, caps_), seed);
      } catch (const Violation& v) {
        found = std::format("{}: {}", v.kind, v.what());
      }
    }
    report(!found.empty(), std::format("self-test/{}", name_of(sabotage)), "not found", found);
    runner_.reset();
  }
}

}  // namespace
}  // namespace guest::generator

int main(int argc, char** argv) {
  using namespace guest;
  generator::Options o;
  const auto caps = [&o](const std::string& list) {
    o.print_caps = list.empty();
    o.caps = list;
  };
  return run_program(argc, argv,
                     {.limit = 900,
                      .options = {{"seeds", &o.seeds},
                                  {"steps", &o.steps},
                                  {"seconds", &o.seconds},
                                  {"timeout-factor", &o.timeout_factor},
                                  {"shrink", &o.shrink},
                                  {"list", &o.list},
                                  {"caps", caps, optional_argument},
                                  {"without", &o.without},
                                  {"risky", &o.risky},
                                  {"forge", &o.forge},
                                  {"processes", &o.processes},
                                  {"until-found", &o.until_found},
                                  {"self-test", &o.self_test},
                                  {"verbose", &o.verbose},
                                  {"rules", &o.rules},
                                  {"program", &o.program},
                                  {"save", &o.save},
                                  {"print-c", &o.print_c},
                                  {"log", &o.log}},
                      .run = [&o](const CommandLine& line) { generator::Main(line, o).run(); }});
}

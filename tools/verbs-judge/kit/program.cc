// SPDX-License-Identifier: GPL-2.0-or-later
#include "program.h"

#include <fnmatch.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>

#include "trace.h"

namespace guest {
namespace {

// The process has one standard output, and so one series of results.
std::string prefix;
unsigned limit = 0;
std::vector<std::string> patterns;
bool planned = false;
std::size_t results = 0;
std::size_t failures = 0;

// The result line of a test that hangs or whose provider crashes. Neither can be survived.
std::string hang_line;
std::string crash_line;
extern "C" void ends(int signal) {
  const std::string& line = signal == SIGALRM ? hang_line : crash_line;
  ::_exit(::write(STDOUT_FILENO, line.data(), line.size()) > 0 ? 3 : 4);
}

void plan(std::size_t count) {
  planned = true;
  std::printf("1..%zu\n", count);
  std::fflush(stdout);
}

bool print_result(bool ok, const std::string& name, const char* separator, std::string text) {
  results++;
  failures += ok ? 0 : 1;
  std::ranges::replace(text, '\n', ' ');
  std::printf("%sok %s%s%s%s\n", ok ? "" : "not ", prefix.c_str(), name.c_str(),
              text.empty() ? "" : separator, text.c_str());
  std::fflush(stdout);
  return ok;
}

CommandLine parse(int argc, char** argv, const Program& program) {
  CommandLine line;
  line.port = program.port;
  std::vector<Option> all = program.options;
  const auto add = [&all](std::initializer_list<const char*> names, const auto& to) {
    for (const char* name : names) all.push_back({name, to});
  };
  add({"d", "device"}, &line.device);
  add({"g"}, [&line](const std::string& value) { line.gid_index = std::stoi(value); });
  add({"c", "across"}, &line.host);
  add({"p"}, &line.port);
  add({"s", "serve"}, &line.serve);
  add({"T", "thread-domain"}, &line.thread_domain);
  add({"strict"}, &line.strict);
  add({"trace"}, &line.trace);
  std::string letters;
  std::vector<option> names;
  constexpr int kFirst = 256;  // larger than a letter
  for (std::size_t i = 0; i < all.size(); i++) {
    const Option& o = all[i];
    if (o.name.size() == 1) {
      letters += o.name + (o.value == no_argument ? "" : ":");
    } else {
      names.push_back({o.name.c_str(), o.value, nullptr, kFirst + static_cast<int>(i)});
    }
  }
  names.push_back({});
  for (int c = 0; (c = ::getopt_long(argc, argv, letters.c_str(), names.data(), nullptr)) != -1;) {
    const auto o =
        c >= kFirst ? all.begin() + (c - kFirst)
                    : std::ranges::find(all, std::string(1, static_cast<char>(c)), &Option::name);
    if (o == all.end()) std::exit(2);
    try {
      o->set(optarg != nullptr ? optarg : "");
    } catch (const std::exception&) {
      std::fprintf(stderr, "%s: wrong value of option %s: %s\n", argv[0], o->name.c_str(), optarg);
      std::exit(2);
    }
  }
  line.words.assign(argv + optind, argv + argc);
  if (line.serve && !program.serve) {
    std::fprintf(stderr, "%s serves nobody\n", argv[0]);
    std::exit(2);
  }
  return line;
}

}  // namespace

void set_group(const std::string& group) { prefix = group.empty() ? "" : group + "/"; }

int run_program(int argc, char** argv, const Program& program) {
  const CommandLine line = parse(argc, argv, program);
  set_group(program.group);
  limit = program.limit;
  patterns = line.words;
  set_strict(line.strict);
  set_tracing(line.trace);
  try {
    (line.serve ? program.serve : program.run)(line);
  } catch (const std::exception& e) {
    report(false, "setup", e.what());
  }
  if (!planned && results != 0) plan(results);
  return failures == 0 ? 0 : 1;
}

void run_tests(std::span<const Test> tests,
               const std::function<void(const Test&, const Outcome&)>& then) {
  std::vector<const Test*> chosen;
  for (const Test& t : tests) {
    if (patterns.empty() || std::ranges::any_of(patterns, [&](const std::string& p) {
          return ::fnmatch(p.c_str(), t.name.c_str(), 0) == 0;
        })) {
      chosen.push_back(&t);
    }
  }
  require(!chosen.empty(), "no test has such a name");
  plan(chosen.size());
  std::size_t passed = 0;
  for (const Test* t : chosen) {
    const Outcome outcome = attempt(t->name, t->run);
    passed += report(t->name, outcome) ? 1U : 0U;
    if (then) then(*t, outcome);
  }
  std::printf("# %zu of %zu passed\n", passed, chosen.size());
}

Outcome attempt(const std::string& name, const std::function<void()>& body) {
  Outcome outcome;
  take_choices();
  take_trace();
  hang_line = "not ok " + prefix + name + " - hangs\n";
  crash_line = "not ok " + prefix + name + " - the program crashes\n";
  for (const int signal : {SIGALRM, SIGSEGV, SIGBUS, SIGFPE, SIGABRT}) std::signal(signal, ends);
  ::alarm(limit);
  const auto start = std::chrono::steady_clock::now();
  try {
    body();
  } catch (const Skip& e) {
    outcome = {.why = e.what(), .skipped = true};
  } catch (const Undecided& e) {
    chose(e.what());
  } catch (const std::exception& e) {
    outcome.why = e.what();
  }
  ::alarm(0);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  outcome.seconds = took.count();
  outcome.choices = take_choices();
  const std::string errors = take_destroy_errors();
  if (!errors.empty()) {
    outcome.why += errors;
    outcome.skipped = false;
  }
  outcome.trace = take_trace();
  return outcome;
}

bool report(bool ok, const std::string& name, const std::string& why, const std::string& comment) {
  return ok ? print_result(true, name, " # ", comment) : print_result(false, name, " - ", why);
}

bool report(const std::string& name, const Outcome& outcome) {
  for (const std::string& line : outcome.trace) std::printf("#: %s\n", line.c_str());
  if (outcome.skipped) {
    report_skip(name, outcome.why);
    return true;
  }
  if (outcome.why.empty() && !outcome.choices.empty()) {
    return report(true, name, {}, "NOT DECIDED " + outcome.choices);
  }
  return report(outcome.why.empty(), name, outcome.why, std::format("{:.2f} s", outcome.seconds));
}

void report_skip(const std::string& name, const std::string& why) {
  print_result(true, name, " # SKIP ", why);
}

}  // namespace guest

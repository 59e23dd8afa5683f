// SPDX-License-Identifier: GPL-2.0-or-later
// A test program: its command line, its tests, its result lines and its exit status.
#pragma once

#include <getopt.h>

#include <cstdint>
#include <cstdio>
#include <format>
#include <functional>
#include <initializer_list>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "failure.h"

namespace guest {

// What all programs read from their command line.
struct CommandLine {
  std::string device = "tern0";    // -d, --device
  int gid_index = -1;              // -g; negative: see Device
  std::string host;                // -c, --across: has the other end; empty: it is in this process
  std::string port;                // -p
  bool serve = false;              // -s, --serve: be the other end
  bool thread_domain = false;      // -T, --thread-domain
  bool strict = false;             // --strict, see failure.h
  bool trace = false;              // --trace, see trace.h
  std::vector<std::string> words;  // the rest: patterns of the names of tests
};

// An option of one program: a flag if it sets a bool, otherwise it takes a value. A name of one
// letter is a short option.
struct Option {
  Option(std::string named, bool* to) : name(std::move(named)), value(no_argument) {
    set = [to](const std::string&) { *to = true; };
  }
  Option(std::string named, std::string* to) : name(std::move(named)) {
    set = [to](const std::string& text) { *to = text; };
  }
  Option(std::string named, unsigned* to) : name(std::move(named)) {
    set = [to](const std::string& text) {
      *to = static_cast<unsigned>(std::stoul(text, nullptr, 0));
    };
  }
  Option(std::string named, std::uint64_t* to) : name(std::move(named)) {
    set = [to](const std::string& text) { *to = std::stoull(text, nullptr, 0); };
  }
  // `how` is optional_argument if the value may be missing; otherwise it follows "=".
  Option(std::string named, std::function<void(const std::string&)> to, int how = required_argument)
      : name(std::move(named)), value(how), set(std::move(to)) {}

  std::string name;
  int value = required_argument;  // as in struct option
  std::function<void(const std::string& text)> set;
};

struct Test {
  std::string name;
  std::function<void()> run;
};

// Tests of functions that take one argument, which must outlive them.
template <typename Arg>
std::vector<Test> tests_of(
    Arg& arg,
    std::initializer_list<std::pair<const char*, std::type_identity_t<void (*)(Arg&)>>> all) {
  std::vector<Test> tests;
  for (const auto& [name, run] : all) tests.push_back({name, [&arg, run] { run(arg); }});
  return tests;
}

struct Program {
  std::string group{};   // results are named GROUP/NAME, or NAME without a group
  std::string port{};    // the default of -p
  unsigned limit = 900;  // seconds for a test; bounds a hang
  std::vector<Option> options{};
  std::function<void(const CommandLine&)> run;
  std::function<void(const CommandLine&)> serve{};
};

// Parses the command line and runs the program. Prints the plan at the end, unless run_tests()
// has printed it. Returns the exit status: 1 if a result is "not ok", 2 for a wrong option.
int run_program(int argc, char** argv, const Program& program);
// Replaces the program's group.
void set_group(const std::string& group);

// How a test ended.
struct Outcome {
  std::string why{};  // it failed or was skipped
  bool skipped = false;
  std::string choices{};  // what the device chose where no document decides
  double seconds = 0;
  std::vector<std::string> trace{};  // with --trace: what was done, what came back
};
// Runs the body. If it hangs, the program ends with a result line for `name`.
Outcome attempt(const std::string& name, const std::function<void()>& body);

// Print a result line, after the outcome's trace. They return whether it is "ok".
bool report(bool ok, const std::string& name, const std::string& why = {},
            const std::string& comment = {});
bool report(const std::string& name, const Outcome& outcome);
inline bool run_test(const std::string& name, const std::function<void()>& body) {
  return report(name, attempt(name, body));
}
void report_skip(const std::string& name, const std::string& why);
// Prints a comment.
template <typename... Args>
void note(std::format_string<Args...> text, Args&&... args) {
  std::printf("# %s\n", std::format(text, std::forward<Args>(args)...).c_str());
}

// Prints the plan and runs the tests whose names match a word of the command line, or all. `then`
// is called after each.
void run_tests(std::span<const Test> tests,
               const std::function<void(const Test& test, const Outcome& outcome)>& then = {});

}  // namespace guest

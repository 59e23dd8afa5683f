// SPDX-License-Identifier: GPL-2.0-or-later
#include "mutate.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <sstream>

namespace guest::windows {
namespace {

// The engine's rule names (core/rules.h), except those that only kernel verbs can reach.
constexpr std::array kRules{
    "mw-pd",      "mw-qp",      "mw-low",           "mw-high",          "mw-wrap",    "mw-read",
    "mw-write",   "mw-atomic",  "mw-flush",         "mw-variant",       "mw-unbound", "mw-mr-write",
    "bind-qp-pd", "bind-mr-pd", "bind-mr-right",    "bind-local-write", "bind-range", "bind-wrap",
    "bind-free",  "bind-type",  "bind-zero-length", "bind-key",         "inv-free",   "inv-type",
    "inv-qp",     "inv-pd",     "inv-variant",      "mr-busy"};

std::vector<std::string> rules_of(const Rule& test) {
  std::vector<std::string> rules;
  if (test.switches.starts_with("- ")) return rules;
  std::istringstream in(test.switches);
  for (std::string rule; std::getline(in, rule, ',');) rules.push_back(rule);
  return rules;
}

bool claims(const Rule& test, const std::string& rule) {
  const std::vector<std::string> rules = rules_of(test);
  return std::ranges::find(rules, rule) != rules.end();
}

// Switches off this rule of this machine's device and all others on; "" switches all on.
void switch_off(const std::string& rule) {
  const std::string command =
      "labctl qmp $(hostname) qom-set path=/machine/peripheral/tern0 property=mutate value='\"" +
      rule + "\"' >/dev/null";
  require(std::system(command.c_str()) == 0, "the device has no rule '{}' to switch off", rule);
}

void add(std::string& list, const std::string& name) { list += (list.empty() ? "" : " ") + name; }

// Returns how the results differ from the tests' claims, or "".
std::string run_rule(const Rules& tests, const std::string& rule, const Runner& run) {
  std::string missed;
  std::string others;
  std::size_t red = 0;
  for (const Rule& test : tests) {
    const bool failed = !run(test).empty();
    red += failed ? 1U : 0U;
    if (failed != claims(test, rule)) add(failed ? others : missed, test.name);
  }
  std::string why;
  if (!missed.empty()) why += "did not fail: " + missed;
  if (!others.empty()) why += (why.empty() ? "" : "; ") + ("failed too: " + others);
  if (why.empty() && !rule.empty() && red == 0) why = "no test failed";
  return why;
}

}  // namespace

std::string check_claims(const Rules& tests) {
  for (const Rule& test : tests) {
    for (const std::string& rule : rules_of(test)) {
      if (std::ranges::find(kRules, rule) == kRules.end()) {
        return test.name + " claims the rule " + rule + ", which is none";
      }
    }
  }
  for (const std::string rule : kRules) {
    if (std::ranges::none_of(tests, [&](const Rule& test) { return claims(test, rule); })) {
      return "no test claims the rule " + rule;
    }
  }
  return {};
}

Part parse_part(const std::string& text) {
  Part part;
  require(text.empty() || (std::sscanf(text.c_str(), "%zu/%zu", &part.number, &part.of) == 2 &&
                           part.number >= 1 && part.number <= part.of),
          "no part: {}", text);
  return part;
}

void run_mutations(const Rules& tests, const std::vector<std::string>& rules, const Part& part,
                   const Runner& run) {
  set_group("mutation");
  const auto say = [](const std::string& name, const std::string& why) {
    report(why.empty(), name, why);
  };
  const bool first = part.number == 1;
  if (first) say("claims", check_claims(tests));
  for (std::size_t i = part.number - 1; i < kRules.size(); i += part.of) {
    const std::string rule = kRules.at(i);
    if (!rules.empty() && std::ranges::find(rules, rule) == rules.end()) continue;
    switch_off(rule);
    say(rule, run_rule(tests, rule, run));
  }
  switch_off("");
  if (first) say("none", run_rule(tests, "", run));
}

}  // namespace guest::windows

// SPDX-License-Identifier: GPL-2.0-or-later
#include "steps.h"

#include <algorithm>
#include <sstream>
#include <string_view>

#include "failure.h"

namespace guest::generator {
namespace {

constexpr std::array<const char*, static_cast<std::size_t>(Verb::kCount)> kVerbs{
    "region",    "dereg",      "rereg",    "window",    "dealloc",      "connect",
    "reset",     "destroy",    "error",    "kill",      "receive",      "arm",
    "bind",      "invalidate", "send",     "send-imm",  "send-inv",     "write",
    "write-imm", "read",       "cmp-swap", "fetch-add", "atomic-write", "flush"};

constexpr std::array<const char*, static_cast<std::size_t>(Arg::kCount)> kArgs{
    "end",    "conn",   "slot",      "type",    "pd",   "access", "peer",  "mem",   "off",
    "len",    "base",   "what",      "of",      "key",  "whose",  "age",   "low",   "at",
    "top",    "lkey",   "split",     "variant", "zero", "forge",  "value", "burst", "fence",
    "inline", "silent", "solicited", "api",     "srq",  "mtu"};

template <typename Names>
std::size_t position(const Names& names, std::string_view word) {
  const auto at = std::ranges::find(names, word, [](const char* n) { return std::string_view(n); });
  require(at != names.end(), "the program has the word {}", word);
  return static_cast<std::size_t>(at - names.begin());
}

// Slots are in range whatever the text says.
void confine(Step& step) {
  const auto wrap = [&step](Arg arg, std::int64_t count) {
    step[arg] = (step[arg] % count + count) % count;
  };
  const bool window = step.verb == Verb::kWindow || step.verb == Verb::kDealloc;
  wrap(Arg::kEnd, kEnds);
  wrap(Arg::kConn, kConns);
  wrap(Arg::kSlot, window ? kWindows : kRegions);
  wrap(Arg::kKey, step.verb == Verb::kBind || step.on(Arg::kOf) ? kWindows : kRegions);
  wrap(Arg::kMem, kMems);
}

}  // namespace

const char* name_of(Verb verb) { return kVerbs.at(static_cast<std::size_t>(verb)); }
const char* name_of(Arg arg) { return kArgs.at(static_cast<std::size_t>(arg)); }

std::string to_text(const Step& step) {
  std::string text = name_of(step.verb);
  for (std::size_t i = 0; i < step.args.size(); i++) {
    if (step.args[i] != 0) text += std::format(" {}={}", kArgs[i], step.args[i]);
  }
  return text;
}

Steps parse(const std::string& text) {
  Steps steps;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line.substr(0, line.find('#')));
    std::string word;
    if (!(words >> word)) continue;
    Step step{.verb = static_cast<Verb>(position(kVerbs, word))};
    while (words >> word) {
      const std::size_t equals = word.find('=');
      require(equals != std::string::npos, "the program has the word {}", word);
      step.args[position(kArgs, std::string_view(word).substr(0, equals))] =
          std::stoll(word.substr(equals + 1), nullptr, 0);
    }
    confine(step);
    steps.push_back(step);
  }
  return steps;
}

std::string to_text(const Caps& caps) {
  std::string text;
  for (const std::string& cap : caps) text += (text.empty() ? "" : ",") + cap;
  return text;
}

Caps parse_words(const std::string& text) {
  Caps caps;
  std::istringstream in(text);
  for (std::string word; std::getline(in, word, ',');) {
    if (!word.empty()) caps.insert(word);
  }
  return caps;
}

}  // namespace guest::generator

// SPDX-License-Identifier: GPL-2.0-or-later
#include "lab.h"

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <sstream>
#include <thread>

#include "verbs.h"

namespace guest {

namespace {

constexpr char kCounters[] = "grep . /sys/class/infiniband/tern0/ports/1/hw_counters/*";
// ib_core caches the counters for 10 ms.
constexpr auto kLifespan = std::chrono::milliseconds(20);

std::string host_name() {
  std::array<char, 64> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) fail_errno("gethostname");
  return name.data();
}

}  // namespace

std::string shell(const std::string& command) {
  std::FILE* const pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) fail_errno("popen");
  std::string out;
  std::array<char, 4096> piece{};
  while (const std::size_t n = std::fread(piece.data(), 1, piece.size(), pipe)) {
    out.append(piece.data(), n);
  }
  const int status = ::pclose(pipe);
  require(WIFEXITED(status) && WEXITSTATUS(status) == 0, "'{}' failed: {}", command, out);
  return out;
}

Machine::Machine(std::string name) : name_(std::move(name)), here_(name_.empty()) {
  if (here_) name_ = host_name();
}

void Machine::set_faults(const std::string& rules) const {
  shell("labctl faults " + name_ + " '" + (rules.empty() ? "-" : rules) + "' 2>&1");
}

std::vector<std::uint64_t> Machine::applied() const {
  constexpr std::string_view kKey = ", applied ";
  std::vector<std::uint64_t> counts;
  std::istringstream report(shell("labctl faults " + name_ + " 2>&1"));
  for (std::string line; std::getline(report, line);) {
    const auto at = line.find(kKey);
    if (at != std::string::npos) counts.push_back(std::stoull(line.substr(at + kKey.size())));
  }
  return counts;
}

void Machine::set_icrc(const std::string& mode) const {
  shell("labctl icrc " + name_ + " " + mode + " 2>&1");
}

Counters Machine::counters() const {
  std::this_thread::sleep_for(kLifespan);
  std::istringstream lines(shell(here_ ? kCounters : "ssh " + name_ + " '" + kCounters + "'"));
  Counters counters;
  for (std::string line; std::getline(lines, line);) {
    const auto colon = line.rfind(':');
    const auto slash = line.rfind('/', colon);
    require(colon != std::string::npos && slash != std::string::npos, "a counter: {}", line);
    counters[line.substr(slash + 1, colon - slash - 1)] = std::stoull(line.substr(colon + 1));
  }
  require(!counters.empty(), "{} has no counters", name_);
  return counters;
}

}  // namespace guest

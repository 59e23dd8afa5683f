// SPDX-License-Identifier: GPL-2.0-or-later
// A machine of the lab: the faults and counters of its adapter.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace guest {

using Counters = std::map<std::string, std::uint64_t>;

// Returns the standard output of a shell command. Throws if the command fails.
std::string shell(const std::string& command);

class Machine {
 public:
  // An empty name stands for this machine.
  explicit Machine(std::string name);

  [[nodiscard]] const std::string& name() const { return name_; }
  // Replaces the fault rules; an empty string clears them.
  void set_faults(const std::string& rules) const;
  // Returns how often each rule was applied.
  [[nodiscard]] std::vector<std::uint64_t> applied() const;
  void set_icrc(const std::string& mode) const;
  // Returns the hardware counters by their names in `rdma statistic`.
  [[nodiscard]] Counters counters() const;

 private:
  std::string name_;
  bool here_;
};

}  // namespace guest

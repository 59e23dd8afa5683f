// SPDX-License-Identifier: GPL-2.0-or-later
// A machine of the lab as a test sees it: the faults of its adapter, and the adapter's counters.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace guest {

using Counters = std::map<std::string, std::uint64_t>;

// Standard output of a shell command; a failure when it fails.
std::string shell(const std::string& command);

class Machine {
 public:
  // An empty name is this machine.
  explicit Machine(std::string name);

  [[nodiscard]] const std::string& name() const { return name_; }
  // Replaces the rules; none when empty.
  void set_faults(const std::string& rules) const;
  // How often each rule was applied.
  [[nodiscard]] std::vector<std::uint64_t> applied() const;
  void set_icrc(const std::string& mode) const;
  // Those of the HCA, by the names of `rdma statistic`.
  [[nodiscard]] Counters counters() const;

 private:
  std::string name_;
  bool here_;
};

}  // namespace guest

// SPDX-License-Identifier: GPL-2.0-or-later
// A process that walks through the verbs until it is killed.
#pragma once

#include <infiniband/verbs.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "shared.h"
#include "walk.h"

namespace guest::killer {

struct Options {
  std::string device = "tern0";
  std::uint64_t seed = 0;
  std::uint32_t kill_after = 0;  // verbs; 0: killed from outside
  bool careful = false;          // as in WalkOptions
  int xrcd_fd = -1;              // the file that identifies the shared XRC domain
};

class Part;

class Victim {
 public:
  Victim(const Options& options, Shared& shared, Role& role);
  ~Victim();
  [[noreturn]] void run();

 private:
  friend Part;
  void one_operation();
  void open_device();
  void close_device();
  void fork_holder();
  void note_missing(ibv_context* verbs);
  // Records that the verb `what` has returned. Kills the process after the kill_after-th verb.
  void step(const char* what);

  const Options options_;
  Shared& shared_;
  Role& role_;
  Random random_;
  std::array<std::uint32_t, kGoals> reached_{};
  std::vector<std::unique_ptr<Part>> parts_;
};

}  // namespace guest::killer

// SPDX-License-Identifier: GPL-2.0-or-later
// Requests that must be refused, each on its own QPs during a storm: a program posts a request that
// is not allowed, or forged frames are put on the wire that no requester would send.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/storm/flow.h"

namespace tern::storm {

class Hostile {
 public:
  Hostile(Context& context, WireWatch& watch, TestNode& a, TestNode& b);

  [[nodiscard]] std::uint64_t count() const { return order_.size(); }
  [[nodiscard]] std::uint64_t tried() const { return next_; }
  [[nodiscard]] bool done() const { return next_ == order_.size(); }
  // Runs the next offence to its end; all other traffic continues.
  void next();

  struct Offence;

 private:
  Context& c_;
  WireWatch& watch_;
  TestNode& a_;
  TestNode& b_;
  std::vector<const Offence*> order_;
  std::uint64_t next_ = 0;
};

}  // namespace tern::storm

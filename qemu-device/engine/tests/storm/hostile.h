// SPDX-License-Identifier: GPL-2.0-or-later
// Requests that are refused, on QPs of their own in the midst of a storm: posted by a program that may
// not do what it asks for, or made by hand and put on the wire as no requester would send them.
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
  // The next offence, from its beginning to its end; the others go on meanwhile.
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

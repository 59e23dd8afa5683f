// SPDX-License-Identifier: GPL-2.0-or-later
// Explains what was observed after requests that were posted together. Requests of one queue are
// ordered, those of different queues are not: some order must lead to these completions.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "book.h"

namespace guest::generator {

struct Op {
  Request request{};
  bool silent = false;  // it has a completion only if it fails
  bool seen = false;    // it has one
  ibv_wc wc{};
  [[nodiscard]] ibv_wc_status status() const { return seen ? wc.status : IBV_WC_SUCCESS; }
};

struct Burst {
  std::vector<Op> ops{};
  // Completions of receives, in their order.
  std::array<std::array<std::vector<ibv_wc>, kEnds>, kConns> arrivals{};
  // The program moved both QPs to the error state.
  std::array<bool, kConns> closed{};
};

// What a request may have done, according to all orders.
struct Part {
  std::vector<Reach> there{};  // where it may have read or written at the peer
  Reach here{};
  bool happened = false;  // it certainly did all of it
  bool maybe = false;     // it may have done some of it
};

struct Explanation {
  bool found = false;
  std::string why{};            // why not
  std::vector<State> finals{};  // how the keys may be now
  std::vector<Part> parts{};    // by request
};

Explanation explain(Book& book, const Burst& burst);

// The completion's opcode that a request has.
ibv_wc_opcode wc_opcode(Verb verb);

}  // namespace guest::generator

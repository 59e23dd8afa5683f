// SPDX-License-Identifier: GPL-2.0-or-later
// Asynchronous events on their way to software.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <set>
#include <utility>

#include "core/counters.h"

namespace tern {

class Eq;

// Asynchronous events: what the queue has no room for waits here, once per (type, id).
class AsyncEvents {
 public:
  explicit AsyncEvents(Counters& counters) : counters_(counters) {}
  void raise(std::uint16_t type, std::uint32_t id);
  void flush();  // after software consumed, or the queue came to be
  // The object whose events `of_type` tells is gone: what waits for it is dropped.
  void forget(std::uint32_t id, bool (*of_type)(std::uint16_t));
  void clear();
  [[nodiscard]] std::size_t waiting() const { return waiting_.size(); }

  Eq* eq = nullptr;  // the asynchronous event queue, if there is one

 private:
  Counters& counters_;
  std::deque<std::pair<std::uint16_t, std::uint32_t>> waiting_;
  std::set<std::pair<std::uint16_t, std::uint32_t>> known_;  // the same, for looking up
};

}  // namespace tern

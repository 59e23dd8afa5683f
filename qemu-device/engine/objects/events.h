// SPDX-License-Identifier: GPL-2.0-or-later
// Queue of asynchronous events for software.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <set>

#include "core/counters.h"

namespace tern {

class Eq;

// An event that does not fit the event queue waits here, once per type and object.
class AsyncEvents {
 public:
  explicit AsyncEvents(Counters& counters) : counters_(counters) {}
  // `generation`: of the CQ, QP or SRQ with number `id`; 0 for a port.
  void raise(std::uint16_t type, std::uint32_t id, std::uint32_t generation = 0);
  void flush();  // call it when software has consumed events, or the queue was created
  // Object `id` is gone: drops its waiting events. `of_type` selects the event types of its kind.
  void forget(std::uint32_t id, bool (*of_type)(std::uint16_t));
  void clear();
  [[nodiscard]] std::size_t waiting() const { return waiting_.size(); }

  Eq* eq = nullptr;  // the asynchronous event queue, if there is one

 private:
  struct Event {
    std::uint16_t type;
    std::uint32_t id;
    std::uint32_t generation;
    auto operator<=>(const Event&) const = default;
  };

  Counters& counters_;
  std::deque<Event> waiting_;
  std::set<Event> known_;  // the same, for lookup
};

}  // namespace tern

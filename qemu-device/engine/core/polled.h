// SPDX-License-Identifier: GPL-2.0-or-later
// The poller's state of a queue that has doorbells: objects/queue_poller.h.
#pragma once

#include <cstdint>

#include "core/archive.h"

namespace tern {

struct Polled {
  std::uint32_t period = 0;    // number of the period of the last doorbell
  std::uint32_t moved_at = 0;  // QueuePoller's time when a poll last found work
  std::uint16_t idle = 0;      // polls without work, less QueuePoller::worth() for each with work
  std::uint8_t rings = 0;      // doorbells in that period; all queues together have kPeriod
  bool on = false;

  // Saved state. Whether it is on, the poller knows.
  void state(Archive& ar) { ar(period, moved_at, idle, rings); }
};

}  // namespace tern

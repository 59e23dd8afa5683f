// SPDX-License-Identifier: GPL-2.0-or-later
// Page faults: accesses to on-demand regions that found a page absent, and how software learns of them.
#pragma once

#include <cstdint>

#include "core/list.h"
#include "tern_hw.hpp"

namespace tern {

class Eq;
struct Counters;

// The fault of one half of a QP, part of that half: it has at most one at a time, so none is lost and none is allocated.
struct Fault {
  enum class State : std::uint8_t {
    kNone,
    kWaiting,   // for room in the queue, or for a queue
    kReported,  // software knows it: RESUME_QP may end it
  };
  Fault() = default;
  Fault(const Fault&) = delete;
  Fault& operator=(const Fault&) = delete;

  // What happened, in host byte order; for raise().
  std::uint64_t addr = 0;
  std::uint64_t length = 0;
  std::uint32_t key = 0;
  std::uint32_t qpn = 0;
  std::uint8_t side = 0;  // TERN_FAULT_*
  bool write = false;
  std::uint8_t port = 1;

  // Of PageFaults.
  State state = State::kNone;
  std::uint32_t token = 0;
  Hook<Fault> hook{this};
};

class PageFaults {
 public:
  explicit PageFaults(Counters& counters) : counters_(counters) {}

  // Reports a fault, now or when the queue has room. Its state is kNone before.
  void raise(Fault& fault);
  // The fault ends, whether or not software knows it: its QP leaves the state, or goes.
  void cancel(Fault& fault);
  // RESUME_QP: ends the fault if software knows it by this token.
  [[nodiscard]] bool resume(Fault& fault, std::uint32_t token);
  // Software has consumed entries, or the queue has come to be.
  void flush();
  // Faults that have not ended.
  [[nodiscard]] std::uint32_t parked() const { return parked_; }

  Eq* eq = nullptr;  // the fault event queue, if there is one

 private:
  [[nodiscard]] bool report(Fault& fault);

  Counters& counters_;
  List<Fault> waiting_;  // oldest first
  std::uint32_t parked_ = 0;
  std::uint32_t tokens_ = 0;  // given out; outlives resets
};

}  // namespace tern

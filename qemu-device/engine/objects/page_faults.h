// SPDX-License-Identifier: GPL-2.0-or-later
// Page faults: accesses to absent pages of on-demand regions, and their delivery to software.
#pragma once

#include <cstdint>
#include <mutex>

#include "core/list.h"
#include "tern_hw.hpp"

namespace tern {

class Archive;
class Context;
class Eq;

// Fault of the requester or responder of a QP, which owns it. Each has at most one fault at a time,
// so none is lost.
struct Fault {
  enum class State : std::uint8_t {
    kNone,
    kWaiting,   // for space in the event queue, or for an event queue
    kReported,  // to software: RESUME_QP may end it
  };
  Fault() = default;
  Fault(const Fault&) = delete;
  Fault& operator=(const Fault&) = delete;

  // The access, in host byte order, set by the caller of raise().
  std::uint64_t addr = 0;
  std::uint64_t length = 0;
  std::uint32_t key = 0;
  std::uint32_t qpn = 0;
  std::uint8_t side = 0;  // TERN_FAULT_*
  bool write = false;
  std::uint8_t port = 1;

  // Set by PageFaults.
  State state = State::kNone;
  std::uint32_t token = 0;
  Hook<Fault> hook{this};
};

// Lanes share it. `lane`: the caller's.
class PageFaults {
 public:
  // Reports a fault as soon as the queue has space. `fault.state` must be kNone.
  void raise(Context& lane, Fault& fault);
  // Ends the fault, whether or not it was reported: the QP changes state or is destroyed.
  void cancel(Fault& fault);
  // RESUME_QP: ends the fault if it was reported with this token. Returns whether it did.
  [[nodiscard]] bool resume(Fault& fault, std::uint32_t token);
  // As AsyncEvents::flush().
  bool flush(Context& lane, unsigned most = UINT32_MAX);
  // Saved state of the queue; then that of each fault.
  void state(Archive& ar);
  void fault_state(Archive& ar, Fault& fault);
  // Number of faults that have not ended.
  [[nodiscard]] std::uint32_t parked() const { return parked_; }

  Eq* eq = nullptr;  // the fault event queue, if there is one

 private:
  [[nodiscard]] bool report(Context& lane, Fault& fault);
  void end(Fault& fault);

  std::mutex mutex_;
  List<Fault> waiting_;  // oldest first
  std::uint32_t parked_ = 0;
  std::uint32_t tokens_ = 0;  // last token; outlives resets
};

}  // namespace tern

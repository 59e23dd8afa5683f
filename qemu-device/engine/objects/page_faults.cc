// SPDX-License-Identifier: GPL-2.0-or-later
#include "objects/page_faults.h"

#include "core/counters.h"
#include "objects/queues.h"

namespace tern {

void PageFaults::raise(Fault& fault) {
  fault.token = ++tokens_;
  ++parked_;
  counters_.add(TERN_CNT_PAGE_FAULTS);
  // Faults stay in order: a new one must not overtake those waiting.
  if (waiting_.empty() && report(fault)) return;
  fault.state = Fault::State::kWaiting;
  waiting_.push_back(fault.hook);
}

void PageFaults::cancel(Fault& fault) {
  if (fault.state == Fault::State::kNone) return;
  fault.hook.unlink();
  fault.state = Fault::State::kNone;
  --parked_;
}

bool PageFaults::resume(Fault& fault, std::uint32_t token) {
  if (fault.state != Fault::State::kReported || fault.token != token) return false;
  cancel(fault);
  return true;
}

bool PageFaults::flush(unsigned most) {
  for (unsigned n = 0; Fault* const fault = waiting_.front(); ++n) {
    if (n == most) return eq != nullptr;
    if (!report(*fault)) return false;
    fault->hook.unlink();
  }
  return false;
}

bool PageFaults::report(Fault& fault) {
  if (eq == nullptr) return false;
  tern_fault entry{};
  entry.addr = le(fault.addr);
  entry.length = le(fault.length);
  entry.key = le(fault.key);
  entry.qpn = le(fault.qpn);
  entry.token = le(fault.token);
  entry.side = fault.side;
  entry.write = fault.write ? 1 : 0;
  entry.port = fault.port;
  if (!eq->post(entry)) return false;
  fault.state = Fault::State::kReported;
  return true;
}

}  // namespace tern

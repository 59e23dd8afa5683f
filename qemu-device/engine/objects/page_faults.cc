// SPDX-License-Identifier: GPL-2.0-or-later
#include "objects/page_faults.h"

#include "objects/context.h"
#include "objects/queues.h"

namespace tern {

void PageFaults::raise(Context& lane, Fault& fault) {
  const std::scoped_lock lock(mutex_);
  fault.token = ++tokens_;
  ++parked_;
  lane.counters.add(TERN_CNT_PAGE_FAULTS);
  // Faults stay in order: a new one must not overtake those waiting.
  if (waiting_.empty() && report(lane, fault)) return;
  fault.state = Fault::State::kWaiting;
  waiting_.push_back(fault.hook);
}

void PageFaults::cancel(Fault& fault) {
  const std::scoped_lock lock(mutex_);
  end(fault);
}

void PageFaults::end(Fault& fault) {
  if (fault.state == Fault::State::kNone) return;
  fault.hook.unlink();
  fault.state = Fault::State::kNone;
  --parked_;
}

bool PageFaults::resume(Fault& fault, std::uint32_t token) {
  const std::scoped_lock lock(mutex_);
  if (fault.state != Fault::State::kReported || fault.token != token) return false;
  end(fault);
  return true;
}

bool PageFaults::flush(Context& lane, unsigned most) {
  const std::scoped_lock lock(mutex_);
  for (unsigned n = 0; Fault* const fault = waiting_.front(); ++n) {
    if (n == most) return eq != nullptr;
    if (!report(lane, *fault)) return false;
    fault->hook.unlink();
  }
  return false;
}

bool PageFaults::report(Context& lane, Fault& fault) {
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
  if (!eq->post(lane, entry)) return false;
  fault.state = Fault::State::kReported;
  return true;
}

}  // namespace tern

// SPDX-License-Identifier: GPL-2.0-or-later
// The event log: send WQEs, retransmissions and rates.
#include "objects/context.h"
#include "transport/connection.h"
#include "transport/requester.h"
#include "transport/send_rate.h"

namespace tern {

void SendRate::log_rate() const {
  qp_.context().log->add({.type = TERN_LOG_RATE,
                          .qpn = qp_.number().value,
                          .addr = congestion_.active() ? congestion_.target() : 0,
                          .length = rate_,
                          .value = congestion_.active() ? congestion_.alpha() : 0});
}

void SendQueue::log_posted(std::uint32_t before) const {
  qp_.context().log->add(
      {.type = TERN_LOG_POSTED, .qpn = qp_.number().value, .index = posted_, .value = before});
}

void SendQueue::log_wqe(const SendWqe& wqe) const {
  qp_.context().log->add({.type = TERN_LOG_WQE,
                          .code = wqe.opcode,
                          .qpn = qp_.number().value,
                          .addr = wqe.raddr,
                          .length = wqe.length,
                          .key = wqe.rkey,
                          .index = wqe.index,
                          .value = wqe.status});
}

void Requester::log_retry() const {
  qp_.context().log->add({.type = TERN_LOG_RETRY,
                          .qpn = qp_.number().value,
                          .index = oldest_.psn.value(),
                          .value = retries_left_});
}

}  // namespace tern

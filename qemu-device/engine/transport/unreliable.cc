// SPDX-License-Identifier: GPL-2.0-or-later
#include "transport/unreliable.h"

#include <cassert>

#include <algorithm>

#include "objects/context.h"
#include "transport/connection.h"
#include "transport/segments.h"

namespace tern {

void UnreliableSender::reset() {
  SendQueue::reset();
  flush_end_.reset();
}

void UnreliableSender::resume() {
  kick();
  const auto pi = qp_.read_sq_pi();
  // fetch() reports an index that jumped.
  if (pi && *pi - oldest_.wqe <= qp_.sq_size()) flush_end_ = pi;
}

bool UnreliableSender::transmit(std::uint32_t& allowance) {
  if (flush_end_) {
    if (flush_to(*flush_end_, allowance)) return true;
    flush_end_.reset();
  }
  while (!parked() && window_.is_open() && (qp_.state() == TERN_QPS_RTS || next_.packet != 0)) {
    if (!has_wqe()) return false;
    if (allowance == 0) return true;
    SendWqe& wqe = window_.at(next_.wqe);
    if (!wqe.local && !wqe.failed() && qp_.paced()) return false;
    std::uint32_t cost = kPacketCost;
    if (wqe.local) {
      if (!wqe.failed()) wqe.status = execute_local(wqe);
    } else if (!wqe.failed()) {
      const std::uint8_t status = send_packet(wqe, cost);
      qp_.context().tx_packet.payload.clear();
      if (status == kAbsent) {
        park(wqe.index);
        return false;
      }
      wqe.status = status;
      if (!wqe.failed()) {
        mark_begun();
        ++next_.packet;
      }
    }
    if (wqe.failed() || next_.packet >= wqe.psns) finish(wqe);
    allowance -= std::min(allowance, cost);
    if (qp_.state() != TERN_QPS_RTS && qp_.state() != TERN_QPS_SQD) return true;
  }
  return false;
}

// Completes the WQE: its last packet was sent, or it failed.
void UnreliableSender::finish(const SendWqe& wqe) {
  pass_oldest();
  next_.wqe = oldest_.wqe;
  next_.packet = 0;
  complete(wqe, wqe.status);
  if (wqe.failed()) {
    qp_.counters().add(TERN_CNT_REQ_CQE_ERROR);
    qp_.send_failed();
  }
  if (qp_.state() == TERN_QPS_SQD) qp_.sq_drained();
  assert(consistent());
  settle();
}

}  // namespace tern

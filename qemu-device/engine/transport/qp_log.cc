// SPDX-License-Identifier: GPL-2.0-or-later
// The event log: QPs, their receive WQEs and page faults.
#include "objects/context.h"
#include "transport/qp.h"

namespace tern {

void Qp::log_state(std::uint8_t from, std::uint8_t to, std::uint32_t cause,
                   std::uint32_t event) const {
  context_->log->add({.type = TERN_LOG_QP_STATE,
                      .code = to,
                      .qpn = qpn_.value,
                      .index = from,
                      .value = cause,
                      .detail = event});
}

void Qp::log_fault(std::uint8_t code, const Fault& fault) const {
  const auto flags =
      static_cast<std::uint16_t>((fault.write ? TERN_LOG_F_WRITE : 0) |
                                 (fault.side == TERN_FAULT_RESPONDER ? TERN_LOG_F_RESPONDER : 0));
  context_->log->add({.type = TERN_LOG_PAGE_FAULT,
                      .code = code,
                      .flags = flags,
                      .qpn = qpn_.value,
                      .addr = fault.addr,
                      .length = fault.length,
                      .key = fault.key,
                      .index = fault.token});
}

void Qp::log_refused(const Packet& packet) const {
  context_->log->add({.type = TERN_LOG_DROPPED,
                      .code = packet.opcode(),
                      .qpn = qpn_.value,
                      .length = packet.payload.size(),
                      .key = TERN_LOG_DROP_QP_STATE,
                      .index = packet.psn.value(),
                      .value = attr_.dest_qpn});
}

void Qp::log_wqe(const RecvWqe& wqe) const {
  std::uint64_t room = 0;
  for (unsigned i = 0; i < wqe.num_sge; ++i) room += le(std::uint32_t{wqe.sges[i].length});
  context_->log->add({.type = TERN_LOG_WQE,
                      .flags = TERN_LOG_F_RECV,
                      .qpn = qpn_.value,
                      .length = room,
                      .index = wqe.index,
                      .detail = wqe.srqn});
}

}  // namespace tern

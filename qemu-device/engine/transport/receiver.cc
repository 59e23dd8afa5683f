// SPDX-License-Identifier: GPL-2.0-or-later
#include "transport/receiver.h"

#include "objects/context.h"
#include "objects/srq.h"
#include "transport/connection.h"
#include "transport/segments.h"

namespace tern {

Receiver::Receiver(Connection& qp) : qp_(qp), recv_(qp.context().blocks) {}

void Receiver::move_to(Context& context) { recv_.move_to(context.blocks); }

void Receiver::reset() {
  recv_.give();
  received_ = 0;
}

bool Receiver::receives_into_dead() const {
  const Srq* const from = recv_ ? srq() : nullptr;
  return from != nullptr && from->cq()->broken();
}

Take Receiver::take(Srq* xrc) {
  if (recv_) return Take::kTaken;
  const Take got = qp_.take_rq_wqe(recv_.take(), xrc);
  if (got != Take::kTaken) recv_.give();
  return got;
}

std::uint64_t Receiver::room() const {
  std::uint64_t room = 0;
  for (unsigned i = 0; i < recv_->num_sge; ++i) room += le(std::uint32_t{recv_->sges[i].length});
  return room;
}

std::uint8_t Receiver::locate(std::uint64_t offset, std::uint64_t len, SpanList& to) {
  Context& context = qp_.context();
  std::uint64_t left = len;
  const Access access = map_sges(
      context.memory, recv_->owner, recv_->num_sge, [&](unsigned i) { return recv_->sges[i]; },
      offset, left, true, to, context.missing);
  if (access == Access::kPending) {
    if (qp_.raise_fault(TERN_FAULT_RESPONDER, context.missing)) faulted_ = Faulted::kReceive;
    return kAbsent;
  }
  if (access != Access::kReady) {
    if (access == Access::kDmaError) qp_.counters().add(TERN_CNT_DMA_ERRORS);
    return TERN_CQE_LOC_PROT_ERR;
  }
  if (left > 0) {
    to.abandon();
    return TERN_CQE_LOC_LEN_ERR;
  }
  return TERN_CQE_SUCCESS;
}

std::uint8_t Receiver::scatter(const SpanList& payload) {
  SpanList& to = qp_.context().scatter;
  const std::uint8_t status = locate(received_, payload.size(), to);
  if (status != TERN_CQE_SUCCESS) return status;
  SpanList::copy(payload, to);
  to.clear();
  return status;
}

tern_cqe Receiver::cqe_of(std::uint8_t opcode, std::uint8_t status) const {
  tern_cqe cqe{};
  cqe.wr_id = le(recv_->wr_id);
  cqe.byte_len = le(received_);
  cqe.wqe_index = le(recv_->index);
  cqe.srqn = le(recv_->srqn);
  cqe.opcode = opcode;
  cqe.status = status;
  cqe.flags = TERN_CQE_F_RECV;
  return cqe;
}

tern_cqe Receiver::cqe_of(const Packet& packet, std::uint8_t opcode) const {
  tern_cqe cqe = cqe_of(opcode, TERN_CQE_SUCCESS);
  const OpTraits& t = traits(packet.transport, packet.op);
  if (t.imm) {
    cqe.imm = packet.imm;
    cqe.flags |= TERN_CQE_F_IMM;
  }
  if (t.ieth) {
    cqe.inv_rkey = le(packet.inv_rkey);
    cqe.flags |= TERN_CQE_F_INV;
  }
  if (packet.solicited) cqe.flags |= TERN_CQE_F_SOLICITED;
  return cqe;
}

void Receiver::release(const tern_cqe& cqe) {
  if (cqe.status == TERN_CQE_WR_FLUSH_ERR) {
    qp_.counters().add(TERN_CNT_RESP_CQE_FLUSH_ERROR);
  } else if (cqe.status != TERN_CQE_SUCCESS) {
    qp_.counters().add(TERN_CNT_RESP_CQE_ERROR);
  }
  recv_.give();
}

void Receiver::complete(tern_cqe cqe) {
  release(cqe);
  qp_.complete_recv(cqe);
}

void Receiver::stop(bool) {
  if (recv_) complete(cqe_of(TERN_RECV_SEND, TERN_CQE_WR_FLUSH_ERR));
}

}  // namespace tern

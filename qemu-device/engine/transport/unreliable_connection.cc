// SPDX-License-Identifier: GPL-2.0-or-later
#include "transport/unreliable_connection.h"

#include "objects/context.h"
#include "transport/connection.h"
#include "transport/segments.h"

namespace tern {

// ---- sending ----

std::uint32_t UcSender::psns_of(const SendWqe& wqe) const {
  return packets_of(wqe.length, qp_.mtu());
}

std::uint8_t UcSender::send_packet(SendWqe& wqe, std::uint32_t& cost) {
  if (next_.packet == 0) {
    wqe.first_psn = next_.psn;
    wqe.psns = psns_of(wqe);
  }
  if (const std::uint8_t status = load_data(wqe); status != TERN_CQE_SUCCESS) return status;
  Packet& packet = qp_.context().tx_packet;
  qp_.address(packet);
  packet.psn = take_psn();
  packet.ack_req = false;
  cost += static_cast<std::uint32_t>(packet.payload.size());
  qp_.send_paced(packet);
  return TERN_CQE_SUCCESS;
}

// ---- receiving ----

void UcReceiver::start() { epsn_ = Psn(qp_.attr().rq_psn); }

// Drops the packet and the rest of its message. The next message uses the receive WQE taken for
// this one.
void UcReceiver::drop() { message_ = Message::kNone; }

void UcReceiver::drop(unsigned counter) {
  qp_.counters().add(counter);
  drop();
}

// Completes the held WQE with an error and moves the QP to the error state.
void UcReceiver::fail(std::uint8_t status) {
  drop();
  complete(cqe_of(TERN_RECV_SEND, status));
  qp_.enter_error(-1);
}

void UcReceiver::deliver(const Packet& packet) {
  if (packet.psn != epsn_) drop(TERN_CNT_OUT_OF_SEQUENCE);
  epsn_ = packet.psn.next();
  const OpTraits& t = traits(packet.transport, packet.op);
  // FIRST and ONLY begin a new message in any state.
  const bool follows = t.first || message_ == (t.send ? Message::kSend : Message::kWrite);
  if (!follows || !length_fits(packet, t) || !qp_.follow(packet)) return drop();
  qp_.communication_established();
  const Refusal refusal = receive(*this, packet, t, qp_.accessor());
  if (refusal != Refusal::kNone) refuse(refusal);
}

// Drops the rest of the message. An invalid receive WQE or queue moves the QP to the error state.
void UcReceiver::refuse(Refusal why) {
  switch (why) {
    case Refusal::kNone:
      return;
    case Refusal::kNoReceive:
    case Refusal::kAbsent:
      return drop(TERN_CNT_OUT_OF_BUFFER);
    case Refusal::kQueueFailed:
      return qp_.enter_error(TERN_EV_QP_FATAL);
    case Refusal::kTooLong:
      return drop(TERN_CNT_RESP_LOCAL_LENGTH_ERROR);
    case Refusal::kProtection:
      return fail(TERN_CQE_LOC_PROT_ERR);
    case Refusal::kNotInvalidated:
      return fail(TERN_CQE_REM_INV_REQ_ERR);
    case Refusal::kInvalid:
      return drop();
    case Refusal::kDenied:
    case Refusal::kRevoked:
      return drop(TERN_CNT_RESP_REMOTE_ACCESS_ERRORS);
    case Refusal::kDmaError:
      return drop(TERN_CNT_DMA_ERRORS);
  }
}

// The message is lost already. If the access must fail, a WRITE is only counted; a SEND fails its
// receive WQE.
void UcReceiver::fault_over(bool failed) {
  if (!failed) return;
  if (faulted_ == Faulted::kRequest) return drop(TERN_CNT_RESP_REMOTE_ACCESS_ERRORS);
  if (recv_) fail(TERN_CQE_LOC_PROT_ERR);
}

}  // namespace tern

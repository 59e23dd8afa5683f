// SPDX-License-Identifier: GPL-2.0-or-later
#include "transport/unreliable_connection.h"

#include "objects/context.h"
#include "transport/connection.h"
#include "transport/segments.h"

namespace tern {

// ---- sending ----

std::uint8_t UcSender::send_packet(SendWqe& wqe, std::uint32_t& cost) {
  if (cursor_packet_ == 0) wqe.psns = packets_of(wqe.length, qp_.mtu());
  if (const std::uint8_t status = load_data(wqe); status != TERN_CQE_SUCCESS) return status;
  Packet& packet = qp_.context().tx_packet;
  qp_.address(packet);
  packet.psn = next_psn_;
  packet.ack_req = false;
  next_psn_ = next_psn_.next();
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
  if (!in_sequence(packet) || !qp_.follow(packet)) return drop();
  qp_.communication_established();
  if (traits(packet.transport, packet.op).send) return on_send(packet);
  on_write(packet);
}

// FIRST and ONLY begin a new message in any state. Only the last packet of a message is shorter
// than the path MTU.
bool UcReceiver::in_sequence(const Packet& packet) const {
  const OpTraits& t = traits(packet.transport, packet.op);
  if (!t.first && message_ != (t.send ? Message::kSend : Message::kWrite)) return false;
  const std::uint64_t len = packet.payload.size();
  if (!t.last) return len == qp_.mtu();
  return len <= qp_.mtu() && (t.first || len > 0);
}

// The message is lost already. If the access must fail, a WRITE is only counted; a SEND fails its
// receive WQE.
void UcReceiver::fault_over(bool failed) {
  if (!failed) return;
  if (faulted_ == Faulted::kRequest) return drop(TERN_CNT_RESP_REMOTE_ACCESS_ERRORS);
  if (recv_) fail(TERN_CQE_LOC_PROT_ERR);
}

bool UcReceiver::take_receive() {
  const Take got = take();
  if (got == Take::kEmpty) drop(TERN_CNT_OUT_OF_BUFFER);
  if (got == Take::kFailed) qp_.enter_error(TERN_EV_QP_FATAL);
  return got == Take::kTaken;
}

void UcReceiver::on_send(const Packet& packet) {
  const OpTraits& t = traits(packet.transport, packet.op);
  if (!take_receive()) return;
  if (t.first) received_ = 0;
  if (received_ + packet.payload.size() > kMaxDmaLen) return drop(TERN_CNT_RESP_LOCAL_LENGTH_ERROR);
  const std::uint8_t status = scatter(packet.payload);
  if (status == kAbsent) return drop(TERN_CNT_OUT_OF_BUFFER);
  if (status == TERN_CQE_LOC_LEN_ERR) return drop(TERN_CNT_RESP_LOCAL_LENGTH_ERROR);
  if (status != TERN_CQE_SUCCESS) return fail(status);
  // Invalidate only now, because storing the bytes may have needed the key.
  if (t.ieth && !qp_.context().memory.invalidate_remote(qp_.accessor(), packet.inv_rkey)) {
    return fail(TERN_CQE_REM_INV_REQ_ERR);
  }
  received_ += static_cast<std::uint32_t>(packet.payload.size());
  message_ = t.last ? Message::kNone : Message::kSend;
  if (t.last) complete(cqe_of(packet, TERN_RECV_SEND));
}

void UcReceiver::on_write(const Packet& packet) {
  const OpTraits& t = traits(packet.transport, packet.op);
  if (t.first) {
    const std::uint8_t syndrome = begin_write(packet, qp_.accessor());
    if (syndrome == kNakRemoteAccess) return drop(TERN_CNT_RESP_REMOTE_ACCESS_ERRORS);
    if (syndrome != 0) return drop();
  }
  if (!as_announced(packet)) return drop();
  if (t.imm && !take_receive()) return;
  if (!store(packet.payload)) return;
  message_ = t.last ? Message::kNone : Message::kWrite;
  if (t.imm) complete(cqe_of(packet, TERN_RECV_RDMA_WITH_IMM));
}

// Stores payload as the next bytes of the WRITE.
bool UcReceiver::store(const SpanList& payload) {
  const auto len = static_cast<std::uint32_t>(payload.size());
  const Access access = reach_write(qp_.accessor(), len);
  if (access != Access::kReady) {
    drop(access == Access::kPending    ? TERN_CNT_OUT_OF_BUFFER
         : access == Access::kDmaError ? TERN_CNT_DMA_ERRORS
                                       : TERN_CNT_RESP_REMOTE_ACCESS_ERRORS);
    return false;
  }
  SpanList& to = qp_.context().scatter;
  SpanList::copy(payload, to);
  to.clear();
  written(len);
  return true;
}

}  // namespace tern

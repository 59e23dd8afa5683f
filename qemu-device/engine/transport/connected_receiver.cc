// SPDX-License-Identifier: GPL-2.0-or-later
#include "transport/connected_receiver.h"

#include "objects/context.h"
#include "transport/connection.h"

namespace tern {

void ConnectedReceiver::reset() {
  Receiver::reset();
  message_ = Message::kNone;
}

bool ConnectedReceiver::allows(const Packet& packet, const Accessor& who,
                               std::uint32_t rights) const {
  if ((qp_.attr().access & rights) == rights) [[likely]]
    return true;
  const std::uint64_t length = traits(packet.transport, packet.op).atomic_eth ? 8 : packet.dma_len;
  qp_.context().memory.denied_by_qp(who, packet.rkey, packet.va, length, rights);
  return false;
}

bool ConnectedReceiver::length_fits(const Packet& packet, const OpTraits& t) const {
  const std::uint64_t len = packet.payload.size();
  const std::uint64_t before = std::uint64_t{packet.train - 1} * qp_.mtu();
  const std::uint64_t whole = before + qp_.mtu();
  if (!t.last) return len == whole;
  return len <= whole && (len > before || (t.first && before == 0));
}

// Checks the RETH of the first packet of a WRITE, and records the destination. `permit`: the access
// to its memory, for the bytes of this packet.
ConnectedReceiver::Refusal ConnectedReceiver::begin_write(const Packet& packet, const Accessor& who,
                                                          Memory::Permit& permit) {
  Context& context = qp_.context();
  if (!allows(packet, who, TERN_ACCESS_REMOTE_WRITE) || packet.dma_len > kMaxDmaLen)
    return Refusal::kInvalid;
  // A WRITE ONLY with immediate that is repeated after an RNR NAK counts twice. A flag to prevent
  // that is not worth it.
  qp_.counters().add(TERN_CNT_RX_WRITE_REQUESTS);
  permit = context.memory.check_remote(who, packet.rkey, packet.va, packet.dma_len,
                                       TERN_ACCESS_REMOTE_WRITE);
  if (permit.access() != Access::kReady) return Refusal::kDenied;
  write_va_ = packet.va;
  write_rkey_ = packet.rkey;
  write_left_ = packet.dma_len;
  received_ = 0;
  return Refusal::kNone;
}

// Checks that the bytes of a WRITE's packets add up to the length in its RETH.
ConnectedReceiver::Refusal ConnectedReceiver::check_write(const Packet& packet, const OpTraits& t,
                                                          const Accessor& who,
                                                          Memory::Permit& permit) {
  if (t.first) {
    const Refusal refusal = begin_write(packet, who, permit);
    if (refusal != Refusal::kNone) return refusal;
  }
  const std::uint64_t len = packet.payload.size();
  const bool as_announced = t.last ? len == write_left_ : len <= write_left_;
  return as_announced ? Refusal::kNone : Refusal::kInvalid;
}

ConnectedReceiver::Refusal ConnectedReceiver::store_send(const Packet& packet, const OpTraits& t,
                                                         const Accessor& who) {
  if (t.first) received_ = 0;
  if (received_ + packet.payload.size() > kMaxDmaLen) return Refusal::kTooLong;
  const std::uint8_t status = scatter(packet.payload);
  if (status != TERN_CQE_SUCCESS) {
    return status == kAbsent                ? Refusal::kAbsent
           : status == TERN_CQE_LOC_LEN_ERR ? Refusal::kTooLong
                                            : Refusal::kProtection;
  }
  // Invalidate only now, because storing the bytes may have needed the key. A repeated packet does
  // not reach this code.
  if (t.ieth) {
    Context& context = qp_.context();
    context.unshare();
    if (!context.memory.invalidate_remote(who, packet.inv_rkey)) return Refusal::kNotInvalidated;
  }
  received_ += static_cast<std::uint32_t>(packet.payload.size());
  return Refusal::kNone;
}

ConnectedReceiver::Refusal ConnectedReceiver::store_write(const Packet& packet, const Accessor& who,
                                                          const Memory::Permit& permit) {
  const auto len = static_cast<std::uint32_t>(packet.payload.size());
  if (len > 0) {
    const std::uint32_t rest = write_left_ - len;
    const KeyRequest request{write_rkey_, write_va_, len, TERN_ACCESS_REMOTE_WRITE};
    Context& context = qp_.context();
    const Access access =
        permit.region != nullptr
            ? reached(context.memory.map(permit, who, request, context.scatter, context.missing),
                      rest)
            : reach(who, request, rest);
    if (access != Access::kReady) {
      return access == Access::kPending  ? Refusal::kAbsent
             : access == Access::kDenied ? Refusal::kRevoked
                                         : Refusal::kDmaError;
    }
    SpanList::copy(packet.payload, context.scatter);
    context.scatter.clear();
    write_va_ += len;
    write_left_ -= len;
    received_ += len;
  }
  return Refusal::kNone;
}

void ConnectedReceiver::count_write() { qp_.count(TERN_COMP_OP_REMOTE_WRITE, true, received_); }

Access ConnectedReceiver::reach(const Accessor& who, const KeyRequest& request,
                                std::uint64_t rest) {
  Context& context = qp_.context();
  return reached(context.memory.remote(who, request, context.scatter, context.missing), rest);
}

Access ConnectedReceiver::reached(Access access, std::uint64_t rest) {
  if (access == Access::kReady) [[likely]]
    return access;
  Context& context = qp_.context();
  context.scatter.abandon();
  if (access == Access::kPending && qp_.raise_fault(TERN_FAULT_RESPONDER, context.missing, rest))
    faulted_ = Faulted::kRequest;
  return access;
}

}  // namespace tern

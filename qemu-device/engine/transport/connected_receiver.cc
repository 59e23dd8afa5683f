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

std::uint8_t ConnectedReceiver::begin_write(const Packet& packet, const Accessor& who) {
  Context& context = qp_.context();
  if (!allows(packet, who, TERN_ACCESS_REMOTE_WRITE) || packet.dma_len > kMaxDmaLen)
    return kNakInvalidRequest;
  // A WRITE ONLY with immediate that is repeated after an RNR NAK counts twice. A flag to prevent
  // that is not worth it.
  qp_.counters().add(TERN_CNT_RX_WRITE_REQUESTS);
  if (packet.dma_len > 0 &&
      context.memory.check_remote(who, packet.rkey, packet.va, packet.dma_len,
                                  TERN_ACCESS_REMOTE_WRITE) != Access::kReady) {
    return kNakRemoteAccess;
  }
  write_va_ = packet.va;
  write_rkey_ = packet.rkey;
  write_left_ = packet.dma_len;
  received_ = 0;
  return 0;
}

bool ConnectedReceiver::as_announced(const Packet& packet) const {
  const std::uint64_t len = packet.payload.size();
  return traits(packet.transport, packet.op).last ? len == write_left_ : len <= write_left_;
}

Access ConnectedReceiver::reach(const Accessor& who, std::uint32_t rkey, std::uint64_t va,
                                std::uint64_t len, std::uint32_t rights, std::uint64_t rest) {
  SpanList& to = qp_.context().scatter;
  const Access access = qp_.context().memory.remote(who, rkey, va, len, rights, to);
  if (access == Access::kReady) [[likely]]
    return access;
  to.abandon();
  if (access == Access::kPending && qp_.raise_fault(TERN_FAULT_RESPONDER, rest))
    faulted_ = Faulted::kRequest;
  return access;
}

}  // namespace tern

// SPDX-License-Identifier: GPL-2.0-or-later
// The receiving half of a connection: stores messages of several packets, SENDs and RDMA WRITEs.
// Derived classes decide about the order of packets, and what a refused one causes.
#pragma once

#include <cstdint>

#include "transport/receiver.h"

namespace tern {

class ConnectedReceiver : public Receiver {
 public:
  using Receiver::Receiver;

  void reset() override;
  void state(Archive& ar) override;

 protected:
  // The message that the next packet continues. Also kNone while the rest of a lost message is
  // dropped.
  enum class Message : std::uint8_t { kNone, kSend, kWrite };

  // Whether the QP allows peers requests that need `rights` (TERN_ACCESS_*).
  [[nodiscard]] bool allows(const Packet& packet, const Accessor& who, std::uint32_t rights) const;
  // Whether the length of a SEND or WRITE packet suits its opcode: only the last packet of a
  // message, which may end a train, is shorter than the path MTU.
  [[nodiscard]] bool length_fits(const Packet& packet, const OpTraits& t) const;

  // Why a packet of a message was not stored.
  enum class Refusal : std::uint8_t {
    kNone,
    kNoReceive,       // no receive WQE is posted
    kQueueFailed,     // the receive queue is unusable
    kAbsent,          // a page is absent, and the fault is reported
    kTooLong,         // SEND: exceeds the receive WQE's buffers, or what a message may have
    kProtection,      // SEND: the buffers are not accessible
    kNotInvalidated,  // SEND: the key that it invalidates is not valid
    kInvalid,         // WRITE: the QP allows none, or the lengths of RETH and packets disagree
    kDenied,          // WRITE: the memory that its RETH names is not accessible
    kRevoked,         // WRITE: the memory was accessible when the message began
    kDmaError,        // WRITE: the memory is not RAM
  };
  // Stores a packet of a SEND or WRITE that follows the packets before it, and completes the
  // receive WQE of the message with its last packet. A refused packet does not advance the message.
  // `who`: for the keys that the packet uses. `half`: the derived object, whose take_message()
  // takes a receive WQE unless one is held, and whose complete() completes it.
  template <class Half>
  [[nodiscard]] Refusal receive(Half& half, const Packet& packet, const OpTraits& t,
                                const Accessor& who) {
    Memory::Permit permit;
    if (!t.send) {
      const Refusal refusal = check_write(packet, t, who, permit);
      if (refusal != Refusal::kNone) return refusal;
    }
    if (t.send || t.imm) {
      const Take got = half.take_message(packet);
      if (got == Take::kEmpty) return Refusal::kNoReceive;
      if (got == Take::kFailed) return Refusal::kQueueFailed;
    }
    const Refusal refusal = t.send ? store_send(packet, t, who) : store_write(packet, who, permit);
    if (refusal != Refusal::kNone) return refusal;
    message_ = t.last ? Message::kNone : t.send ? Message::kSend : Message::kWrite;
    if (t.last && !t.send) count_write();
    if (t.last && (t.send || t.imm)) {
      half.complete(cqe_of(packet, t.send ? TERN_RECV_SEND : TERN_RECV_RDMA_WITH_IMM));
    }
    return Refusal::kNone;
  }

  // Maps the memory that a request addresses into Context::scatter, which stays empty unless the
  // result is kReady. For kPending it raises the page fault. `rest`: bytes of the message after the
  // packet.
  [[nodiscard]] Access reach(const Accessor& who, const KeyRequest& request,
                             std::uint64_t rest = 0);

  Message message_ = Message::kNone;

 private:
  [[nodiscard]] Refusal check_write(const Packet& packet, const OpTraits& t, const Accessor& who,
                                    Memory::Permit& permit);
  [[nodiscard]] Refusal begin_write(const Packet& packet, const Accessor& who,
                                    Memory::Permit& permit);
  [[nodiscard]] Refusal store_send(const Packet& packet, const OpTraits& t, const Accessor& who);
  [[nodiscard]] Refusal store_write(const Packet& packet, const Accessor& who,
                                    const Memory::Permit& permit);
  [[nodiscard]] Access reached(Access access, std::uint64_t rest);
  void count_write();

  std::uint32_t write_rkey_ = 0;
  std::uint64_t write_va_ = 0;
  std::uint32_t write_left_ = 0;
};

}  // namespace tern

// SPDX-License-Identifier: GPL-2.0-or-later
// The receiving half of a QP of any type: takes receive WQEs, scatters payload to their SGEs,
// completes them.
#pragma once

#include <cstdint>

#include "core/block_pool.h"
#include "memory/memory.h"
#include "objects/recv_wqe.h"
#include "tern_hw.hpp"
#include "wire/packet.h"

namespace tern {

class Archive;
class Cq;
class Connection;
class Context;
class Srq;

inline constexpr std::uint32_t kMaxDmaLen = 1U << 31;  // IBTA C9-94

class Receiver {
 public:
  explicit Receiver(Connection& qp);
  virtual ~Receiver() = default;
  Receiver(const Receiver&) = delete;
  Receiver& operator=(const Receiver&) = delete;

  // The QP goes to RTR.
  virtual void start() {}
  // Returns the receiver to its state after creation.
  virtual void reset();

  // Handles a request packet.
  virtual void deliver(const Packet& packet) = 0;
  // Sends queued answers. Returns true if the allowance ran out first.
  virtual bool transmit(std::uint32_t&) { return false; }
  // The QP goes to ERR: flushes the held receive WQE. `silent`: see Connection::enter_error().
  virtual void stop(bool silent);
  // The QP moves to this data path.
  virtual void move_to(Context& context);

  // The page fault of this half has ended. `failed`: software did not resolve it, and the access
  // fails.
  virtual void fault_over(bool failed) = 0;
  // Saved state, when the QP's attributes are known.
  virtual void state(Archive& ar);

  [[nodiscard]] virtual Psn expected_psn() const { return Psn(); }
  // XRC: the SRQ of the message, null if it is gone.
  [[nodiscard]] virtual Srq* srq() const { return nullptr; }
  // Tags: whether the held WQE is of a request for a rendezvous.
  [[nodiscard]] virtual bool holds_request() const { return false; }
  // XRC: returns whether the CQ of the held WQE is dead.
  [[nodiscard]] bool receives_into_dead() const;

 protected:
  // Takes a receive WQE unless one is held; returns as Connection::take_rq_wqe() does. `xrc`: the
  // SRQ that an XRC request refers to.
  [[nodiscard]] Take take(Srq* xrc = nullptr);
  // locate() and scatter() return this instead of a CQE status if a page is absent and the fault is
  // reported.
  static constexpr std::uint8_t kAbsent = 0xff;
  // Bytes that the held WQE's buffers hold.
  [[nodiscard]] std::uint64_t room() const;
  // Finds bytes [offset, offset + len) of the memory that the held WQE describes. Returns a CQE
  // status or kAbsent. `to` is empty unless that is success.
  [[nodiscard]] std::uint8_t locate(std::uint64_t offset, std::uint64_t len, SpanList& to);
  // Copies `payload` to the memory after the bytes received so far. Returns a CQE status or
  // kAbsent.
  [[nodiscard]] std::uint8_t scatter(const SpanList& payload);
  // Builds a CQE for the held WQE: with the given status, or with the fields of `packet`, which
  // ends the message.
  [[nodiscard]] tern_cqe cqe_of(std::uint8_t opcode, std::uint8_t status) const;
  [[nodiscard]] tern_cqe cqe_of(const Packet& packet, std::uint8_t opcode) const;
  // Completes the held WQE.
  void complete(tern_cqe cqe);
  // The first part of that: counts the completion, and releases the WQE.
  void release(const tern_cqe& cqe);

  // The access that the page fault of this half stopped: scattering to the held WQE, a request to
  // memory that the peer addresses, or the response to a READ.
  enum class Faulted : std::uint8_t { kReceive, kRequest, kAnswer };

  Connection& qp_;
  Faulted faulted_ = Faulted::kReceive;
  Pooled<RecvWqe> recv_;        // held: taken and not completed
  std::uint32_t received_ = 0;  // bytes of the message so far
};

}  // namespace tern

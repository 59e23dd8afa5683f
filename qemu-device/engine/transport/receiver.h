// SPDX-License-Identifier: GPL-2.0-or-later
// The receiving half of a QP of any type: takes receive WQEs, puts payload where they say,
// completes them.
#pragma once

#include <cstdint>

#include "core/block_pool.h"
#include "memory/memory.h"
#include "objects/recv_wqe.h"
#include "tern_hw.hpp"
#include "wire/packet.h"

namespace tern {

class Cq;
class Qp;
class Srq;

inline constexpr std::uint32_t kMaxDmaLen = 1U << 31;  // IBTA C9-94

class Receiver {
 public:
  explicit Receiver(Qp& qp);
  virtual ~Receiver() = default;
  Receiver(const Receiver&) = delete;
  Receiver& operator=(const Receiver&) = delete;

  // To RTR. Back to nothing.
  virtual void start() {}
  virtual void reset();

  // A request packet.
  virtual void deliver(const Packet& packet) = 0;
  // Sends what is owed for requests; true when the allowance ran out before it was done.
  virtual bool transmit(std::uint32_t&) { return false; }
  // The error state: the receive WQE that is held is flushed.
  virtual void stop(bool silent);

  // The page fault of this half is over: software resolved it, or the access must fail.
  virtual void fault_over(bool failed) = 0;

  [[nodiscard]] virtual Psn expected_psn() const { return Psn(); }
  // XRC: the SRQ of the message; null when that is gone.
  [[nodiscard]] virtual Srq* srq() const { return nullptr; }
  // XRC: the CQ of the held WQE is dead.
  [[nodiscard]] bool receives_into_dead() const;

 protected:
  // Takes a receive WQE unless one is held. As Qp::take_rq_wqe().
  [[nodiscard]] Take take();
  // What locate() and scatter() return besides the statuses of CQEs: a page is absent, and the fault is
  // reported.
  static constexpr std::uint8_t kAbsent = 0xff;
  // Finds `len` bytes from byte `offset` on of what the held WQE describes. A CQE status, or kAbsent; with
  // another than success `to` is empty.
  [[nodiscard]] std::uint8_t locate(std::uint64_t offset, std::uint64_t len, SpanList& to);
  // Copies `payload` behind the bytes received before. A CQE status, or kAbsent.
  [[nodiscard]] std::uint8_t scatter(const SpanList& payload);
  // A completion of the held WQE; of the message that `packet` ends.
  [[nodiscard]] tern_cqe cqe_of(std::uint8_t opcode, std::uint8_t status) const;
  [[nodiscard]] tern_cqe cqe_of(const Packet& packet, std::uint8_t opcode) const;
  // Completes the held WQE.
  void complete(tern_cqe cqe);

  // What the page fault of this half stopped: scattering to the held WQE, a request for memory that the
  // peer names, the response to a READ.
  enum class Faulted : std::uint8_t { kReceive, kRequest, kAnswer };

  Qp& qp_;
  Faulted faulted_ = Faulted::kReceive;
  Pooled<RecvWqe> recv_;          // held: taken and not completed
  std::uint32_t received_ = 0;  // bytes of the message so far
};

}  // namespace tern

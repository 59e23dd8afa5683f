// SPDX-License-Identifier: GPL-2.0-or-later
// The QPs whose send queue the device polls because their software rings often. Software need not
// ring meanwhile (tern_qp_record.status, TERN_QP_ST_SQ_POLLED).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "core/types.h"

namespace tern {

class Context;
class Qp;

// The poller's state of one QP.
struct SqPolled {
  std::uint32_t period = 0;  // of the last doorbell
  std::uint16_t rings = 0;   // doorbells in that period
  std::uint16_t idle = 0;    // polls without work, less worth() for each with work
  bool on = false;
};

class SqPoller {
 public:
  // `doorbell_cost`: Config::doorbell_cost. The more a doorbell costs, the more rarely a queue may be
  // rung, and the longer it is polled in vain: up to ten times kMaxPatience.
  SqPoller(Context& context, Nanos doorbell_cost);

  // Allows polling from time `from` on; kNever forbids it. The host promises to run the device, or
  // to call look(), again and again from then on while any(). Stops polling the queues polled so far.
  void allow(Nanos from);
  // Counts a doorbell of the QP's send queue.
  void rung(Qp& qp) {
    if (from_ != kNever) count(qp);
  }
  // Starts to poll the QP if it is in RTS and there is room, as if it had been rung often.
  void begin(Qp& qp);
  // Stops polling the QP, which is going away or whose status the caller is about to store.
  void forget(Qp& qp);
  // Stops polling the QP: its software has to ring again. WQEs posted before software could see
  // that are found.
  void release(Qp& qp);
  // Polls: schedules each QP whose producer index has moved, and releases a QP that was idle too
  // often.
  void look();
  [[nodiscard]] bool any() const { return count_ != 0; }

 private:
  // More would make each poll slow. This is enough for one or two busy connections of each process.
  static constexpr std::size_t kMost = 16;
  // Doorbells in a period, and how many of them from one QP make it worth polling.
  static constexpr std::uint32_t kPeriod = 64;
  static constexpr std::uint16_t kRings = 4;
  static constexpr Nanos kMaxPatience = 100'000;

  void count(Qp& qp);
  // How many polls without work one with work offsets.
  [[nodiscard]] std::uint16_t worth() const { return patience_ / 2; }

  Context& context_;
  // Doorbells are dense if a period is no longer than this: four times their cost.
  const Nanos dense_limit_;
  // Polls without work after which a QP is released, at about 20 ns each: ten times the cost of a
  // doorbell.
  const std::uint16_t patience_;
  std::array<Qp*, kMost> qps_{};
  std::size_t count_ = 0;
  Nanos from_ = kNever;
  bool dense_ = false;       // the last period was no longer than dense_limit_
  Nanos began_ = 0;          // start of this period
  std::uint32_t period_ = 1;
  std::uint32_t rings_ = 0;  // in this period
};

}  // namespace tern

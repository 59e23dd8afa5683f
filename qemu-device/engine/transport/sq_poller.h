// SPDX-License-Identifier: GPL-2.0-or-later
// The QPs whose send queue the device looks at by itself, because their software rings so often: it
// need not ring meanwhile (tern_qp_record.status, TERN_QP_ST_SQ_POLLED).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "core/types.h"

namespace tern {

class Context;
class Qp;

// A QP's part of it.
struct SqPolled {
  std::uint32_t period = 0;  // in which it was rung last
  std::uint16_t rings = 0;   // in that period
  std::uint16_t idle = 0;    // looks that found nothing, less what others found
  bool on = false;
};

class SqPoller {
 public:
  explicit SqPoller(Context& context) : context_(context) {}

  // From when on the host promises to run the device, or to let it look(), again and again while any().
  // kNever: not at all. Stops polling every queue.
  void allow(Nanos from);
  // A doorbell of a QP's send queue.
  void rung(Qp& qp) {
    if (from_ != kNever) count(qp);
  }
  // From now on, if there is room: as if it had been rung often.
  void begin(Qp& qp);
  // The QP goes, or its record is about to be stored by who calls this.
  void forget(Qp& qp);
  // Its software has to ring again. What it posted before it could know is found.
  void release(Qp& qp);
  // Gives a turn to each QP whose index has moved. Who is found idle too often has to ring again.
  void look();
  [[nodiscard]] bool any() const { return count_ != 0; }

 private:
  // More would make each look slow; that many ends have a busy connection or two of each process.
  static constexpr std::size_t kMost = 16;
  // Doorbells of a period, and how many of one QP make it worth polling.
  static constexpr std::uint32_t kPeriod = 64;
  static constexpr std::uint16_t kRings = 4;
  // In a period that is longer than this doorbells are rare: 4 us from one to the next.
  static constexpr Nanos kDense = 256'000;
  // Looks in a row, about 20 ns each, and how many of them a look that finds something makes up for.
  static constexpr std::uint16_t kPatience = 512;
  static constexpr std::uint16_t kWorth = 256;

  void count(Qp& qp);

  Context& context_;
  std::array<Qp*, kMost> qps_{};
  std::size_t count_ = 0;
  Nanos from_ = kNever;
  bool dense_ = false;       // the last period was
  Nanos began_ = 0;          // of this period
  std::uint32_t period_ = 1;
  std::uint32_t rings_ = 0;  // in this period
};

}  // namespace tern

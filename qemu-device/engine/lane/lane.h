// SPDX-License-Identifier: GPL-2.0-or-later
// One thread's worth of data path: which QPs are ready, timers, the packets being built and parsed, effects and counters. A QP belongs
// to one lane; there is one.
#pragma once

#include <cstdint>

#include "core/list.h"
#include "core/table.h"
#include "objects/context.h"
#include "objects/srq.h"
#include "objects/uar_pages.h"
#include "transport/qp.h"
#include "transport/sq_poller.h"
#include "wire/packet.h"

namespace tern {

class Port;

class Lane final : public Context {
 public:
  Lane(Host& host, const Config& config, DeviceStatus& status, PageBudget& budget, Memory& memory, const Table<Qp>& qps,
       const Table<Srq>& srqs, Port& port);

  // The device is enabled with so many doorbell pages.
  void enable(std::uint32_t uar_pages);
  void reset();  // no object is left

  // Does work for about `budget` bytes; true when more is left. `more`: admin commands are left already.
  bool run(std::uint32_t budget, bool more);
  // Polls the send queues that software need not ring for. False: run() would find nothing to do yet.
  bool look();
  [[nodiscard]] Nanos next_deadline() const { return status.enabled() ? timers.next() : kNever; }

  // Events that waited for room in the kernel's queues, the asynchronous and the fault EQ.
  void flush_events();
  // A packet was sent; `cost` is taken off the QP's turn.
  void charge(std::uint32_t cost) { emitted_ += cost; }
  void allow_trains(bool allow) { trains_ = allow; }

  UarPages uars;
  SqPoller sq_poller;
  Packet rx_packet;  // being parsed

 private:
  friend class Context;
  [[nodiscard]] std::uint32_t look_at_pages(std::uint32_t budget);
  bool run_qps(std::uint32_t budget);
  void walk_xrc_targets();
  void make_ready(Qp& qp);

  const Table<Qp>& qps_;
  const Table<Srq>& srqs_;
  Port& port_;
  List<Qp> ready_;
  PageQueue kernel_events_;
  bool unfinished_ = false;       // the last run left something
  std::uint32_t emitted_ = 0;     // cost of the packets sent since a QP got its turn
  std::uint32_t xrc_unseen_ = 0;  // QP numbers below are still to be looked at
};

}  // namespace tern

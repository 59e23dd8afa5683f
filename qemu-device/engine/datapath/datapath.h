// SPDX-License-Identifier: GPL-2.0-or-later
// The data path of one thread: ready QPs, timers, the packets being built and parsed, effects and
// counters. A QP belongs to one data path; there is one data path.
#pragma once

#include <cstdint>

#include "core/list.h"
#include "core/table.h"
#include "datapath/sq_poller.h"
#include "objects/context.h"
#include "objects/srq.h"
#include "objects/uar_pages.h"
#include "transport/qp.h"
#include "wire/packet.h"

namespace tern {

class Port;

class DataPath final : public Context {
 public:
  DataPath(Host& host, DeviceState& device, Memory& memory, const Table<Qp>& qps,
           const Table<Srq>& srqs, Port& port);

  // Enables the data path with `uar_pages` doorbell pages.
  void enable(std::uint32_t uar_pages);
  void reset();  // all objects are gone

  // Serves QPs for about `budget` bytes, and Ethernet queues for about as many: neither delays the
  // other. `more`: admin commands are still waiting. Returns true if work is left or a queue is
  // polled.
  bool run(std::uint32_t budget, bool more);
  // Allows polling from time `from` on: QueuePoller::allow() of send and transmit queues.
  void allow_polling(Nanos from);
  // Polls queues. Returns true if run() would find something to do.
  bool poll();
  [[nodiscard]] bool polls() const;
  // When run() is due for a timer, or earlier: see Timer::arm_lazily().
  [[nodiscard]] Nanos next_deadline() const {
    return device.status.enabled() ? timers.next() : kNever;
  }

  // Reads the arm words of the CQs that got CQEs since the last call: an arm stored before the CQEs
  // needs no doorbell.
  void read_arms();
  // Posts events that waited for space in the asynchronous or the fault EQ. If there are many,
  // run() posts the rest.
  void flush_events();
  // Sets the parameters of congestion control, for now and after each reset.
  void set_congestion(const CongestionParams& params) {
    device.congestion = congestion_preset_ = params;
  }
  void allow_trains(bool allow) { trains_ = allow; }
  [[nodiscard]] bool allows_trains() const { return trains_; }

  UarPages uars;
  SqPoller sq_poller;
  Packet rx_packet;  // being parsed

 private:
  friend class Context;
  [[nodiscard]] std::uint32_t check_pages(std::uint32_t budget);
  void run_qps(std::uint32_t budget);
  void send_notifications();
  [[nodiscard]] std::uint32_t run_tags(std::uint32_t budget);
  [[nodiscard]] std::uint32_t notify_cq_users(std::uint32_t budget);
  [[nodiscard]] std::uint32_t walk_xrc_targets(std::uint32_t budget);
  void prefetch(const Qp& qp) const;
  void make_ready(Qp& qp);
  // Whether run() would find something to do.
  [[nodiscard]] bool waits() const;

  const Table<Qp>& qps_;
  const Table<Srq>& srqs_;
  Port& port_;
  List<Qp> ready_;
  List<Qp> notifying_;  // QPs whose peer must be notified of congestion
  PageQueue kernel_events_;
  CongestionParams congestion_preset_;
  bool unfinished_ = false;       // the last run() left work
  bool flushing_ = false;         // events wait that may have space now
  std::uint32_t emitted_ = 0;     // cost of the packets sent in this turn
  std::uint32_t xrc_unseen_ = 0;  // walk_xrc_targets() still has to visit QP numbers below it
};

}  // namespace tern

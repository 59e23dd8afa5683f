// SPDX-License-Identifier: GPL-2.0-or-later
// The data path of one lane: ready QPs, timers, the packets being built and parsed, effects and
// counters. A QP belongs to one data path. A device has one or more; each may run in a thread of
// its own, but commands run while no other does. Lane 0 also serves the Ethernet function.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/effects_batch.h"
#include "core/list.h"
#include "core/table.h"
#include "datapath/sq_poller.h"
#include "objects/context.h"
#include "objects/srq.h"
#include "transport/qp.h"
#include "wire/packet.h"

namespace tern {

class Port;

class DataPath final : public Context {
 public:
  DataPath(std::uint8_t number, Host& host, DeviceState& device, Memory& memory,
           AsyncEvents& events, PageFaults& faults, const Table<Qp>& qps, const Table<Srq>& srqs,
           Port& port);

  // Enables the data path with `uar_pages` doorbell pages.
  void enable(std::uint32_t uar_pages);
  void reset();  // all objects are gone
  // Saved state of the lane itself; then that of its poller, when all QPs are known.
  void state(Archive& ar, const UarPages& of_home);
  void poller_state(Archive& ar);

  // Serves QPs for about `budget` bytes, and Ethernet queues for about as many: neither delays the
  // other. `more`: admin commands are still waiting. Returns true if work is left or a queue is
  // polled.
  bool run(std::uint32_t budget, bool more);
  // Allows polling from time `from` on: QueuePoller::allow() of send and transmit queues.
  void allow_polling(Nanos from);
  // Whether run() would find something to do: commands and other lanes may have made work for it.
  [[nodiscard]] bool waits() const;
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
  // run() posts the rest. Lane 0 does it.
  void flush_events();
  void allow_trains(bool allow) { trains_ = allow; }
  [[nodiscard]] bool allows_trains() const { return trains_; }
  // IP identifications for the packets of a train; returns the first.
  [[nodiscard]] std::uint16_t take_ip_ids(std::uint32_t train) {
    const std::uint16_t first = ip_id_;
    ip_id_ = static_cast<std::uint16_t>(ip_id_ + train);
    return first;
  }
  // Device::take_effects() and free_effects().
  [[nodiscard]] EffectsBatch* take_effects() {
    return effects->empty() ? nullptr : batches_.take(effects);
  }
  void free_effects(EffectsBatch* batch) { batches_.free(batch); }

  SqPoller sq_poller;
  Packet rx_packet;                 // being parsed
  std::vector<std::byte> finished;  // a received frame that the port has finished

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
  // Whether it serves the Ethernet function.
  [[nodiscard]] bool home() const { return lane == 0; }

  const Table<Qp>& qps_;
  const Table<Srq>& srqs_;
  Port& port_;
  List<Qp> ready_;
  List<Qp> notifying_;  // QPs whose peer must be notified of congestion
  PageQueue kernel_events_;
  bool unfinished_ = false;    // the last run() left work
  bool flushing_ = false;      // events wait that may have space now
  std::uint32_t emitted_ = 0;  // cost of the packets sent in this turn
  std::uint16_t ip_id_ = 0;
  EffectsPool batches_;
  std::uint32_t xrc_unseen_ = 0;  // walk_xrc_targets() still has to visit QP numbers below it
};

}  // namespace tern

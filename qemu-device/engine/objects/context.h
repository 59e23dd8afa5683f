// SPDX-License-Identifier: GPL-2.0-or-later
// What objects, transports and the Ethernet function see of the device. Lane is the only Context, so nothing is virtual: functions
// that need rooms above this one are declared here and defined in lane/lane.cc.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "core/block_pool.h"
#include "core/config.h"
#include "core/counters.h"
#include "core/device_status.h"
#include "core/effects.h"
#include "core/host.h"
#include "core/page_budget.h"
#include "core/timers.h"
#include "memory/memory.h"
#include "objects/events.h"
#include "objects/page_faults.h"
#include "wire/packet.h"

namespace tern {

class Qp;
class Srq;
struct SrqRef;

class Context {
 public:
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  // ---- turns ----
  // Gives the QP a turn; takes it back.
  void schedule(Qp& qp);
  void unschedule(Qp& qp);
  // Ends polling of the QP's send queue, SqPoller::forget() and release().
  void forget_polled(Qp& qp);
  void release_polled(Qp& qp);

  // ---- packets ----
  // Sends a packet on its route: a frame to the wire, or straight to the local QP. When the
  // capture tap is on, a looped back packet becomes a frame that is only shown. A packet to a
  // multicast group goes both ways. Returns how often its payload was copied, at least 1.
  std::uint32_t emit(Packet& packet);
  // Whether nobody can tell packets on this route from a train of them: they are looped back, and not shown.
  [[nodiscard]] bool may_train(const Route& route) const { return route.local && trains_; }
  // Addresses::resolve() and path_mtu().
  [[nodiscard]] std::optional<Route> resolve(const tern_av& av, std::uint8_t port, Qpn src, Qpn dst) const;
  [[nodiscard]] std::uint32_t path_mtu() const;

  // ---- objects ----
  // Null when there is none; the SRQ that `ref` remembers: null when it is gone.
  [[nodiscard]] Srq* find_srq(std::uint32_t number) const;
  [[nodiscard]] Srq* find_srq(const SrqRef& ref) const;
  // The CQ of an XRC SRQ takes no more completions. Targets that hold a WQE of that SRQ are found by a walk over all QPs,
  // which the lane makes in slices.
  void xrc_cq_failed();
  [[nodiscard]] std::uint64_t next_qp_generation() { return ++qp_generations_; }
  // Stops the device: TERN_FATAL_*; the first one stays.
  void fatal(std::uint32_t code) {
    if (status.stop(code)) effects->raise(0);
  }

  Host& host;
  DeviceStatus& status;
  Memory& memory;
  PageBudget& page_budget;
  const Config& config;
  std::unique_ptr<Effects> effects;  // swapped out by the C surface
  TimerQueue timers;

  // The packet being built by whoever has its turn.
  Packet tx_packet;
  // Where the payload of the packet being delivered goes.
  SpanList scatter;
  // The GRH that precedes a datagram being delivered.
  SpanList grh;

  Counters counters;
  BlockPool blocks;  // of what is under way
  AsyncEvents async_events;
  PageFaults page_faults;
  std::uint64_t visits = 0;  // objects looked at because of another one; tests bound it

 protected:
  Context(Host& host_, const Config& config_, DeviceStatus& status_, PageBudget& budget, Memory& memory_)
      : host(host_),
        status(status_),
        memory(memory_),
        page_budget(budget),
        config(config_),
        effects(std::make_unique<Effects>()),
        tx_packet(host),
        scatter(host),
        grh(host),
        async_events(counters),
        page_faults(counters) {}
  ~Context() = default;

  bool trains_ = true;

 private:
  std::uint64_t qp_generations_ = 0;  // given out; outlives resets
};

}  // namespace tern

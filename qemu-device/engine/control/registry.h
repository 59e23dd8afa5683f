// SPDX-License-Identifier: GPL-2.0-or-later
// The registry: tables of all objects, memory, and the limits that they share.
#pragma once

#include <cstdint>
#include <deque>

#include "core/config.h"
#include "core/counters.h"
#include "core/device_state.h"
#include "core/host.h"
#include "core/lane_group.h"
#include "core/table.h"
#include "memory/device_memory.h"
#include "memory/dm_ops.h"
#include "memory/memory.h"
#include "objects/comp_counter.h"
#include "objects/events.h"
#include "objects/page_faults.h"
#include "objects/queues.h"
#include "objects/srq.h"
#include "transport/qp.h"

namespace tern {

// The QP of connection management always has this number (IBTA 3.9.3.2); 0 is never used.
inline constexpr std::uint32_t kGsiQpn = 1;

class Registry : public DeviceState {
 public:
  // Objects that an admin command or another object may refer to.
  struct Pd {
    explicit Pd(Context& lane) : lane_member(lane, &moved, this) {}
    static void moved(void* self, Context& lane);
    std::uint32_t number = 0;
    bool privileged = false;
    std::uint32_t users = 0;
    LaneMember lane_member;
  };
  struct Xrcd {
    explicit Xrcd(Context& lane) : lane_member(lane, &moved, this) {}
    static void moved(void* self, Context& lane);
    std::uint32_t users = 0;
    List<CqUser, BaseHook<CqUser>> targets;  // Qp::domain_entry()
    LaneMember lane_member;
  };

  Registry(Host& host, const Config& config);

  // TERN_CAP_*: the features of this configuration.
  [[nodiscard]] std::uint64_t caps() const;
  [[nodiscard]] std::uint64_t page_entries() const { return page_budget.held(); }
  // A member of the group of a QP.
  [[nodiscard]] LaneMember& member_of(const Qp& qp) const;
  // Calls f for each group, perhaps more than once.
  template <class F>
  void for_each_group(F&& f) const {
    const auto visit = [&](std::uint32_t, auto& object) { f(object.lane_member.group()); };
    pds.for_each(visit);
    xrcds.for_each(visit);
    cqs.for_each(visit);
    srqs.for_each(visit);
    counter_sets.for_each(visit);
    comp_counters.for_each(visit);
  }
  // Returns whether there is a number for a new QP to which no memory window is bound.
  [[nodiscard]] bool qp_number_left();
  // Destroys a QP. Withholds its number while a memory window is bound to it.
  void remove_qp(std::uint32_t qpn);

  // Saved state of the objects. lanes(number): null if there is none.
  using Lanes = std::function<Context*(std::uint8_t)>;
  void state(Archive& ar, const Lanes& lanes);

  // Device reset: destroys the QPs first, and everything else once the Ethernet queues are gone.
  void reset_qps();
  void reset();

  DeviceMemory dm;
  DmOps dm_ops;
  Memory memory;
  AsyncEvents async_events;
  PageFaults page_faults;
  Table<Pd> pds;
  Table<Eq> eqs;
  Table<Cq> cqs;
  Table<Xrcd> xrcds;
  Table<Srq> srqs;
  Table<CounterSet> counter_sets;
  Table<CompCounter> comp_counters;
  Table<Qp> qps;

 private:
  void groups_state(Archive& ar, const Lanes& lanes);
  void queues_state(Archive& ar, const Lanes& lanes);
  void counters_state(Archive& ar, const Lanes& lanes);
  void qps_state(Archive& ar, const Lanes& lanes);
  [[nodiscard]] std::unique_ptr<Qp> make_qp(const tern_cmd_create_qp& cmd, Context& lane);

  std::deque<std::uint32_t> withheld_qpns_;  // of destroyed QPs that windows are bound to
};

}  // namespace tern

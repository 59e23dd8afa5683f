// SPDX-License-Identifier: GPL-2.0-or-later
// The registry: tables of all objects, memory, and what they may hold together.
#pragma once

#include <cstdint>
#include <vector>

#include "core/config.h"
#include "core/device_status.h"
#include "core/host.h"
#include "core/page_budget.h"
#include "core/table.h"
#include "memory/device_memory.h"
#include "memory/memory.h"
#include "objects/queues.h"
#include "objects/srq.h"
#include "transport/qp.h"

namespace tern {

// The QP of connection management has this number always (IBTA 3.9.3.2); 0 is never used.
inline constexpr std::uint32_t kGsiQpn = 1;

class Registry {
 public:
  // Objects an admin command or another object may name.
  struct Pd {
    bool privileged = false;
    std::uint32_t users = 0;
  };
  struct Xrcd {
    std::uint32_t users = 0;
  };

  Registry(Host& host, const Config& config);

  // TERN_CAP_*: what works, with these properties.
  [[nodiscard]] std::uint64_t caps() const;
  [[nodiscard]] std::uint64_t page_entries() const { return page_budget.held(); }
  [[nodiscard]] std::uint64_t next_srq_serial() { return ++srq_serials_; }
  // Whether a QP would find a number that no window names; destroys one.
  [[nodiscard]] bool qp_number_left();
  void remove_qp(std::uint32_t qpn);

  // A device reset: QPs first, then, when no Ethernet queue is left, all else.
  void reset_qps();
  void reset();

  const Config config;
  DeviceStatus status;
  PageBudget page_budget;
  DeviceMemory dm;
  Memory memory;
  Table<Pd> pds;
  Table<Eq> eqs;
  Table<Cq> cqs;
  Table<Xrcd> xrcds;
  Table<Srq> srqs;
  Table<Qp> qps;

 private:
  std::uint64_t srq_serials_ = 0;             // given out; outlives resets
  std::vector<std::uint32_t> withheld_qpns_;  // of destroyed QPs that windows name
};

}  // namespace tern

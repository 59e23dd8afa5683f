// SPDX-License-Identifier: GPL-2.0-or-later
// Counters of QUERY_COUNTERS, indexed by the contract's TERN_CNT_* and TERN_ETH_CNT_*.
#pragma once

#include <array>
#include <cstdint>

#include "tern_hw.hpp"

namespace tern {

struct Counters {
  std::array<std::uint64_t, TERN_CNT_RDMA_NUM> rdma{};
  std::array<std::uint64_t, TERN_ETH_CNT_NUM> eth{};
  void add(unsigned index, std::uint64_t n = 1) { rdma[index] += n; }
  void add_eth(unsigned index, std::uint64_t n = 1) { eth[index] += n; }
};

// A counter set (CREATE_COUNTER_SET), which counts for the QPs bound to it.
struct CounterSet {
  Counters values;
  std::uint32_t users = 0;
};

}  // namespace tern

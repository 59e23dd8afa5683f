// SPDX-License-Identifier: GPL-2.0-or-later
// Counters of QUERY_COUNTERS, indexed by the contract's TERN_CNT_* and TERN_ETH_CNT_*.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>

#include "core/lane_group.h"
#include "tern_hw.hpp"

namespace tern {

struct Counters {
  std::array<std::uint64_t, TERN_CNT_RDMA_NUM> rdma{};
  std::array<std::uint64_t, TERN_ETH_CNT_NUM> eth{};
  Counters& operator+=(const Counters& other) {
    std::ranges::transform(rdma, other.rdma, rdma.begin(), std::plus());
    std::ranges::transform(eth, other.eth, eth.begin(), std::plus());
    return *this;
  }
  void add(unsigned index, std::uint64_t n = 1) { rdma[index] += n; }
  void add_eth(unsigned index, std::uint64_t n = 1) { eth[index] += n; }
};

// A counter set (CREATE_COUNTER_SET), which counts for the QPs bound to it.
struct CounterSet {
  explicit CounterSet(Context& lane) : lane_member(lane, nullptr, this) {}
  Counters values;
  std::uint32_t number = 0;
  std::uint32_t users = 0;
  LaneMember lane_member;
};

}  // namespace tern

// SPDX-License-Identifier: GPL-2.0-or-later
// A receive WQE, from whichever queue it came.
#pragma once

#include <array>
#include <cstdint>

#include "core/limits.h"
#include "memory/memory.h"
#include "objects/queues.h"
#include "tern_hw.hpp"

namespace tern {

// A receive WQE, copied once.
struct RecvWqe {
  static constexpr unsigned kMaxSge = tern::kMaxSge;
  std::uint64_t wr_id = 0;
  std::uint32_t index = 0;
  std::uint32_t srqn = 0;  // SRQ it came from, else 0
  std::uint8_t num_sge = 0;
  Accessor owner;  // whose keys its SGEs name
  std::array<tern_sge, kMaxSge> sges;
};

// What became of taking a receive WQE.
enum class Take : std::uint8_t {
  kTaken,
  kEmpty,   // none is posted
  kFailed,  // the queue is unusable
};

// Copies the WQE in the slot of `buffer` at byte `slot`: wr_id and SGEs of `wqe`. False when it
// cannot be reached or names more SGEs than the slot holds.
[[nodiscard]] bool read_recv_wqe(Host& host, const QueueBuffer& buffer, std::uint64_t slot,
                                 unsigned log_stride, RecvWqe& wqe);

}  // namespace tern

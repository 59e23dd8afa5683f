// SPDX-License-Identifier: GPL-2.0-or-later
// A receive WQE of a receive queue or an SRQ.
#pragma once

#include <array>
#include <cstdint>

#include "core/limits.h"
#include "memory/memory.h"
#include "objects/queues.h"
#include "tern_hw.hpp"

namespace tern {

// A copy of a receive WQE, which was read once.
struct RecvWqe {
  static constexpr unsigned kMaxSge = tern::kMaxSge;
  std::uint64_t wr_id = 0;
  std::uint32_t index = 0;
  std::uint32_t srqn = 0;  // SRQ it was taken from; 0: none
  std::uint8_t num_sge = 0;
  Accessor owner;  // for the keys of its SGEs
  std::array<tern_sge, kMaxSge> sges;
};

// Result of taking a receive WQE.
enum class Take : std::uint8_t {
  kTaken,
  kEmpty,   // none is posted
  kFailed,  // the queue is unusable
};

// Reads wr_id and SGEs of `wqe` from the slot at byte `slot` of `buffer`. Returns false if the slot
// is unreachable or the WQE has more SGEs than the slot holds.
[[nodiscard]] bool read_recv_wqe(Host& host, const QueueBuffer& buffer, std::uint64_t slot,
                                 unsigned log_stride, RecvWqe& wqe);

}  // namespace tern

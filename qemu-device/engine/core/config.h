// SPDX-License-Identifier: GPL-2.0-or-later
// The configuration of a device, set at creation. core/properties.h has the names and ranges of the
// properties that users set; their defaults are here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/congestion.h"
#include "core/limits.h"
#include "core/types.h"

namespace tern {

struct Config {
  std::span<std::byte> dm;  // dm_size bytes, which the owner provides; empty: no device memory
  std::uint64_t dm_size = 16 << 20;
  std::uint64_t uar_bar_size = 16 << 20;
  std::uint32_t max_qp = 16384;
  std::uint32_t max_cq = 16384;
  std::uint32_t max_mr = 65536;
  std::uint32_t max_mw = 65536;
  std::uint16_t max_tags = 1024;        // of an SRQ; 0: no tag matching
  std::uint64_t max_pages = kMaxPages;  // page list entries of all objects
  std::uint32_t num_vectors = 32;
  std::uint16_t max_eth_queues = 16;  // of each direction
  std::uint32_t max_mtu = 9000;
  std::uint32_t link_speed = 100000;
  Mac mac{};
  bool mw_type_2a = false;
  bool odp = true;              // on-demand paging
  CongestionParams congestion;  // after a reset
  Nanos doorbell_cost = 1'000;  // what a doorbell costs software
  unsigned lanes = 1;           // data paths, up to kMaxLanes
  bool capture = false;
  bool unfinished_frames = false;  // the host passes WireFrame on as it is, or finishes frames
};

}  // namespace tern

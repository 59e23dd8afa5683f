// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include "map.h"
#include "verbs.h"

namespace guest::bench {

// Mapped memory; its pages are allocated before the measurement, unless `flags` lacks MAP_POPULATE.
class Pages : public Map {
 public:
  explicit Pages(std::size_t length, int flags = MAP_POPULATE)
      : Map(length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags) {}
};

}  // namespace guest::bench

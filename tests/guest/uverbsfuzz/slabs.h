// SPDX-License-Identifier: GPL-2.0-or-later
// The kernel's own objects: what a leak in the drivers or in ib_core adds to.
#pragma once

#include <cstdint>
#include <string>

#include "counts.h"

namespace guest::uverbsfuzz {

// Reads the objects of the slab caches that processes, files and the drivers use. Caches of
// kmalloc() count by their size. Frees what the kernel only keeps for later.
Counts read_slabs();

// Lists the caches that have grown by more than `allowed` objects and what processors keep, or
// task_struct by more than `tasks`: "task_struct 90 -> 400, ...".
std::string grown(const Counts& before, const Counts& after, std::int64_t allowed,
                  std::int64_t tasks);

}  // namespace guest::uverbsfuzz

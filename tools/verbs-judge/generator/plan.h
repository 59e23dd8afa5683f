// SPDX-License-Identifier: GPL-2.0-or-later
// Random programs. The same seed and the same capabilities make the same program on every device.
#pragma once

#include <cstddef>
#include <cstdint>

#include "coverage.h"

namespace guest::generator {

// Counts in `coverage` the requests that break one rule only.
Steps plan(std::uint64_t seed, std::size_t steps, const Caps& caps, Coverage* coverage = nullptr);

}  // namespace guest::generator

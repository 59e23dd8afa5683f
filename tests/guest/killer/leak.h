// SPDX-License-Identifier: GPL-2.0-or-later
// A leak that is planted, to see it found.
#pragma once

#include <array>
#include <string>

namespace killer {

// Starts a child that keeps objects of the device until this process ends, and returns when it has
// them. Throws std::runtime_error when it does not get them.
void plant_leak(const std::string& device);

// The counts that differ while it lives.
inline constexpr std::array kLeakedCounts = {
    "alive_uar",    "alive_pd",    "alive_mr",    "alive_cq",    "alive_qp",     "alive_srq",
    "alive_xrcd",   "alive_mw",    "alive_dm",    "dm_bytes",    "page_entries", "pinned_pages",
    "restrack_ctx", "restrack_pd", "restrack_mr", "restrack_cq", "restrack_qp",  "restrack_srq"};

}  // namespace killer

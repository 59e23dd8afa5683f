// SPDX-License-Identifier: GPL-2.0-or-later
// A deliberate leak, for testing that the killer finds it.
#pragma once

#include <array>
#include <string>

namespace guest::killer {

// Starts a child that holds objects of the device until this process ends. Returns when the child
// has them; throws std::runtime_error if it cannot get them.
void plant_leak(const std::string& device);

// The counts that the leak changes.
inline constexpr std::array kLeakedCounts = {
    "alive_uar",    "alive_pd",    "alive_mr",    "alive_cq",    "alive_qp",     "alive_srq",
    "alive_xrcd",   "alive_mw",    "alive_dm",    "dm_bytes",    "page_entries", "pinned_pages",
    "restrack_ctx", "restrack_pd", "restrack_mr", "restrack_cq", "restrack_qp",  "restrack_srq"};

}  // namespace guest::killer

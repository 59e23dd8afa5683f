// SPDX-License-Identifier: GPL-2.0-or-later
// What must be as before once a process is dead: the device's live objects and the kernel's pins.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace killer {

using Counts = std::map<std::string, std::int64_t>;

// The objects file of the device in debugfs (without GIDs, which come and go with addresses), the
// pages the kernel has pinned, and what restrack knows of the device.
Counts read_counts(const std::string& device);

// "alive_qp 0 -> 2, ..." of what differs.
std::string difference(const Counts& before, const Counts& after);

}  // namespace killer

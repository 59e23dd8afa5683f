// SPDX-License-Identifier: GPL-2.0-or-later
// Counts that must return to their old values after a process's death: live device objects and
// pinned pages.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>

namespace guest {

using Counts = std::map<std::string, std::int64_t>;

// Reads the device's objects file in debugfs (without GIDs, which follow addresses), the kernel's
// count of pinned pages, and the device's restrack counts. Throws if the device is dead.
Counts read_counts(const std::string& device);

// Lists the counts that differ: "alive_qp 0 -> 2, ...".
std::string difference(const Counts& before, const Counts& after);

// Waits until the counts are as before: the kernel frees a process's objects a moment after its
// end. Returns the difference that is left after the limit, or "".
std::string settle(const std::string& device, const Counts& before, std::chrono::seconds limit);

// Returns whether tern_ib was built in the kernel tree.
bool drivers_in_tree();

}  // namespace guest

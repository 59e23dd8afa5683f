// SPDX-License-Identifier: GPL-2.0-or-later
// What happens to the device while processes use it.
#pragma once

#include <cstdint>
#include <string>

namespace guest::uverbsfuzz {

// Resets the device, unbinds its driver, removes it, unloads the drivers: by turns, until `seconds`
// are over and there were `least` of these. The seed chooses the moments. Afterwards the device is
// there again. Returns an empty string, or the step that failed. Calls `done` after each that ended
// well.
std::string disturb(const std::string& device, std::uint64_t seed, unsigned seconds, unsigned least,
                    void (*done)());

// The number of different steps.
unsigned disturbances();

}  // namespace guest::uverbsfuzz

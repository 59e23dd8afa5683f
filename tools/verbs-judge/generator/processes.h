// SPDX-License-Identifier: GPL-2.0-or-later
// An end in a process of its own, which can be killed.
#pragma once

#include <memory>
#include <string>

#include "side.h"

namespace guest::generator {

// Must be called before this process opens a device.
std::unique_ptr<Side> fork_side(int end, const std::string& device, int gid_index, const Mems& mems,
                                const Caps& caps);

}  // namespace guest::generator

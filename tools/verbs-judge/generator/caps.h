// SPDX-License-Identifier: GPL-2.0-or-later
// What a device claims. Where no attribute says it, a harmless attempt does.
#pragma once

#include <string>

#include "steps.h"

namespace guest::generator {

Caps query_caps(const std::string& device, int gid_index);

}  // namespace guest::generator

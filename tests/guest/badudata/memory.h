// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>

namespace guest::uverbs {

// Tests memory windows, reregistration and device memory of the device at `path`.
void memory_tables(const std::string& path, const std::string& device);

}  // namespace guest::uverbs

// SPDX-License-Identifier: GPL-2.0-or-later
// Pages of doorbell records: pinned once for all records in them, for as long as one is in use.
#pragma once

#include <cstdint>
#include <string>

namespace badudata {

// Pages that this process has pinned, as the limit of locked memory counts them.
std::int64_t charged_pages();

void record_tests(const std::string& path, const std::string& device);

}  // namespace badudata

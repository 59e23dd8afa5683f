// SPDX-License-Identifier: GPL-2.0-or-later
// Tests of doorbell record pages: a page is pinned once for all its records, and stays pinned as
// long as one of them is in use.
#pragma once

#include <cstdint>
#include <string>

namespace guest::uverbs {

// Pages that this process has pinned, as charged to RLIMIT_MEMLOCK (VmPin).
std::int64_t charged_pages();

void record_tests(const std::string& path, const std::string& device);

}  // namespace guest::uverbs

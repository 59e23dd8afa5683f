// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>

namespace guest::uverbs {

// Requests that ib_core refuses, but not cleanly before the patches of
// packaging/upstream/linux/core/series. They run only under a kernel built from the series, in
// which tern_ib is no out-of-tree module: elsewhere each would leak until the next boot.
void core_refusals(const std::string& path);

}  // namespace guest::uverbs

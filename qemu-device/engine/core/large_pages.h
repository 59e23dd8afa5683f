// SPDX-License-Identifier: GPL-2.0-or-later
// Memory for random lookups. Large pages, where the system has them, keep the lookups in the TLB.
#pragma once

#include <cstddef>
#include <memory>
#include <new>

namespace tern {

constexpr std::size_t kLargePage = 2 << 20;

struct LargePageDeleter {
  void operator()(std::byte* p) const { ::operator delete(p, std::align_val_t{kLargePage}); }
};
using LargePage = std::unique_ptr<std::byte, LargePageDeleter>;

// Allocates kLargePage bytes, which use memory only once written. Throws std::bad_alloc.
LargePage new_large_page();

}  // namespace tern

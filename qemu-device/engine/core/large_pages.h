// SPDX-License-Identifier: GPL-2.0-or-later
// Memory for what is looked up at random: in large pages, where the system has them, a look-up finds its translation in the TLB.
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

// kLargePage bytes, which take up memory as they are written. Throws std::bad_alloc.
LargePage new_large_page();

}  // namespace tern

// SPDX-License-Identifier: GPL-2.0-or-later
#include "core/large_pages.h"

#include <sys/mman.h>

namespace tern {

LargePage new_large_page() {
  LargePage page(static_cast<std::byte*>(::operator new(kLargePage, std::align_val_t{kLargePage})));
#ifdef MADV_HUGEPAGE
  // A hint: without large pages everything still works, only more slowly.
  (void)madvise(page.get(), kLargePage, MADV_HUGEPAGE);
#endif
  return page;
}

}  // namespace tern

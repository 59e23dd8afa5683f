// SPDX-License-Identifier: GPL-2.0-or-later
#include "core/block_pool.h"

namespace tern {

BlockPool::~BlockPool() {
  for (Free& free : free_) {
    while (std::byte* const block = free.first) {
      ASAN_UNPOISON_MEMORY_REGION(block, sizeof(block));
      std::memcpy(&free.first, block, sizeof(free.first));
      release(block);
    }
  }
}

std::byte* BlockPool::allocate(std::size_t bytes) {
  const std::size_t size = std::size_t{1} << order_of(bytes);
  auto* const block = static_cast<std::byte*>(::operator new[](size, std::align_val_t{kAlign}));
  taken_ += size;
  // Catches accesses past the bytes asked for.
  ASAN_POISON_MEMORY_REGION(block + bytes, size - bytes);
  return block;
}

void BlockPool::release(std::byte* block) { ::operator delete[](block, std::align_val_t{kAlign}); }

}  // namespace tern

// SPDX-License-Identifier: GPL-2.0-or-later
#include "core/block_pool.h"

#include <sanitizer/asan_interface.h>

#include <algorithm>
#include <bit>
#include <new>

namespace tern {

namespace {

// Free bytes kept of each block size; the rest is freed.
constexpr std::size_t kKept = 1 << 20;

std::size_t size_of_class(std::size_t bytes) {
  return std::bit_ceil(std::max(bytes, BlockPool::kAlign));
}

}  // namespace

std::byte* BlockPool::take(std::size_t bytes) {
  const std::size_t size = size_of_class(bytes);
  auto& list = free_[static_cast<std::size_t>(std::bit_width(size)) - 1];
  std::byte* block;
  if (list.empty()) {
    block = static_cast<std::byte*>(::operator new[](size, std::align_val_t{kAlign}));
  } else {
    block = list.back().release();
    list.pop_back();
    ASAN_UNPOISON_MEMORY_REGION(block, bytes);
  }
  taken_ += size;
  // Catches accesses past the bytes asked for.
  ASAN_POISON_MEMORY_REGION(block + bytes, size - bytes);
  return block;
}

void BlockPool::give(std::byte* block, std::size_t bytes) {
  const std::size_t size = size_of_class(bytes);
  auto& list = free_[static_cast<std::size_t>(std::bit_width(size)) - 1];
  taken_ -= size;
  if (list.size() * size >= kKept) return Free()(block);
  list.emplace_back(block);
  ASAN_POISON_MEMORY_REGION(block, size);
}

}  // namespace tern

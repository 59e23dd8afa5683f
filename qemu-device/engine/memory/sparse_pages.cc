// SPDX-License-Identifier: GPL-2.0-or-later
#include "memory/sparse_pages.h"

#include <algorithm>

namespace tern {

namespace {

// Calls fn(block number, first entry within the block, offset from `first`, entries) for each block
// of [first, first + num).
template <class Fn>
void for_each_block(std::uint64_t first, std::uint64_t num, Fn fn) {
  for (std::uint64_t done = 0; done < num;) {
    const std::uint64_t at = (first + done) % SparsePages::kBlock;
    const std::uint64_t n = std::min(num - done, SparsePages::kBlock - at);
    fn((first + done) / SparsePages::kBlock, at, done, n);
    done += n;
  }
}

}  // namespace

std::uint64_t SparsePages::growth(std::uint64_t first, std::span<const std::uint64_t> entries) const {
  std::uint64_t blocks = 0;
  for_each_block(first, entries.size(), [&](auto number, auto, auto from, auto n) {
    const auto part = entries.subspan(from, n);
    const bool any = std::ranges::any_of(part, [](std::uint64_t e) { return e != 0; });
    if (any && !find(number)) ++blocks;
  });
  return blocks * kBlock;
}

void SparsePages::store(std::uint64_t first, std::span<const std::uint64_t> entries) {
  for_each_block(first, entries.size(), [&](auto number, auto at, auto from, auto n) {
    const auto part = entries.subspan(from, n);
    const bool any = std::ranges::any_of(part, [](std::uint64_t e) { return e != 0; });
    if (!any) return clear(number * kBlock + at, n);
    auto& block = blocks_[number];
    if (!block) block = std::make_unique<Block>();
    for (std::uint64_t i = 0; i < n; ++i) {
      std::uint64_t& entry = block->entries[at + i];
      if (entry != 0) --block->present;
      if (part[i] != 0) ++block->present;
      entry = part[i];
    }
  });
}

void SparsePages::clear(std::uint64_t first, std::uint64_t num) {
  for_each_block(first, num, [&](auto number, auto at, auto, auto n) {
    const auto it = blocks_.find(number);
    if (it == blocks_.end()) return;
    Block& block = *it->second;
    for (std::uint64_t i = at; i < at + n; ++i) {
      if (block.entries[i] != 0) --block.present;
      block.entries[i] = 0;
    }
    if (block.present == 0) blocks_.erase(it);
  });
}

}  // namespace tern

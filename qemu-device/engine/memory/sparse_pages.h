// SPDX-License-Identifier: GPL-2.0-or-later
// Entries of a page list with holes: memory is allocated only for blocks that have a present page.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>

#include "tern_hw.hpp"

namespace tern {

class SparsePages {
 public:
  static constexpr std::uint64_t kBlock = TERN_PAGES_CHUNK;  // entries

  // The entry, 0 if it is absent.
  [[nodiscard]] std::uint64_t at(std::uint64_t index) const {
    const Block* const block = find(index / kBlock);
    return block ? block->entries[index % kBlock] : 0;
  }
  // How many entries' memory the next store() of these entries allocates.
  [[nodiscard]] std::uint64_t growth(std::uint64_t first, std::span<const std::uint64_t> entries) const;
  // Replaces entries from `first` on; frees blocks that have no present page any more.
  void store(std::uint64_t first, std::span<const std::uint64_t> entries);
  // Makes entries [first, first + num) absent.
  void clear(std::uint64_t first, std::uint64_t num);
  // Entries that have memory.
  [[nodiscard]] std::uint64_t held() const { return blocks_.size() * kBlock; }

 private:
  struct Block {
    std::array<std::uint64_t, kBlock> entries{};
    std::uint32_t present = 0;
  };
  [[nodiscard]] const Block* find(std::uint64_t number) const {
    const auto it = blocks_.find(number);
    return it == blocks_.end() ? nullptr : it->second.get();
  }

  std::unordered_map<std::uint64_t, std::unique_ptr<Block>> blocks_;
};

}  // namespace tern

// SPDX-License-Identifier: GPL-2.0-or-later
// Entries of a page list with holes: a tree by index, as page tables are. Memory is allocated only
// for nodes that lead to a present page. A lookup takes the same steps for every index, because a
// process chooses the indices.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <span>

#include "tern_hw.hpp"

namespace tern {

class SparsePages {
 public:
  // Entries of a leaf, and children of an inner node.
  static constexpr std::uint64_t kBlock = TERN_PAGES_CHUNK;

  SparsePages() = default;
  ~SparsePages() { free(root_, kLevels - 1); }
  SparsePages(const SparsePages&) = delete;
  SparsePages& operator=(const SparsePages&) = delete;

  // The entry, 0 if it is absent.
  [[nodiscard]] std::uint64_t at(std::uint64_t index) const {
    const Node* node = root_;
    for (unsigned level = kLevels - 1; level != 0 && node != nullptr; --level) {
      node = node->slots[slot_of(index, level)].child;
    }
    return node != nullptr ? node->slots[slot_of(index, 0)].entry : 0;
  }
  // Number of entries for which the next store() of these entries allocates memory.
  [[nodiscard]] std::uint64_t growth(std::uint64_t first,
                                     std::span<const std::uint64_t> entries) const;
  // Replaces entries from `first` on. Frees nodes that lead to no present page any more.
  void store(std::uint64_t first, std::span<const std::uint64_t> entries);
  // Makes entries [first, first + num) absent.
  void clear(std::uint64_t first, std::uint64_t num);
  // Calls f(index of the first, kBlock entries) for each leaf, in order.
  template <class F>
  void visit_leaves(F&& f) const {
    visit(root_, kLevels - 1, 0, f);
  }
  // Entries that have memory: a node counts as kBlock.
  [[nodiscard]] std::uint64_t held() const { return nodes_ * kBlock; }

 private:
  static constexpr unsigned kBits = std::bit_width(kBlock) - 1;
  // Pages have 4096 bytes and more, so an index has at most 52 bits.
  static constexpr unsigned kLevels = (64 - 12 + kBits - 1) / kBits;

  struct Node {
    union Slot {
      std::uint64_t entry;  // of a leaf, which is at level 0
      Node* child;          // of an inner node
    };
    std::array<Slot, kBlock> slots{};
    std::uint32_t used = 0;  // slots that are not 0
  };
  // The nodes from the leaf, at 0, to the root. Those that do not exist are null.
  using Path = std::array<Node*, kLevels>;

  static constexpr std::size_t slot_of(std::uint64_t index, unsigned level) {
    return index >> level * kBits & (kBlock - 1);
  }
  // Recursive: one call for each level.
  template <class F>
  static void visit(const Node* node, unsigned level, std::uint64_t first, F&& f) {
    if (node == nullptr) return;
    if (level == 0) return f(first, node->slots);
    for (std::uint64_t i = 0; i < kBlock; ++i)
      visit(node->slots[i].child, level - 1, first + (i << level * kBits), f);
  }
  [[nodiscard]] Path find(std::uint64_t index) const;
  [[nodiscard]] Node& make(std::uint64_t index);
  void remove_unused(const Path& path, std::uint64_t index);
  void clear_leaf(std::uint64_t first, std::uint64_t num);
  static void free(Node* node, unsigned level);

  Node* root_ = nullptr;
  std::uint64_t nodes_ = 0;
};

}  // namespace tern

// SPDX-License-Identifier: GPL-2.0-or-later
#include "memory/sparse_pages.h"

#include <algorithm>

namespace tern {

namespace {

// Calls fn(first entry, offset from `first`, entries) for each part of [first, first + num) that
// lies in one leaf.
template <class Fn>
void for_each_leaf(std::uint64_t first, std::uint64_t num, Fn fn) {
  for (std::uint64_t done = 0; done < num;) {
    const std::uint64_t at = first + done;
    const std::uint64_t n = std::min(num - done, SparsePages::kBlock - at % SparsePages::kBlock);
    fn(at, done, n);
    done += n;
  }
}

bool any(std::span<const std::uint64_t> entries) {
  return std::ranges::any_of(entries, [](std::uint64_t e) { return e != 0; });
}

}  // namespace

SparsePages::Path SparsePages::find(std::uint64_t index) const {
  Path path{};
  path[kLevels - 1] = root_;
  for (unsigned level = kLevels - 1; level != 0 && path[level] != nullptr; --level) {
    path[level - 1] = path[level]->slots[slot_of(index, level)].child;
  }
  return path;
}

// Returns the leaf of an entry, and makes missing nodes on the path to it.
SparsePages::Node& SparsePages::make(std::uint64_t index) {
  Node** node = &root_;
  Node* parent = nullptr;
  for (unsigned level = kLevels;;) {
    if (*node == nullptr) {
      *node = new Node;
      ++nodes_;
      if (parent != nullptr) ++parent->used;
    }
    if (--level == 0) return **node;
    parent = *node;
    node = &parent->slots[slot_of(index, level)].child;
  }
}

// Frees the nodes of a path that lead to no present page any more.
void SparsePages::remove_unused(const Path& path, std::uint64_t index) {
  for (unsigned level = 0; level < kLevels && path[level]->used == 0; ++level) {
    delete path[level];
    --nodes_;
    if (level == kLevels - 1) {
      root_ = nullptr;
    } else {
      Node& parent = *path[level + 1];
      parent.slots[slot_of(index, level + 1)].child = nullptr;
      --parent.used;
    }
  }
}

std::uint64_t SparsePages::growth(std::uint64_t first,
                                  std::span<const std::uint64_t> entries) const {
  std::uint64_t nodes = 0;
  std::uint64_t last = 0;  // index for which nodes were counted last, if any
  bool counted = false;
  for_each_leaf(first, entries.size(), [&](auto at, auto from, auto n) {
    if (!any(entries.subspan(from, n))) return;
    const Path path = find(at);
    for (unsigned level = 0; level < kLevels && path[level] == nullptr; ++level) {
      const unsigned above = (level + 1) * kBits;
      // Two leaves share a node that is still missing.
      if (counted && at >> above == last >> above) break;
      ++nodes;
    }
    last = at;
    counted = true;
  });
  return nodes * kBlock;
}

void SparsePages::store(std::uint64_t first, std::span<const std::uint64_t> entries) {
  for_each_leaf(first, entries.size(), [&](auto at, auto from, auto n) {
    const auto part = entries.subspan(from, n);
    if (!any(part)) return clear_leaf(at, n);
    Node& leaf = make(at);
    for (std::uint64_t i = 0; i < n; ++i) {
      std::uint64_t& entry = leaf.slots[slot_of(at + i, 0)].entry;
      if (entry != 0) --leaf.used;
      if (part[i] != 0) ++leaf.used;
      entry = part[i];
    }
  });
}

void SparsePages::clear(std::uint64_t first, std::uint64_t num) {
  for_each_leaf(first, num, [&](auto at, auto, auto n) { clear_leaf(at, n); });
}

void SparsePages::clear_leaf(std::uint64_t first, std::uint64_t num) {
  const Path path = find(first);
  if (path[0] == nullptr) return;
  Node& leaf = *path[0];
  for (std::uint64_t i = first; i < first + num; ++i) {
    std::uint64_t& entry = leaf.slots[slot_of(i, 0)].entry;
    if (entry != 0) --leaf.used;
    entry = 0;
  }
  remove_unused(path, first);
}

// Recursive: one call for each level.
void SparsePages::free(Node* node, unsigned level) {
  if (node == nullptr) return;
  if (level != 0) {
    for (const Node::Slot& slot : node->slots) free(slot.child, level - 1);
  }
  delete node;
}

}  // namespace tern

// SPDX-License-Identifier: GPL-2.0-or-later
// Saved state of regions, windows and device memory.
#include <algorithm>
#include <bit>
#include <utility>

#include "core/archive.h"
#include "memory/dm_ops.h"
#include "memory/memory.h"

namespace tern {

// ---- page lists ----

bool PageList::valid(std::uint64_t entry) const {
  const std::uint64_t in_page = (std::uint64_t{1} << shift_) - 1;
  if (entry == 0) return true;
  if ((entry & in_page & ~kBits) != 0 || !(entry & kPresent)) return false;
  return on_demand_ || (entry & kBits) == kPresent;
}

void PageList::state(Archive& ar, PageBudget& budget) {
  if (ar.reading()) *this = PageList();
  Kind kind = kind_;
  ar(kind, shift_, on_demand_);
  if (kind == Kind::kDirect) {
    if (!ar.require(shift_ == 0 && !on_demand_, "a direct page list has pages")) return;
    kind_ = kind;
    return ar(base_);
  }
  const bool sized = shift_ >= kPageShiftMin && shift_ <= kPageShiftMax;
  if (kind == Kind::kSparse) {
    if (ar.require(sized && on_demand_, "a page list has a wrong page size"))
      sparse_state(ar, budget);
    return;
  }
  if (ar.require(kind == Kind::kList && (sized || (shift_ == 0 && !on_demand_)),
                 "a page list has a wrong kind or page size"))
    list_state(ar, budget);
}

void PageList::list_state(Archive& ar, PageBudget& budget) {
  std::uint32_t room = room_;
  bool allocated = pages_ != nullptr;
  ar(room, allocated);
  const std::uint32_t count = ar.count(count_, room, sizeof(std::uint64_t));
  if (!ar.require(allocated == (shift_ != 0) && (allocated || room == 0),
                  "a page list has entries without a page size"))
    return;
  if (ar.reading() && allocated) {
    if (!ar.require(budget.charge(room), "the page lists exceed the limit")) return;
    Entries fresh = allocate(room);
    if (!fresh) {
      budget.release(room);
      return ar.fail("there is no memory for a page list");
    }
    pages_ = fresh.release();
    room_ = room;
    count_ = count;
  }
  const std::span<std::uint64_t> entries(pages_, count_);
  ar.bytes(std::as_writable_bytes(entries));
  if (!ar.reading()) return;
  if (!std::ranges::all_of(entries, [this](std::uint64_t e) { return valid(e); })) {
    std::ranges::fill(entries, 0);
    ar.fail("a page list has a wrong entry");
  }
}

void PageList::sparse_state(Archive& ar, PageBudget& budget) {
  std::array<std::uint64_t, SparsePages::kBlock> leaf;
  std::uint64_t first = 0;
  std::size_t leaves = 0;
  if (!ar.reading()) sparse_->visit_leaves([&](auto, const auto&) { ++leaves; });
  std::uint32_t left = ar.count(leaves, UINT32_MAX, sizeof(leaf));
  if (!ar.reading()) {
    return sparse_->visit_leaves([&](std::uint64_t at, const auto& slots) {
      std::ranges::transform(slots, leaf.begin(), [](const auto& slot) { return slot.entry; });
      ar(at, leaf);
    });
  }
  const unsigned shift = shift_;
  if (reserve_sparse(shift) != TERN_ST_OK) return ar.fail("there is no memory for a page list");
  for (; left != 0 && ar.ok(); --left) {
    ar(first, leaf);
    const std::uint64_t growth = sparse_->growth(first, leaf);
    if (!ar.require(first % leaf.size() == 0 && within(first, leaf.size()) &&
                        std::ranges::all_of(leaf, [this](std::uint64_t e) { return valid(e); }),
                    "a page list has a wrong entry") ||
        !ar.require(budget.charge(growth), "the page lists exceed the limit"))
      return;
    const std::uint64_t before = sparse_->held();
    sparse_->store(first, leaf);
    budget.release(before + growth - sparse_->held());
  }
}

// ---- device memory ----

void DeviceMemory::state(Archive& ar, unsigned page_shift) {
  if (!ar.section("device memory")) return;
  const std::uint64_t in_page = (std::uint64_t{1} << page_shift) - 1;
  parts_.state(ar, [&](std::uint32_t, Part* part) {
    Part p = part != nullptr ? *part : Part{};
    ar(p.offset, p.size, p.cleared);
    std::unique_ptr<Part> made;
    if (!ar.reading() ||
        !ar.require(p.size != 0 && p.size <= storage_.size() &&
                        p.offset <= storage_.size() - p.size && p.cleared <= p.size &&
                        ((p.offset | p.size) & in_page) == 0,
                    "a part is wrong"))
      return made;
    const auto [at, fresh] = taken_.emplace(p.offset, p.size);
    const auto next = std::next(at);
    const bool apart =
        fresh &&
        (at == taken_.begin() || std::prev(at)->first + std::prev(at)->second <= p.offset) &&
        (next == taken_.end() || p.offset + p.size <= next->first);
    if (!ar.require(apart, "parts overlap")) return made;
    if (p.ready()) {
      used_ += p.size;
    } else {
      ++reserved_;
    }
    p.users = 0;
    made = std::make_unique<Part>(p);
    return made;
  });
}

void DmOps::state(Archive& ar, unsigned page_shift) {
  if (!ar.section("operation pages")) return;
  std::uint32_t left = ar.count(pages_.size(), UINT32_MAX);
  const auto item = [&](std::uint32_t& uar, Page& page) {
    ar(uar, page.dmn, page.offset, page.op);
  };
  if (!ar.reading()) {
    for (auto& [number, page] : pages_) {
      std::uint32_t uar = number;
      item(uar, page);
    }
    return;
  }
  const std::uint64_t size = std::uint64_t{1} << page_shift;
  for (; left != 0 && ar.ok(); --left) {
    std::uint32_t uar = 0;
    Page page{};
    item(uar, page);
    DeviceMemory::Part* const part = dm_.find(page.dmn);
    const bool inside =
        part != nullptr && page.offset % size == 0 && part->holds(page.offset - part->offset, size);
    if (!ar.require(inside && page.op < TERN_DM_OP_NUM && pages_.emplace(uar, page).second,
                    "an operation page is wrong"))
      return;
    ++part->users;
  }
}

// ---- keys ----

void Memory::region_state(Archive& ar, Region& region) {
  ar(region.iova, region.length, region.offset, region.access, region.open, region.fast,
     region.dmn);
  region.pages.state(ar, budget_);
  if (!ar.reading()) return;
  page_entries_ += region.pages.entries_held();
  DeviceMemory::Part* const part =
      region.dmn != 0 && dm_ != nullptr ? dm_->find(region.dmn) : nullptr;
  if (part != nullptr) {
    if (ar.require(part->holds(region.offset - part->offset, region.length) && !region.fast,
                   "a region is outside of its part"))
      ++part->users;
  }
  ar.require((region.dmn == 0) == (part == nullptr) && in_range(region.iova, region.length) &&
                 (!region.fast || region.pages.refillable()),
             "a region is wrong");
}

void Memory::window_state(Archive& ar, Window& window) {
  ar(window.type, window.bound);
  ar.require(window.type == 1 || window.type == 2, "a window has a wrong type");
  if (!window.bound) return;
  ar(window.iova, window.length, window.offset, window.access, window.region, window.qp.value,
     window.qp_generation);
}

// The counts that the windows imply, once all regions are there.
void Memory::count_windows(Archive& ar) {
  const auto count = [&](std::uint32_t index, KeyEntry& entry) {
    ar.require(index - kFirstIndex < variants_.size(), "a key has no variant");
    const Window* const window = as_window(&entry.key());
    if (window == nullptr || !window->bound) return;
    Region* const region = region_of(*window);
    if (!ar.require(region != nullptr && window->length != 0, "a window is bound to nothing"))
      return;
    ++region->windows;
    if (window->type == 2) ++qp_windows_[window->qp.value];
  };
  entries_.for_each(count);
}

void Memory::state(Archive& ar) {
  if (!ar.section("memory keys")) return;
  entries_.state(ar, [&](std::uint32_t index, KeyEntry& entry) {
    KeyKind kind = entry.key().kind;
    ar(kind);
    if (!ar.require(kind == KeyKind::kRegion || kind == KeyKind::kWindow, "a key is nothing"))
      return;
    if (ar.reading()) entry = kind == KeyKind::kRegion ? KeyEntry(Region()) : KeyEntry(Window());
    ar(entry.key().key, entry.key().pd.value);
    if (ar.reading()) ++pd_users_[entry.key().pd.value];
    ar.require(entry.key().key >> TERN_KEY_INDEX_SHIFT == index, "a key has a wrong number");
    if (Region* const region = as_region(&entry.key())) return region_state(ar, *region);
    if (ar.reading()) ++windows_;
    window_state(ar, *as_window(&entry.key()));
  });
  variants_.resize(ar.count(variants_.size(), std::size_t{max_mr_} + max_mw_));
  ar.bytes(std::as_writable_bytes(std::span(variants_)));
  if (!ar.reading()) return;
  ar.require(counts().mr <= max_mr_ && windows_ <= max_mw_, "there are too many keys");
  if (ar.ok()) count_windows(ar);
}

}  // namespace tern

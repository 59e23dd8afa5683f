// SPDX-License-Identifier: GPL-2.0-or-later
// Page lists: translate a byte offset in a buffer to DMA addresses.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <utility>

#include "core/device_state.h"
#include "core/host.h"
#include "memory/sparse_pages.h"
#include "tern_hw.hpp"

namespace tern {

class Archive;

using Status = std::uint16_t;  // TERN_ST_*

// Whether a command has no page list: the description is all 0.
[[nodiscard]] inline bool is_none(const tern_pages& pages) {
  constexpr tern_pages none{};
  return std::memcmp(&pages, &none, sizeof(none)) == 0;
}

// A page list copied out of DMA memory. Every key and every queue has one, so it is small.
class PageList {
 public:
  PageList() = default;
  ~PageList() { drop(); }
  PageList(PageList&& other) noexcept { *this = std::move(other); }
  PageList& operator=(PageList&& other) noexcept;
  // Copies the list described by `desc`, of at most `max_entries` entries. Returns TERN_ST_OK or
  // the error; on error the list is unchanged.
  // `on_demand`: entries carry TERN_PAGE_* bits, here and in update(); direct lists are refused.
  [[nodiscard]] Status load(Host& host, const tern_pages& desc, std::uint64_t max_entries,
                            bool on_demand = false);
  // Makes a list of `entries` absent pages of 1 << page_shift bytes.
  [[nodiscard]] Status reserve(std::uint64_t entries, unsigned page_shift, bool on_demand = false);
  // Makes an on-demand list of absent pages whose entries take memory only when they are present.
  [[nodiscard]] Status reserve_sparse(unsigned page_shift);
  // Replaces entries [first, first + desc.num), all of them or none. `budget` is charged for the
  // growth of a sparse list. Returns TERN_ST_BAD_STATE for a direct list, which has no entries.
  [[nodiscard]] Status update(Host& host, PageBudget& budget, std::uint64_t first,
                              const tern_pages& desc);
  // Makes entries [first, first + num) absent. On-demand lists only.
  [[nodiscard]] Status clear(PageBudget& budget, std::uint64_t first, std::uint64_t num);
  // Turns a list made by reserve() into one of `num` pages of another size; `num` must not exceed
  // the reserved entries. The page addresses are read from `addr`. On failure all pages are absent.
  [[nodiscard]] Status refill(Host& host, std::uint64_t addr, std::uint64_t num,
                              unsigned page_shift);

  // Saved state. Reading charges the budget, as load() and update() do.
  void state(Archive& ar, PageBudget& budget);
  // Whether REG_MR may fill it.
  [[nodiscard]] bool refillable() const { return kind_ == Kind::kList && !on_demand_; }

  // DMA address of byte `offset`, and how many bytes from there are contiguous in DMA space, up to
  // `want`.
  struct Run {
    std::uint64_t addr;
    std::uint64_t len;  // 0: outside the list, or the page is absent
  };
  [[nodiscard]] Run at(std::uint64_t offset, std::uint64_t want) const;

  // On-demand lists only: how many of `want` bytes from byte `offset` lie on pages that are
  // present, and writable if `write`.
  [[nodiscard]] std::uint64_t usable(std::uint64_t offset, std::uint64_t want, bool write) const;

  // Entries that the list is charged for.
  [[nodiscard]] std::uint64_t entries_held() const {
    return sparse_list() ? sparse_->held() : room_;
  }

 private:
  // An entry is an address with bit 0 set, or 0 for an absent page, so fresh memory is a list of
  // absent pages without being touched. Pages are at least 4 KiB, so the low address bits
  // are free. On-demand lists use bit 1, too.
  static constexpr std::uint64_t kPresent = TERN_PAGE_READ;
  static constexpr std::uint64_t kBits = TERN_PAGE_READ | TERN_PAGE_WRITE;
  // Frees the memory that allocate() returned for this number of entries.
  static void free_entries(std::uint64_t* pages, std::uint64_t entries);
  struct Free {
    std::uint64_t entries = 0;
    void operator()(std::uint64_t* p) const { free_entries(p, entries); }
  };
  using Entries = std::unique_ptr<std::uint64_t[], Free>;
  enum class Kind : std::uint8_t { kList, kDirect, kSparse };
  [[nodiscard]] bool sparse_list() const { return kind_ == Kind::kSparse; }
  [[nodiscard]] std::uint64_t entry(std::uint64_t i) const {
    if (i < count_) return pages_[i];
    return sparse_list() ? sparse_->at(i) : 0;
  }
  void list_state(Archive& ar, PageBudget& budget);
  void sparse_state(Archive& ar, PageBudget& budget);
  [[nodiscard]] bool valid(std::uint64_t entry) const;
  [[nodiscard]] Run sparse_run(std::uint64_t offset, std::uint64_t want) const;
  // Whether entries [first, first + num) exist.
  [[nodiscard]] bool within(std::uint64_t first, std::uint64_t num) const;
  void drop();  // frees the memory

  [[nodiscard]] static Entries allocate(std::uint64_t entries);
  [[nodiscard]] static Status read(Host& host, const tern_pages& desc, std::span<std::uint64_t> to,
                                   bool on_demand);

  union {
    std::uint64_t* pages_ = nullptr;  // owned
    std::uint64_t base_;              // base address of a direct list
    SparsePages* sparse_;             // owned
  };
  std::uint32_t room_ = 0;   // entries allocated
  std::uint32_t count_ = 0;  // entries in use; 0 in a direct or sparse list
  std::uint8_t shift_ = 0;   // 0 in an empty or direct list
  Kind kind_ = Kind::kList;
  bool on_demand_ = false;
};

inline PageList::Run PageList::at(std::uint64_t offset, std::uint64_t want) const {
  if (kind_ == Kind::kDirect) {
    const std::uint64_t addr = base_ + offset;
    if (addr < base_) return {0, 0};
    return {addr, std::min(want, UINT64_MAX - addr)};
  }
  std::uint64_t i = offset >> shift_;
  if (i >= count_) [[unlikely]]
    return sparse_run(offset, want);
  if (pages_[i] == 0) return {0, 0};
  const std::uint64_t page = std::uint64_t{1} << shift_;
  const std::uint64_t in_page = offset & (page - 1);
  const std::uint64_t addr = (pages_[i] & ~kBits) + in_page;
  std::uint64_t len = page - in_page;
  // An entry whose page directly follows the previous one extends the run.
  while (len < want && ++i < count_ && pages_[i] == pages_[i - 1] + page) len += page;
  return {addr, std::min(want, len)};
}

}  // namespace tern

// SPDX-License-Identifier: GPL-2.0-or-later
// Page lists: translate a byte offset in a buffer to DMA addresses.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <utility>

#include "core/host.h"
#include "tern_hw.hpp"

namespace tern {

using Status = std::uint16_t;  // TERN_ST_*

// A page list copied out of DMA memory. Every key and every queue has one, so it is small.
class PageList {
 public:
  PageList() = default;
  ~PageList() { std::free(pages()); }
  PageList(PageList&& other) noexcept { *this = std::move(other); }
  PageList& operator=(PageList&& other) noexcept;
  // Copies the list described by `desc`, of at most `max_entries` entries. Returns TERN_ST_OK or
  // the error; on error the list is unchanged.
  // `on_demand`: entries carry TERN_PAGE_* bits, here and in update(); direct lists are refused.
  [[nodiscard]] Status load(Host& host, const tern_pages& desc, std::uint64_t max_entries,
                            bool on_demand = false);
  // Makes a list of `entries` absent pages of 1 << page_shift bytes.
  [[nodiscard]] Status reserve(std::uint64_t entries, unsigned page_shift, bool on_demand = false);
  // Replaces entries [first, first + desc.num), all of them or none. Returns TERN_ST_BAD_STATE for
  // a direct list, which has no entries.
  [[nodiscard]] Status update(Host& host, std::uint64_t first, const tern_pages& desc);
  // Turns a list made by reserve() into one of `num` pages of another size; `num` must not exceed
  // the reserved entries. The page addresses are read from `addr`. On failure all pages are absent.
  [[nodiscard]] Status refill(Host& host, std::uint64_t addr, std::uint64_t num,
                              unsigned page_shift);

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

  [[nodiscard]] std::uint64_t entries_held() const { return room_; }

 private:
  // An entry is an address with bit 0 set, or 0 for an absent page, so memory from calloc() is a
  // list of absent pages without being touched. Pages are at least 4 KiB, so the low address bits
  // are free. On-demand lists use bit 1, too.
  static constexpr std::uint64_t kPresent = TERN_PAGE_READ;
  static constexpr std::uint64_t kBits = TERN_PAGE_READ | TERN_PAGE_WRITE;
  struct Free {
    void operator()(std::uint64_t* p) const { std::free(p); }
  };
  using Entries = std::unique_ptr<std::uint64_t[], Free>;
  [[nodiscard]] std::uint64_t* pages() const { return direct_ ? nullptr : pages_; }

  [[nodiscard]] static Entries allocate(std::uint64_t entries);
  [[nodiscard]] static Status read(Host& host, const tern_pages& desc,
                                   std::span<std::uint64_t> to, bool on_demand);

  union {
    std::uint64_t* pages_ = nullptr;  // owned
    std::uint64_t base_;              // base address of a direct list
  };
  std::uint32_t room_ = 0;   // entries allocated
  std::uint32_t count_ = 0;  // entries in use
  std::uint8_t shift_ = 0;   // 0 in an empty or direct list
  bool direct_ = false;
  bool on_demand_ = false;
};

inline PageList::Run PageList::at(std::uint64_t offset, std::uint64_t want) const {
  if (direct_) {
    const std::uint64_t addr = base_ + offset;
    if (addr < base_) return {0, 0};
    return {addr, std::min(want, UINT64_MAX - addr)};
  }
  std::uint64_t i = offset >> shift_;
  if (i >= count_ || pages_[i] == 0) return {0, 0};
  const std::uint64_t page = std::uint64_t{1} << shift_;
  const std::uint64_t in_page = offset & (page - 1);
  const std::uint64_t addr = (pages_[i] & ~kBits) + in_page;
  std::uint64_t len = page - in_page;
  // An entry whose page directly follows the previous one extends the run.
  while (len < want && ++i < count_ && pages_[i] == pages_[i - 1] + page) len += page;
  return {addr, std::min(want, len)};
}

}  // namespace tern

// SPDX-License-Identifier: GPL-2.0-or-later
#include "memory/page_list.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/limits.h"

namespace tern {

namespace {

constexpr std::uint64_t kEntryBytes = sizeof(std::uint64_t);

// Reads `to.size()` little-endian 64-bit words.
bool read_words(Host& host, std::uint64_t addr, std::span<std::uint64_t> to) {
  if (!dma_read(host, addr, std::as_writable_bytes(to))) return false;
  if constexpr (std::endian::native != std::endian::little) {
    for (auto& word : to) word = le(word);
  }
  return true;
}

// Large lists, which may stay empty for long, have memory of their own that is not touched.
// calloc() clears reused memory: for a list of 65536 entries the page faults took a millisecond.
constexpr bool is_mapped(std::uint64_t entries) { return entries >= 16384; }

// Populates the memory of a mapped list's part that is about to be written: one page fault for each
// page would take longer than the rest of a registration.
void populate([[maybe_unused]] std::span<std::uint64_t> part) {
#ifdef MADV_POPULATE_WRITE
  // Without MADV_POPULATE_WRITE (Linux 5.14) the page faults do the same.
  (void)::madvise(part.data(), part.size_bytes(), MADV_POPULATE_WRITE);
#endif
}

}  // namespace

static_assert(sizeof(std::uint64_t*) == sizeof(SparsePages*));

void PageList::drop() {
  if (kind_ == Kind::kList && pages_ != nullptr) free_entries(pages_, room_);
  if (kind_ == Kind::kSparse) delete sparse_;
}

PageList& PageList::operator=(PageList&& other) noexcept {
  if (this == &other) return *this;
  drop();
  base_ = other.base_;  // the widest member
  other.base_ = 0;
  other.pages_ = nullptr;
  room_ = std::exchange(other.room_, 0);
  count_ = std::exchange(other.count_, 0);
  shift_ = other.shift_;
  kind_ = std::exchange(other.kind_, Kind::kList);
  on_demand_ = std::exchange(other.on_demand_, false);
  return *this;
}

PageList::Entries PageList::allocate(std::uint64_t entries) {
  void* memory = nullptr;
  if (is_mapped(entries)) {
    memory = ::mmap(nullptr, entries * kEntryBytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) memory = nullptr;
  } else {
    // A list without entries has storage too: a null pointer means out of memory.
    memory = std::calloc(std::max<std::uint64_t>(entries, 1), kEntryBytes);
  }
  return {static_cast<std::uint64_t*>(memory), Free{entries}};
}

void PageList::free_entries(std::uint64_t* pages, std::uint64_t entries) {
  if (is_mapped(entries)) {
    ::munmap(pages, entries * kEntryBytes);
  } else {
    std::free(pages);
  }
}

Status PageList::read(Host& host, const tern_pages& desc, std::span<std::uint64_t> to,
                      bool on_demand) {
  const std::uint64_t addr = le(desc.addr);
  if (addr % kEntryBytes != 0) return TERN_ST_BAD_PARAM;
  if (desc.kind == TERN_PAGES_LIST) {
    if (!read_words(host, addr, to)) return TERN_ST_DMA_ERROR;
  } else {
    for (std::size_t done = 0; done < to.size();) {
      const std::size_t chunks = std::min<std::size_t>(
          (to.size() - done + TERN_PAGES_CHUNK - 1) / TERN_PAGES_CHUNK, TERN_PAGES_CHUNK);
      std::uint64_t chunk[TERN_PAGES_CHUNK];
      const std::uint64_t where = addr + done / TERN_PAGES_CHUNK * kEntryBytes;
      if (!read_words(host, where, std::span(chunk).first(chunks))) return TERN_ST_DMA_ERROR;
      if (is_mapped(to.size()))
        populate(
            to.subspan(done, std::min<std::size_t>(to.size() - done, chunks * TERN_PAGES_CHUNK)));
      for (std::size_t i = 0; i < chunks; ++i) {
        if (chunk[i] % kEntryBytes != 0) return TERN_ST_BAD_PARAM;
        const std::size_t n = std::min<std::size_t>(to.size() - done, TERN_PAGES_CHUNK);
        if (!read_words(host, chunk[i], to.subspan(done, n))) return TERN_ST_DMA_ERROR;
        done += n;
      }
    }
  }
  const std::uint64_t in_page = (std::uint64_t{1} << desc.page_shift) - 1;
  std::uint64_t stray = 0;
  for (auto& entry : to) {
    if (on_demand) {
      stray |= entry & in_page & ~kBits;
      if (!(entry & kPresent)) entry = 0;
    } else {
      stray |= entry & in_page;
      entry |= kPresent;
    }
  }
  return stray ? TERN_ST_BAD_PARAM : TERN_ST_OK;
}

std::uint64_t PageList::usable(std::uint64_t offset, std::uint64_t want, bool write) const {
  const std::uint64_t page = std::uint64_t{1} << shift_;
  const std::uint64_t need = write ? kBits : kPresent;
  std::uint64_t got = 0;
  for (std::uint64_t at = offset; got < want; at = offset + got) {
    const std::uint64_t i = at >> shift_;
    if ((entry(i) & need) != need) break;
    got += page - (at & (page - 1));
  }
  return std::min(got, want);
}

Status PageList::load(Host& host, const tern_pages& desc, std::uint64_t max_entries,
                      bool on_demand) {
  if (desc.rsvd_e != 0 || (on_demand && desc.kind == TERN_PAGES_DIRECT)) return TERN_ST_BAD_PARAM;
  if (desc.kind == TERN_PAGES_DIRECT) {
    *this = PageList();
    kind_ = Kind::kDirect;
    base_ = le(desc.addr);
    return TERN_ST_OK;
  }
  PageList list;
  const std::uint64_t num = le(desc.num);
  if (desc.kind > TERN_PAGES_INDIRECT || num > max_entries) return TERN_ST_BAD_PARAM;
  if (const Status st = list.reserve(num, desc.page_shift, on_demand); st != TERN_ST_OK) return st;
  if (const Status st = read(host, desc, {list.pages_, num}, on_demand); st != TERN_ST_OK)
    return st;
  *this = std::move(list);
  return TERN_ST_OK;
}

Status PageList::reserve(std::uint64_t entries, unsigned page_shift, bool on_demand) {
  if (page_shift < kPageShiftMin || page_shift > kPageShiftMax) return TERN_ST_BAD_PARAM;
  Entries pages = entries <= UINT32_MAX ? allocate(entries) : nullptr;
  if (!pages) return TERN_ST_NO_MEMORY;
  *this = PageList();
  pages_ = pages.release();
  room_ = count_ = static_cast<std::uint32_t>(entries);
  shift_ = static_cast<std::uint8_t>(page_shift);
  on_demand_ = on_demand;
  return TERN_ST_OK;
}

Status PageList::reserve_sparse(unsigned page_shift) {
  if (page_shift < kPageShiftMin || page_shift > kPageShiftMax) return TERN_ST_BAD_PARAM;
  *this = PageList();
  kind_ = Kind::kSparse;
  sparse_ = std::make_unique<SparsePages>().release();
  shift_ = static_cast<std::uint8_t>(page_shift);
  on_demand_ = true;
  return TERN_ST_OK;
}

bool PageList::within(std::uint64_t first, std::uint64_t num) const {
  const std::uint64_t end = sparse_list() ? (UINT64_MAX >> shift_) + 1 : count_;
  return first <= end && num <= end - first;
}

PageList::Run PageList::sparse_run(std::uint64_t offset, std::uint64_t want) const {
  if (!sparse_list()) return {0, 0};
  std::uint64_t i = offset >> shift_;
  std::uint64_t page = sparse_->at(i);
  if (page == 0) return {0, 0};
  const std::uint64_t size = std::uint64_t{1} << shift_;
  const std::uint64_t in_page = offset & (size - 1);
  const std::uint64_t addr = (page & ~kBits) + in_page;
  std::uint64_t len = size - in_page;
  while (len < want && sparse_->at(++i) == page + size) {
    page += size;
    len += size;
  }
  return {addr, std::min(want, len)};
}

Status PageList::update(Host& host, PageBudget& budget, std::uint64_t first,
                        const tern_pages& desc) {
  const std::uint64_t num = le(desc.num);
  if (kind_ == Kind::kDirect) return TERN_ST_BAD_STATE;
  if (desc.rsvd_e != 0 || desc.page_shift != shift_) return TERN_ST_BAD_PARAM;
  if (desc.kind != TERN_PAGES_LIST && desc.kind != TERN_PAGES_INDIRECT) return TERN_ST_BAD_PARAM;
  if (!within(first, num)) return TERN_ST_BAD_PARAM;
  if (num == 0) return TERN_ST_OK;
  const Entries fresh = allocate(num);
  if (!fresh) return TERN_ST_NO_MEMORY;
  const std::span<std::uint64_t> entries(fresh.get(), num);
  if (const Status st = read(host, desc, entries, on_demand_); st != TERN_ST_OK) return st;
  if (!sparse_list()) {
    std::memcpy(pages_ + first, fresh.get(), num * kEntryBytes);
    return TERN_ST_OK;
  }
  const std::uint64_t growth = sparse_->growth(first, entries);
  const std::uint64_t before = sparse_->held();
  if (!budget.charge(growth)) return TERN_ST_NO_MEMORY;
  sparse_->store(first, entries);
  budget.release(before + growth - sparse_->held());
  return TERN_ST_OK;
}

Status PageList::clear(PageBudget& budget, std::uint64_t first, std::uint64_t num) {
  if (!on_demand_) return TERN_ST_BAD_STATE;
  if (!within(first, num)) return TERN_ST_BAD_PARAM;
  if (!sparse_list()) {
    std::fill_n(pages_ + first, num, 0);
    return TERN_ST_OK;
  }
  const std::uint64_t before = sparse_->held();
  sparse_->clear(first, num);
  budget.release(before - sparse_->held());
  return TERN_ST_OK;
}

Status PageList::refill(Host& host, std::uint64_t addr, std::uint64_t num, unsigned page_shift) {
  count_ = 0;
  if (num > room_ || page_shift < kPageShiftMin || page_shift > kPageShiftMax) {
    return TERN_ST_BAD_PARAM;
  }
  tern_pages desc{};
  desc.addr = le(addr);
  desc.page_shift = static_cast<std::uint8_t>(page_shift);
  desc.kind = TERN_PAGES_LIST;
  if (const Status st = read(host, desc, {pages_, num}, false); st != TERN_ST_OK) return st;
  count_ = static_cast<std::uint32_t>(num);
  shift_ = static_cast<std::uint8_t>(page_shift);
  return TERN_ST_OK;
}

}  // namespace tern

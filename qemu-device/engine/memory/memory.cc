// SPDX-License-Identifier: GPL-2.0-or-later
#include "memory/memory.h"

#include <memory>
#include <utility>

#include "core/limits.h"

namespace tern {

namespace {

constexpr std::uint32_t kRights = TERN_ACCESS_LOCAL_WRITE | TERN_ACCESS_REMOTE_WRITE |
                                  TERN_ACCESS_REMOTE_READ | TERN_ACCESS_REMOTE_ATOMIC |
                                  TERN_ACCESS_MW_BIND | TERN_ACCESS_ZERO_BASED;
// Rights whose capabilities the device does not have.
constexpr std::uint32_t kUnsupported =
    TERN_ACCESS_ON_DEMAND | TERN_ACCESS_FLUSH_GLOBAL | TERN_ACCESS_FLUSH_PERSISTENT;

Status check_access(std::uint32_t access) {
  if (access & ~(kRights | kUnsupported)) return TERN_ST_BAD_PARAM;
  if (access & kUnsupported) return TERN_ST_NOT_SUPPORTED;
  // IBTA 10.6.3.1: a peer may change only what the consumer itself may change.
  const bool remote_change = access & (TERN_ACCESS_REMOTE_WRITE | TERN_ACCESS_REMOTE_ATOMIC);
  return remote_change && !(access & TERN_ACCESS_LOCAL_WRITE) ? TERN_ST_BAD_PARAM : TERN_ST_OK;
}

// Whether [start, start + len) ends before the 64-bit numbers do.
bool in_range(std::uint64_t start, std::uint64_t len) {
  return len == 0 || start + (len - 1) >= start;
}

}  // namespace

Memory::Region* Memory::find(std::uint32_t key) const {
  Region* const region = regions_.find(key >> TERN_KEY_INDEX_SHIFT);
  return region && region->key == key ? region : nullptr;
}

const Memory::Region* Memory::permitted(const Accessor& who, std::uint32_t key, std::uint64_t addr,
                                        std::uint64_t len, std::uint32_t rights) const {
  const Region* const region = find(key);
  if (!region || !region->open || region->pd != who.pd) return nullptr;
  if ((region->access & rights) != rights) return nullptr;
  // Unsigned differences that are compared before they are used: nothing wraps.
  if (addr < region->iova) return nullptr;
  const std::uint64_t offset = addr - region->iova;
  if (offset > region->length || len > region->length - offset) return nullptr;
  return region;
}

Access Memory::append(const Region& region, std::uint64_t addr, std::uint64_t len, bool write,
                      SpanList& out) {
  for (std::uint64_t at = region.offset + (addr - region.iova); len != 0;) {
    const PageList::Run run = region.pages.at(at, len);
    if (run.len == 0 || !out.append_dma(run.addr, run.len, write)) return Access::kDmaError;
    at += run.len;
    len -= run.len;
  }
  return Access::kReady;
}

Access Memory::local(const Accessor& who, std::uint32_t lkey, std::uint64_t addr,
                     std::uint64_t len, bool write, SpanList& out) {
  if (len == 0) return Access::kReady;
  if (lkey == TERN_LKEY_DMA) {
    if (!who.privileged) return Access::kDenied;
    return out.append_dma(addr, len, write) ? Access::kReady : Access::kDmaError;
  }
  const Region* const region =
      permitted(who, lkey, addr, len, write ? TERN_ACCESS_LOCAL_WRITE : 0);
  return region ? append(*region, addr, len, write, out) : Access::kDenied;
}

Access Memory::remote(const Accessor& who, std::uint32_t rkey, std::uint64_t va, std::uint64_t len,
                      std::uint32_t rights, SpanList& out) {
  if (len == 0) return Access::kReady;
  const Region* const region = permitted(who, rkey, va, len, rights);
  const bool write = rights & (TERN_ACCESS_REMOTE_WRITE | TERN_ACCESS_REMOTE_ATOMIC);
  return region ? append(*region, va, len, write, out) : Access::kDenied;
}

Access Memory::check_remote(const Accessor& who, std::uint32_t rkey, std::uint64_t va,
                            std::uint64_t len, std::uint32_t rights) const {
  return len == 0 || permitted(who, rkey, va, len, rights) ? Access::kReady : Access::kDenied;
}

// The page list of a new region must cover it.
Status Memory::load(const tern_cmd_create_mr& cmd, Region& region) {
  const bool incomplete = cmd.flags & TERN_MR_F_INCOMPLETE;
  // The list comes with UPDATE_PAGES; nothing of one may be here.
  if (incomplete && (cmd.pages.addr != 0 || cmd.pages.kind != TERN_PAGES_LIST)) {
    return TERN_ST_BAD_PARAM;
  }
  if (cmd.pages.kind == TERN_PAGES_DIRECT) {
    const std::uint64_t addr = le(cmd.pages.addr);
    if (!in_range(addr, region.offset) || !in_range(addr + region.offset, region.length)) {
      return TERN_ST_BAD_PARAM;
    }
    return region.pages.load(host_, cmd.pages, 0);
  }
  const unsigned shift = cmd.pages.page_shift;
  if (shift < kPageShiftMin || shift > kPageShiftMax || cmd.pages.rsvd_e != 0) {
    return TERN_ST_BAD_PARAM;
  }
  const std::uint64_t num = le(cmd.pages.num);
  if (region.offset >> shift != 0 || region.offset + region.length > num << shift) {
    return TERN_ST_BAD_PARAM;
  }
  if (num > kMaxMrPages - page_entries_) return TERN_ST_NO_MEMORY;
  return incomplete ? region.pages.reserve(num, shift)
                    : region.pages.load(host_, cmd.pages, num);
}

Status Memory::create_mr(const tern_cmd_create_mr& cmd, std::uint32_t* key) {
  if (cmd.kind > TERN_MR_FAST) return TERN_ST_BAD_PARAM;
  if (cmd.kind != TERN_MR_MEMORY) return TERN_ST_NOT_SUPPORTED;
  if (cmd.dmn != 0 || (cmd.flags & ~TERN_MR_F_INCOMPLETE)) return TERN_ST_BAD_PARAM;
  auto region = std::make_unique<Region>();
  region->access = le(cmd.access);
  region->pd = Pdn(le(cmd.pdn));
  region->open = !(cmd.flags & TERN_MR_F_INCOMPLETE);
  region->iova = le(cmd.iova);
  region->length = le(cmd.length);
  region->offset = le(cmd.offset);
  if (const Status st = check_access(region->access); st != TERN_ST_OK) return st;
  if (region->length > kMaxMrSize || !in_range(region->iova, region->length)) {
    return TERN_ST_BAD_PARAM;
  }
  if ((region->access & TERN_ACCESS_ZERO_BASED) && region->iova != 0) return TERN_ST_BAD_PARAM;
  if (regions_.full()) return TERN_ST_NO_RESOURCE;
  if (const Status st = load(cmd, *region); st != TERN_ST_OK) return st;

  page_entries_ += region->pages.entries_held();
  ++pd_users_[region->pd.value];
  Region& r = *region;
  const std::uint32_t index = regions_.insert(std::move(region));
  r.key = *key = index << TERN_KEY_INDEX_SHIFT | new_variant(index);
  return TERN_ST_OK;
}

// Nobody can guess a variant from the one that the index had before, and it is never the same.
std::uint8_t Memory::new_variant(std::uint32_t index) {
  const std::size_t i = index - kFirstIndex;
  if (i >= variants_.size()) variants_.resize(i + 1);
  const auto step = static_cast<std::uint8_t>(host_.random() % TERN_KEY_VARIANT_MASK + 1);
  return variants_[i] = static_cast<std::uint8_t>(variants_[i] + step);
}

Status Memory::destroy_mr(std::uint32_t key) {
  const Region* const region = find(key);
  if (!region) return TERN_ST_BAD_HANDLE;
  page_entries_ -= region->pages.entries_held();
  const auto users = pd_users_.find(region->pd.value);
  if (--users->second == 0) pd_users_.erase(users);
  regions_.erase(key >> TERN_KEY_INDEX_SHIFT);
  return TERN_ST_OK;
}

Status Memory::update_pages(const tern_cmd_update_pages& cmd) {
  Region* const region = find(le(cmd.key));
  if (!region) return TERN_ST_BAD_HANDLE;
  const std::uint32_t flags = le(cmd.flags);
  const bool last = flags & TERN_UPDATE_LAST;
  const bool close = flags & TERN_UPDATE_CLOSE;
  if ((flags & ~(TERN_UPDATE_LAST | TERN_UPDATE_CLOSE)) || (last && close)) {
    return TERN_ST_BAD_PARAM;
  }
  if (cmd.pages.num != 0) {
    const Status st = region->pages.update(host_, le(cmd.first), cmd.pages);
    if (st != TERN_ST_OK) return st;
  }
  if (last || close) region->open = last;
  return TERN_ST_OK;
}

Status Memory::query(std::uint32_t key, tern_rsp_mr* rsp) const {
  const Region* const region = find(key);
  if (!region) return TERN_ST_BAD_HANDLE;
  *rsp = {};
  rsp->iova = le(region->iova);
  rsp->length = le(region->length);
  rsp->key = le(region->key);
  rsp->pdn = le(region->pd.value);
  rsp->access = le(region->access);
  rsp->state = region->open ? TERN_KEY_ST_VALID : TERN_KEY_ST_FREE;
  return TERN_ST_OK;
}

void Memory::reset() {
  regions_.clear();
  pd_users_.clear();
  page_entries_ = 0;
}

std::uint32_t Memory::users_of(Pdn pd) const {
  const auto it = pd_users_.find(pd.value);
  return it == pd_users_.end() ? 0 : it->second;
}

}  // namespace tern

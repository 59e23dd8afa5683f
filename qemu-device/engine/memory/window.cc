// SPDX-License-Identifier: GPL-2.0-or-later
// The windows' part of Memory. Every rule has a name and asks holds(): core/mutations.h.
#include "memory/window.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "memory/memory.h"

namespace tern {

// ---- commands ----

Status Memory::alloc_mw(Pdn pd, std::uint8_t type, std::uint32_t* key) {
  if (type != 1 && type != 2) return TERN_ST_BAD_PARAM;
  if (windows_ == max_mw_) return TERN_ST_NO_RESOURCE;
  Entry entry;
  entry.pd = pd;
  entry.is_window = true;
  entry.window = std::make_unique<Window>();
  entry.window->type = type;
  *key = insert(std::move(entry));
  ++windows_;
  return TERN_ST_OK;
}

Status Memory::free_mw(std::uint32_t key) {
  Entry* const entry = find_window(key);
  if (!entry) return TERN_ST_BAD_HANDLE;
  unbind(*entry);
  remove(*entry);
  --windows_;
  return TERN_ST_OK;
}

Status Memory::query_mw(const Entry& entry, tern_rsp_mr* rsp) const {
  const Window& w = *entry.window;
  *rsp = {};
  rsp->key = le(entry.key);
  rsp->pdn = le(entry.pd.value);
  rsp->type = w.type;
  rsp->state = w.bound || w.type == 1 ? TERN_KEY_ST_VALID : TERN_KEY_ST_FREE;
  if (!w.bound) return TERN_ST_OK;
  rsp->iova = le(entry.iova);
  rsp->length = le(entry.length);
  rsp->access = le(entry.access);
  if (w.type == 2) rsp->qpn = le(w.qp.value);
  if (const Entry* const region = entries_.find(w.region)) rsp->mr_key = le(region->key);
  return TERN_ST_OK;
}

Memory::Entry* Memory::find_window(std::uint32_t key) const {
  Entry* const entry = entries_.find(key >> TERN_KEY_INDEX_SHIFT);
  return entry && entry->is_window ? entry : nullptr;
}

// ---- accesses ----

// A type 1 window is for the QPs of its PD, 2A for the QP that bound it, 2B for that QP, which is
// in its PD. A QP that was reset since is another one.
bool Memory::belongs(const Entry& entry, const Accessor& who, Rule pd, Rule qp) const {
  const Window& w = *entry.window;
  const bool by_pd = w.type == 1 || !mw_type_2a_;
  if (by_pd && entry.pd != who.pd) return holds(pd, false);
  return w.type == 1 || holds(qp, w.qp_generation == who.generation);
}

bool Memory::allows(std::uint32_t access, std::uint32_t rights) const {
  const std::uint32_t lacking = rights & ~access;
  return holds(Rule::kMwRead, !(lacking & TERN_ACCESS_REMOTE_READ)) &&
         holds(Rule::kMwWrite, !(lacking & TERN_ACCESS_REMOTE_WRITE)) &&
         holds(Rule::kMwAtomic, !(lacking & TERN_ACCESS_REMOTE_ATOMIC)) &&
         holds(Rule::kMwFlush, !(lacking & (TERN_ACCESS_FLUSH_GLOBAL | TERN_ACCESS_FLUSH_PERSISTENT)));
}

// Last bytes are compared, so that a window may end where the 64-bit numbers do; `len` is not 0, but
// for a FLUSH, which no window allows.
bool Memory::in_window(const Entry& entry, std::uint64_t addr, std::uint64_t len) const {
  const std::uint64_t last = addr + (len - 1);
  return holds(Rule::kMwLow, addr >= entry.iova) && holds(Rule::kMwWrap, last >= addr) &&
         holds(Rule::kMwHigh, last <= entry.iova + (entry.length - 1));
}

const Memory::Entry* Memory::through(const Entry& entry, const Accessor& who, std::uint64_t& addr,
                                      std::uint64_t len, std::uint32_t rights) const {
  const Window& w = *entry.window;
  if (!holds(Rule::kMwUnbound, w.bound)) return nullptr;
  if (!belongs(entry, who, Rule::kMwPd, Rule::kMwQp) || !allows(entry.access, rights) ||
      !in_window(entry, addr, len)) {
    return nullptr;
  }
  // It is there as long as the window is bound; closed it may be.
  const Entry* const region = entries_.find(w.region);
  if (!region || !region->open) return nullptr;
  if ((rights & kRemoteChange) && !holds(Rule::kMwMrWrite, region->access & TERN_ACCESS_LOCAL_WRITE)) return nullptr;
  addr = region->iova + w.offset + (addr - entry.iova);
  return region;
}

// ---- binding ----

bool Memory::bind_mw(const Accessor& who, const tern_bind_seg& seg) {
  const std::uint32_t access = le(std::uint32_t{seg.access});
  Entry* const entry = bindable(who, seg);
  if (!entry || (access & ~kWindowRights) ||
      std::ranges::any_of(seg.rsvd_21, [](std::uint8_t b) { return b != 0; })) {
    return false;
  }
  const std::uint32_t variant = le(std::uint32_t{seg.new_rkey}) & TERN_KEY_VARIANT_MASK;
  const std::uint32_t new_key = (entry->key & ~std::uint32_t{TERN_KEY_VARIANT_MASK}) | variant;
  Window& w = *entry->window;
  const std::uint64_t length = le(std::uint64_t{seg.length});
  if (length == 0) {
    if (!holds(Rule::kBindZeroLength, w.type == 1)) return false;
    unbind(*entry);
    entry->key = new_key;
    return true;
  }
  Entry* const region = bind_target(who, seg);
  if (!region) return false;
  unbind(*entry);
  const std::uint64_t addr = le(std::uint64_t{seg.addr});
  entry->key = new_key;
  entry->access = access;
  entry->iova = access & TERN_ACCESS_ZERO_BASED ? 0 : addr;
  entry->length = length;
  w.bound = true;
  w.region = region->key >> TERN_KEY_INDEX_SHIFT;
  w.offset = addr - region->iova;
  ++region->windows;
  if (w.type == 2) {
    w.qp = who.qp;
    w.qp_generation = who.generation;
    ++qp_windows_[who.qp.value];
  }
  return true;
}

// The window that a bind names, if it may be bound now.
Memory::Entry* Memory::bindable(const Accessor& who, const tern_bind_seg& seg) const {
  const std::uint32_t key = le(std::uint32_t{seg.rkey});
  Entry* const entry = find_window(key);
  if (!entry) return nullptr;
  const Window& w = *entry->window;
  if (!holds(Rule::kBindType, seg.type == w.type)) return nullptr;
  // Who binds a type 2 window need not know which of its variants was the last.
  const bool named = (w.type == 2 || key == entry->key) &&
                     (le(std::uint32_t{seg.new_rkey}) ^ key) >> TERN_KEY_INDEX_SHIFT == 0;
  if (!holds(Rule::kBindKey, named)) return nullptr;
  if (!holds(Rule::kBindFree, w.type == 1 || !w.bound)) return nullptr;
  return holds(Rule::kBindQpPd, entry->pd == who.pd) ? entry : nullptr;
}

// The region that a bind names, if the window may lie there.
Memory::Entry* Memory::bind_target(const Accessor& who, const tern_bind_seg& seg) const {
  Entry* const region = find(le(std::uint32_t{seg.lkey}));
  const std::uint32_t access = le(std::uint32_t{seg.access});
  if (!region || !region->open) return nullptr;
  if (!holds(Rule::kBindMrPd, region->pd == who.pd)) return nullptr;
  if (!holds(Rule::kBindMrRight, region->access & TERN_ACCESS_MW_BIND)) return nullptr;
  if ((access & kRemoteChange) && !holds(Rule::kBindLocalWrite, region->access & TERN_ACCESS_LOCAL_WRITE)) return nullptr;
  const std::uint64_t addr = le(std::uint64_t{seg.addr});
  const std::uint64_t last = addr + (le(std::uint64_t{seg.length}) - 1);
  if (!holds(Rule::kBindWrap, last >= addr)) return nullptr;
  const bool inside = region->length != 0 && addr >= region->iova &&
                      last <= region->iova + (region->length - 1);
  return holds(Rule::kBindRange, inside) ? region : nullptr;
}

void Memory::unbind(Entry& entry) {
  Window& w = *entry.window;
  if (!w.bound) return;
  w.bound = false;
  if (Entry* const region = entries_.find(w.region); region && region->windows != 0) {
    --region->windows;
  }
  if (w.type == 1) return;
  const auto named = qp_windows_.find(w.qp.value);
  if (--named->second == 0) qp_windows_.erase(named);
}

// ---- invalidation ----

bool Memory::invalidate_mw(Entry& entry, const Accessor& who, std::uint32_t key) {
  const Window& w = *entry.window;
  if (!holds(Rule::kInvVariant, entry.key == key)) return false;
  if (!holds(Rule::kInvType, w.type == 2)) return false;
  if (w.type == 2 && !w.bound) return holds(Rule::kInvFree, false);
  if (!belongs(entry, who, Rule::kInvPd, Rule::kInvQp)) return false;
  unbind(entry);
  return true;
}

}  // namespace tern

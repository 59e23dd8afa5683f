// SPDX-License-Identifier: GPL-2.0-or-later
// The window part of Memory. Every rule has a name and is checked through holds(), see
// core/mutations.h.
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
  auto window = std::make_unique<Window>();
  window->pd = pd;
  window->type = type;
  *key = insert({{}, std::move(window)});
  ++windows_;
  if (log != nullptr) log_key(TERN_LOG_KEY_CREATED, *find_window(*key));
  return TERN_ST_OK;
}

Status Memory::free_mw(std::uint32_t key) {
  Window* const window = find_window(key);
  if (!window) return TERN_ST_BAD_HANDLE;
  unbind(*window);
  if (log != nullptr) log_key(TERN_LOG_KEY_DESTROYED, *window);
  erase(window->key, window->pd);
  --windows_;
  return TERN_ST_OK;
}

Status Memory::query_mw(const Window& w, tern_rsp_mr* rsp) const {
  *rsp = {};
  rsp->key = le(w.key);
  rsp->pdn = le(w.pd.value);
  rsp->type = w.type;
  rsp->state = w.bound || w.type == 1 ? TERN_KEY_ST_VALID : TERN_KEY_ST_FREE;
  if (!w.bound) return TERN_ST_OK;
  rsp->iova = le(w.iova);
  rsp->length = le(w.length);
  rsp->access = le(w.access);
  if (w.type == 2) rsp->qpn = le(w.qp.value);
  if (const Region* const region = region_at(w.region)) rsp->mr_key = le(region->key);
  return TERN_ST_OK;
}

Window* Memory::find_window(std::uint32_t key) const {
  Entry* const entry = entries_.find(key >> TERN_KEY_INDEX_SHIFT);
  return entry ? entry->window.get() : nullptr;
}

// ---- accesses ----

// A type 1 window is usable by every QP of its PD, 2A by the QP that bound it, 2B by that QP while
// it is in the window's PD. A reset gives the QP a new generation, so it cannot use its windows any
// more.
bool Memory::belongs(const Window& w, const Accessor& who, Rule pd, Rule qp) const {
  const bool by_pd = w.type == 1 || !mw_type_2a_;
  if (by_pd && w.pd != who.pd) return holds(pd, false);
  return w.type == 1 || holds(qp, w.qp_generation == who.generation);
}

bool Memory::allows(std::uint32_t access, std::uint32_t rights) const {
  const std::uint32_t lacking = rights & ~access;
  return holds(Rule::kMwRead, !(lacking & TERN_ACCESS_REMOTE_READ)) &&
         holds(Rule::kMwWrite, !(lacking & TERN_ACCESS_REMOTE_WRITE)) &&
         holds(Rule::kMwAtomic, !(lacking & TERN_ACCESS_REMOTE_ATOMIC)) &&
         holds(Rule::kMwFlush,
               !(lacking & (TERN_ACCESS_FLUSH_GLOBAL | TERN_ACCESS_FLUSH_PERSISTENT)));
}

// Compares last bytes, so that a window may end at the last 64-bit address. `len` is not 0 except
// in a FLUSH, which no window allows.
bool Memory::in_window(const Window& w, std::uint64_t addr, std::uint64_t len) const {
  const std::uint64_t last = addr + (len - 1);
  return holds(Rule::kMwLow, addr >= w.iova) && holds(Rule::kMwWrap, last >= addr) &&
         holds(Rule::kMwHigh, last <= w.iova + (w.length - 1));
}

const Memory::Region* Memory::through(const Window& w, const Accessor& who, std::uint64_t& addr,
                                      std::uint64_t len, std::uint32_t rights) const {
  if (!holds(Rule::kMwUnbound, w.bound)) return nullptr;
  if (!belongs(w, who, Rule::kMwPd, Rule::kMwQp) || !allows(w.access, rights) ||
      !in_window(w, addr, len)) {
    return nullptr;
  }
  // The region exists as long as the window is bound, but it may be closed.
  const Region* const region = region_at(w.region);
  if (!region || !region->open) return deny(TERN_LOG_RULE_MR_CLOSED);
  if ((rights & kRemoteChange) &&
      !holds(Rule::kMwMrWrite, region->access & TERN_ACCESS_LOCAL_WRITE))
    return nullptr;
  addr = region->iova + w.offset + (addr - w.iova);
  return region;
}

// ---- binding ----

bool Memory::bind_mw(const Accessor& who, const tern_bind_seg& seg) {
  const std::uint64_t length = le(std::uint64_t{seg.length});
  const std::uint32_t access = le(std::uint32_t{seg.access});
  Window* const window = bindable(who, seg);
  Region* const region = window != nullptr && length != 0 ? bind_target(who, seg) : nullptr;
  const bool may =
      window != nullptr &&
      (length == 0 ? holds(Rule::kBindZeroLength, window->type == 1) : region != nullptr);
  if (log != nullptr) [[unlikely]] {
    log_check(TERN_LOG_CHECK_BIND, who,
              {le(std::uint32_t{seg.rkey}), le(std::uint64_t{seg.addr}), length, access},
              may ? Access::kReady : Access::kDenied);
  }
  if (!may) return false;
  Window& w = *window;
  unbind(w, who.qp);
  w.key = (w.key & ~std::uint32_t{TERN_KEY_VARIANT_MASK}) |
          (le(std::uint32_t{seg.new_rkey}) & TERN_KEY_VARIANT_MASK);
  if (length == 0) return true;
  const std::uint64_t addr = le(std::uint64_t{seg.addr});
  w.access = access;
  w.iova = access & TERN_ACCESS_ZERO_BASED ? 0 : addr;
  w.length = length;
  w.bound = true;
  w.region = region->key >> TERN_KEY_INDEX_SHIFT;
  w.offset = addr - region->iova;
  ++region->windows;
  if (w.type == 2) {
    w.qp = who.qp;
    w.qp_generation = who.generation;
    ++qp_windows_[who.qp.value];
  }
  if (log != nullptr) [[unlikely]]
    log_key(TERN_LOG_KEY_BOUND, w, who.qp);
  return true;
}

// Returns the window to bind, or null if it must not be bound now.
Window* Memory::bindable(const Accessor& who, const tern_bind_seg& seg) const {
  const std::uint32_t key = le(std::uint32_t{seg.rkey});
  Window* const window = find_window(key);
  if (!window) {
    (void)deny(TERN_LOG_RULE_KEY);
    return nullptr;
  }
  const Window& w = *window;
  if (!holds(Rule::kBindType, seg.type == w.type)) return nullptr;
  // The binder of a type 2 window need not know its last variant.
  const bool named = (w.type == 2 || key == w.key) &&
                     (le(std::uint32_t{seg.new_rkey}) ^ key) >> TERN_KEY_INDEX_SHIFT == 0;
  if (!holds(Rule::kBindKey, named)) return nullptr;
  if (!holds(Rule::kBindFree, w.type == 1 || !w.bound)) return nullptr;
  if (!holds(Rule::kBindQpPd, w.pd == who.pd)) return nullptr;
  const bool known = (le(std::uint32_t{seg.access}) & ~kWindowRights) == 0 &&
                     std::ranges::all_of(seg.rsvd_21, [](std::uint8_t b) { return b == 0; });
  if (!known) (void)deny(TERN_LOG_RULE_FIELDS);
  return known ? window : nullptr;
}

// Returns the region to bind the window to, or null if the region does not allow it.
Memory::Region* Memory::bind_target(const Accessor& who, const tern_bind_seg& seg) const {
  Region* const region = find(le(std::uint32_t{seg.lkey}));
  const std::uint32_t access = le(std::uint32_t{seg.access});
  if (!region || !region->open) {
    (void)deny(!region ? TERN_LOG_RULE_KEY : TERN_LOG_RULE_MR_CLOSED);
    return nullptr;
  }
  if (!holds(Rule::kBindMrPd, region->pd == who.pd)) return nullptr;
  if (!holds(Rule::kBindMrRight, region->access & TERN_ACCESS_MW_BIND)) return nullptr;
  if ((access & kRemoteChange) &&
      !holds(Rule::kBindLocalWrite, region->access & TERN_ACCESS_LOCAL_WRITE))
    return nullptr;
  const std::uint64_t addr = le(std::uint64_t{seg.addr});
  const std::uint64_t last = addr + (le(std::uint64_t{seg.length}) - 1);
  if (!holds(Rule::kBindWrap, last >= addr)) return nullptr;
  const bool inside =
      region->length != 0 && addr >= region->iova && last <= region->iova + (region->length - 1);
  return holds(Rule::kBindRange, inside) ? region : nullptr;
}

void Memory::unbind(Window& w, Qpn by) {
  if (!w.bound) return;
  if (log != nullptr) [[unlikely]]
    log_key(TERN_LOG_KEY_UNBOUND, w, by);
  w.bound = false;
  if (Region* const region = region_at(w.region); region && region->windows != 0) {
    --region->windows;
  }
  if (w.type == 1) return;
  const auto named = qp_windows_.find(w.qp.value);
  if (--named->second == 0) qp_windows_.erase(named);
}

// ---- invalidation ----

bool Memory::may_invalidate(const Window& w, const Accessor& who, std::uint32_t key) const {
  if (!holds(Rule::kInvVariant, w.key == key)) return false;
  if (!holds(Rule::kInvType, w.type == 2)) return false;
  if (w.type == 2 && !w.bound) return holds(Rule::kInvFree, false);
  return belongs(w, who, Rule::kInvPd, Rule::kInvQp);
}

}  // namespace tern
